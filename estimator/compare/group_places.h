// Changed places that are alike, told together.  Internal to the room compare/.
#pragma once

#include <vector>

#include "estimator/compare/compare.h"
#include "estimator/compare/match_places.h"

namespace onnxfit {

// What is not the same: the largest growth first, the largest shrinkage last, renamed ones of the
// same size after all, but not those of which an exporter changed a number alone; where the whole
// shrank (`increase` below 0), the largest shrinkage first. Those go together to which the same
// happened, whose names differ in numbers alone, and whose operator is the same.
std::vector<ChangedPlaces> GroupChanges(const std::vector<PlacePair>& pairs, int64_t increase);

}  // namespace onnxfit
