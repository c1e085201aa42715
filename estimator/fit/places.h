// What of a run's peak belongs to which node, parameter or input.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace onnxfit {

struct Prediction;
struct Timeline;

// A node with all that it made and that is alive at the peak, or a parameter with its gradient
// and optimizer state, or an input.
struct Place {
  std::string name;   // "/layer1/conv1/Conv", "layer1.relu/node_relu_3", "fc.weight", "x"
  std::string op;     // of a node ATen's: "convolution"; else "parameter", "buffer", "input", …
  int64_t bytes = 0;  // exact bytes

  bool operator==(const Place&) const = default;
};

// They add up to timeline.exact_at_peak; in the order in which each first asked for memory.
// A node's name has its module before it where the file's name for it does not say that.
// O(calls + buffers alive at the peak, × log).
std::vector<Place> PlacesAtPeak(const Prediction& prediction, const Timeline& timeline);

}  // namespace onnxfit
