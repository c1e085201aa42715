// torch.nn.functional.scaled_dot_product_attention, taken apart: what PyTorch runs around the
// kernel that it takes, or instead of one.  Internal to the room eager/.
#pragma once

#include "estimator/eager/dispatcher.h"

namespace onnxfit {

// q, k, v and a mask or none, with ints: whether it drops out, whether it is causal.
void TakeAttentionApart(Dispatcher& dispatcher, const AtenCall& call);

}  // namespace onnxfit
