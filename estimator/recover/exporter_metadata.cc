#include "estimator/recover/exporter_metadata.h"

#include <string_view>
#include <unordered_map>
#include <utility>

#include "estimator/base/index.h"

namespace onnxfit {

const FxNode* ExporterMetadata::CallOf(NodeId node) const {
  const int32_t group = group_of[Index(node)];
  return group < 0 ? nullptr : &groups[Index(group)].call;
}

ExporterMetadata ReadExporterMetadata(const Graph& graph) {
  ExporterMetadata metadata;
  metadata.signature = ReadSignature(graph);
  std::unordered_map<std::string_view, int32_t> places;  // by the call's name
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    std::optional<FxNode> call = FxNodeOf(graph.nodes[i]);
    metadata.group_of.push_back(-1);
    if (!call.has_value()) continue;
    const auto next = static_cast<int32_t>(metadata.groups.size());
    const auto [place, is_new] = places.emplace(call->name, next);
    if (is_new) metadata.groups.push_back({.call = std::move(*call), .nodes = {}});
    metadata.groups[Index(place->second)].nodes.push_back(static_cast<NodeId>(i));
    metadata.group_of.back() = place->second;
  }
  return metadata;
}

}  // namespace onnxfit
