// Which dimension of an input is the batch, by what recurrent layers read.  Internal to the room
// onnx/.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "estimator/onnx/graph.h"

namespace onnxfit {

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
