#include "estimator/recover/folded_batch_norm.h"

#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/program/module_names.h"
#include "estimator/recover/exporter_metadata.h"
#include "estimator/recover/fold_marks.h"
#include "estimator/recover/normed_blocks.h"

namespace onnxfit {
namespace {

constexpr std::string_view kConv = "conv";
constexpr char kBatchNormSuffix[] = "_batch_norm";

class FoldedBatchNormFinder {
 public:
  FoldedBatchNormFinder(const BoundGraph& bound, const TrainingSettings& settings)
      : graph_(bound.graph()),
        metadata_(bound.metadata()),
        shapes_(bound.shapes()),
        settings_(settings) {
    for (const SignatureEntry& entry : metadata_.signature) {
      targets_.emplace(entry.name, entry.target);
      names_.emplace(entry.target, entry.name);
    }
    for (const Node& node : graph_.nodes) {
      if (node.op_type == "BatchNormalization") normalized_.insert(node.inputs[0]);
    }
  }

  // By what the exporter says, or the name that another tool gave.
  std::optional<FoldedBatchNorm> Find(NodeId id) const {
    const Node& node = graph_.nodes[Index(id)];
    if (!Convolves(node)) return std::nullopt;
    const std::string convolution = ConvolutionModule(id);
    const std::optional<std::string> module = BatchNormModule(id, convolution);
    if (module.has_value()) return Made(id, convolution, *module, HasBias(node, convolution));
    const std::optional<std::string> marked = MarkedBatchNorm(graph_, node);
    if (!marked.has_value()) return std::nullopt;
    return Made(id, convolution, marked->empty() ? NormBeside(convolution) : *marked,
                settings_.assumed.conv_bias);
  }

  // Nothing says that its bias is a folded batch norm, but it is taken for one.
  FoldedBatchNorm FromBias(NodeId id) const {
    const std::string convolution = ConvolutionModule(id);
    return Made(id, convolution, NormBeside(convolution), settings_.assumed.conv_bias);
  }

  bool MayBeFolded(NodeId id) const {
    const Node& node = graph_.nodes[Index(id)];
    const bool has_bias = Convolves(node) && node.inputs.size() > 2 && node.inputs[2] != kNoValue;
    return has_bias && !normalized_.contains(node.outputs[0]);
  }

 private:
  static bool Convolves(const Node& node) {
    const bool convolves = node.op_type == "Conv" || node.op_type == "ConvTranspose";
    return convolves && node.inputs.size() > 1 && node.inputs[1] != kNoValue &&
           !node.outputs.empty() && node.outputs[0] != kNoValue;
  }

  FoldedBatchNorm Made(NodeId id, const std::string& convolution, const std::string& module,
                       bool has_bias) const {
    const ValueId result = graph_.nodes[Index(id)].outputs[0];
    const Dims& output = shapes_.types[Index(result)].tensor.dims;
    return {.convolution = id,
            .convolution_module = convolution,
            .module = module,
            .channels = output.size() > 1 ? output[1] : 1,
            .convolution_has_bias = has_bias};
  }

  // "layer1.0.bn1" beside "layer1.0.conv1".
  static std::string NormBeside(const std::string& convolution) {
    const std::string_view child = ChildOf(convolution);
    if (!child.starts_with(kConv)) return convolution + kBatchNormSuffix;
    return convolution.substr(0, convolution.size() - child.size()) + "bn" +
           std::string(child.substr(kConv.size()));
  }

  std::string_view NameOf(ValueId value) const {
    return value == kNoValue ? "" : graph_.values[Index(value)].name;
  }

  static bool IsComputed(std::string_view weight) { return weight.starts_with("onnx::Conv"); }

  // By its weight's name; by its place where the exporter has computed the weight anew.
  std::string ConvolutionModule(NodeId id) const {
    const std::string_view weight = NameOf(graph_.nodes[Index(id)].inputs[1]);
    const std::string path = metadata_.PathOf(id);
    if (IsComputed(weight) && !path.empty()) return path;
    const bool is_path = weight.find('.') == std::string_view::npos;  // TensorFlow's, "a/b:0"
    return std::string(is_path ? weight.substr(0, weight.rfind('/')) : ParentOf(weight));
  }

  std::optional<std::string> BatchNormModule(NodeId id, const std::string& convolution) const {
    const Node& node = graph_.nodes[Index(id)];
    const std::string fallback = convolution + kBatchNormSuffix;
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
    return !bias.ends_with(".weight_bias") && settings_.assumed.conv_bias;
  }

  const Graph& graph_;
  const ExporterMetadata& metadata_;
  const Shapes& shapes_;
  const TrainingSettings& settings_;
  std::unordered_map<std::string_view, std::string_view> targets_;  // name -> target
  std::unordered_map<std::string, std::string_view> names_;         // target -> name
  std::unordered_set<ValueId> normalized_;                          // by a batch norm of the file
};

}  // namespace

FoldedBatchNorms FindFoldedBatchNorms(const BoundGraph& bound, const TrainingSettings& settings) {
  const FoldedBatchNormFinder finder(bound, settings);
  const bool restores = settings.batch_norm == BatchNormUse::kRestore;
  FoldedBatchNorms found;
  for (size_t i = 0; i < bound.graph().nodes.size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    if (auto folded = finder.Find(id)) {
      found.folded.push_back(std::move(*folded));
    } else if (restores && finder.MayBeFolded(id)) {
      found.folded.push_back(finder.FromBias(id));
    }
  }
  if (!found.folded.empty() || restores) return found;
  const NormedBlocks blocks = FindNormedBlocks(bound);
  found.in_doubt = !blocks.convolutions.empty();
  found.shape = blocks.shape;
  if (blocks.shape.empty()) return found;
  for (const NodeId id : blocks.convolutions) found.folded.push_back(finder.FromBias(id));
  return found;
}

}  // namespace onnxfit
