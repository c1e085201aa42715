// torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm), by foreach as PyTorch does
// where all gradients are on the GPU.
#pragma once

#include "estimator/eager/autograd.h"
#include "estimator/eager/call_table.h"

namespace onnxfit {

// Gradients are scaled in place: what is allocated are norms.  O(parameters).
// Sources: torch/nn/utils/clip_grad.py, aten/src/ATen/native/cuda/ForeachReduceOp.cu,
// pytorch v2.11.0, and recorded events of 2.11 and 2.15.
void ClipGradNorm(CallTable& calls, const ParameterGradients& gradients);

}  // namespace onnxfit
