#include "estimator/names/bound_aliases.h"

#include <algorithm>
#include <map>
#include <string>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

class AliasFinder {
 public:
  AliasFinder(const Program& program, const NameBindings& bindings, const ModuleCall& module,
              ValueLives& lives)
      : program_(program), bindings_(bindings), module_(module), lives_(lives) {}

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

  // "x" of "x.view(n)" and of "self.norm(x)", whose first call reads `name`: unless the line has a
  // name that it is known by.
  void FollowFirst(const SourceStatement& line, NameId name) {
    const std::string& target = line.receiver.empty() ? line.passes : line.receiver;
    const Statement* maker = bindings_.MakerOf(module_, name);
    if (target.empty() || line.is_tail || maker == nullptr) return;
    const auto is_read = [&](const std::string& known) { return line.MayPassOn(known); };
    if (std::ranges::none_of(maker->targets, is_read)) Follow(target, name);
  }

  // "residual" of "x = self.drop(x) + residual", whose last call is `sum`.
  void FollowTerms(const SourceStatement& line, const AtenCall& sum) {
    if (sum.op != "add" || sum.inputs.size() != 2) return;
    if (!line.terms.first.empty()) Follow(line.terms.first, sum.inputs[0]);
    if (!line.terms.second.empty()) Follow(line.terms.second, sum.inputs[1]);
    FollowScaled(line.scaled_terms.first, sum.inputs[0]);
    FollowScaled(line.scaled_terms.second, sum.inputs[1]);
  }

  // "residual" of "residual * self.scale", which makes `product`.
  void FollowScaled(const std::string& target, NameId product) {
    const int64_t maker = target.empty() ? ValueLives::kBeforeAll : lives_.BornAt(product);
    if (maker == ValueLives::kBeforeAll) return;
    const AtenCall& call = program_.calls[Index(maker)];
    if (call.op == "mul.Scalar") Follow(target, call.inputs[0]);
  }

  // What `statement` binds anew held its value until then.
  void Rebind(const Statement& statement) {
    for (const std::string& target : statement.targets) {
      const auto before = bound_.find(target);
      if (before == bound_.end()) continue;
      lives_.HoldBy(target, before->second, statement.last);
      bound_.erase(before);
    }
  }

  void Return() {
    for (const auto& [target, name] : bound_) lives_.HoldBy(target, name, module_.last);
  }

 private:
  const Program& program_;
  const NameBindings& bindings_;
  const ModuleCall& module_;
  ValueLives& lives_;
  std::map<std::string, NameId> bound_;
};

}  // namespace

void FollowAliases(const Program& program, const NameBindings& bindings, const ModuleCall& module,
                   ValueLives& lives) {
  AliasFinder finder(program, bindings, module, lives);
  for (const Statement& statement : module.statements) {
    if (statement.source == kNoStatement) continue;
    const AtenCall& call = program.calls[Index(statement.first)];
    const SourceStatement& line = program.source.At(statement.source);
    const auto& [left, right] = line.operands;
    if (statement.first == statement.last && call.inputs.size() == 2 && !left.empty()) {
      finder.Follow(left, call.inputs[0]);
      finder.Follow(right, call.inputs[1]);
    } else if (!call.inputs.empty() && !statement.is_hidden) {
      finder.FollowFirst(line, call.inputs[0]);
      finder.FollowTerms(line, program.calls[Index(statement.last)]);
    }
    finder.Rebind(statement);
  }
  finder.Return();
}

}  // namespace onnxfit
