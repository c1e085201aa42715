// The Python that exports a model with free dimensions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/onnx/graph.h"

namespace onnxfit {

// A dimension of an input that the file fixes and that is wanted otherwise.
struct ChangedDim {
  std::string input;
  int axis = 0;
  int64_t from = 0;
  int64_t to = 0;
  std::string name = {};  // that it is to have; "" for a standard one
};

// torch.onnx.export's argument that frees `dims` and what the file leaves free, an entry for each
// argument of forward, since the names of these need not be the file's:
// "dynamic_shapes=({0: \"batch\"}, None)".
// (torch/export/dynamic_shapes.py 2.11, _check_dynamic_shapes: a dict must have them all; strings
// are torch.onnx's, torch/onnx/_internal/exporter/_dynamic_shapes.py, from 2.7 on.)
std::string DynamicShapes(const Graph& graph, const std::vector<ChangedDim>& dims);

// That argument, of what is free of each input: {"0: \"batch\""}, {}.
std::string DynamicShapes(const std::vector<std::vector<std::string>>& inputs);

// The same for the export of TorchScript, whose names are the file's:
// "dynamic_axes={\"x\": {0: \"batch\"}}".
std::string DynamicAxes(const Graph& graph, const std::vector<ChangedDim>& dims);

// The whole line; for a file that no PyTorch wrote, what it has to do.
// REQUIRES: dims is not empty.
std::string ExportLine(const Graph& graph, const std::vector<ChangedDim>& dims);

}  // namespace onnxfit
