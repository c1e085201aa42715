#include "estimator/program/scopes.h"

#include <algorithm>
#include <string_view>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

constexpr size_t kMaxScopeDepth = 64;  // deeper than any model: such names are no module paths
constexpr std::string_view kScopesKey = "pkg.torch.onnx.name_scopes";
constexpr std::string_view kClassKey = "pkg.torch.onnx.class_hierarchy";

// The parts of "/a/b/c", all but the last.
std::vector<std::string> PartsOf(std::string_view path) {
  std::vector<std::string> parts;
  path.remove_prefix(1);
  for (size_t end = path.find('/'); end != std::string_view::npos; end = path.find('/')) {
    parts.emplace_back(path.substr(0, end));
    path.remove_prefix(end + 1);
  }
  return parts;
}

// A list of strings as Python prints it.
std::vector<std::string> PythonList(std::string_view text) {
  std::vector<std::string> items;
  for (size_t open = text.find('\''); open != std::string_view::npos; open = text.find('\'')) {
    text.remove_prefix(open + 1);
    const size_t close = text.find('\'');
    items.emplace_back(text.substr(0, close));
    if (close == std::string_view::npos) break;
    text.remove_prefix(close + 1);
  }
  return items;
}

std::vector<std::string> ScopeOfName(std::string_view name) {
  const auto depth = static_cast<size_t>(std::count(name.begin(), name.end(), '/'));
  return name.starts_with('/') && depth <= kMaxScopeDepth ? PartsOf(name)
                                                          : std::vector<std::string>();
}

}  // namespace

std::vector<std::string> ScopeOf(const Graph& graph, NodeId id) {
  const Node& node = graph.nodes[Index(id)];
  std::vector<std::string> scope = PythonList(FindMetadata(node.metadata, kScopesKey));
  if (scope.size() > kMaxScopeDepth) return {};
  if (!scope.empty()) {
    scope.pop_back();
    return scope;
  }
  scope = ScopeOfName(node.name);
  if (!scope.empty() || node.outputs.empty() || node.outputs[0] == kNoValue) return scope;
  return ScopeOfName(graph.values[Index(node.outputs[0])].name);
}

// The last item is the operator.
std::vector<std::string> ClassesOf(const Node& node) {
  std::vector<std::string> classes = PythonList(FindMetadata(node.metadata, kClassKey));
  if (!classes.empty()) classes.pop_back();
  return classes;
}

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

bool IsComputedName(std::string_view name) {
  return name.starts_with("onnx::") || name.starts_with('/');
}

bool IsLifted(std::string_view name) { return ChildOf(name).starts_with("lifted_tensor_"); }

std::string_view ParentOf(std::string_view path) { return path.substr(0, path.rfind('.')); }

std::string_view ChildOf(std::string_view path) {
  const std::string_view child = path.substr(path.rfind('.') + 1);
  return child.substr(0, child.find('@'));
}

bool IsListed(std::string_view module) {
  const size_t dot = module.rfind('.');
  return dot != std::string_view::npos &&
         module.find_first_not_of("0123456789", dot + 1) == std::string_view::npos;
}

std::string_view NumberedLayer(std::string_view path) {
  for (size_t end = path.rfind('.'); end != std::string_view::npos && end > 0;) {
    const size_t dot = path.rfind('.', end - 1);
    const size_t start = dot == std::string_view::npos ? 0 : dot + 1;
    const std::string_view part = path.substr(start, end - start);
    if (part.find_first_not_of("0123456789") == std::string_view::npos) return path.substr(0, end);
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
