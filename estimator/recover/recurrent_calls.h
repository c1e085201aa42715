// Layers of torch.nn.LSTM, GRU and RNN, each of them one node of ONNX behind those that order its
// weights anew.  Internal to the room recover/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/onnx/graph.h"
#include "estimator/program/program.h"
#include "estimator/recover/bound_graph.h"
#include "estimator/recover/exporter_metadata.h"
#include "estimator/recover/rewrites.h"

namespace onnxfit {

// The calls "lstm", "gru" and "rnn", which run one layer in all its directions: x, the first
// hidden and cell state (kNoValue where there is none), then the module's own tensors.  ints: what
// the gates, hidden states and cells are that a layer keeps, and those that its backward makes, in
// elements of all steps, samples and directions.
// Parameters stand behind Slice, Concat and Unsqueeze, since ONNX orders gates otherwise; where
// torch.export has computed biases together, those of the weights' names.
// O(nodes).
std::vector<Rewritten> FindRecurrentCalls(const BoundGraph& bound);

// "rnn.bias_ih_l0_reverse" for "rnn.weight_ih_l0_reverse"; "" for other names.
std::string BiasOfRecurrentWeight(std::string_view weight);

// Whether `op_type` is ONNX's operator of such a layer.
bool IsRecurrent(std::string_view op_type);

}  // namespace onnxfit
