// The files beside a model that hold its weights, and files of the same size without them: engines
// ask for the same memory, whatever weights are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace onnxfit {

// A tensor of a weight file.
struct StoredExtent {
  int64_t offset = 0;
  int64_t bytes = 0;
  bool is_small = false;  // shapes and scalars may be computed from it
  bool is_index = false;  // whole numbers that may be places in something
};

struct WeightFile {
  std::string name;  // below the model's folder
  std::vector<StoredExtent> tensors = {};

  // As long as the last tensor needs.
  int64_t bytes() const;
};

// Of the ONNX file at `path`: those that its tensors name, by name; none where all weights are
// inside.  Throws Error for what is no ONNX file, and for names that lead out of its folder.
// O(bytes outside of weights).
std::vector<WeightFile> ReadWeightFiles(const std::string& path);

// A copy of the model in `folder`, with files of zeros for its weights, which take nearly no room
// on disk; small tensors have their elements where the files are there.  No two weights are equal,
// as ONNX Runtime packs equal ones once on the CPU (PrepackedWeightsForGraph, 1.31.1): the first
// bytes of each count them, in small numbers of whatever type.  Returns the copy's path; the
// model's own where all its weights are inside.  Throws Error where `folder` cannot be written.
std::string CopyWithoutWeights(const std::string& path, const std::vector<WeightFile>& files,
                               const std::string& folder);

}  // namespace onnxfit
