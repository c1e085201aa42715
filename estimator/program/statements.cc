#include "estimator/program/statements.h"

#include <algorithm>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/program/scopes.h"
#include "estimator/program/source_text.h"

namespace onnxfit {
namespace {

class Finder {
 public:
  Finder(const std::vector<AtenCall>& calls, const std::vector<std::vector<int64_t>>& ends)
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
      const bool turns = std::find(called.begin(), called.end(), key) != called.end();
      if (!module.statements.empty() && !turns && statement.line != 0 &&
          statement.line == module.statements.back().line) {
        module.statements.back().last = statement.last;
      } else {
        module.statements.push_back(std::move(statement));
        called.clear();
      }
      if (!key.empty()) called.push_back(key);
    }
    return module;
  }

  // The statement that call `first` is the first of: a call of its own or of a module.
  Statement StatementOf(int64_t first, size_t depth) const {
    const auto& ends = ends_[Index(first)];
    const int64_t last = depth + 1 < ends.size() ? ends[depth + 1] : first;
    const SourceFrame frame = FrameOf(first, last, depth);
    return {first, last, frame.line, TargetsOf(frame.text), frame.text.starts_with("return ")};
  }

  // The line of the forward at `depth` that made the calls `first` to `last`.
  SourceFrame FrameOf(int64_t first, int64_t last, size_t depth) const {
    for (int64_t i = first; i <= last; ++i) {
      const AtenCall& call = calls_[Index(i)];
      const size_t below = call.scope.size() - (depth + 1);  // frames between
      const bool has_all = call.frames.size() == call.scope.size();
      if ((below > 1 && !has_all) || below >= call.frames.size()) continue;
      return call.frames[call.frames.size() - 1 - below];
    }
    return {};
  }

  // The module that is called at `i`, all turns of a loop having one: "model.blocks" of
  // "model.blocks.3"; "" for a call of the forward's own.
  std::string LoopKey(int64_t i, size_t depth) const {
    const auto& scope = calls_[Index(i)].scope;
    if (depth + 1 == scope.size()) return "";
    const std::string& module = scope[depth + 1];
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
  return Finder(calls, ends).Find();
}

}  // namespace onnxfit
