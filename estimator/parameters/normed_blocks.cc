// Shapes of blocks that people build with batch norms, in files where these are folded and no name
// says so.
#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <string_view>

#include "estimator/base/index.h"
#include "estimator/exporters/bound_graph.h"
#include "estimator/parameters/batch_norms.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

constexpr size_t kFewestBlocks = 4;

constexpr std::string_view kNorms[] = {"BatchNormalization",
                                       "GroupNormalization",
                                       "InstanceNormalization",
                                       "LayerNormalization",
                                       "LpNormalization",
                                       "RMSNormalization",
                                       "LRN",
                                       "MeanVarianceNormalization"};

constexpr std::string_view kBehindMaps[] = {"Relu",      "Clip", "LeakyRelu", "PRelu", "Elu",
                                            "HardSwish", "Mish", "Swish",     "Selu",  "Gelu"};

// What else goes on with a map: anything but these reads a head's result.
constexpr std::string_view kGoOn[] = {
    "Conv",        "ConvTranspose", "Add",      "Concat", "MaxPool",
    "AveragePool", "Resize",        "Split",    "Pad",    "GlobalAveragePool",
    "Slice",       "ReduceMean",    "Upsample", "Mul",    "Dropout"};

template <size_t N>
bool IsOneOf(std::string_view op_type, const std::string_view (&names)[N]) {
  return std::find(std::begin(names), std::end(names), op_type) != std::end(names);
}

// A convolution with a bias, and what reads its result.
struct BiasedConvolution {
  NodeId node = kNoNode;
  NodeId activation = kNoNode;  // that reads it directly
};

// A shape of blocks: whether `convolution` is in one.
struct BlockShape {
  bool (*matches)(const BoundGraph&, const BiasedConvolution&);
  std::string_view what;
  bool pools = false;  // only where the maps are pooled in the end: networks that make images
                       // have such blocks without norms
};

const std::string& ModuleOfNode(const BoundGraph& bound, NodeId node) {
  return bound.metadata().PathOf(node);
}

// Ultralytics' Conv (8.3) and YOLOX's BaseConv (0.3): children conv, bn and act, of which
// fuse() deletes bn.
bool IsConvAct(const BoundGraph& bound, const BiasedConvolution& conv) {
  if (conv.activation == kNoNode) return false;
  const std::string path = ModuleOfNode(bound, conv.node);
  const std::string act = ModuleOfNode(bound, conv.activation);
  return ChildOf(path) == "conv" && ChildOf(act) == "act" && ParentOf(path) == ParentOf(act) &&
         ParentOf(path) != path;
}

std::optional<int> NumberAtEnd(std::string_view path) {
  const std::string_view child = ChildOf(path);
  int number = 0;
  const auto [end, error] = std::from_chars(child.data(), child.data() + child.size(), number);
  const bool is_number = error == std::errc() && end == child.data() + child.size();
  return is_number ? std::optional(number) : std::nullopt;
}

// By how many the activation comes later among the children of a Sequential.
std::optional<int> StepToActivation(const BoundGraph& bound, const BiasedConvolution& conv) {
  if (conv.activation == kNoNode) return std::nullopt;
  const std::string path = ModuleOfNode(bound, conv.node);
  const std::string act = ModuleOfNode(bound, conv.activation);
  const std::optional<int> first = NumberAtEnd(path);
  const std::optional<int> second = NumberAtEnd(act);
  const bool are_siblings =
      first.has_value() && second.has_value() && ParentOf(path) == ParentOf(act);
  return are_siblings ? std::optional(*second - *first) : std::nullopt;
}

// Children 0 and 2 of a Sequential: torch.ao.quantization.fuse_modules and torch.fx's fuse put an
// Identity in the place of child 1.
bool HasGapInSequential(const BoundGraph& bound, const BiasedConvolution& conv) {
  return StepToActivation(bound, conv) == 2;
}

// Children 0 and 1: no norm was between them.
bool HasNoGapInSequential(const BoundGraph& bound, const BiasedConvolution& conv) {
  return StepToActivation(bound, conv) == 1;
}

// MobileNet's: a depthwise convolution, then an activation.
bool IsDepthwiseAct(const BoundGraph& bound, const BiasedConvolution& conv) {
  const Node& node = bound.At(conv.node);
  const Dims& weight = bound.DimsOf(node.inputs[1]);
  const bool is_depthwise = weight.size() == 4 && weight[1] == 1 && weight[0] > 1 &&
                            IntAttribute(node, "group", 1) == weight[0];
  return is_depthwise && conv.activation != kNoNode;
}

// ResNet's: the sum of a branch and a shortcut, then the activation.
bool EndsResidual(const BoundGraph& bound, const BiasedConvolution& conv) {
  const std::span<const NodeId> readers = bound.ReadersOf(bound.At(conv.node).outputs[0]);
  if (readers.size() != 1 || bound.At(readers[0]).op_type != "Add") return false;
  const std::span<const NodeId> of_sum = bound.ReadersOf(bound.At(readers[0]).outputs[0]);
  return of_sum.size() == 1 && bound.At(of_sum[0]).op_type == "Relu";
}

constexpr BlockShape kBlockShapes[] = {
    {IsConvAct, "modules called conv and act, as in blocks of conv, bn and act"},
    {HasGapInSequential, "a child of a Sequential left out between convolution and activation"},
    {IsDepthwiseAct, "depthwise convolutions with a bias and an activation"},
    {EndsResidual, "residual sums of convolutions with a bias, then an activation", true},
};

class NormedBlockFinder {
 public:
  explicit NormedBlockFinder(const BoundGraph& bound) : graph_(bound.graph()), bound_(bound) {}

  NormedBlocks Find() {
    if (HasNorm()) return {};
    for (size_t i = 0; i < graph_.nodes.size(); ++i) Add(static_cast<NodeId>(i));
    NormedBlocks blocks;
    const BlockShape* shape = ShapeOfBlocks();
    const bool is_plain = shape == nullptr && Count(HasNoGapInSequential) >= kFewestBlocks;
    if (convolutions_.size() < kFewestBlocks || is_plain) return {};
    if (shape != nullptr) blocks.shape = shape->what;
    for (const BiasedConvolution& conv : convolutions_) {
      if (shape == nullptr || shape->matches != IsConvAct || IsCalledConv(conv)) {
        blocks.convolutions.push_back(conv.node);
      }
    }
    return blocks;
  }

 private:
  bool HasNorm() const {
    return std::ranges::any_of(graph_.nodes,
                               [](const Node& node) { return IsOneOf(node.op_type, kNorms); });
  }

  void Add(NodeId id) {
    const Node& node = graph_.nodes[Index(id)];
    const bool convolves = node.op_type == "Conv" || node.op_type == "ConvTranspose";
    if (!convolves || node.inputs.size() < 3 || node.inputs[2] == kNoValue) return;
    if (node.outputs.empty() || node.outputs[0] == kNoValue || IsOnePixel(node.outputs[0])) return;
    const NodeId activation = ActivationBehind(node.outputs[0]);
    if (activation == kNoNode && IsHead(node.outputs[0])) return;
    convolutions_.push_back({id, activation});
  }

  bool IsOnePixel(ValueId map) const {
    const Dims& dims = bound_.DimsOf(map);
    return dims.size() < 4 || (dims[2] == 1 && dims[3] == 1);
  }

  // Of x * sigmoid(x) the first.
  NodeId ActivationBehind(ValueId map) const {
    const std::span<const NodeId> readers = bound_.ReadersOf(map);
    const auto is = [&](size_t i, std::string_view op) {
      return bound_.At(readers[i]).op_type == op;
    };
    if (readers.size() == 1) {
      return IsOneOf(bound_.At(readers[0]).op_type, kBehindMaps) ? readers[0] : kNoNode;
    }
    if (readers.size() != 2 || !is(1, "Mul")) return kNoNode;
    const bool gates = is(0, "Sigmoid") || is(0, "HardSigmoid") || is(0, "Softplus");
    return gates ? readers[0] : kNoNode;
  }

  bool IsHead(ValueId map) const {
    if (graph_.values[Index(map)].is_output) return true;
    return !std::ranges::all_of(bound_.ReadersOf(map), [&](NodeId reader) {
      const std::string_view op = bound_.At(reader).op_type;
      return IsOneOf(op, kGoOn) || IsOneOf(op, kBehindMaps);
    });
  }

  size_t Count(bool (*matches)(const BoundGraph&, const BiasedConvolution&)) const {
    const auto is_one = [&](const BiasedConvolution& conv) { return matches(bound_, conv); };
    return static_cast<size_t>(std::ranges::count_if(convolutions_, is_one));
  }

  // The first that enough of the convolutions are in.
  const BlockShape* ShapeOfBlocks() const {
    for (const BlockShape& shape : kBlockShapes) {
      if (shape.pools && !Pools()) continue;
      if (Count(shape.matches) >= kFewestBlocks) return &shape;
    }
    return nullptr;
  }

  bool Pools() const {
    return std::ranges::any_of(graph_.nodes, [](const Node& node) {
      return node.op_type == "GlobalAveragePool" || node.op_type == "ReduceMean";
    });
  }

  // A block whose activation is an Identity has none.
  bool IsCalledConv(const BiasedConvolution& conv) const {
    return ChildOf(ModuleOfNode(bound_, conv.node)) == "conv";
  }

  const Graph& graph_;
  const BoundGraph& bound_;
  std::vector<BiasedConvolution> convolutions_;
};

}  // namespace

NormedBlocks FindNormedBlocks(const BoundGraph& bound) { return NormedBlockFinder(bound).Find(); }

}  // namespace onnxfit
