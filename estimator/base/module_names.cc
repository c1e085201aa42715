#include "estimator/base/module_names.h"

namespace onnxfit {

std::string ModulePath(const std::vector<std::string>& scope) {
  std::string path;
  std::string_view parent;
  for (std::string_view module : scope) {
    const std::string_view whole = module;
    const std::string_view name = parent.substr(0, parent.rfind('@'));
    const std::string_view number = parent.substr(name.size());
    const bool repeats =
        !name.empty() && module.starts_with(name) && module.substr(name.size()).starts_with('.');
    if (repeats) module.remove_prefix(name.size() + 1);
    if (repeats && module.ends_with(number)) module.remove_suffix(number.size());
    if (!path.empty()) path += '.';
    path += module;
    parent = whole;
  }
  return path;
}

std::string_view ParentOf(std::string_view path) { return path.substr(0, path.rfind('.')); }

std::string_view ChildOf(std::string_view path) {
  const std::string_view child = path.substr(path.rfind('.') + 1);
  return child.substr(0, child.find('@'));
}

bool IsNumbered(std::string_view name) {
  return !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
}

bool IsListed(std::string_view module) {
  const size_t dot = module.rfind('.');
  return dot != std::string_view::npos && IsNumbered(module.substr(dot + 1));
}

std::string_view NumberedLayer(std::string_view path) {
  for (size_t end = path.rfind('.'); end != std::string_view::npos && end > 0;) {
    const size_t dot = path.rfind('.', end - 1);
    const size_t start = dot == std::string_view::npos ? 0 : dot + 1;
    const std::string_view part = path.substr(start, end - start);
    if (IsNumbered(part)) return path.substr(0, end);
    end = dot;
  }
  return "";
}

size_t SharedModules(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  size_t shared = 0;
  while (shared < a.size() && shared < b.size() && a[shared] == b[shared]) ++shared;
  return shared;
}

}  // namespace onnxfit
