#include "estimator/program/module_tensors.h"

#include <cstdint>
#include <limits>
#include <map>
#include <string_view>

#include "estimator/base/bytes.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

int64_t SumBytes(const std::vector<ModuleTensor>& tensors) {
  int64_t bytes = 0;
  for (const ModuleTensor& tensor : tensors) bytes = CheckedAdd(bytes, BytesOf(tensor.type));
  return bytes;
}

// --- Orders ---------------------------------------------------------------------------------

constexpr size_t kModule = std::numeric_limits<size_t>::max();

// A tensor, or a module, and what is left of its path below the module in question.
struct Entry {
  size_t index = 0;  // kModule of a module, whose path ends in a dot
  std::string_view path;
};

enum class Own : uint8_t { kFirst, kLast };

// `own_place`: where a module's own tensors stand, before or after those of its children.
// `depth`: how many modules are around.
void Place(const std::vector<Entry>& entries, Own own_place, size_t depth,
           std::vector<size_t>& order) {
  std::vector<std::vector<Entry>> children;
  std::map<std::string_view, size_t> child_of;
  std::vector<size_t> own;
  for (const Entry& entry : entries) {
    const size_t dot = entry.path.find('.');
    if (dot == std::string_view::npos || depth == kMostModuleDepth) {
      if (entry.index != kModule) own.push_back(entry.index);
      continue;
    }
    const auto [child, is_new] = child_of.emplace(entry.path.substr(0, dot), children.size());
    if (is_new) children.emplace_back();
    children[child->second].push_back({entry.index, entry.path.substr(dot + 1)});
  }
  if (own_place == Own::kFirst) order.insert(order.end(), own.begin(), own.end());
  for (const std::vector<Entry>& child : children) Place(child, own_place, depth + 1, order);
  if (own_place == Own::kLast) order.insert(order.end(), own.begin(), own.end());
}

std::vector<size_t> Ordered(const std::vector<std::string>& names,
                            const std::vector<std::string>& modules, Own own_place) {
  std::vector<std::string> paths;
  for (const std::string& module : modules) paths.push_back(module + ".");
  std::vector<Entry> entries;
  for (const std::string& path : paths) {
    if (path != ".") entries.push_back({kModule, path});
  }
  for (size_t i = 0; i < names.size(); ++i) entries.push_back({i, names[i]});
  std::vector<size_t> order;
  Place(entries, own_place, 0, order);
  return order;
}

}  // namespace

int64_t ModuleTensors::ParameterCount() const {
  int64_t count = 0;
  for (const ModuleTensor& tensor : parameters) count = CheckedAdd(count, Numel(tensor.type.dims));
  return count;
}

int64_t ModuleTensors::ParameterBytes() const { return SumBytes(parameters); }
int64_t ModuleTensors::BufferBytes() const { return SumBytes(buffers); }

std::vector<size_t> PlacementOrder(const std::vector<std::string>& names,
                                   const std::vector<std::string>& modules) {
  return Ordered(names, modules, Own::kLast);
}

std::vector<size_t> CopyOrder(const std::vector<std::string>& names,
                              const std::vector<std::string>& modules) {
  return Ordered(names, modules, Own::kFirst);
}

}  // namespace onnxfit
