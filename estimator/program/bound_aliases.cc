#include "estimator/program/bound_aliases.h"

#include <algorithm>
#include <map>
#include <string>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

class AliasFinder {
 public:
  AliasFinder(const NameBindings& bindings, const ModuleCall& module, ValueLives& lives)
      : bindings_(bindings), module_(module), lives_(lives) {}

  // `target`, by which `name` is read.
  void Follow(const std::string& target, NameId name) {
    const Statement* maker = bindings_.MakerOf(module_, name);
    if (maker == nullptr || maker->targets.empty()) return;
    const auto before = bound_.find(target);
    if (before != bound_.end() && before->second != name) {
      lives_.HoldBy(target, before->second, maker->last);
      bound_.erase(before);
    }
    if (std::ranges::find(maker->targets, target) == maker->targets.end()) bound_[target] = name;
  }

  void Return() {
    for (const auto& [target, name] : bound_) lives_.HoldBy(target, name, module_.last);
  }

 private:
  const NameBindings& bindings_;
  const ModuleCall& module_;
  ValueLives& lives_;
  std::map<std::string, NameId> bound_;
};

}  // namespace

void FollowAliases(const Program& program, const NameBindings& bindings, const ModuleCall& module,
                   ValueLives& lives) {
  AliasFinder finder(bindings, module, lives);
  for (const Statement& statement : module.statements) {
    if (statement.source == kNoStatement) continue;
    const AtenCall& call = program.calls[Index(statement.last)];
    const auto& [left, right] = program.source.At(statement.source).operands;
    if (statement.first != statement.last || call.inputs.size() != 2 || left.empty()) continue;
    finder.Follow(left, call.inputs[0]);
    finder.Follow(right, call.inputs[1]);
  }
  finder.Return();
}

}  // namespace onnxfit
