// torch.einsum as the calls that it makes.  Internal to the room pt2/.
#pragma once

#include <string_view>

#include "estimator/pt2/call_writer.h"

namespace onnxfit::pt2 {

// A permutation of one operand, or a product of two as one of batches of matrices:
// permute, reshape, bmm, view, permute.  Other equations (three operands, "...", a letter twice in
// one operand, one that is summed up beforehand) are unknown calls.
// Source: einsum and sumproduct_pair of aten/src/ATen/native/Linear.cpp, pytorch v2.11.0.
void WriteEinsum(CallWriter& writer, const Call& call, std::string_view op);

}  // namespace onnxfit::pt2
