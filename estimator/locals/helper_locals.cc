// What the names of methods and functions hold that no line shows.
#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "estimator/locals/forward_locals.h"
#include "estimator/program/like.h"
#include "estimator/program/modules.h"

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

// `name` is what `made_by` makes.
bool Names(const HelperLocal& local, const Program& program, const Statement& statement,
           std::string_view made_by, NameId name) {
  const bool is_result = local.is_result && local.op == made_by;
  if (!is_result && !local.are_operands) return false;
  if (!Calls(program, statement, local.helper)) return false;
  return is_result || ReadsOf(program.calls, statement, name, local.op) > 0;
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

// How many steps of the method behind call `maker` read `name`, and the last call of the last one.
struct StepReads {
  int64_t steps = 0;
  int64_t last = 0;
};

StepReads ReadsBehind(const std::vector<AtenCall>& calls, const ModuleRuns& runs,
                      const Statement& statement, int64_t maker, NameId name) {
  const auto reads = [&](const AtenCall& call) {
    return std::ranges::find(call.inputs, name) != call.inputs.end();
  };
  StepReads found = {.last = maker};
  for (int64_t i = maker + 1; i <= statement.last;) {
    const int64_t last = StepEnd(runs, statement, i);
    const bool is_read = std::any_of(calls.begin() + i, calls.begin() + last + 1, reads);
    if (is_read) found = {found.steps + 1, last};
    i = last + 1;
  }
  return found;
}

// Whether call `i` ends the run of a module of a list, and the next one of the list comes then.
bool EndsTurn(const Program& program, const Statement& statement, int64_t i) {
  if (i >= statement.last) return false;
  const ModuleTree& modules = program.modules;
  const ModuleId ended = program.calls[Index(i)].module;
  const ModuleId begun = program.calls[Index(i + 1)].module;
  const size_t level = statement.level;
  if (std::min(modules.DepthOf(ended), modules.DepthOf(begun)) <= level) return false;
  const std::string& module = modules.NameAt(ended, level);
  const std::string& next = modules.NameAt(begun, level);
  return IsListed(module) && IsListed(next) && ParentOf(module) == ParentOf(next);
}

bool IsView(std::string_view op) {
  constexpr std::string_view kViews[] = {"view", "permute", "expand", "slice", "select", "unbind"};
  return std::ranges::find(kViews, op) != std::end(kViews);
}

// Not with "0, 1, 2", as einsum does.
bool Permutes(const AtenCall& call) {
  return call.op == "permute" && !std::ranges::is_sorted(call.ints);
}

// The call behind `maker` that reads `name`, or a view of it, and how many of its operands come
// before that; -1 where it is in a module that the method calls, or a reshape of what was permuted,
// which copies at some sizes.
struct Reader {
  int64_t call = -1;
  size_t place = 0;
};

Reader ReaderOf(const std::vector<AtenCall>& calls, const ModuleRuns& runs,
                const Statement& statement, int64_t maker, NameId name) {
  bool is_permuted = Permutes(calls[Index(maker)]);
  for (int64_t i = maker + 1; i <= statement.last; ++i) {
    const AtenCall& call = calls[Index(i)];
    const auto read = std::ranges::find(call.inputs, name);
    if (read == call.inputs.end()) continue;
    if (runs.DepthAt(i) > statement.level) return {};
    if (!IsView(call.op) || call.outputs.size() != 1)
      return {i, static_cast<size_t>(read - call.inputs.begin())};
    if (is_permuted && call.op == "view") return {};
    is_permuted = is_permuted || Permutes(call);
    name = call.outputs[0];
  }
  return {};
}

// Whether a name holds what call `maker` has made until call `reader` reads it as a further
// operand: Python evaluates operands from left to right, so that between the two are those alone
// that make what is read with it, or behind it.
bool IsNamedBetween(const std::vector<AtenCall>& calls, const Reader& reader, int64_t maker) {
  const std::vector<NameId>& operands = calls[Index(reader.call)].inputs;
  std::set<NameId> needed(operands.begin() + static_cast<std::ptrdiff_t>(reader.place),
                          operands.end());
  for (int64_t i = reader.call - 1; i > maker; --i) {
    const AtenCall& call = calls[Index(i)];
    const auto is_needed = [&](NameId name) { return needed.contains(name); };
    if (std::ranges::none_of(call.outputs, is_needed)) return true;
    needed.insert(call.inputs.begin(), call.inputs.end());
  }
  return false;
}

// The last call of the expression that call `i` begins: "f(x).g(a)".
int64_t ExpressionEnd(const std::vector<AtenCall>& calls, const Statement& statement, int64_t i) {
  const auto goes_on = [&](const AtenCall& call, const AtenCall& next) {
    return call.outputs.size() == 1 && !next.inputs.empty() && next.inputs[0] == call.outputs[0];
  };
  while (i < statement.last && goes_on(calls[Index(i)], calls[Index(i + 1)])) ++i;
  return i;
}

// "x = (a * x).flatten(1)", whose last call is `end`.
bool MayTakeName(const Program& program, int64_t end, NameId name) {
  const std::vector<NameId>& made = program.calls[Index(end)].outputs;
  const auto numel = [&](NameId value) { return Numel(program.values[Index(value)].type.dims); };
  return made.empty() || made[0] == kNoName || numel(made[0]) == numel(name);
}

// Whether calls `first` to before `last` are one turn of a loop, as those before or behind show.
bool IsTurn(const std::vector<AtenCall>& calls, const Statement& statement, int64_t first,
            int64_t last) {
  const int64_t turn = last - first;
  const auto repeats = [&](int64_t other) {
    if (turn < 2 || other < statement.first || other + turn > statement.last + 1) return false;
    return MakeSameCalls(calls, {first, last - 1}, {other, other + turn - 1});
  };
  return repeats(first - turn) || repeats(last);
}

// The call that makes the same in the next turn of a loop: "x = a * x + b".  `maker` where none
// does.
int64_t NextTurn(const Program& program, const Statement& statement, int64_t maker, NameId name) {
  const AtenCall& made = program.calls[Index(maker)];
  std::set<NameId> follows = {name};  // what is made of it, and of that
  for (int64_t i = maker + 1; i <= statement.last; ++i) {
    const AtenCall& call = program.calls[Index(i)];
    const bool reads =
        std::ranges::any_of(call.inputs, [&](NameId input) { return follows.contains(input); });
    if (!reads || call.outputs.size() != 1) continue;
    const auto dims = [&](NameId value) { return program.values[Index(value)].type.dims; };
    const bool is_same = call.op == made.op && dims(call.outputs[0]) == dims(name);
    if (is_same && IsTurn(program.calls, statement, maker + 1, i + 1)) return i;
    const bool is_direct = std::ranges::find(call.inputs, name) != call.inputs.end();
    if (is_direct) follows.insert(call.outputs[0]);
  }
  return maker;
}

// Whether call `maker` binds anew what a turn of a loop before it has bound.
bool IsNextTurn(const Program& program, const ModuleRuns& runs, const Statement& statement,
                int64_t maker) {
  const AtenCall& made = program.calls[Index(maker)];
  const auto dims = [&](NameId value) { return program.values[Index(value)].type.dims; };
  for (int64_t i = maker - 1; i >= statement.first; --i) {
    const AtenCall& call = program.calls[Index(i)];
    const bool is_same = call.op == made.op && call.outputs.size() == 1 &&
                         dims(call.outputs[0]) == dims(made.outputs[0]);
    if (!is_same) continue;
    return ReadsBehind(program.calls, runs, statement, i, call.outputs[0]).steps > 1 &&
           NextTurn(program, statement, i, call.outputs[0]) == maker;
  }
  return false;
}

// Whether call `end` makes what a function returns: its last line, "return x.type_as(y)", binds no
// name.
bool IsReturned(const std::vector<AtenCall>& calls, const Statement& statement, int64_t end) {
  const std::vector<NameId>& made = calls[Index(end)].outputs;
  return made.empty() || ReadsOf(calls, statement, made[0]) == 0;
}

// "mask = torch.ones(n)" that a method passes to a module, which may read nothing of it.
bool IsMaskToPass(const Program& program, const ModuleRuns& runs, const Statement& statement,
                  int64_t maker, NameId name) {
  const TensorType& type = program.values[Index(name)].type;
  const bool is_made = program.calls[Index(maker)].op == "constant";
  if (!is_made || IsFloat(type.dtype) || type.dims.size() < 2) return false;
  return ReaderOf(program.calls, runs, statement, maker, name).call < 0;
}

// "weights = softmax(scores, dim=-1)" of a method that computes an attention and returns its result
// alone: it mostly has a name of its own.
bool IsWeights(const Program& program, const Statement& statement, int64_t maker) {
  return statement.in_helper && statement.targets.size() == 1 &&
         program.calls[Index(maker)].op == "softmax";
}

// The last call at which a method whose lines are unknown has `name`, a result of its step that
// ends with call `maker`: more than one step reads it, or one as a further operand, behind what
// does not belong to its expression; the latter of a function, too.  What a loop over modules reads
// in one turn and no more is bound anew by it: x = block(x).  `maker` where no name is known.
int64_t HeldByMethod(const Program& program, const ModuleRuns& runs, const Statement& statement,
                     int64_t maker, NameId name) {
  if (StepEnd(runs, statement, maker) != maker) return maker;
  const StepReads reads = ReadsBehind(program.calls, runs, statement, maker, name);
  if (reads.steps == 1 && IsWeights(program, statement, maker)) return statement.last;
  if (reads.steps < 2 && IsMaskToPass(program, runs, statement, maker, name)) return statement.last;
  if (reads.steps == 1) {
    if (statement.in_helper && IsNextTurn(program, runs, statement, maker)) return statement.last;
    const Reader reader = ReaderOf(program.calls, runs, statement, maker, name);
    if (reader.call < 0 || !IsNamedBetween(program.calls, reader, maker)) return maker;
    const bool joins = program.calls[Index(reader.call)].op == "cat";  // "x = torch.cat([x, y])"
    const int64_t end = ExpressionEnd(program.calls, statement, reader.call);
    const bool is_named =
        !joins && (IsReturned(program.calls, statement, end) || !MayTakeName(program, end, name));
    return is_named ? statement.last : maker;
  }
  if (reads.steps < 2 || !statement.in_helper) return maker;
  const int64_t next = NextTurn(program, statement, maker, name);
  if (next > maker) return std::max(next, reads.last);
  return EndsTurn(program, statement, reads.last) ? reads.last : statement.last;
}

// What a method returns is added to something behind it.
int64_t EndOfMethod(const Program& program, const Statement& statement) {
  const bool is_added = statement.in_helper && statement.source != kNoStatement &&
                        !program.source.At(statement.source).added_call.empty();
  return is_added ? std::max(statement.first, statement.last - 1) : statement.last;
}

}  // namespace

int64_t HeldInHelper(const Program& program, const ModuleRuns& runs, const Statement& statement,
                     int64_t maker, NameId name) {
  const std::string_view made_by = RuleNameOf(program.calls[Index(maker)].op);
  for (const HelperLocal& local : HelperLocals()) {
    if (!Names(local, program, statement, made_by, name)) continue;
    return EndOf(local, program.calls, statement, maker);
  }
  const bool is_function =
      statement.source != kNoStatement && !program.source.At(statement.source).function.empty();
  if (!statement.in_helper && !is_function) return maker;
  Statement method = statement;
  method.last = EndOfMethod(program, statement);
  return maker > method.last ? maker : HeldByMethod(program, runs, method, maker, name);
}

bool ReplacesOperand(const Program& program, const AtenCall& call) {
  const bool is_known = !call.frames.empty() && call.frames.back() != kNoStatement;
  if (call.op != "cat" || !is_known) return false;
  return ReplacesWhatItHolds(program.source.At(call.frames.back()).text);
}

}  // namespace onnxfit
