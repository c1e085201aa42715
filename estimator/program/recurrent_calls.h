// Layers of torch.nn.LSTM, GRU and RNN, each of them one node of ONNX behind those that order its
// weights anew.  Internal to the room program/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/graph/graph.h"
#include "estimator/program/exporter_metadata.h"
#include "estimator/program/pattern.h"
#include "estimator/program/program.h"
#include "estimator/program/rewrites.h"

namespace onnxfit {

// The calls "lstm", "gru" and "rnn", which run one layer in all its directions: x, the first
// hidden and cell state (kNoValue where there is none), then the module's own tensors.  ints: what
// the gates, hidden states and cells are that a layer keeps, and those that its backward makes, in
// elements of all steps, samples and directions.
// Parameters stand behind Slice, Concat and Unsqueeze, since ONNX orders gates otherwise; where
// torch.export has computed biases together, those of the weights' names.
// O(nodes).
std::vector<Rewritten> FindRecurrentCalls(const Graph& graph, const ExporterMetadata& metadata,
                                          const Pattern& pattern);

// "rnn.bias_ih_l0_reverse" for "rnn.weight_ih_l0_reverse"; "" for other names.
std::string BiasOfRecurrentWeight(std::string_view weight);

// ints of the call `aten`, of which all hidden numbers together are `numel`: of all steps, samples
// and directions.  `drops_out`: between this layer and the next.
std::vector<int64_t> RecurrentInts(std::string_view aten, int64_t numel, bool drops_out);

// "lstm_inference" of "lstm": the call that keeps nothing for backward.
std::string_view RecurrentInference(std::string_view aten);

// Whether `op_type` is ONNX's operator of such a layer.
bool IsRecurrent(std::string_view op_type);

// Says that what such calls take is an upper bound, where there are any.
void WarnOfRecurrent(Program& program);

}  // namespace onnxfit
