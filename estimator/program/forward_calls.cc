#include "estimator/program/forward_calls.h"

#include <algorithm>

namespace onnxfit {
namespace {

bool CallsForward(std::string_view line) {
  return line.find(".forward(") != line.npos && line.find("super()") == line.npos &&
         line.find(".forward(self,") == line.npos;
}

// "m.layers.0" of "m.layers.0.attn" and "m.layers.0.blocks.1".
std::string_view PathAround(std::string_view path) {
  const auto without_last = [&] { return path.substr(0, std::min(path.rfind('.'), path.size())); };
  const std::string_view last = path.substr(path.rfind('.') + 1);
  const bool is_numbered = !last.empty() && last.find_first_not_of("0123456789") == last.npos;
  path = without_last();
  return is_numbered ? without_last() : path;
}

}  // namespace

std::string_view ModuleCalledByForward(std::string_view path, std::string_view next,
                                       std::string_view line) {
  if (!CallsForward(line)) return {};
  const std::string_view parent = PathAround(next);
  const bool is_between = parent.size() > path.size() && parent.starts_with(path);
  return is_between ? parent : std::string_view();
}

}  // namespace onnxfit
