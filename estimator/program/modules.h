// The modules around the calls of a program: a tree of ids, every path interned once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/module_names.h"

namespace onnxfit {

using ModuleId = int32_t;                // index into a ModuleTree
inline constexpr ModuleId kOutside = 0;  // of all modules: the training loop's own

// No model has modules this deep: what a file names deeper is no module, and a walk down stops
// there.
inline constexpr size_t kMostModuleDepth = 64;

// A module has levels around it: 0 is the model's own forward, its depth - 1 that of itself.
class ModuleTree {
 public:
  // `name` as the forward of `caller` calls it: "m.conv"; "m.conv@1" for its second run, where
  // runs are told apart.  O(log modules).
  ModuleId Enter(ModuleId caller, std::string_view name);
  // The same where it was entered before, else nullopt.
  std::optional<ModuleId> Find(ModuleId caller, std::string_view name) const;
  // Enters modules from the outermost in.
  ModuleId Enter(const std::vector<std::string>& names);

  // How many modules are around a call in `module`, it among them; 0 outside.
  size_t DepthOf(ModuleId module) const { return At(module).depth; }
  ModuleId CallerOf(ModuleId module) const { return At(module).caller; }
  const std::string& NameOf(ModuleId module) const { return At(module).name; }
  // "model.layer1.0.conv1": see ModulePath.  "" outside.
  const std::string& PathOf(ModuleId module) const { return At(module).path; }

  // "transformers.models.dpt.modeling_dpt.DPTViTLayer", "" where the file does not say.
  const std::string& ClassOf(ModuleId module) const { return At(module).class_name; }
  void SetClass(ModuleId module, std::string_view class_name) {
    nodes_[static_cast<size_t>(module)].class_name = class_name;
  }

  // REQUIRES: level < DepthOf(module).  O(depth).
  ModuleId AtLevel(ModuleId module, size_t level) const;
  const std::string& NameAt(ModuleId module, size_t level) const {
    return NameOf(AtLevel(module, level));
  }
  // The innermost that is around both, kOutside where none is.  O(depth).
  ModuleId Common(ModuleId a, ModuleId b) const;
  // How many modules are around both.  O(depth).
  size_t Shared(ModuleId a, ModuleId b) const { return DepthOf(Common(a, b)); }
  // From the outermost in.  O(depth).
  std::vector<std::string> NamesOf(ModuleId module) const;

  bool operator==(const ModuleTree& other) const { return nodes_ == other.nodes_; }

 private:
  struct Node {
    ModuleId caller = kOutside;
    size_t depth = 0;
    std::string name = {};
    std::string path = {};
    std::string class_name = {};
    bool operator==(const Node&) const = default;
  };
  const Node& At(ModuleId module) const { return nodes_[static_cast<size_t>(module)]; }

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::map<std::pair<ModuleId, std::string>, ModuleId> ids_;
};

}  // namespace onnxfit
