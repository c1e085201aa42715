#include "estimator/program/statements.h"

#include <algorithm>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/program/scopes.h"
#include "estimator/program/source_text.h"

namespace onnxfit {
namespace {

class StatementFinder {
 public:
  StatementFinder(const std::vector<AtenCall>& calls, const std::vector<std::vector<int64_t>>& ends)
      : calls_(calls), ends_(ends) {}

  std::vector<ModuleCall> Find() const {
    std::vector<ModuleCall> modules;
    for (size_t i = 0; i < calls_.size(); ++i) {
      const auto& scope = calls_[i].scope;
      const size_t open = i == 0 ? 0 : SharedModules(calls_[i - 1].scope, scope);
      for (size_t depth = open; depth < scope.size(); ++depth) {
        modules.push_back(Read(static_cast<int64_t>(i), ends_[i][depth], depth));
      }
    }
    return modules;
  }

 private:
  ModuleCall Read(int64_t first, int64_t last, size_t depth) const {
    ModuleCall module = {.first = first, .last = last, .statements = {}};
    std::vector<std::string> called;  // by the last statement: keys of loops
    for (int64_t i = first; i <= last; i = module.statements.back().last + 1) {
      Statement statement = StatementOf(i, depth);
      const std::string key = LoopKey(i, depth);
      const bool in_helper = !module.statements.empty() && module.statements.back().in_helper;
      const bool turns = !in_helper && std::find(called.begin(), called.end(), key) != called.end();
      if (!module.statements.empty() && !turns && statement.line != 0 &&
          statement.line == module.statements.back().line) {
        module.statements.back().last = statement.last;
      } else {
        statement.in_helper = CallsMethod(statement, last, depth);
        module.statements.push_back(std::move(statement));
        called.clear();
      }
      if (!key.empty()) called.push_back(key);
    }
    for (Statement& statement : module.statements) {
      if (statement.line == 0) statement.targets = NameOfResult(statement, module, depth);
      if (statement.line == 0 && statement.targets.empty()) {
        statement.targets = NameOfOperand(statement, module, depth);
      }
    }
    JoinParts(module.statements, depth);
    return module;
  }

  // "y = self.features(x)" in a forward at `depth` that ends with call `last`, and no module of
  // that name is called in it.
  bool CallsMethod(const Statement& statement, int64_t last, size_t depth) const {
    const std::string_view name = OutermostOwnCall(statement.text);
    for (int64_t i = statement.first; i <= last && !name.empty(); ++i) {
      const auto& scope = calls_[Index(i)].scope;
      if (depth + 1 >= scope.size()) continue;
      if (ChildOf(scope[depth + 1]) == name || ChildOf(LoopKey(i, depth)) == name) return false;
    }
    return !name.empty();
  }

  // A module whose line is unknown, behind a line that calls more modules than were seen and
  // binds the same name, is the rest of it: r of "x = r(cat([u(x), y]))".
  void JoinParts(std::vector<Statement>& statements, size_t depth) const {
    for (size_t i = 1; i < statements.size(); ++i) {
      Statement& before = statements[i - 1];
      const bool is_rest = before.line != 0 && statements[i].line == 0 && !before.targets.empty() &&
                           statements[i].targets == before.targets &&
                           CountModuleCalls(before.text) > ModulesIn(before, depth);
      if (!is_rest) continue;
      before.last = statements[i].last;
      statements.erase(statements.begin() + static_cast<std::ptrdiff_t>(i--));
    }
  }

  // How many modules `statement` of a forward at `depth` calls.
  int64_t ModulesIn(const Statement& statement, size_t depth) const {
    int64_t modules = 0;
    for (int64_t i = statement.first; i <= statement.last; ++i) {
      const auto& ends = ends_[Index(i)];
      if (depth + 1 >= ends.size()) continue;
      ++modules;
      i = ends[depth + 1];
    }
    return modules;
  }

  // The name under which the first that reads a result of `statement` does so.
  std::vector<std::string> NameOfResult(const Statement& statement, const ModuleCall& module,
                                        size_t depth) const {
    const std::vector<NameId>& results = calls_[Index(statement.last)].outputs;
    for (const Statement& later : module.statements) {
      if (later.first <= statement.last || later.line == 0) continue;
      for (int64_t i = later.first; i <= later.last; ++i) {
        if (!Reads(calls_[Index(i)], results)) continue;
        const std::string name = NameIn(later.text, calls_[Index(i)], results, depth);
        return name.empty() ? std::vector<std::string>() : std::vector<std::string>{name};
      }
    }
    return {};
  }

  // A call of the forward's own on one tensor, of which nothing else is known, is taken to bind
  // the name that its operand has: "x = x.unsqueeze(0)", "x = self.dropout(x)".
  std::vector<std::string> NameOfOperand(const Statement& statement, const ModuleCall& module,
                                         size_t depth) const {
    const AtenCall& call = calls_[Index(statement.first)];
    const bool is_own = statement.first == statement.last &&
                        (call.scope.size() == depth + 1 || call.op.starts_with("dropout"));
    if (!is_own || statement.is_hidden || call.inputs.size() != 1) return {};
    for (const Statement& earlier : module.statements) {
      if (earlier.last >= statement.first) break;
      const bool makes_it = IsAmong(call.inputs[0], calls_[Index(earlier.last)].outputs);
      if (makes_it && !earlier.targets.empty()) return {earlier.targets[0]};
    }
    return {};
  }

  // "x" of "y = self.conv(x)", "y = x + z" or "y = x.view(shape)", where the forward at `depth`
  // makes `call`, which reads one of `results`.
  static std::string NameIn(std::string_view line, const AtenCall& call,
                            const std::vector<NameId>& results, size_t depth) {
    if (depth + 1 < call.scope.size()) return ArgumentTo(call.scope[depth + 1], line);
    const auto [left, right] = OperandsOf(line);
    if (!left.empty() && call.inputs.size() == 2) {
      return IsAmong(call.inputs[0], results) ? left : right;
    }
    return call.inputs.size() == 1 ? ReceiverOf(line) : "";
  }

  static bool Reads(const AtenCall& call, const std::vector<NameId>& results) {
    return std::any_of(call.inputs.begin(), call.inputs.end(),
                       [&](NameId name) { return IsAmong(name, results); });
  }

  static bool IsAmong(NameId name, const std::vector<NameId>& names) {
    return name != kNoName && std::find(names.begin(), names.end(), name) != names.end();
  }

  // The statement that call `first` is the first of: a call of its own or of a module.
  Statement StatementOf(int64_t first, size_t depth) const {
    const auto& ends = ends_[Index(first)];
    const int64_t last = depth + 1 < ends.size() ? ends[depth + 1] : first;
    const SourceFrame frame = FrameOf(first, last, depth);
    return {first,
            last,
            frame.line,
            frame.text,
            Targets(frame.text),
            frame.line == 0 && HasSource(first, last),
            frame.text.starts_with("return "),
            /*in_helper=*/false,
            depth + 1};
  }

  // ").view(n)" ends a statement whose first line is unknown: a name that no other has.
  static std::vector<std::string> Targets(std::string_view text) {
    return text.starts_with(')') ? std::vector<std::string>{")"} : TargetsOf(text);
  }

  bool HasSource(int64_t first, int64_t last) const {
    return std::any_of(calls_.begin() + first, calls_.begin() + last + 1, [](const AtenCall& call) {
      return !call.frames.empty() && !IsGenerated(call.frames.back().text);
    });
  }

  // The line of the forward at `depth` that made the calls `first` to `last`.  A module whose
  // forward calls super().forward has a frame more.
  SourceFrame FrameOf(int64_t first, int64_t last, size_t depth) const {
    for (int64_t i = first; i <= last; ++i) {
      const AtenCall& call = calls_[Index(i)];
      const size_t below = call.scope.size() - (depth + 1);  // frames between
      const bool has_all = call.frames.size() >= call.scope.size();
      if (has_all) return call.frames[depth];
      if (below <= 1 && below < call.frames.size()) {
        return call.frames[call.frames.size() - 1 - below];
      }
    }
    return {};
  }

  // The module that is called at `i`, all turns of a loop having one: "model.blocks" of
  // "model.blocks.3"; "" for a call of the forward's own.
  std::string LoopKey(int64_t i, size_t depth) const {
    const auto& scope = calls_[Index(i)].scope;
    if (depth + 1 == scope.size()) return "";
    const std::string module = scope[depth + 1].substr(0, scope[depth + 1].find('@'));
    const size_t dot = module.find_last_not_of("0123456789");
    const bool is_numbered = dot != std::string::npos && module[dot] == '.';
    return is_numbered ? module.substr(0, dot) : module;
  }

  const std::vector<AtenCall>& calls_;
  const std::vector<std::vector<int64_t>>& ends_;
};

}  // namespace

std::vector<ModuleCall> FindModuleCalls(const std::vector<AtenCall>& calls,
                                        const std::vector<std::vector<int64_t>>& ends) {
  return StatementFinder(calls, ends).Find();
}

}  // namespace onnxfit
