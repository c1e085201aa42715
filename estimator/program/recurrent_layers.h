// Layers of torch.nn.LSTM, GRU and RNN: the calls "lstm", "gru" and "rnn", which run one layer in
// all its directions.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "estimator/program/program.h"

namespace onnxfit {

// ints of the call `aten`, of which all hidden numbers together are `numel`: of all steps, samples
// and directions.  `drops_out`: between this layer and the next.
std::vector<int64_t> RecurrentInts(std::string_view aten, int64_t numel, bool drops_out);

// "lstm_inference" of "lstm": the call that keeps nothing for backward.
std::string_view RecurrentInference(std::string_view aten);

// Says that what such calls take is an upper bound, where there are any.
void WarnOfRecurrent(Program& program);

}  // namespace onnxfit
