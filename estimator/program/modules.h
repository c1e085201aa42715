// The modules around the calls of a program: a tree of ids, every path interned once; and the names
// that PyTorch gives to modules and their tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
    bool operator==(const Node&) const = default;
  };
  const Node& At(ModuleId module) const { return nodes_[static_cast<size_t>(module)]; }

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::map<std::pair<ModuleId, std::string>, ModuleId> ids_;
};

// --- Names ----------------------------------------------------------------------------------

// "model.layer1.0.conv1", the path of the innermost module of `scope`: a child of a
// Sequential repeats its parent's name, and the number of its call ("@1"), any other child does
// not.
std::string ModulePath(const std::vector<std::string>& scope);

// "layer1.0" and "conv1" of "layer1.0.conv1": a module and its child, or its tensor.  Both
// are `path` itself where it has no dot.  The child of a module's second call, "conv1@1", has
// the same name.
std::string_view ParentOf(std::string_view path);
std::string_view ChildOf(std::string_view path);

// Whether a child's name is a number, as lists and Sequentials call theirs.
bool IsNumbered(std::string_view name);

// Whether a module of a scope is a child of a ModuleList or a Sequential: "layers.3".
bool IsListed(std::string_view module);

// "encoder.layers.3" of "encoder.layers.3.linear1.bias": up to the last number; else "".
std::string_view NumberedLayer(std::string_view path);

// How many modules two scopes have in common, from the outermost in.
size_t SharedModules(const std::vector<std::string>& a, const std::vector<std::string>& b);

}  // namespace onnxfit
