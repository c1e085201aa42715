#include "estimator/recover/unread_tensors.h"

#include <utility>

namespace onnxfit {
namespace {

struct UnreadRow {
  std::string_view shows;  // a child of the module that no other library has so
  std::string_view lost;   // the child whose tensors are lost
};

// transformers 5.17, modeling_clip.py: CLIPVisionTransformer's last norm makes the pooled output,
// which a classifier of patches does not read (CLIPForImageClassification).
constexpr UnreadRow kUnreadRows[] = {{".pre_layrnorm", ".post_layernorm"}};
constexpr std::string_view kTensors[] = {".weight", ".bias"};

}  // namespace

std::vector<UnreadTensor> FindUnreadTensors(const std::set<std::string_view>& names) {
  std::vector<UnreadTensor> found;
  for (const std::string_view name : names) {
    for (const UnreadRow& row : kUnreadRows) {
      for (const std::string_view tensor : kTensors) {
        const std::string shown = std::string(row.shows) + std::string(tensor);
        if (!name.ends_with(shown)) continue;
        const std::string_view module = name.substr(0, name.size() - shown.size());
        std::string lost = std::string(module) + std::string(row.lost) + std::string(tensor);
        if (!names.contains(lost)) found.insert(found.begin(), {std::move(lost), module, name});
      }
    }
  }
  return found;
}

}  // namespace onnxfit
