#include "estimator/program/modules.h"

#include <algorithm>

namespace onnxfit {

ModuleId ModuleTree::Enter(ModuleId caller, std::string_view name) {
  const auto next = static_cast<ModuleId>(nodes_.size());
  const auto [found, is_new] = ids_.try_emplace({caller, std::string(name)}, next);
  if (is_new) {
    std::vector<std::string> names = NamesOf(caller);
    names.emplace_back(name);
    nodes_.push_back({caller, names.size(), std::string(name), ModulePath(names)});
  }
  return found->second;
}

std::optional<ModuleId> ModuleTree::Find(ModuleId caller, std::string_view name) const {
  const auto found = ids_.find({caller, std::string(name)});
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

ModuleId ModuleTree::Enter(const std::vector<std::string>& names) {
  ModuleId module = kOutside;
  for (const std::string& name : names) module = Enter(module, name);
  return module;
}

ModuleId ModuleTree::AtLevel(ModuleId module, size_t level) const {
  while (DepthOf(module) > level + 1) module = CallerOf(module);
  return module;
}

ModuleId ModuleTree::Common(ModuleId a, ModuleId b) const {
  while (a != b) {
    if (DepthOf(a) >= DepthOf(b)) {
      a = CallerOf(a);
    } else {
      b = CallerOf(b);
    }
  }
  return a;
}

std::vector<std::string> ModuleTree::NamesOf(ModuleId module) const {
  std::vector<std::string> names;
  for (; module != kOutside; module = CallerOf(module)) names.push_back(NameOf(module));
  std::ranges::reverse(names);
  return names;
}

}  // namespace onnxfit
