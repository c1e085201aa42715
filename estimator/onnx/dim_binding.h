// Numbers for the free dimensions of a graph's inputs.  Internal to the room onnx/.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit {

// A batch that the file has written out and the user wants otherwise.
struct Rebound {
  int64_t from = 1;
  int64_t to = 1;
};

struct BoundInputs {
  int64_t batch = 1;
  std::string batch_place = {};            // as of Shapes
  std::vector<onnx::TypeProto> types;      // by Graph::inputs; every dimension a number
  std::map<std::string, int64_t> symbols;  // what each named dimension is
  std::optional<Rebound> rebound;
  Warnings warnings;
};

// Throws Error as BindShapes does.  O(inputs × dimensions).
BoundInputs BindInputs(const Graph& graph, const DimBinding& binding);

}  // namespace onnxfit
