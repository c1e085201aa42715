#include "estimator/lost/generated_bodies.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "estimator/base/index.h"
#include "estimator/exporters/autograd_functions.h"
#include "estimator/exporters/call_parts.h"
#include "estimator/exporters/module_children.h"
#include "estimator/libraries/libraries.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

// By how their names begin: calls that autocast runs in 16 bits, and those in 32 for which models
// disable it.
// Source: aten/src/ATen/autocast_mode.h, AT_FORALL_LOWER_PRECISION_FP and AT_FORALL_FP32, pytorch
// v2.11.0.
constexpr std::string_view kCastCalls[] = {"conv",       "linear",
                                           "matmul",     "mm",
                                           "mv",         "bmm",
                                           "addmm",      "baddbmm",
                                           "einsum",     "pow",
                                           "softmax",    "layer_norm",
                                           "group_norm", "scaled_dot_product_attention"};

bool IsCast(std::string_view target) {
  const std::string_view name = NameInTarget(target);
  const bool is_view = name == "expand" || name == "expand_as";
  return !is_view && std::ranges::any_of(
                         kCastCalls, [&](std::string_view call) { return name.starts_with(call); });
}

// What nobody runs with autocast disabled: encoders of convolutions that are not trained
// (PeAudioEncoderEmbedder, transformers 5.17.0), and power iterations of spectral norms
// (torch/nn/utils/parametrizations.py, v2.11.0).
bool IsUntrained(std::string_view target) {
  const std::string_view name = NameInTarget(target);
  return name.starts_with("conv") || name == "mv";
}

std::vector<bool> FindGeneratedNodes(const ExporterMetadata& metadata) {
  std::vector<bool> is_generated;  // by index of lines, which nodes share
  for (const NodeLines& lines : metadata.lines) is_generated.push_back(IsGenerated(lines.text));
  std::vector<bool> found;
  for (const NodeOrigin& origin : metadata.origins) {
    found.push_back(is_generated[Index(origin.lines)]);
  }
  return found;
}

// Files without lines show them by their names.
void AddRotaryEmbeddings(const ExporterMetadata& metadata, std::set<std::string>& modules) {
  for (const NodeOrigin& origin : metadata.origins) {
    const std::string& path = metadata.modules.PathOf(origin.module);
    if (IsRotaryEmbedding(ChildOf(path))) modules.insert(path);
  }
}

// What a library runs under torch.no_grad(), in files without lines.
void AddUntrackedChildren(const BoundGraph& bound, std::vector<bool>& without_grad) {
  std::set<std::string> paths;
  for (const auto& [module, children] : ChildrenOfModules(bound)) {
    for (const UntrackedChild& row : UntrackedChildren()) {
      if (!children.contains(row.child) || !children.contains(row.beside)) continue;
      paths.insert(fmt::format("{}{}{}", module, module.empty() ? "" : ".", row.child));
    }
  }
  for (size_t i = 0; i < without_grad.size() && !paths.empty(); ++i) {
    const auto node = static_cast<NodeId>(i);
    const std::string& path = bound.metadata().PathOf(node);
    const bool is_below = std::ranges::any_of(
        paths, [&](const std::string& child) { return (path + '.').starts_with(child + '.'); });
    if (is_below && bound.metadata().LinesOf(node).text.empty()) without_grad[i] = true;
  }
}

}  // namespace

GeneratedBodies FindGeneratedBodies(const BoundGraph& bound) {
  const ExporterMetadata& metadata = bound.metadata();
  GeneratedBodies bodies;
  bodies.without_grad = FindGeneratedNodes(metadata);
  std::vector<bool>& found = bodies.without_grad;
  std::set<std::string> untrained;
  for (size_t i = 0; i < found.size(); ++i) {
    const auto node = static_cast<NodeId>(i);
    if (!found[i]) continue;
    const std::string_view target = metadata.TargetOf(node);
    if (IsCast(target)) bodies.outside_autocast.insert(metadata.PathOf(node));
    if (IsUntrained(target)) untrained.insert(metadata.PathOf(node));
  }
  for (const std::string& path : untrained) bodies.outside_autocast.erase(path);
  for (size_t i = 0; i < found.size(); ++i) {
    found[i] =
        found[i] && !bodies.outside_autocast.contains(metadata.PathOf(static_cast<NodeId>(i)));
  }
  for (const FunctionBody& body : FindFunctionBodies(bound)) {
    for (const NodeId node : body.nodes) found[Index(node)] = node != body.nodes.back();
  }
  AddUntrackedChildren(bound, found);
  AddRotaryEmbeddings(metadata, bodies.outside_autocast);
  return bodies;
}

}  // namespace onnxfit
