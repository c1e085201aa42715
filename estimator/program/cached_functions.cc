#include "estimator/program/cached_functions.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

// That which a line on the way to the call calls; null where none is known.
const CachedFunction* FunctionAround(const Program& program, const AtenCall& call) {
  for (const StatementId frame : call.frames) {
    if (frame == kNoStatement) continue;
    const std::string_view callee = program.source.At(frame).callee;
    const CachedFunction* function = CachedFunctionOf(callee.substr(callee.rfind('.') + 1));
    if (function != nullptr) return function;
  }
  return nullptr;
}

bool ReadsTensors(const Program& program, const CachedRun& run) {
  std::set<NameId> made;
  for (int64_t i = run.first; i <= run.last; ++i) {
    const AtenCall& call = program.calls[Index(i)];
    const auto is_given = [&](NameId name) { return name != kNoName && !made.contains(name); };
    if (std::ranges::any_of(call.inputs, is_given)) return true;
    made.insert(call.outputs.begin(), call.outputs.end());
  }
  return false;
}

const TensorType& ResultOf(const Program& program, const CachedRun& run) {
  return program.values[Index(program.calls[Index(run.last)].outputs[0])].type;
}

// How many results that differ the function of `run` has in a step.
int32_t ResultsBeside(const Program& program, const std::vector<CachedRun>& runs,
                      const CachedRun& run) {
  std::vector<TensorType> types;
  for (const CachedRun& other : runs) {
    const TensorType& type = ResultOf(program, other);
    const bool is_new = std::ranges::find(types, type) == types.end();
    if (other.function == run.function && is_new) types.push_back(type);
  }
  return static_cast<int32_t>(types.size());
}

}  // namespace

std::vector<CachedRun> FindCachedRuns(const Program& program) {
  std::vector<CachedRun> runs;
  for (size_t i = 0; i < program.calls.size(); ++i) {
    const AtenCall& call = program.calls[i];
    const CachedFunction* function = FunctionAround(program, call);
    if (function == nullptr || call.outputs.empty()) continue;
    const auto at = static_cast<int64_t>(i);
    const bool goes_on = !runs.empty() && runs.back().last == at - 1 &&
                         runs.back().function == function &&
                         program.calls[i - 1].module == call.module;
    goes_on ? void(runs.back().last = at) : runs.push_back({function, at, at});
  }
  for (CachedRun& run : runs) {
    run.is_kept =
        ResultsBeside(program, runs, run) <= run.function->results && !ReadsTensors(program, run);
  }
  return runs;
}

}  // namespace onnxfit
