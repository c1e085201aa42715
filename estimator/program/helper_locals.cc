#include "estimator/program/helper_locals.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "estimator/base/index.h"
#include "estimator/program/libraries.h"
#include "estimator/program/like.h"

namespace onnxfit {
namespace {

bool Calls(const Program& program, const Statement& statement, std::string_view helper) {
  return statement.source != kNoStatement && program.source.At(statement.source).Mentions(helper);
}

// How many calls of the statement read `name`; of operator `op` alone, if it is given.
int64_t ReadsOf(const std::vector<AtenCall>& calls, const Statement& statement, NameId name,
                std::string_view op = {}) {
  int64_t reads = 0;
  for (int64_t i = statement.first; i <= statement.last; ++i) {
    const AtenCall& call = calls[Index(i)];
    const bool counts = op.empty() || call.op == op;
    if (counts && std::ranges::find(call.inputs, name) != call.inputs.end()) ++reads;
  }
  return reads;
}

bool Names(const HelperLocal& local, const Program& program, const Statement& statement,
           int64_t maker, NameId name) {
  if (!Calls(program, statement, local.helper)) return false;
  return (local.is_result && local.op == RuleNameOf(program.calls[Index(maker)].op)) ||
         (local.are_operands && ReadsOf(program.calls, statement, name, local.op) > 0);
}

// The last call of the helper that binds `local`.
int64_t EndOf(const HelperLocal& local, const std::vector<AtenCall>& calls,
              const Statement& statement, int64_t maker) {
  for (int64_t i = maker + 1; i <= statement.last && !local.before.empty(); ++i) {
    if (calls[Index(i)].op == local.before) return i - 1;
  }
  return statement.last;
}

// The last call of the step that begins with call `i`: it, or the module that the method calls.
int64_t StepEnd(const ModuleRuns& runs, const Statement& statement, int64_t i) {
  return runs.DepthAt(i) > statement.level ? runs.EndOf(i, statement.level) : i;
}

// Whether more than one step of the method reads `name`, a result of its step that ends with
// call `maker`.
bool IsReadAgain(const std::vector<AtenCall>& calls, const ModuleRuns& runs,
                 const Statement& statement, int64_t maker, NameId name) {
  if (StepEnd(runs, statement, maker) != maker) return false;
  int64_t readers = 0;
  for (int64_t i = maker + 1; i <= statement.last && readers < 2;) {
    const int64_t last = StepEnd(runs, statement, i);
    const auto reads = [&](const AtenCall& call) {
      return std::ranges::find(call.inputs, name) != call.inputs.end();
    };
    if (std::any_of(calls.begin() + i, calls.begin() + last + 1, reads)) ++readers;
    i = last + 1;
  }
  return readers > 1;
}

}  // namespace

bool ReplacesOperand(const Program& program, const AtenCall& call) {
  const bool is_known = !call.frames.empty() && call.frames.back() != kNoStatement;
  if (call.op != "cat" || !is_known) return false;
  return ReplacesWhatItHolds(program.source.At(call.frames.back()).text);
}

int64_t HeldInHelper(const Program& program, const ModuleRuns& runs, const Statement& statement,
                     int64_t maker, NameId name) {
  for (const HelperLocal& local : HelperLocals()) {
    if (!Names(local, program, statement, maker, name)) continue;
    return EndOf(local, program.calls, statement, maker);
  }
  const bool is_local =
      statement.in_helper && IsReadAgain(program.calls, runs, statement, maker, name);
  return is_local ? statement.last : maker;
}

}  // namespace onnxfit
