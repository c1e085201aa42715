#include "estimator/fit/module_sums.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/fit/owners.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

struct ModuleNode {
  ModuleSum own;  // without children
  std::vector<std::pair<std::string, size_t>> children = {};
};

// "h" and "0.attn" of "h.0.attn".  The number of a module's call ("conv1@1") is no part of it.
std::pair<std::string_view, std::string_view> SplitFirst(std::string_view path) {
  const size_t dot = path.find('.');
  const std::string_view first = path.substr(0, dot);
  const std::string_view rest = dot == path.npos ? "" : path.substr(dot + 1);
  return {first.substr(0, first.find('@')), rest};
}

// `part` `times` more.
void Add(const ModuleSum& part, int64_t times, ModuleSum& sum) {
  sum.parameters += times * part.parameters;
  sum.weight_bytes += times * part.weight_bytes;
  sum.training_bytes += times * part.training_bytes;
  sum.activation_bytes += times * part.activation_bytes;
  sum.other_bytes += times * part.other_bytes;
}

class ModuleSums {
 public:
  ModuleSums() { nodes_.emplace_back(); }

  ModuleSum& At(std::string_view path) {
    size_t node = 0;
    for (size_t depth = 0; !path.empty() && depth < kMostModuleDepth; ++depth) {
      const auto [name, rest] = SplitFirst(path);
      node = Child(node, name);
      path = rest;
    }
    return nodes_[node].own;
  }

  std::vector<ModuleSum> List() {
    std::vector<ModuleSum> sums;
    Append(0, "", 0, sums);
    return sums;
  }

 private:
  size_t Child(size_t parent, std::string_view name) {
    for (const auto& [child, node] : nodes_[parent].children) {
      if (child == name) return node;
    }
    nodes_.emplace_back();
    nodes_[parent].children.emplace_back(name, nodes_.size() - 1);
    return nodes_.size() - 1;
  }

  void Append(size_t node, const std::string& path, size_t depth, std::vector<ModuleSum>& sums) {
    const size_t place = sums.size();
    sums.push_back(nodes_[node].own);
    sums[place].path = path;
    sums[place].depth = depth;
    const bool is_wrapper = node == 0 && IsWrapper(nodes_[node]);
    for (const auto& [name, child] : nodes_[node].children) {
      if (is_wrapper) {
        AppendWrapped(child, sums);
        continue;
      }
      const size_t first = sums.size();
      Append(child, path.empty() ? name : path + "." + name, depth + 1, sums);
      Add(sums[first], 1, sums[place]);
    }
  }

  // Of "model.conv1" and "model.fc", "model" is the model itself.
  bool IsWrapper(const ModuleNode& node) const {
    return node.children.size() == 1 && !nodes_[node.children[0].second].children.empty();
  }

  void AppendWrapped(size_t child, std::vector<ModuleSum>& sums) {
    std::vector<ModuleSum> inner;
    Append(child, "", 0, inner);
    Add(inner[0], 1, sums[0]);
    sums.insert(sums.end(), std::make_move_iterator(inner.begin() + 1),
                std::make_move_iterator(inner.end()));
  }

  std::deque<ModuleNode> nodes_;  // the model first
};

int64_t& BytesFor(Kind kind, ModuleSum& sum) {
  switch (kind) {
    case Kind::kParameter:
    case Kind::kBuffer:
      return sum.weight_bytes;
    case Kind::kGradient:
    case Kind::kOptimizerState:
      return sum.training_bytes;
    case Kind::kActivation:
    case Kind::kTemporary:
      return sum.activation_bytes;
    case Kind::kInput:
    case Kind::kWorkspace:
      break;
  }
  return sum.other_bytes;
}

}  // namespace

std::vector<ModuleSum> SumModules(const Prediction& prediction, const Timeline& timeline) {
  const Owners owners(prediction);
  ModuleSums sums;
  for (const LiveBuffer& live : timeline.live_at_peak) {
    const Buffer& buffer = prediction.trace.buffers[Index(live.buffer)];
    ModuleSum& sum = sums.At(owners.Of(live).module);
    BytesFor(live.kind, sum) += buffer.bytes;
    if (live.kind == Kind::kParameter) sum.parameters += Numel(buffer.dims);
  }
  return sums.List();
}

size_t EndOfModule(const std::vector<ModuleSum>& modules, size_t place) {
  size_t end = place + 1;
  while (end < modules.size() && modules[end].depth > modules[place].depth) ++end;
  return end;
}

std::vector<size_t> ModulesIn(const std::vector<ModuleSum>& modules, size_t place) {
  std::vector<size_t> inside;
  for (size_t i = place + 1; i < modules.size() && modules[i].depth > modules[place].depth; ++i) {
    if (modules[i].depth == modules[place].depth + 1) inside.push_back(i);
  }
  return inside;
}

ModuleSum OwnOf(const std::vector<ModuleSum>& modules, size_t place) {
  ModuleSum own = modules[place];
  for (const size_t inside : ModulesIn(modules, place)) Add(modules[inside], -1, own);
  return own;
}

namespace {

// Whether they are the items of a list: what one takes, each takes.
bool AreNumbered(const std::vector<ModuleSum>& modules, const std::vector<size_t>& places) {
  return std::ranges::all_of(places, [&](size_t place) {
    const std::string_view path = modules[place].path;
    return IsNumbered(path.substr(path.rfind('.') + 1));
  });
}

}  // namespace

std::vector<ModuleSum> LargestModules(const std::vector<ModuleSum>& modules, size_t most) {
  if (modules.empty()) return {};
  const auto bytes = [&](size_t place) { return modules[place].bytes(); };
  std::vector<size_t> chosen = ModulesIn(modules, 0);
  while (!chosen.empty()) {
    const auto largest = std::ranges::max_element(chosen, {}, bytes);
    const std::vector<size_t> inside = ModulesIn(modules, *largest);
    int64_t of_inside = 0;
    for (const size_t place : inside) of_inside += bytes(place);
    const bool is_split = bytes(*largest) > bytes(0) / 2 && of_inside > bytes(*largest) / 2 &&
                          !AreNumbered(modules, inside);
    if (!is_split) break;
    chosen.erase(largest);
    chosen.insert(chosen.end(), inside.begin(), inside.end());
  }
  std::erase_if(chosen, [&](size_t place) { return bytes(place) == 0; });
  std::ranges::stable_sort(chosen, std::ranges::greater(), bytes);
  std::vector<ModuleSum> sums;
  for (size_t i = 0; i < std::min(most, chosen.size()); ++i) sums.push_back(modules[chosen[i]]);
  return sums;
}

}  // namespace onnxfit
