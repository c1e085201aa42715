#include "estimator/lost/module_casts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/exporters/module_children.h"
#include "estimator/libraries/module_casts.h"

namespace onnxfit {
namespace {

class ModuleCastFinder {
 public:
  explicit ModuleCastFinder(const BoundGraph& bound)
      : bound_(bound), children_(ChildrenOfModules(bound)) {}

  std::vector<LostCall> Find() {
    for (NodeId id = 0; id < static_cast<NodeId>(bound_.graph().nodes.size()); ++id) {
      const auto module = children_.find(bound_.metadata().PathOf(id));
      if (module == children_.end() || !IsNamedByTorchScript(bound_.At(id))) continue;
      for (const ModuleCast& row : ModuleCasts()) {
        if (bound_.At(id).op_type != row.op_type || !HasChildrenOf(row, module->second)) continue;
        row.is_result ? AddBehind(id, module->first) : AddBefore(id, module->first);
      }
    }
    return std::move(calls_);
  }

  std::set<std::string> Modules() const {
    std::set<std::string> modules;
    for (const auto& [path, children] : children_) {
      const auto& names = children;
      const auto casts = [&](const ModuleCast& row) { return HasChildrenOf(row, names); };
      if (std::ranges::any_of(ModuleCasts(), casts)) modules.emplace(path);
    }
    return modules;
  }

 private:
  // What the module has cast, it reads again as it is: "out = q @ (k.transpose(-1, -2) @ v)".
  void AddBefore(NodeId id, std::string_view module) {
    for (const ValueId value : bound_.At(id).inputs) {
      if (value == kNoValue || cast_.contains(value)) continue;
      read_.try_emplace(module, value);
      calls_.push_back({.before = id,
                        .input = value,
                        .name = fmt::format("{}.float", bound_.NameOf(value)),
                        .op = "to.inline"});
    }
    for (const ValueId made : bound_.At(id).outputs) cast_.insert(made);
  }

  void AddBehind(NodeId id, std::string_view module) {
    const auto read = read_.find(module);
    if (read == read_.end()) return;
    const ValueId made = bound_.At(id).outputs[0];
    calls_.push_back({.input = made,
                      .name = fmt::format("{}.cast", bound_.NameOf(made)),
                      .op = "type_as.inline",
                      .behind = id,
                      .caller = bound_.metadata().ModuleOf(id)});
    calls_.back().like = read->second;
  }

  const BoundGraph& bound_;
  std::map<std::string_view, std::set<std::string_view>> children_;
  std::map<std::string_view, ValueId> read_;  // by module: what its first cast is of
  std::set<ValueId> cast_;                    // what is made of casts
  std::vector<LostCall> calls_;
};

}  // namespace

std::vector<LostCall> FindModuleCasts(const BoundGraph& bound) {
  return ModuleCastFinder(bound).Find();
}

std::set<std::string> FindModulesThatCast(const BoundGraph& bound) {
  const bool is_shown = bound.metadata().lines.size() > 1;
  return is_shown ? std::set<std::string>() : ModuleCastFinder(bound).Modules();
}

}  // namespace onnxfit
