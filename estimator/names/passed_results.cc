#include "estimator/names/passed_results.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/program/identifiers.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

constexpr std::string_view kSelf = "self.";
constexpr int64_t kNever = -1;

// "attend" at "self.attend(x)", "" where no such call begins.
std::string_view CalleeAt(std::string_view text) {
  if (!text.starts_with(kSelf)) return {};
  text.remove_prefix(kSelf.size());
  const auto* const end = std::ranges::find_if_not(text, IsPartOfIdentifier);
  const auto length = static_cast<size_t>(end - text.begin());
  return length < text.size() && text[length] == '(' ? text.substr(0, length) : "";
}

struct NestedCall {
  std::string_view before;    // the line up to it
  std::string_view method;    // "attend" of "self.attend(self.norm(x), y)"
  std::string_view argument;  // "norm"
};

// Those of a line: "drop" of "attend", and "attend" of "norm", of
// "self.drop(self.attend(self.norm(x)))".
std::vector<NestedCall> FindNested(std::string_view line) {
  std::vector<NestedCall> found;
  for (size_t at = line.find(kSelf); at != line.npos; at = line.find(kSelf, at + 1)) {
    const std::string_view method = CalleeAt(line.substr(at));
    if (method.empty()) continue;
    const std::string_view argument = CalleeAt(line.substr(at + kSelf.size() + method.size() + 1));
    if (!argument.empty()) found.push_back({line.substr(0, at), method, argument});
  }
  return found;
}

// The first call from `from` on that the statement's module `child` runs.
int64_t FirstOf(const Program& program, const ModuleRuns& runs, const Statement& statement,
                int64_t from, std::string_view child) {
  for (int64_t i = from; i <= statement.last; ++i) {
    if (runs.DepthAt(i) <= statement.level) continue;
    const ModuleId module = program.calls[Index(i)].module;
    if (ChildOf(program.modules.NameAt(module, statement.level)) == child) return i;
  }
  return kNever;
}

// The method's last call, which it returns the result of: behind it run the modules around it,
// "self.drop(self.attend(…))", or a sum.
int64_t EndOfMethod(const Program& program, const ModuleRuns& runs, const Statement& statement,
                    int64_t from, std::string_view before) {
  for (size_t at = before.find(kSelf); at != before.npos; at = before.find(kSelf, at + 1)) {
    const std::string_view around = CalleeAt(before.substr(at));
    const int64_t first = around.empty() ? kNever : FirstOf(program, runs, statement, from, around);
    if (first != kNever) return first - 1;
  }
  const bool is_added = !program.source.At(statement.source).added_call.empty();
  return is_added ? statement.last - 1 : statement.last;
}

void Hold(const Program& program, const ModuleRuns& runs, const Statement& statement,
          const NestedCall& nested, ValueLives& lives) {
  const auto first = [&](std::string_view child) {
    return FirstOf(program, runs, statement, statement.first, child);
  };
  const int64_t made = first(nested.argument);
  if (made == kNever || first(nested.method) != kNever) return;
  const int64_t maker = runs.EndOf(made, statement.level);
  const int64_t until = EndOfMethod(program, runs, statement, maker + 1, nested.before);
  for (const NameId value : program.calls[Index(maker)].outputs) {
    if (value != kNoName && until > maker) lives.HoldBy("", value, until);
  }
}

// "q, k = rotate(q, k)": names of earlier lines hold what the function is given until it has
// returned.  What a later line makes is an argument that has no name.
void HoldArguments(const Program& program, const ModuleCall& module, const Statement& statement,
                   ValueLives& lives) {
  const SourceStatement& line = program.source.At(statement.source);
  const bool takes_out = line.Mentions(".pop(");  // of a list, which holds it no longer
  if (line.function.empty() || takes_out || CallsModule(program, statement)) return;
  for (int64_t i = statement.first; i <= statement.last; ++i) {
    for (const NameId name : program.calls[Index(i)].inputs) {
      const int64_t born = name == kNoName ? ValueLives::kBeforeAll : lives.BornAt(name);
      if (born < module.first || born >= statement.first) continue;
      const Statement* maker = StatementAt(module, born);
      const bool is_earlier = maker != nullptr && maker->source != kNoStatement &&
                              program.source.At(maker->source).line < line.line;
      if (is_earlier) lives.HoldBy("", name, statement.last);
    }
  }
}

}  // namespace

void FollowPassedResults(const Program& program, const ModuleRuns& runs, const ModuleCall& module,
                         ValueLives& lives) {
  for (const Statement& statement : module.statements) {
    if (statement.source == kNoStatement) continue;
    HoldArguments(program, module, statement, lives);
    for (const NestedCall& nested : FindNested(program.source.At(statement.source).text)) {
      Hold(program, runs, statement, nested, lives);
    }
  }
}

}  // namespace onnxfit
