#include "estimator/exporters/module_children.h"

#include <cstddef>

#include "estimator/base/module_names.h"

namespace onnxfit {

std::set<std::string> PathsOfModules(const ExporterMetadata& metadata) {
  std::set<std::string> paths;
  for (const NodeOrigin& origin : metadata.origins) {
    paths.insert(metadata.modules.PathOf(origin.module));
  }
  return paths;
}

std::map<std::string_view, std::set<std::string_view>> ChildrenOfModules(const BoundGraph& bound) {
  std::map<std::string_view, std::set<std::string_view>> children;
  for (size_t i = 0; i < bound.graph().nodes.size(); ++i) {
    std::string_view path = bound.metadata().PathOf(static_cast<NodeId>(i));
    while (!path.empty()) {
      const bool is_outermost = path.find('.') == std::string_view::npos;
      const std::string_view parent = is_outermost ? std::string_view() : ParentOf(path);
      if (!children[parent].insert(ChildOf(path)).second) break;
      path = parent;
    }
  }
  return children;
}

}  // namespace onnxfit
