#include "estimator/program/placement.h"

#include <map>
#include <string_view>
#include <utility>

namespace onnxfit {
namespace {

// A tensor and what is left of its path below the module in question.
struct Entry {
  size_t index = 0;
  std::string_view path;
};

void Place(const std::vector<Entry>& entries, std::vector<size_t>& order) {
  std::vector<std::vector<Entry>> children;
  std::map<std::string_view, size_t> child_of;
  std::vector<size_t> own;
  for (const Entry& entry : entries) {
    const size_t dot = entry.path.find('.');
    if (dot == std::string_view::npos) {
      own.push_back(entry.index);
      continue;
    }
    const auto [child, is_new] = child_of.emplace(entry.path.substr(0, dot), children.size());
    if (is_new) children.emplace_back();
    children[child->second].push_back({entry.index, entry.path.substr(dot + 1)});
  }
  for (const std::vector<Entry>& child : children) Place(child, order);
  order.insert(order.end(), own.begin(), own.end());
}

}  // namespace

std::vector<size_t> PlacementOrder(const std::vector<std::string>& names) {
  std::vector<Entry> entries;
  for (size_t i = 0; i < names.size(); ++i) entries.push_back({i, names[i]});
  std::vector<size_t> order;
  Place(entries, order);
  return order;
}

}  // namespace onnxfit
