// Changed places that are alike, told together.  Internal to the room compare/.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "estimator/compare/compare.h"
#include "estimator/compare/match_places.h"

namespace onnxfit {

// What is not the same: the largest growth first, the largest shrinkage last, renamed ones of the
// same size after all, but not those of which an exporter changed a number alone; where the whole
// shrank (`increase` below 0), the largest shrinkage first. Those go together to which the same
// happened, whose names differ in numbers alone, and whose operator is the same.
std::vector<ChangedPlaces> GroupChanges(const std::vector<PlacePair>& pairs, int64_t increase);

// What all have in common: "*" stands for numbers that differ, "layer.*/attention/Softmax"; up to
// three that differ in one place have theirs, "layer.{3,4}/attention/Softmax".
// REQUIRES: they differ in numbers alone; at least one.
std::string CommonName(std::span<const std::string> names);

}  // namespace onnxfit
