// What the nodes and tensors of a file take, by the names that the file has for them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "estimator/memory/trace.h"

namespace onnxfit {

struct Prediction;
struct Timeline;

struct FilePlace {
  std::string name;                          // of a node, a parameter, a buffer or an input
  bool is_tensor = false;                    // no node
  std::array<int64_t, kKinds> at_peak = {};  // exact bytes by what holds them
  int64_t allocated_bytes = 0;  // the most by all while the node runs forward in the peak's step

  int64_t bytes() const;  // at the peak
};

// Nodes and tensors that have anything at the peak or run forward, in the order in which they
// first asked for memory.  What neither a node nor a tensor has, as the loss and workspaces do, is
// in none.  O(events × log).
std::vector<FilePlace> PlacesInFile(const Prediction& prediction, const Timeline& timeline);

}  // namespace onnxfit
