#include "estimator/recover/known_in_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/base/text.h"
#include "estimator/program/module_names.h"
#include "estimator/recover/exporter_metadata.h"

namespace onnxfit {

namespace {

constexpr std::string_view kInPlaceMarks[] = {"+=",      "*=",           ".add_(",    ".mul_(",
                                              "relu_(",  "relu6_(",      "sigmoid_(", "tanh_(",
                                              "clamp_(", "inplace=True", "silu_(",    "hardtanh_("};

// Libraries that make their activations without arguments: diffusers 0.42.1, models/
// activations.py, get_activation; transformers 5.17.0, activations.py, ACT2FN.
constexpr std::string_view kOutOfPlace[] = {"diffusers.", "transformers."};

bool StartsWithAny(std::string_view text, std::span<const std::string_view> beginnings) {
  return std::ranges::any_of(beginnings, [&](std::string_view b) { return text.starts_with(b); });
}

bool IsOfLibrary(const std::vector<std::string>& classes) {
  if (classes.size() < 2 || !classes.back().starts_with("torch.nn.modules.activation.")) {
    return false;
  }
  const std::string& caller = classes[classes.size() - 2];
  return StartsWithAny(caller, kOutOfPlace);
}

// --- Known to work in place ----------------------------------------------------------------

// torchvision 0.26 makes its activations with inplace=True; of those that it does not, these make
// them themselves (others, of ops/misc.py and maxvit.py, are GELU, or told by their children).
constexpr std::string_view kTorchvision = "torchvision.";
constexpr std::string_view kNotInPlace[] = {
    "torchvision.models.segmentation.",        "torchvision.models.detection.",
    "torchvision.models.optical_flow.",        "torchvision.models.maxvit.",
    "torchvision.models.quantization.",        "torchvision.ops.misc.SqueezeExcitation",
    "torchvision.ops.feature_pyramid_network."};

// By the class that holds it, past Sequentials and their like.
bool IsActivationOfTorchvision(const std::vector<std::string>& classes) {
  if (classes.empty() || !classes.back().starts_with("torch.nn.modules.activation.")) return false;
  const auto holder = std::find_if(classes.rbegin(), classes.rend(), [](const std::string& name) {
    return !name.starts_with("torch.nn.");
  });
  return holder != classes.rend() && holder->starts_with(kTorchvision) &&
         !StartsWithAny(*holder, kNotInPlace);
}

// What files that name no class show of torchvision's networks: a module that has all of these
// children, and where in it is written in place.
struct InPlaceRow {
  std::string_view children[4];
  std::string_view glob;   // of modules, as their path below it
  bool is_listed = false;  // those that are children of a Sequential alone
  enum class Of : uint8_t { kActivations, kSums } of = Of::kActivations;
  bool in_place = true;
};

constexpr InPlaceRow kInPlaceRows[] = {
    // models/resnet.py, 0.26: ResNet; BasicBlock and Bottleneck, with "out += identity".
    {{"conv1", "relu", "maxpool", "layer1"}, "relu"},
    {{"conv1", "relu", "maxpool", "layer1"}, "layer*.relu*"},
    {{"conv1", "relu", "maxpool", "layer1"}, "layer*", true, InPlaceRow::Of::kSums},
    // alexnet.py, vgg.py, efficientnet.py: AlexNet, VGG; Conv2dNormActivation of ops/misc.py and
    // MBConv's "result += input".
    {{"features", "avgpool", "classifier"}, "features.*", true},
    {{"features", "avgpool", "classifier"}, "classifier.*", true},
    {{"features.1.0.block", "avgpool"}, "features.*", true},
    {{"features.1.0.block", "avgpool"}, "features.*", true, InPlaceRow::Of::kSums},
    // mobilenetv2.py: Conv2dNormActivation; InvertedResidual's "x + self.conv(x)".
    {{"features.0.0", "features.1.conv.0"}, "features.*", true},
    {{"features.0.0", "features.1.conv.0"}, "features.*", true, InPlaceRow::Of::kSums, false},
};

constexpr std::string_view kActivations[] = {
    "Relu",      "Clip",        "LeakyRelu", "Elu",
    "HardSwish", "HardSigmoid", "Mul"};  // the last of SiLU's two

// Every module that a node is in.
std::set<std::string, std::less<>> ModulesOf(const std::vector<std::string>& paths) {
  std::set<std::string, std::less<>> modules = {""};
  for (std::string_view path : paths) {
    while (modules.emplace(path).second && path.find('.') != std::string_view::npos) {
      path = ParentOf(path);
    }
  }
  return modules;
}

std::string Below(std::string_view module, std::string_view child) {
  return module.empty() ? std::string(child) : fmt::format("{}.{}", module, child);
}

// The module of which `path` is the child `child`, if it is that.
std::optional<std::string_view> ModuleOf(std::string_view path, std::string_view child) {
  if (path == child) return "";
  const bool is_child = path.ends_with(child) && path[path.size() - child.size() - 1] == '.';
  if (!is_child) return std::nullopt;
  return path.substr(0, path.size() - child.size() - 1);
}

// The modules that have all children of `row`.
std::vector<std::string_view> ModulesLike(const InPlaceRow& row,
                                          const std::set<std::string, std::less<>>& modules) {
  std::vector<std::string_view> found;
  for (const std::string& path : modules) {
    const std::optional<std::string_view> module = ModuleOf(path, row.children[0]);
    const bool has_all = module && std::ranges::all_of(row.children, [&](std::string_view child) {
                           return child.empty() || modules.contains(Below(*module, child));
                         });
    if (has_all) found.push_back(*module);
  }
  return found;
}

bool IsWhere(const InPlaceRow& row, const std::string& glob, const Node& node,
             std::string_view path) {
  const bool is_of_kind =
      row.of == InPlaceRow::Of::kSums
          ? node.op_type == "Add"
          : std::ranges::find(kActivations, node.op_type) != std::end(kActivations);
  return is_of_kind && (!row.is_listed || IsListed(path)) && MatchesGlob(path, glob);
}

// Whether a gather picked the numbers of `value`, but for a scale, an addend or a view.
bool IsPicked(const Graph& graph, ValueId value) {
  constexpr std::string_view kPassing[] = {"Div", "Mul", "Add", "Transpose", "Cast", "Identity"};
  constexpr int kMostSteps = 6;
  for (int step = 0; step < kMostSteps && value != kNoValue; ++step) {
    const NodeId producer = graph.values[Index(value)].producer;
    if (producer == kNoNode) return false;
    const Node& node = graph.nodes[Index(producer)];
    if (node.op_type == "GatherElements") return true;
    if (std::ranges::find(kPassing, node.op_type) == std::end(kPassing)) return false;
    value = node.inputs[0];
  }
  return false;
}

// T5's buckets of relative positions: those of the direction, and where (is near, …) of both.
bool AddsBuckets(const Graph& graph, const Node& add) {
  const auto maker = [&](ValueId value) {
    const NodeId producer = value == kNoValue ? kNoNode : graph.values[Index(value)].producer;
    return producer == kNoNode ? nullptr : &graph.nodes[Index(producer)];
  };
  const Node* direction = maker(add.inputs[0]);
  const Node* distance = maker(add.inputs[1]);
  if (direction == nullptr || distance == nullptr || distance->op_type != "Where") return false;
  const Node* is_near = maker(distance->inputs[0]);
  return (direction->op_type == "Add" || direction->op_type == "Mul") && is_near != nullptr &&
         is_near->op_type == "Less";
}

}  // namespace

std::optional<bool> WrittenInPlace(std::string_view line) {
  if (line.empty()) return std::nullopt;
  for (const std::string_view mark : kInPlaceMarks) {
    if (line.find(mark) != std::string_view::npos) return true;
  }
  const bool is_setting = line.find("self.inplace") != std::string_view::npos;
  const bool may_be_argument = line.find(", True)") != std::string_view::npos;
  return is_setting || may_be_argument ? std::nullopt : std::optional(false);
}

std::set<NodeId> FindInPlaceSums(const Graph& graph) {
  std::set<NodeId> found;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op_type != "Add") continue;
    const bool are_picked = IsPicked(graph, node.inputs[0]) && IsPicked(graph, node.inputs[1]);
    if (are_picked || AddsBuckets(graph, node)) found.insert(static_cast<NodeId>(i));
  }
  return found;
}

std::map<NodeId, bool> FindKnownInPlace(const Graph& graph, const ExporterMetadata& metadata) {
  std::map<NodeId, bool> found;
  std::vector<std::string> paths;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto node = static_cast<NodeId>(i);
    if (IsActivationOfTorchvision(metadata.ClassesOf(node))) found.emplace(node, true);
    paths.push_back(metadata.PathOf(node));
  }
  const std::set<std::string, std::less<>> modules = ModulesOf(paths);
  for (const InPlaceRow& row : kInPlaceRows) {
    for (const std::string_view module : ModulesLike(row, modules)) {
      const std::string glob = Below(module, row.glob);
      for (size_t i = 0; i < graph.nodes.size(); ++i) {
        if (!IsWhere(row, glob, graph.nodes[i], paths[i])) continue;
        found.emplace(static_cast<NodeId>(i), row.in_place);
      }
    }
  }
  return found;
}

std::set<NodeId> FindOutOfPlaceActivations(const Graph& graph, const ExporterMetadata& metadata) {
  std::set<std::string> excitations;  // modules with a scale_activation
  std::vector<std::pair<NodeId, std::string>> activations;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto node = static_cast<NodeId>(i);
    const std::string& path = metadata.PathOf(node);
    const std::string_view child = ChildOf(path);
    if (child == "scale_activation") excitations.emplace(ParentOf(path));
    const bool is_relu = graph.nodes[i].op_type == "Relu";
    if (child == "activation" && is_relu) activations.emplace_back(node, ParentOf(path));
  }
  std::set<NodeId> found;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto node = static_cast<NodeId>(i);
    if (IsOfLibrary(metadata.ClassesOf(node))) found.insert(node);
  }
  for (const auto& [node, module] : activations) {
    if (excitations.contains(module)) found.insert(node);
  }
  return found;
}

bool HasAttention(const Graph& graph, const std::vector<Rewritten>& rewrites) {
  const auto is_call = [](const Rewritten& call) {
    return call.aten == "scaled_dot_product_attention";
  };
  if (std::ranges::any_of(rewrites, is_call)) return true;
  std::vector<bool> is_weights(graph.values.size());  // made by a softmax
  for (const Node& node : graph.nodes) {
    const ValueId first = node.inputs.empty() ? kNoValue : node.inputs[0];
    const bool reads = first != kNoValue && is_weights[Index(first)];
    if (reads && node.op_type == "MatMul") return true;
    const bool passes_on = reads && (node.op_type == "Dropout" || node.op_type == "Cast");
    if (node.outputs.empty() || node.outputs[0] == kNoValue) continue;
    if (passes_on || node.op_type == "Softmax") is_weights[Index(node.outputs[0])] = true;
  }
  return false;
}

}  // namespace onnxfit
