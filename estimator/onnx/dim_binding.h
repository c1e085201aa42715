// Numbers for the free dimensions of a graph's inputs, and which of them is the batch.  Internal to
// the room onnx/: other rooms ask shapes.h.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/onnx/graph.h"
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
  // What --dim and --shape say of values in the graph, whose sizes data decide (data_sizes.h).
  std::map<std::string, int64_t> inner_dims;
  std::map<std::string, Dims> inner_shapes;
  std::optional<Rebound> rebound;
  Warnings warnings;
};

// Throws Error as BindShapes does.  O(inputs × dimensions), and O(values) for each name in the
// graph.
BoundInputs BindInputs(const Graph& graph, const DimBinding& binding);

// --dim or --shape `name`, which no size in the graph turned out to need.
[[noreturn]] void RefuseUnused(const Graph& graph, const DimBinding& binding,
                               const std::string& name);

// Which dimension of an input is the batch, by what recurrent layers read.
struct InputAxis {
  ValueId input = kNoValue;  // of the graph
  int axis = 0;
  std::string_view layer = {};  // that reads it: "LSTM"
};

// LSTM, GRU and RNN read [T, N, F], or [N, T, F] with layout 1: where N is that of an input of the
// graph, looking back over operators that keep dimensions, transposes and embeddings.  nullopt
// where no such layer reads an input so.  O(nodes).
std::optional<InputAxis> FindRecurrentBatch(const Graph& graph);

}  // namespace onnxfit
