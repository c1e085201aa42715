#include "estimator/recover/unread_tensors.h"

#include <fmt/format.h>

#include <utility>

#include "estimator/program/libraries.h"

namespace onnxfit {
namespace {

constexpr std::string_view kTensors[] = {".weight", ".bias"};

}  // namespace

std::vector<UnreadTensor> FindUnreadTensors(const std::set<std::string_view>& names) {
  std::vector<UnreadTensor> found;
  for (const std::string_view name : names) {
    for (const UnreadChild& row : UnreadChildren()) {
      for (const std::string_view tensor : kTensors) {
        const std::string shown = fmt::format(".{}{}", row.shows, tensor);
        if (!name.ends_with(shown)) continue;
        const std::string_view module = name.substr(0, name.size() - shown.size());
        std::string lost = fmt::format("{}.{}{}", module, row.lost, tensor);
        if (!names.contains(lost)) found.insert(found.begin(), {std::move(lost), module, name});
      }
    }
  }
  return found;
}

}  // namespace onnxfit
