#include "estimator/eager/cudnn_workspace.h"

#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/eager/op_rule.h"

namespace onnxfit {
namespace {

int64_t BytesOfValue(const Program& program, NameId name) {
  return name == kNoName ? 0 : BytesOf(program.values[Index(name)].type);
}

int64_t CopiedBytes(const Program& program, const AtenCall& call) {
  const int64_t read =
      CheckedAdd(BytesOfValue(program, call.inputs[0]), BytesOfValue(program, call.inputs[1]));
  return CheckedAdd(read, BytesOfValue(program, call.outputs[0]));
}

}  // namespace

int64_t MostCudnnWorkspaceBytes(const Program& program) {
  int64_t most = 0;
  for (const AtenCall& call : program.calls) {
    if (FindOpRule(call.op).asks_cudnn) most = std::max(most, CopiedBytes(program, call));
  }
  return most;
}

}  // namespace onnxfit
