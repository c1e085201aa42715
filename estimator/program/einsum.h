// torch.einsum as the calls that PyTorch makes of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "estimator/base/tensor_type.h"
#include "estimator/program/program.h"

namespace onnxfit {

// One call.  Its operands are those of the equation, from 0, and results of steps before it: -1 is
// the first step's, -2 the second's.
struct EinsumStep {
  std::string_view op;
  std::vector<int32_t> inputs;
  Dims dims;                    // of its result
  std::vector<int64_t> ints{};  // of permute: the order
};

// The calls of `equation`, "bhqd,bhkd->bhqk", over operands of these sizes, the last of which makes
// the result; at least one.  Operands are contracted from the left: each product is one of batches
// of matrices (permute, view, bmm, view, permute), or, where nothing is summed up over both, an
// elementwise one; what only one of them has is summed up before.  "..." stands for dimensions that
// broadcast; without "->" the letters that are there once make the result, in their order.
// nullopt for what is no equation of these operands, and where a letter is twice in one of them.
// Source: einsum and sumproduct_pair of aten/src/ATen/native/Linear.cpp, pytorch v2.11.0.
std::optional<std::vector<EinsumStep>> PlanEinsum(std::string_view equation,
                                                  const std::vector<Dims>& operands);

// Writes the calls of a plan, and before them one of each operand, which autocast casts
// (AT_FORALL_LOWER_PRECISION_FP of aten/src/ATen/autocast_mode.h, pytorch v2.11.0): `emit` makes
// each.  `dims`: of the operands.
using EmitStep = std::function<NameId(const EinsumStep& step, std::vector<NameId> inputs)>;
void WriteSteps(const std::vector<EinsumStep>& steps, const std::vector<NameId>& operands,
                const std::vector<Dims>& dims, const EmitStep& emit);

}  // namespace onnxfit
