// The names that PyTorch gives to modules and their tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onnxfit {

// "model.layer1.0.conv1", the path of the innermost module of `scope`: a child of a
// Sequential repeats its parent's name, and the number of its call ("@1"), any other child does
// not.
std::string ModulePath(const std::vector<std::string>& scope);

// "layer1.0" and "conv1" of "layer1.0.conv1": a module and its child, or its tensor.  Both
// are `path` itself where it has no dot.  The child of a module's second call, "conv1@1", has
// the same name.
std::string_view ParentOf(std::string_view path);
std::string_view ChildOf(std::string_view path);

// "layer1.conv" of "layer1" and its child "conv"; "conv" where that is the outermost module's.
std::string ChildPath(std::string_view module, std::string_view child);

// Whether a child's name is a number, as lists and Sequentials call theirs.
bool IsNumbered(std::string_view name);

// Whether a module of a scope is a child of a ModuleList or a Sequential: "layers.3".
bool IsListed(std::string_view module);

// "encoder.layers.3" of "encoder.layers.3.linear1.bias": up to the last number; else "".
std::string_view NumberedLayer(std::string_view path);

// A module of a list: "layers.10".
struct ListTurn {
  std::string list;
  int64_t number = 0;

  std::string Path() const { return list + "." + std::to_string(number); }
  bool operator<(const ListTurn& other) const {
    return std::pair(list, number) < std::pair(other.list, other.number);
  }
};

// Those around "stages.1.blocks.10.conv.weight", from the outermost in, 64 at most; none of a
// number above 1,000,000.  O(length).
std::vector<ListTurn> TurnsAround(std::string_view path);

// `path`, of parts between dots or slashes, with `number` wherever it has that of `turn`.
// O(length).
std::string InTurn(std::string path, const ListTurn& turn, int64_t number);

// How many modules two scopes have in common, from the outermost in.
size_t SharedModules(const std::vector<std::string>& a, const std::vector<std::string>& b);

}  // namespace onnxfit
