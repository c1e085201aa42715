// Rows for torch.nn.LSTM, GRU and RNN.  Internal to the room pt2/.
#pragma once

#include <string_view>

#include "estimator/pt2/call_writer.h"

namespace onnxfit::pt2 {

// One call of `op` ("lstm", "gru", "rnn") for each layer, in all its directions: an upper bound of
// what it keeps (program/recurrent_calls.h), which a warning says.
void WriteRecurrent(CallWriter& writer, const Call& call, std::string_view op);

}  // namespace onnxfit::pt2
