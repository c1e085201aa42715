#include "estimator/parameters/batch_norms.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/exporters/bound_graph.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

// --- Names that tools give to what they folded a batch norm into ----------------------------

// Which name of a node carries a mark.
enum class Named : uint8_t { kNode, kResult, kWeight, kBias };

struct FoldMark {
  Named where;
  std::string_view mark;
  // Where the name of the batch norm's module stands beside the mark; else nowhere.
  bool module_before = false;
  bool module_after = false;  // of a tensor of the module: "bn1.bias"
};

constexpr FoldMark kFoldMarks[] = {
    // Keras 3's BatchNormalization, tf2onnx 1.17: "model/conv1_bn/batchnorm/mul_1".
    {Named::kNode, "/batchnorm/", true},
    {Named::kResult, "/batchnorm/", true},
    // TensorFlow's own operator, which tf2onnx 1.17 and the converter to TFLite leave in the
    // names of results: "model/bn/FusedBatchNormV3:0".
    {Named::kNode, "/FusedBatchNorm", true},
    {Named::kResult, "/FusedBatchNorm", true},
    // tf2onnx 1.17, back_to_back_optimizer.py: "Conv__12_weights_fused_bn".
    {Named::kWeight, "_weights_fused_bn"},
    // ONNX Runtime 1.23, conv_bn_fusion.cc: "ConvBnFusion_BN_B_layer1.0.bn1.bias".
    {Named::kBias, "ConvBnFusion_BN_B_", false, true},
    {Named::kWeight, "ConvBnFusion_W_"},
};

std::string_view NameAt(const Graph& graph, const Node& node, Named where) {
  const auto name = [&](const std::vector<ValueId>& values, size_t i) -> std::string_view {
    return i < values.size() && values[i] != kNoValue ? graph.values[Index(values[i])].name : "";
  };
  if (where == Named::kNode) return node.name;
  if (where == Named::kResult) return name(node.outputs, 0);
  return name(node.inputs, where == Named::kWeight ? 1 : 2);
}

std::string ModuleBy(const FoldMark& row, std::string_view name, size_t at) {
  if (row.module_before) return std::string(name.substr(0, at));
  const std::string_view behind = name.substr(at + row.mark.size());
  const bool has_parent = row.module_after && behind.find('.') != std::string_view::npos;
  return has_parent ? std::string(ParentOf(behind)) : "";
}

// The module of the batch norm that the names of `node`, of its result, its weight or its bias
// show; "" where they show one and not how it is called; nullopt where they show none.  A row of
// a table for each tool.  O(rows).
std::optional<std::string> MarkedBatchNorm(const Graph& graph, const Node& node) {
  for (const FoldMark& row : kFoldMarks) {
    const std::string_view name = NameAt(graph, node, row.where);
    const size_t at = name.find(row.mark);
    if (at != std::string_view::npos) return ModuleBy(row, name, at);
  }
  return std::nullopt;
}

// --- Folded ones ----------------------------------------------------------------------------

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

// --- Affine ones ----------------------------------------------------------------------------

// A node with one number for each channel.
struct PerChannel {
  ValueId input = kNoValue;
  ValueId numbers = kNoValue;
  int64_t channels = 0;
};

class AffineFinder {
 public:
  explicit AffineFinder(const BoundGraph& bound) : graph_(bound.graph()), bound_(bound) {}

  std::optional<AffineBatchNorm> Find(NodeId id) const {
    const Node& node = graph_.nodes[Index(id)];
    const std::optional<PerChannel> scale = Read(id, "Mul");
    if (!scale.has_value()) return std::nullopt;
    const std::optional<std::string> marked = MarkedBatchNorm(graph_, node);
    const NodeId shift = ShiftOf(*scale, node.outputs[0]);
    if (!marked.has_value() && !(shift != kNoNode && IsBehindConvolution(*scale))) {
      return std::nullopt;
    }
    const std::string module = marked.value_or("");
    return AffineBatchNorm{
        .scale = id,
        .shift = shift,
        .input = scale->input,
        .module = module.empty() ? std::string(bound_.NameOf(scale->numbers)) : module,
        .channels = scale->channels};
  }

 private:
  bool IsStored(ValueId value) const {
    return value != kNoValue && graph_.values[Index(value)].initializer >= 0;
  }

  std::optional<PerChannel> Read(NodeId id, std::string_view op_type) const {
    const Node& node = graph_.nodes[Index(id)];
    if (node.op_type != op_type || !node.domain.empty() || node.inputs.size() != 2) {
      return std::nullopt;
    }
    if (node.outputs.empty() || node.outputs[0] == kNoValue) return std::nullopt;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const ValueId numbers = node.inputs[side];
      const ValueId input = node.inputs[1 - side];
      if (input == kNoValue || !IsStored(numbers) || IsStored(input)) continue;
      const int64_t channels = ChannelsOf(numbers, input);
      if (channels > 1) return PerChannel{input, numbers, channels};
    }
    return std::nullopt;
  }

  // The size of dimension 1, or of the last, if that is the one that `numbers` has; else 0.
  int64_t ChannelsOf(ValueId numbers, ValueId input) const {
    const Dims& dims = bound_.DimsOf(numbers);
    const Dims& map = bound_.DimsOf(input);
    if (!IsFloat(bound_.TypeOf(numbers).dtype) || dims.size() > map.size() || map.size() < 2) {
      return 0;
    }
    const auto is_wide = [](int64_t size) { return size > 1; };
    if (std::ranges::count_if(dims, is_wide) != 1) return 0;
    const size_t place = Index(std::ranges::find_if(dims, is_wide) - dims.begin());
    const size_t axis = place + map.size() - dims.size();
    const bool is_channel = axis == 1 || axis + 1 == map.size();
    return is_channel && map[axis] == dims[place] ? dims[place] : 0;
  }

  NodeId ShiftOf(const PerChannel& scale, ValueId product) const {
    const std::span<const NodeId> readers = bound_.ReadersOf(product);
    if (readers.size() != 1 || graph_.values[Index(product)].is_output) return kNoNode;
    const std::optional<PerChannel> shift = Read(readers[0], "Add");
    return shift.has_value() && shift->channels == scale.channels ? readers[0] : kNoNode;
  }

  bool IsBehindConvolution(const PerChannel& scale) const {
    const std::string_view name = bound_.NameOf(scale.numbers);
    const bool is_pytorch = name.find('.') != std::string_view::npos || IsComputedName(name);
    return !is_pytorch && bound_.Inner(scale.input, "Conv") != kNoNode;
  }

  const Graph& graph_;
  const BoundGraph& bound_;
};

// --- What a run has of them -----------------------------------------------------------------

// ": 1.2 GiB more are kept for backward", their results; nothing is in eval.
std::string KeptByFolded(const BoundGraph& bound, const TrainingSettings& settings,
                         const BatchNorms& norms) {
  if (settings.mode == Mode::kEval) return "";
  int64_t bytes = 0;
  for (const FoldedBatchNorm& folded : norms.folded) {
    const ValueId result = bound.At(folded.convolution).outputs[0];
    const TensorType type = {ComputeType(settings.precision), bound.DimsOf(result)};
    bytes = CheckedAdd(bytes, BytesOf(type));
  }
  return fmt::format(": {} more are kept for backward", FormatBytes(bytes));
}

// No name says whether they were folded.
void DoubtFolded(const BoundGraph& bound, const TrainingSettings& settings,
                 const std::string& shape, BatchNorms& norms) {
  norms.doubts.push_back(Doubt::kBatchNorm);
  if (shape.empty()) {
    norms.assumptions.push_back(
        "biases of convolutions are taken for biases, and no norm is in the file "
        "(--batch-norm restore, if batch norms were folded into them)");
    return;
  }
  const size_t count = norms.folded.size();
  norms.assumptions.push_back(fmt::format(
      "{} batch norm{} {} taken to be folded into biases of convolutions, for the file has {}, "
      "and {} put back{} (--batch-norm keep, if there were none)",
      count, count == 1 ? "" : "s", count == 1 ? "is" : "are", shape, count == 1 ? "is" : "are",
      KeptByFolded(bound, settings, norms)));
}

// Those that the file has lost, if they are to be put back; else a warning.
void TakeFolded(const BoundGraph& bound, const TrainingSettings& settings, BatchNorms& norms) {
  FoldedBatchNorms found = FindFoldedBatchNorms(bound, settings);
  norms.folded = std::move(found.folded);
  const bool keeps = settings.batch_norm == BatchNormUse::kKeep;
  if (found.in_doubt && !keeps) DoubtFolded(bound, settings, found.shape, norms);
  const size_t count = norms.folded.size();
  if (count == 0 || (found.in_doubt && !keeps)) return;
  const std::string were = fmt::format("{} batch norm{}", count, count == 1 ? "" : "s");
  if (!keeps) {
    norms.assumptions.push_back(fmt::format(
        "{} that {} folded into convolutions {} put back{} (--batch-norm keep, to leave {} folded)",
        were, settings.batch_norm == BatchNormUse::kAuto ? "the exporter" : "may be",
        count == 1 ? "is" : "are", KeptByFolded(bound, settings, norms),
        count == 1 ? "it" : "them"));
    return;
  }
  norms.folded.clear();
  if (found.in_doubt) return;
  norms.warnings.push_back(
      {warning::kFoldedBatchNorm,
       were + " folded into convolutions by the exporter: parameters and activations are "
              "counted as in the file"});
}

// A product and a sum for each channel.
void TakeAffine(const BoundGraph& bound, BatchNorms& norms) {
  norms.affine = FindAffineBatchNorms(bound);
  const size_t count = norms.affine.size();
  if (count == 0) return;
  norms.assumptions.push_back(fmt::format(
      "{} batch norm{} that the file has as a product for each channel {} put back "
      "(--batch-norm keep, to leave {} so)",
      count, count == 1 ? "" : "s", count == 1 ? "is" : "are", count == 1 ? "it" : "them"));
}

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

std::vector<AffineBatchNorm> FindAffineBatchNorms(const BoundGraph& bound) {
  const AffineFinder finder(bound);
  std::vector<AffineBatchNorm> found;
  for (size_t i = 0; i < bound.graph().nodes.size(); ++i) {
    if (auto norm = finder.Find(static_cast<NodeId>(i))) found.push_back(std::move(*norm));
  }
  return found;
}

BatchNorms FindBatchNorms(const BoundGraph& bound, const TrainingSettings& settings) {
  BatchNorms norms;
  TakeFolded(bound, settings, norms);
  if (settings.batch_norm != BatchNormUse::kKeep) TakeAffine(bound, norms);
  return norms;
}

}  // namespace onnxfit
