#include "estimator/names/returned_tuples.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/base/module_names.h"
#include "estimator/libraries/libraries.h"

namespace onnxfit {
namespace {

constexpr std::string_view kReturn = "return ";

// "a" and "f(b, c)" of "return a, f(b, c)"; nothing of a line that goes on below.
std::vector<std::string_view> PartsOfReturn(const SourceStatement& line) {
  std::string_view rest = line.text;
  if (!line.returns || line.is_open || !rest.starts_with(kReturn)) return {};
  rest.remove_prefix(kReturn.size());
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= rest.size(); ++i) {
    const char c = i == rest.size() ? ',' : rest[i];
    depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
    if (c != ',' || depth > 0) continue;
    parts.push_back(rest.substr(begin, i - begin));
    begin = std::min(rest.size(), rest.find_first_not_of(' ', i + 1));
  }
  return parts;
}

bool IsPlainName(std::string_view part) { return part.find_first_of("([.+-*/ ") == part.npos; }

class TupleFinder {
 public:
  TupleFinder(const Program& program, const ModuleRuns& runs,
              const std::vector<ModuleCall>& modules)
      : program_(program), runs_(runs), modules_(modules) {}

  std::vector<ReturnedValue> Find() {
    for (size_t run = 0; run < modules_.size(); ++run) {
      FollowItem(run);
      const std::vector<Statement>& statements = modules_[run].statements;
      FollowLast(run);
      if (statements.empty() || statements.back().source == kNoStatement) continue;
      const std::vector<std::string_view> parts =
          PartsOfReturn(program_.source.At(statements.back().source));
      if (parts.size() > 1) Follow(run, parts);
    }
    return std::move(found_);
  }

 private:
  // What the last item of a list makes, where the class of the forward is known to return it.
  void FollowItem(size_t run) {
    const std::string& class_name = program_.modules.ClassOf(runs_.all()[run].module);
    const auto row = std::ranges::find_if(ReturnedItems(), [&](const ReturnedItemRow& known) {
      return class_name.ends_with(known.in_class);
    });
    if (row == ReturnedItems().end()) return;
    const NameId value = MadeByLastOf(run, row->list);
    const int32_t caller = runs_.all()[run].caller;
    if (value == kNoName || caller < 0) return;
    const std::vector<Statement>& statements = modules_[Index(caller)].statements;
    const auto at = std::ranges::find(statements, modules_[run].last, &Statement::last);
    if (at == statements.end() || at->in_helper || at->targets.size() != 1) return;
    found_.push_back({value, Index(caller), static_cast<size_t>(at - statements.begin()), 0});
  }

  NameId MadeByLastOf(size_t run, std::string_view list) const {
    NameId value = kNoName;
    for (size_t i = run + 1; i < runs_.all().size(); ++i) {
      const ModuleRun& item = runs_.all()[i];
      if (item.first > runs_.all()[run].last) break;
      if (Index(item.caller) != run) continue;
      const std::string_view parent = ParentOf(program_.modules.PathOf(item.module));
      if (ChildOf(parent) == list) value = program_.calls[Index(item.last)].outputs[0];
    }
    return value;
  }

  // "queries, keys, _ = layer(", by a row of its local's name.
  void FollowLast(size_t run) {
    const int32_t caller = runs_.all()[run].caller;
    if (caller < 0) return;
    const std::vector<Statement>& statements = modules_[Index(caller)].statements;
    const auto at = std::ranges::find(statements, modules_[run].last, &Statement::last);
    if (at == statements.end() || at->source == kNoStatement || at->targets.empty()) return;
    const std::string_view local = LastReturnedLocal(program_.source.At(at->source).text);
    const std::vector<Statement>& own = modules_[run].statements;
    const auto binds = [&](const Statement& it) {
      return !it.targets.empty() && it.targets[0] == local;
    };
    const auto maker = std::find_if(own.rbegin(), own.rend(), binds);
    if (local.empty() || maker == own.rend()) return;
    const NameId value = program_.calls[Index(maker->last)].outputs[0];
    found_.push_back({value, Index(caller), static_cast<size_t>(at - statements.begin()),
                      at->targets.size() - 1});
  }

  void Follow(size_t run, const std::vector<std::string_view>& parts) {
    const int32_t caller = runs_.all()[run].caller;
    if (caller < 0) return;
    const std::vector<Statement>& statements = modules_[Index(caller)].statements;
    const auto at = std::ranges::find(statements, modules_[run].last, &Statement::last);
    if (at == statements.end() || at->in_helper) return;
    const size_t targets = at->targets.size();
    if (targets != 1 && targets != parts.size()) return;
    const std::vector<NameId> values = ValuesOf(modules_[run], parts);
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] == kNoName) continue;
      found_.push_back({values[i], Index(caller), static_cast<size_t>(at - statements.begin()),
                        targets == 1 ? 0 : i});
    }
  }

  // Of each part; kNoName where it is not known, nothing where the line makes more than its parts.
  std::vector<NameId> ValuesOf(const ModuleCall& module,
                               const std::vector<std::string_view>& parts) const {
    const std::vector<NameId> made = LeftBy(module.statements.back());
    std::vector<NameId> values;
    size_t next = 0;
    for (const std::string_view part : parts) {
      if (IsPlainName(part)) {
        values.push_back(BoundTo(module, part));
      } else {
        if (next == made.size()) return {};
        values.push_back(made[next++]);
      }
    }
    return next == made.size() ? values : std::vector<NameId>();
  }

  // What the calls of the statement make and none of them reads.
  std::vector<NameId> LeftBy(const Statement& statement) const {
    std::vector<NameId> left;
    for (int64_t i = statement.first; i <= statement.last; ++i) {
      const AtenCall& call = program_.calls[Index(i)];
      for (const NameId name : call.inputs) std::erase(left, name);
      if (!call.outputs.empty()) left.push_back(call.outputs[0]);
    }
    return left;
  }

  // What the last statement that binds that name to its value makes.
  NameId BoundTo(const ModuleCall& module, std::string_view name) const {
    for (auto at = std::next(module.statements.rbegin()); at != module.statements.rend(); ++at) {
      if (at->targets.size() != 1 || at->targets[0] != name) continue;
      const std::vector<NameId>& made = program_.calls[Index(at->last)].outputs;
      return made.size() == 1 ? made[0] : kNoName;
    }
    return kNoName;
  }

  const Program& program_;
  const ModuleRuns& runs_;
  const std::vector<ModuleCall>& modules_;
  std::vector<ReturnedValue> found_;
};

}  // namespace

std::vector<ReturnedValue> FindReturnedTuples(const Program& program, const ModuleRuns& runs,
                                              const std::vector<ModuleCall>& modules) {
  return TupleFinder(program, runs, modules).Find();
}

}  // namespace onnxfit
