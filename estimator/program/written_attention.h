// Attention that a library wrote out in Python, found in a program.  Internal to the room program/.
#pragma once

#include <string_view>

#include "estimator/program/program.h"

namespace onnxfit {

// The call that stands for transformers' eager attention, as scaled_dot_product_attention; ints:
// whether it drops out, 0, whether it leaves the type of the softmax to autocast.
inline constexpr std::string_view kEagerAttention = "eager_attention";

// Makes one kEagerAttention of the calls that eager_attention_forward makes, by the line of its
// caller, "attention_interface(" of transformers 5.17: products, scale, mask, softmax, cast,
// dropout, heads that are repeated.  An export in fp32 shows neither which casts a run in 16 bits
// makes nor which names hold what; eager_attention.h, which writes the call out again, knows.
// Whether there was one.  O(calls).
bool GatherWrittenAttention(Program& program);

}  // namespace onnxfit
