#include "estimator/program/gradient_flow.h"

#include <algorithm>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

bool HoldsFloats(const Program& program, NameId name) {
  return name != kNoName && IsFloat(program.values[Index(name)].type.dtype);
}

// Under torch.no_grad() no gradient passes, but what returns its operand: a cast to the type that
// it has.
bool StopsGradients(const Program& program, const AtenCall& call) {
  if (!call.leaves_autograd) return false;
  const bool is_same = call.op == "to" && program.values[Index(call.inputs[0])].type ==
                                              program.values[Index(call.outputs[0])].type;
  return !is_same;
}

// Which names a gradient reaches: those of floats that lead to the loss through floats.
std::vector<bool> ReachedByGradients(const Program& program) {
  std::vector<bool> reached(program.values.size());
  reached[Index(program.loss)] = true;
  for (size_t i = program.calls.size(); i-- > 0;) {
    const AtenCall& call = program.calls[i];
    if (StopsGradients(program, call)) continue;
    const bool leads = std::any_of(call.outputs.begin(), call.outputs.end(), [&](NameId output) {
      return HoldsFloats(program, output) && reached[Index(output)];
    });
    for (const NameId input : call.inputs) {
      if (leads && HoldsFloats(program, input)) reached[Index(input)] = true;
    }
  }
  return reached;
}

}  // namespace

std::vector<NameId> UnreachedParameters(const Program& program) {
  const std::vector<bool> reached = ReachedByGradients(program);
  std::vector<NameId> unreached;
  for (const NameId name : program.parameters) {
    if (!reached[Index(name)]) unreached.push_back(name);
  }
  return unreached;
}

}  // namespace onnxfit
