// A graph that says what a model's inputs are, and nothing of what it computes: for models that do
// not come from ONNX files, whose free dimensions are bound in the same way (BindShapes).
#pragma once

#include <string>
#include <vector>

#include "estimator/onnx/graph.h"

namespace onnxfit {

struct DeclaredDim {
  int64_t size = 0;
  std::string name = {};  // of a free dimension, as --dim takes it; "" where it is fixed
};

struct DeclaredTensor {
  std::string name;
  DType dtype = DType::kUndefined;
  std::vector<DeclaredDim> dims;
};

// Throws Error where there is no input.
Graph GraphOfInputs(const std::string& path, const std::vector<DeclaredTensor>& inputs);

}  // namespace onnxfit
