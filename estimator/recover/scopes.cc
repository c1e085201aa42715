#include "estimator/recover/scopes.h"

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

bool IsComputedName(std::string_view name) {
  return name.starts_with("onnx::") || name.starts_with('/');
}

bool IsLifted(std::string_view name) { return ChildOf(name).starts_with("lifted_tensor_"); }

}  // namespace onnxfit
