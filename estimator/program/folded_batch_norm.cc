#include "estimator/program/folded_batch_norm.h"

#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/program/scopes.h"

namespace onnxfit {
namespace {

class FoldedBatchNormFinder {
 public:
  FoldedBatchNormFinder(const Graph& graph, const ExporterMetadata& metadata, const Shapes& shapes,
                        bool bias_if_unknown)
      : graph_(graph), metadata_(metadata), shapes_(shapes), bias_if_unknown_(bias_if_unknown) {
    for (const SignatureEntry& entry : metadata.signature) {
      targets_.emplace(entry.name, entry.target);
      names_.emplace(entry.target, entry.name);
    }
  }

  std::optional<FoldedBatchNorm> Find(NodeId id) const {
    const Node& node = graph_.nodes[Index(id)];
    const bool convolves = node.op_type == "Conv" || node.op_type == "ConvTranspose";
    if (!convolves || node.inputs.size() < 2) return std::nullopt;
    const std::string convolution = ConvolutionModule(id);
    const std::optional<std::string> module = BatchNormModule(id, convolution);
    if (!module.has_value()) return std::nullopt;
    const Dims& output = shapes_.types[Index(node.outputs[0])].tensor.dims;
    return FoldedBatchNorm{.convolution = id,
                           .convolution_module = convolution,
                           .module = *module,
                           .channels = output.size() > 1 ? output[1] : 1,
                           .convolution_has_bias = HasBias(node, convolution)};
  }

 private:
  std::string_view NameOf(ValueId value) const {
    return value == kNoValue ? "" : graph_.values[Index(value)].name;
  }

  static bool IsComputed(std::string_view weight) { return weight.starts_with("onnx::Conv"); }

  // By its weight's name; by its place where the exporter has computed the weight anew.
  std::string ConvolutionModule(NodeId id) const {
    const std::string_view weight = NameOf(graph_.nodes[Index(id)].inputs[1]);
    const std::string path = ModulePath(ScopeOf(graph_, id));
    return IsComputed(weight) && !path.empty() ? path : std::string(ParentOf(weight));
  }

  std::optional<std::string> BatchNormModule(NodeId id, const std::string& convolution) const {
    const Node& node = graph_.nodes[Index(id)];
    const std::string fallback = convolution + "_batch_norm";
    if (const FxNode* call = metadata_.CallOf(id)) {
      if (call->target.find("batch_norm") == std::string_view::npos) return std::nullopt;
      if (call->arguments.size() < 2) return fallback;
      const auto target = targets_.find(call->arguments[1].text);
      return target == targets_.end() ? fallback : std::string(ParentOf(target->second));
    }
    const bool named = NameOf(node.outputs[0]).starts_with("getitem");
    if (!named && !IsComputed(NameOf(node.inputs[1]))) return std::nullopt;
    return fallback;
  }

  bool HasBias(const Node& node, const std::string& convolution) const {
    if (!names_.empty()) return names_.contains(convolution + ".bias");
    const std::string_view bias = node.inputs.size() > 2 ? NameOf(node.inputs[2]) : "";
    if (!bias.starts_with("onnx::") && bias.ends_with(".bias")) return true;
    return !bias.ends_with(".weight_bias") && bias_if_unknown_;
  }

  const Graph& graph_;
  const ExporterMetadata& metadata_;
  const Shapes& shapes_;
  bool bias_if_unknown_;
  std::unordered_map<std::string_view, std::string_view> targets_;  // name -> target
  std::unordered_map<std::string, std::string_view> names_;         // target -> name
};

}  // namespace

std::vector<FoldedBatchNorm> FindFoldedBatchNorms(const Graph& graph,
                                                  const ExporterMetadata& metadata,
                                                  const Shapes& shapes, bool bias_if_unknown) {
  const FoldedBatchNormFinder finder(graph, metadata, shapes, bias_if_unknown);
  std::vector<FoldedBatchNorm> folded;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (auto found = finder.Find(static_cast<NodeId>(i))) folded.push_back(std::move(*found));
  }
  return folded;
}

}  // namespace onnxfit
