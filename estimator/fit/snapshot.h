// What of an answer is kept to compare later ones with: read from a lock or a report, or just made.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "estimator/fit/places.h"
#include "estimator/memory/timeline.h"

namespace onnxfit {

struct KindBytes {
  std::string kind;  // the JSON's word: "parameters", …, "context"
  int64_t bytes = 0;

  bool operator==(const KindBytes&) const = default;
};

struct Snapshot {
  std::string version = {};                                        // of the onnxfit that made it
  std::string model = {};                                          // its path
  std::string digest = {};                                         // of its graph, "" if unknown
  std::vector<std::pair<std::string, std::string>> settings = {};  // name and value, as JSON
  Peak peak;
  int64_t device_bytes = 0;
  std::string phase = {};             // of the peak
  std::string node = {};              // there, "" outside of operators
  std::vector<KindBytes> kinds = {};  // add up to device_bytes
  // Add up to all kinds but rounding, cached and context.  Empty where a report has none.
  std::vector<Place> places = {};

  bool operator==(const Snapshot&) const = default;
};

}  // namespace onnxfit
