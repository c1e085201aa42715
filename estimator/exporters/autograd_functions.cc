#include "estimator/exporters/autograd_functions.h"

#include <algorithm>
#include <map>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

std::string_view FunctionAround(const ExporterMetadata& metadata, NodeId node) {
  const NodeLines& lines = metadata.LinesOf(node);
  if (!lines.lines.empty()) return FunctionOf(lines.lines.back().file, lines.lines.back().text);
  return FunctionOfModule(ChildOf(metadata.PathOf(node)));
}

}  // namespace

std::vector<FunctionBody> FindFunctionBodies(const BoundGraph& bound) {
  const ExporterMetadata& metadata = bound.metadata();
  std::map<ModuleId, FunctionBody> bodies;
  for (size_t i = 0; i < bound.graph().nodes.size(); ++i) {
    const auto node = static_cast<NodeId>(i);
    if (bound.At(node).op_type == "Constant") continue;
    const std::string_view op = FunctionAround(metadata, node);
    if (op.empty()) continue;
    FunctionBody& body = bodies[metadata.ModuleOf(node)];
    body.op = op;
    body.nodes.push_back(node);
  }
  std::vector<FunctionBody> found;
  for (auto& [module, body] : bodies) found.push_back(std::move(body));
  return found;
}

}  // namespace onnxfit
