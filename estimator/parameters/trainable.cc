// What the nodes of a file tell of the tensors that they read: trained, a buffer or a number; and
// which models cannot be trained at all.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/base/numbered_names.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/libraries/libraries.h"
#include "estimator/parameters/roles.h"
#include "estimator/program/modules.h"
#include "estimator/writer/loss.h"

namespace onnxfit {
namespace {

// --- Buffers of floats ----------------------------------------------------------------------

constexpr std::string_view kComparisons[] = {
    "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual",
};

constexpr std::string_view kViews[] = {
    "Slice", "Unsqueeze", "Squeeze", "Reshape", "Expand", "Gather", "Transpose",
};

template <size_t N>
bool IsOneOf(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

using Readers = std::unordered_map<ValueId, std::vector<NodeId>>;

// Every way from `value` ends in a comparison.
bool IsOnlyCompared(const Graph& graph, const Readers& readers, ValueId value) {
  std::vector<ValueId> open = {value};
  bool is_compared = false;
  while (!open.empty()) {
    const auto found = readers.find(open.back());
    open.pop_back();
    if (found == readers.end()) continue;
    for (const NodeId reader : found->second) {
      const Node& node = graph.nodes[Index(reader)];
      if (IsOneOf(kComparisons, node.op_type)) {
        is_compared = true;
      } else if (IsOneOf(kViews, node.op_type) && !node.outputs.empty()) {
        open.push_back(node.outputs[0]);
      } else if (node.op_type != "Shape") {
        return false;
      }
    }
  }
  return is_compared;
}

// final_logits_bias of transformers' BART, [1, n] without a name, which is added to the logits.
bool IsAddedToLogits(const Graph& graph, const Readers& readers, const Initializer& stored) {
  const bool is_row = stored.type.dims.size() == 2 && stored.type.dims[0] == 1 &&
                      IsComputedName(graph.values[Index(stored.value)].name);
  const auto found = readers.find(stored.value);
  if (!is_row || found == readers.end() || found->second.size() != 1) return false;
  const Node& add = graph.nodes[Index(found->second[0])];
  return add.op_type == "Add" && graph.values[Index(add.outputs[0])].is_output;
}

// Relative positions from n - 1 to 1 - n, which each layer projects by a weight of its own, as in
// Transformer-XL (Dai et al.) and conformers: sinusoids, which code computes once.  What is learned
// is looked up by distance, or projected by one module, or by several of a layer.
bool IsProjectedByLayers(const Graph& graph, const Readers& readers, const Initializer& stored) {
  const Dims& dims = stored.type.dims;
  const bool is_table = dims.size() == 2 && dims[0] > 1 && dims[0] % 2 == 1 &&
                        ChildOf(graph.values[Index(stored.value)].name) != "weight";
  const auto found = readers.find(stored.value);
  if (!is_table || found == readers.end() || found->second.size() < 2) return false;
  const std::string_view first = graph.nodes[Index(found->second[0])].name;
  std::set<std::string_view> layers;
  return std::ranges::all_of(found->second, [&](NodeId reader) {
    const Node& node = graph.nodes[Index(reader)];
    const bool is_product = node.op_type == "MatMul" || node.op_type == "Gemm";
    const bool is_of_layer =
        NumberPattern(node.name) == NumberPattern(first) && layers.insert(node.name).second;
    return is_product && is_of_layer && node.inputs[0] == stored.value;
  });
}

const Node* MakerOf(const Graph& graph, ValueId value) {
  const NodeId producer = value == kNoValue ? kNoNode : graph.values[Index(value)].producer;
  return producer == kNoNode ? nullptr : &graph.nodes[Index(producer)];
}

// Whether `value` is (x ** 2).sum(…), or a fraction of it.
bool IsSquaredNorm(const Graph& graph, ValueId value, ValueId x) {
  const Node* node = MakerOf(graph, value);
  while (node != nullptr && (node->op_type == "Div" || node->op_type == "Mul"))
    node = MakerOf(graph, node->inputs[0]);
  if (node == nullptr || node->op_type != "ReduceSum") return false;
  const Node* square = MakerOf(graph, node->inputs[0]);
  if (square == nullptr || square->inputs[0] != x) return false;
  return square->op_type == "Pow" || (square->op_type == "Mul" && square->inputs[1] == x);
}

// Whether exp reads `value`, or what is left of it once a maximum is taken off.
bool FeedsExponential(const Graph& graph, const Readers& readers, ValueId value) {
  const auto found = readers.find(value);
  return found != readers.end() && std::ranges::any_of(found->second, [&](NodeId reader) {
           const Node& node = graph.nodes[Index(reader)];
           if (node.op_type == "Exp") return true;
           const auto next = readers.find(node.outputs[0]);
           return node.op_type == "Sub" && next != readers.end() &&
                  std::ranges::any_of(next->second, [&](NodeId behind) {
                    return graph.nodes[Index(behind)].op_type == "Exp";
                  });
         });
}

// omega of exp(x @ omega - |x|² / 2), random features that stand for a softmax: no code trains
// them.  Source: Choromanski et al., "Rethinking Attention with Performers" (2021), lemma 1;
// "self.register_buffer("omega", …)" of idiap/fast-transformers
// 47187323149d517d5a7f52f0ce5b97fccaafea4d, fast_transformers/feature_maps/fourier_features.py.
bool IsOfRandomFeatures(const Graph& graph, const Readers& readers, const Initializer& stored) {
  const auto readers_of = [&](ValueId value) {
    const auto found = readers.find(value);
    return found == readers.end() ? std::vector<NodeId>() : found->second;
  };
  const std::vector<NodeId> products = readers_of(stored.value);
  if (IsComputedName(graph.values[Index(stored.value)].name)) return false;  // a layer's weight
  return !products.empty() && std::ranges::all_of(products, [&](NodeId reader) {
    const Node& product = graph.nodes[Index(reader)];
    const bool is_product = product.op_type == "MatMul" || product.op_type == "Einsum";
    if (!is_product || product.inputs[0] == stored.value) return false;
    return std::ranges::any_of(readers_of(product.outputs[0]), [&](NodeId next) {
      const Node& node = graph.nodes[Index(next)];
      const bool is_exponent =
          node.op_type == "Sub" && IsSquaredNorm(graph, node.inputs[1], product.inputs[0]);
      return is_exponent && FeedsExponential(graph, readers, node.outputs[0]);
    });
  });
}

// --- Quantized models -----------------------------------------------------------------------

// Of any domain.  Source: ONNX's Operators.md (opset 21); ONNX Runtime's docs/ContribOperators.md
// (1.23).
constexpr std::string_view kQuantizing[] = {
    "ConvInteger",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "MatMulInteger",
    "QLinearConv",
    "QLinearMatMul",
    "QuantizeLinear",
    "DynamicQuantizeLSTM",
    "DynamicQuantizeMatMul",
    "MatMulBnb4",
    "MatMulIntegerToFloat",
    "MatMulNBits",
    "QAttention",
    "QEmbedLayerNormalization",
    "QGemm",
    "QLinearAdd",
    "QLinearAveragePool",
    "QLinearConcat",
    "QLinearGlobalAveragePool",
    "QLinearLeakyRelu",
    "QLinearMul",
    "QLinearSigmoid",
    "QLinearSoftmax",
};

// Whether `node` reads or makes quantized numbers: its stored operands are buffers.
bool IsQuantizing(const Node& node) {
  const std::string_view name = node.op_type.substr(node.op_type.rfind('.') + 1);
  return std::find(std::begin(kQuantizing), std::end(kQuantizing), name) != std::end(kQuantizing);
}

// --- What nodes read ------------------------------------------------------------------------

// Inputs that hold a module's tensors by the meaning of their operator.
struct ModuleSlot {
  std::string_view op_type;
  size_t input;
  Role role;
};

constexpr ModuleSlot kModuleSlots[] = {
    {"BatchNormalization", 1, Role::kParameter},
    {"BatchNormalization", 2, Role::kParameter},
    {"BatchNormalization", 3, Role::kBuffer},
    {"BatchNormalization", 4, Role::kBuffer},
    {"Conv", 1, Role::kParameter},
    {"Conv", 2, Role::kParameter},
    {"ConvTranspose", 1, Role::kParameter},
    {"ConvTranspose", 2, Role::kParameter},
    {"Gemm", 1, Role::kParameter},
    {"Gemm", 2, Role::kParameter},
    {"LayerNormalization", 1, Role::kParameter},
    {"LayerNormalization", 2, Role::kParameter},
    {"PRelu", 1, Role::kParameter},
    {"Resize", 1, Role::kConstant},  // roi, scales, sizes
    {"Resize", 2, Role::kConstant},
    {"Resize", 3, Role::kConstant},
    {"Upsample", 1, Role::kConstant},
};

class UseFinder {
 public:
  explicit UseFinder(const BoundGraph& bound) : bound_(bound) {}

  TensorUses Find(const std::vector<Rewritten>& rewrites) {
    for (size_t i = 0; i < bound_.graph().nodes.size(); ++i) AddNode(static_cast<NodeId>(i));
    for (const Rewritten& rewritten : rewrites) AddRewritten(rewritten);
    return std::move(uses_);
  }

 private:
  void AddNode(NodeId id) {
    const Node& node = bound_.At(id);
    if (!HasResult(node)) return;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      uses_.first.try_emplace(node.inputs[i], TensorUses::Place{id, i});
    }
    for (const ModuleSlot& slot : kModuleSlots) {
      if (node.op_type != slot.op_type || slot.input >= node.inputs.size()) continue;
      if (node.inputs[slot.input] != kNoValue) uses_.roles[node.inputs[slot.input]] = slot.role;
    }
    if (IsQuantizing(node)) AddQuantizing(node);
    if (IsHost(node)) return;
    for (const ValueId value : node.inputs) uses_.on_device.insert(value);
  }

  // Weights of integers, scales and zero points of channels.  Those of a tensor are numbers.
  void AddQuantizing(const Node& node) {
    for (const ValueId value : node.inputs) {
      if (value == kNoValue) continue;
      const bool is_number = Numel(bound_.DimsOf(value)) <= 1;
      uses_.roles[value] = is_number ? Role::kConstant : Role::kBuffer;
    }
  }

  // What only the inner nodes of a rewrite read does not exist in PyTorch.
  void AddRewritten(const Rewritten& rewritten) {
    for (const NodeId node : rewritten.nodes) {
      for (const ValueId value : bound_.At(node).inputs) {
        const auto& kept = rewritten.inputs;
        if (std::find(kept.begin(), kept.end(), value) != kept.end()) continue;
        uses_.roles.try_emplace(value, Role::kConstant);
      }
    }
  }

  // All its results follow from shapes: it runs on the host.
  bool IsHost(const Node& node) const {
    return std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId value) {
      return value == kNoValue || bound_.Known(value) != nullptr;
    });
  }

  const BoundGraph& bound_;
  TensorUses uses_;
};

// --- Models that cannot be trained ----------------------------------------------------------

// The first node that reads a stored matrix of integers as its weight: autograd has no gradient
// for it.
std::optional<NodeId> FindQuantizedWeight(const Graph& graph) {
  std::unordered_set<ValueId> integers;
  for (const Initializer& tensor : graph.initializers) {
    if (!IsFloat(tensor.type.dtype) && tensor.type.dims.size() > 1) integers.insert(tensor.value);
  }
  for (size_t i = 0; i < graph.nodes.size() && !integers.empty(); ++i) {
    const Node& node = graph.nodes[i];
    const bool reads = std::any_of(node.inputs.begin(), node.inputs.end(),
                                   [&](ValueId value) { return integers.contains(value); });
    if (reads && IsQuantizing(node)) return static_cast<NodeId>(i);
  }
  return std::nullopt;
}

// Biases and norms alone: the vectors that quantization leaves in floats.  Adapters beside
// quantized weights are matrices.
bool HasMatrices(const Program& program) {
  return std::any_of(program.parameters.begin(), program.parameters.end(),
                     [&](NameId name) { return program.values[Index(name)].type.dims.size() > 1; });
}

// "" where it can be.
std::string WhyNotTrainable(const Graph& graph, const Program& program) {
  if (program.loss == kNoName) return "no output holds floats, so there is no loss";
  if (program.parameters.empty() && !program.frozen.empty()) return "all parameters are frozen";
  const std::optional<NodeId> quantized = FindQuantizedWeight(graph);
  if (quantized.has_value() && !HasMatrices(program)) {
    return "its weights are integers, which have no gradient, the first at " +
           DisplayName(graph, *quantized);
  }
  const size_t count = program.parameters.size();
  if (count == 0) return "it has no parameters";
  if (UnreachedParameters(program).size() < count) return "";
  return fmt::format(
      "no gradient flows from the loss to {} (--loss-output names another output)",
      count == 1 ? "its one parameter" : fmt::format("any of its {} parameters", count));
}

}  // namespace

namespace {

// Modules that compute a batch norm as a product and a sum have fixed statistics and no parameter:
// FrozenBatchNorm2d of torchvision, detectron2 and DETR's kin.
std::set<std::string_view> FindFrozenNorms(const Graph& graph, const Readers& readers) {
  std::set<std::string_view> modules;
  for (const Initializer& initializer : graph.initializers) {
    const std::string_view name = graph.values[Index(initializer.value)].name;
    if (ChildOf(name) != "running_var") continue;
    const auto found = readers.find(initializer.value);
    if (found == readers.end()) continue;
    const bool is_norm = std::ranges::any_of(found->second, [&](NodeId reader) {
      return graph.nodes[Index(reader)].op_type == "BatchNormalization";
    });
    if (!is_norm) modules.insert(ParentOf(name));
  }
  return modules;
}

}  // namespace

std::unordered_set<ValueId> FindFloatBuffers(const Graph& graph) {
  Readers readers;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!HasResult(graph.nodes[i])) continue;
    for (const ValueId value : graph.nodes[i].inputs) {
      if (value != kNoValue) readers[value].push_back(static_cast<NodeId>(i));
    }
  }
  const std::set<std::string_view> frozen_norms = FindFrozenNorms(graph, readers);
  std::unordered_set<ValueId> buffers;
  for (const Initializer& initializer : graph.initializers) {
    if (!IsFloat(initializer.type.dtype) || Numel(initializer.type.dims) <= 1) continue;
    const std::string_view path = graph.values[Index(initializer.value)].name;
    const std::string_view name = ChildOf(path);
    const bool is_buffer = IsFloatBuffer(name) || frozen_norms.contains(ParentOf(path)) ||
                           IsOnlyCompared(graph, readers, initializer.value) ||
                           IsProjectedByLayers(graph, readers, initializer) ||
                           IsAddedToLogits(graph, readers, initializer) ||
                           IsOfRandomFeatures(graph, readers, initializer);
    if (is_buffer) buffers.insert(initializer.value);
  }
  return buffers;
}

TensorUses FindUses(const BoundGraph& bound, const std::vector<Rewritten>& rewrites) {
  return UseFinder(bound).Find(rewrites);
}

void CheckTrainable(const Graph& graph, const Program& program, const TrainingSettings& settings) {
  if (settings.mode == Mode::kEval || settings.loss == Loss::kNone) return;
  const std::string why = WhyNotTrainable(graph, program);
  if (why.empty()) return;
  throw Error({.file = graph.path,
               .text = "this model cannot be trained: " + why,
               .hint = program.frozen.empty()
                           ? "--mode eval, for inference"
                           : "--mode eval, for inference, or a narrower --freeze"});
}

}  // namespace onnxfit
