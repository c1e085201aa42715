// Places of a peak in JSON, short: those of one name and size but for a number go together.
// Internal to the room report/.
#pragma once

#include <string>
#include <vector>

#include "estimator/fit/places.h"
#include "estimator/report/json_parts.h"

namespace onnxfit {

// [{"name": "/layer.{0..11}/Softmax", "op": "softmax", "count": 12, "bytes": …}, …]: `bytes` of all
// together, numbers as a shell expands them.  Without `count` a name means itself.  O(places ×
// log).
Json PlacesJson(const std::vector<Place>& places);

// The same read back, each place on its own, in the order of the rows.  Throws Error that begins
// with what row is wrong.
std::vector<Place> ReadPlaces(const Json& rows);

}  // namespace onnxfit
