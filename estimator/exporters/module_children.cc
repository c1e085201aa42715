#include "estimator/exporters/module_children.h"

#include <cstddef>
#include <unordered_set>
#include <vector>

#include "estimator/base/module_names.h"

namespace onnxfit {

namespace {

// Each once.
std::vector<ModuleId> ModulesWithNodes(const ExporterMetadata& metadata) {
  std::unordered_set<ModuleId> seen;
  std::vector<ModuleId> modules;
  for (const NodeOrigin& origin : metadata.origins) {
    if (seen.insert(origin.module).second) modules.push_back(origin.module);
  }
  return modules;
}

}  // namespace

std::set<std::string> PathsOfModules(const ExporterMetadata& metadata) {
  std::set<std::string> paths;
  for (const ModuleId module : ModulesWithNodes(metadata)) {
    paths.insert(metadata.modules.PathOf(module));
  }
  return paths;
}

std::map<std::string_view, std::set<std::string_view>> ChildrenOfModules(const BoundGraph& bound) {
  std::map<std::string_view, std::set<std::string_view>> children;
  for (const ModuleId module : ModulesWithNodes(bound.metadata())) {
    std::string_view path = bound.metadata().modules.PathOf(module);
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
