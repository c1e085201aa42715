#include "estimator/base/interned.h"

#include <functional>
#include <mutex>
#include <string>
#include <unordered_set>

namespace onnxfit {
namespace {

struct Hash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

}  // namespace

std::string_view Interned(std::string_view text) {
  static std::mutex mutex;
  static std::unordered_set<std::string, Hash, std::equal_to<>> names;
  if (text.empty()) return {};
  const std::lock_guard lock(mutex);
  const auto found = names.find(text);
  return found != names.end() ? *found : *names.emplace(text).first;
}

}  // namespace onnxfit
