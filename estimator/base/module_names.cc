#include "estimator/base/module_names.h"

#include <charconv>

namespace onnxfit {
namespace {

constexpr size_t kMostDigits = 6;
constexpr size_t kMostTurns = 64;  // around one module

}  // namespace

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

std::string ChildPath(std::string_view module, std::string_view child) {
  return module.empty() ? std::string(child) : std::string(module) + "." + std::string(child);
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

std::vector<ListTurn> TurnsAround(std::string_view path) {
  std::vector<ListTurn> turns;
  for (size_t dot = path.find('.'); dot != path.npos; dot = path.find('.', dot + 1)) {
    const std::string_view part = path.substr(dot + 1, path.find('.', dot + 1) - dot - 1);
    if (!IsNumbered(part) || part.size() > kMostDigits) continue;
    if (turns.size() == kMostTurns) break;
    ListTurn turn = {std::string(path.substr(0, dot))};
    std::from_chars(part.data(), part.data() + part.size(), turn.number);
    turns.push_back(std::move(turn));
  }
  return turns;
}

std::string InTurn(std::string path, const ListTurn& turn, int64_t number) {
  const std::string text = turn.Path();
  const std::string other = ListTurn{turn.list, number}.Path();
  for (size_t at = path.find(text); at != path.npos; at = path.find(text, at + other.size())) {
    const size_t end = at + text.size();
    const bool begins = at == 0 || path[at - 1] == '/' || path[at - 1] == '.';
    const bool ends = end == path.size() || path[end] == '/' || path[end] == '.';
    if (begins && ends) path.replace(at, text.size(), other);
  }
  return path;
}

size_t SharedModules(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  size_t shared = 0;
  while (shared < a.size() && shared < b.size() && a[shared] == b[shared]) ++shared;
  return shared;
}

}  // namespace onnxfit
