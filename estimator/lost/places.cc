#include "estimator/lost/places.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/base/text.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/libraries/libraries.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

constexpr std::string_view kInPlaceMarks[] = {
    "+=",     "*=",      ".add_(",       ".mul_(", "relu_(",     "relu6_(",      "sigmoid_(",
    "tanh_(", "clamp_(", "inplace=True", "silu_(", "hardtanh_(", "masked_fill_("};

// What is known of the class that holds a torch.nn activation, past Sequentials and their like, or
// of a library's own.  A layer of timm's, "Mlp", is told its activation by the block that makes it.
ActivationUse KnownUse(const std::vector<std::string>& classes) {
  if (classes.empty()) return ActivationUse::kUnknown;
  if (!classes.back().starts_with("torch.nn.modules.activation.")) {
    const bool is_librarys = classes.back().find(".activations.") != std::string::npos;
    return is_librarys ? ActivationsOf(classes.back()) : ActivationUse::kUnknown;
  }
  for (auto holder = classes.rbegin(); holder != classes.rend(); ++holder) {
    if (holder->starts_with("torch.nn.")) continue;
    const ActivationUse use = ActivationsOf(*holder);
    if (use != ActivationUse::kUnknown || !holder->starts_with("timm.layers.")) return use;
  }
  return ActivationUse::kUnknown;
}

constexpr std::string_view kActivations[] = {
    "Relu", "Clip",      "LeakyRelu",   "Elu", "Celu",
    "Selu", "HardSwish", "HardSigmoid", "Mul"};  // the last of SiLU's two

// Every module that a node is in, by its last name: "conv1" has "layer1.0.conv1".
using ModulesByName = std::map<std::string_view, std::vector<std::string_view>>;

// `paths` must outlive it.
ModulesByName ModulesOf(const std::vector<std::string_view>& paths) {
  std::unordered_set<std::string_view> seen;
  ModulesByName modules;
  for (std::string_view path : paths) {
    while (seen.insert(path).second) {
      modules[ChildOf(path)].push_back(path);
      if (path.find('.') == path.npos) break;
      path = ParentOf(path);
    }
  }
  return modules;
}

// The module of which `path` is the child `child`, in which "*" is a name, if it is that.
std::optional<std::string_view> ModuleWith(std::string_view path, std::string_view child) {
  while (true) {
    const bool is_last = child.find('.') == std::string_view::npos;
    if (path.empty() || (ChildOf(child) != "*" && ChildOf(child) != ChildOf(path))) {
      return std::nullopt;
    }
    const bool is_outermost = path.find('.') == std::string_view::npos;
    if (is_last) return is_outermost ? std::string_view() : ParentOf(path);
    if (is_outermost) return std::nullopt;
    path = ParentOf(path);
    child = ParentOf(child);
  }
}

// The modules with such a child.
std::set<std::string_view> ModulesWith(std::string_view child, const ModulesByName& modules) {
  std::set<std::string_view> found;
  const bool is_any = ChildOf(child) == "*";
  const auto named = is_any ? modules.begin() : modules.find(ChildOf(child));
  for (auto name = named; name != modules.end(); ++name) {
    for (const std::string_view path : name->second) {
      if (const auto module = ModuleWith(path, child)) found.insert(*module);
    }
    if (!is_any) break;
  }
  return found;
}

// The modules that have all children of `row`.
std::set<std::string_view> ModulesLike(const InPlaceChildren& row, const ModulesByName& modules) {
  std::set<std::string_view> found;
  for (const std::string_view child : row.children) {
    if (child.empty()) break;
    std::set<std::string_view> with_child = ModulesWith(child, modules);
    if (child != row.children[0]) {
      std::erase_if(with_child, [&](std::string_view module) { return !found.contains(module); });
    }
    found = std::move(with_child);
    if (found.empty()) break;
  }
  return found;
}

// Sums, and activations.
std::array<std::vector<NodeId>, 2> NodesByKind(const Graph& graph) {
  std::array<std::vector<NodeId>, 2> nodes;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const std::string_view op_type = graph.nodes[i].op_type;
    const auto node = static_cast<NodeId>(i);
    if (op_type == "Add") nodes[0].push_back(node);
    if (std::ranges::find(kActivations, op_type) != std::end(kActivations))
      nodes[1].push_back(node);
  }
  return nodes;
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

// The initializer of which `value` is rows or copies; "" where there is none.
std::string_view TableOf(const Graph& graph, ValueId value) {
  constexpr std::string_view kTaking[] = {"Slice", "Expand", "Tile", "Identity", "Cast"};
  while (value != kNoValue && graph.values[Index(value)].producer != kNoNode) {
    const Node& node = graph.nodes[Index(graph.values[Index(value)].producer)];
    if (std::ranges::find(kTaking, node.op_type) == std::end(kTaking)) return "";
    value = node.inputs[0];
  }
  return value == kNoValue ? std::string_view() : graph.values[Index(value)].name;
}

// x = torch.cat((cls_tokens, x), dim=1); x += self.pos_embedding
bool AddsPositions(const Graph& graph, const Node& add) {
  const NodeId producer =
      add.inputs[0] == kNoValue ? kNoNode : graph.values[Index(add.inputs[0])].producer;
  if (producer == kNoNode || !IsNamedByTorchScript(add)) return false;
  const Node& cat = graph.nodes[Index(producer)];
  return cat.op_type == "Concat" &&
         AddsPositionsInPlace(TableOf(graph, add.inputs[1]), TableOf(graph, cat.inputs[0]));
}

bool IsActivation(const Node& node) {
  return node.op_type != "Mul" &&
         std::ranges::find(kActivations, node.op_type) != std::end(kActivations);
}

// An activation that begins a module, nasnet's "relu, conv, norm", reads what its caller still has.
bool BeginsModule(const BoundGraph& bound, NodeId activation) {
  const Node& node = bound.At(activation);
  if (!IsActivation(node) || node.inputs[0] == kNoValue) return false;
  const NodeId producer = bound.graph().values[Index(node.inputs[0])].producer;
  const ModuleTree& modules = bound.metadata().modules;
  const ModuleId caller = modules.CallerOf(bound.metadata().ModuleOf(activation));
  const size_t depth = modules.DepthOf(caller);
  return producer != kNoNode && depth > 0 &&
         modules.Shared(caller, bound.metadata().ModuleOf(producer)) < depth;
}

// "a * b + c" of one forward is one expression.
bool AddsToProduct(const BoundGraph& bound, NodeId add) {
  const Node& node = bound.At(add);
  const NodeId product = node.op_type == "Add" && node.inputs[0] != kNoValue
                             ? bound.Maker(node.inputs[0], "Mul")
                             : kNoNode;
  const ExporterMetadata& metadata = bound.metadata();
  return product != kNoNode && metadata.ModuleOf(product) == metadata.ModuleOf(add);
}

// Whether a sum in the forward that makes `value` reads it, or what that permutes of it.
bool IsAddedIn(const BoundGraph& bound, ModuleId module, ValueId value) {
  return std::ranges::any_of(bound.ReadersOf(value), [&](NodeId reader) {
    const Node& node = bound.At(reader);
    if (bound.metadata().ModuleOf(reader) != module) return false;
    return node.op_type == "Add" ||
           (node.op_type == "Transpose" && IsAddedIn(bound, module, node.outputs[0]));
  });
}

// "a + b + c" and "(a + b).transpose(1, 2) + c" of one forward are one expression, too, and so is
// "x = x + y" of a loop.
bool IsOfLongSum(const BoundGraph& bound, NodeId add) {
  const Node& node = bound.At(add);
  if (node.op_type != "Add" || node.inputs[0] == kNoValue || node.inputs[1] == kNoValue)
    return false;
  const ModuleId module = bound.metadata().ModuleOf(add);
  const auto is_sum = [&](ValueId value) {
    const NodeId sum = bound.Maker(value, "Add");
    return sum != kNoNode && bound.metadata().ModuleOf(sum) == module;
  };
  return is_sum(node.inputs[0]) || is_sum(node.inputs[1]) ||
         IsAddedIn(bound, module, node.outputs[0]);
}

// "x + f(x)": what f has read, it keeps for its gradient, so that no code writes over it.
bool AddsToWhatWasRead(const BoundGraph& bound, NodeId add) {
  const Node& node = bound.graph().nodes[Index(add)];
  if (node.op_type != "Add" || node.inputs[0] == kNoValue) return false;
  return std::ranges::any_of(bound.ReadersOf(node.inputs[0]),
                             [=](NodeId reader) { return reader < add; });
}

// "lateral + F.interpolate(top)" of a pyramid or an hourglass: what is on the left has a name of
// its own, and torchvision.ops.FeaturePyramidNetwork and its like write no "+=".
bool AddsResized(const BoundGraph& bound, NodeId add) {
  const Node& node = bound.At(add);
  return node.op_type == "Add" && std::ranges::any_of(node.inputs, [&](ValueId value) {
           return value != kNoValue && bound.Maker(value, "Resize") != kNoNode;
         });
}

// nn.LeakyReLU(0.2), unlike nn.ReLU(inplace=True), is as often written as PyTorch makes it by
// default, and takes more so.
bool IsLeaky(const Node& node) { return node.op_type == "LeakyRelu"; }

// Activations among what else a module's forward does are functions, "F.relu(x)", which work out of
// place unless they are told to; a module such as torch.nn.ReLU has nothing else in it.  None in a
// file that names no modules.
std::vector<bool> FindFunctionalActivations(const Graph& graph, const ExporterMetadata& metadata) {
  std::set<std::string_view> forwards;  // modules that do more
  bool names_modules = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const std::string& path = metadata.PathOf(static_cast<NodeId>(i));
    names_modules |= !path.empty() || IsNamedByTorchScript(node);
    if (!IsActivation(node) && node.op_type != "Constant") forwards.insert(path);
  }
  std::vector<bool> found(graph.nodes.size());
  for (size_t i = 0; i < found.size() && names_modules; ++i) {
    const std::string& path = metadata.PathOf(static_cast<NodeId>(i));
    found[i] = IsActivation(graph.nodes[i]) && forwards.contains(path);
  }
  return found;
}

// Activations of a batch norm's own: modules that run one and call a child for it.
std::vector<bool> FindActivationsOfNorms(const Graph& graph, const ExporterMetadata& metadata) {
  std::set<std::string_view> norms;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op_type != "BatchNormalization") continue;
    norms.insert(metadata.PathOf(static_cast<NodeId>(i)));
  }
  std::vector<bool> found(graph.nodes.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const std::string& path = metadata.PathOf(static_cast<NodeId>(i));
    const bool is_activation =
        std::ranges::find(kActivations, graph.nodes[i].op_type) != std::end(kActivations);
    found[i] = is_activation && IsActivationOfNorm(ChildOf(path)) && norms.contains(ParentOf(path));
  }
  return found;
}

// "x[i] = y", which TorchScript's exporter writes so.
bool AssignsItems(const Node& node) {
  return node.op_type == "ScatterND" && IsNamedByTorchScript(node);
}

// --- By flags -------------------------------------------------------------------------------

// By a node's name or its module's.
std::set<NodeId> PickedOutOfPlace(const BoundGraph& bound, const TrainingSettings& settings) {
  if (settings.out_of_place.empty()) return {};
  const Graph& graph = bound.graph();
  std::set<NodeId> found;
  std::vector<std::string> names;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) {
    names.push_back(DisplayName(graph, id));
    names.push_back(bound.metadata().PathOf(id));
  }
  const std::vector<bool> picked =
      PickNames(names, settings.out_of_place, {"--out-of-place", "nodes or modules", graph.path});
  for (size_t i = 0; i < picked.size(); ++i) {
    if (picked[i]) found.insert(static_cast<NodeId>(i / 2));
  }
  return found;
}

// Whether the line spells the node's own call without "_", so that a mark is another call's:
// "torch.clamp(x.sigmoid_(), min=0.1)".
bool IsSpelledOutOfPlace(const ExporterMetadata& metadata, NodeId node) {
  constexpr std::string_view kFamily = "aten.";
  const FxNode* call = metadata.CallOf(node);
  if (call == nullptr || !call->target.starts_with(kFamily)) return false;
  const std::string_view target = std::string_view(call->target).substr(kFamily.size());
  const std::string name(target.substr(0, target.find('.')));
  const std::string_view line = metadata.LinesOf(node).innermost;
  return line.find(name + "(") != std::string_view::npos &&
         line.find(name + "_(") == std::string_view::npos &&
         line.find("inplace=True") == std::string_view::npos;
}

// By index of lines, which nodes share.
std::vector<std::optional<bool>> FindWrittenInPlace(const ExporterMetadata& metadata) {
  std::vector<std::optional<bool>> by_source;
  for (const NodeLines& lines : metadata.lines) {
    const bool has_line = !lines.frames.empty() && lines.frames.back() != kNoStatement;
    by_source.push_back(has_line ? WrittenInPlace(lines.innermost) : std::nullopt);
  }
  return by_source;
}

}  // namespace

Places::Places(const BoundGraph& bound, const GeneratedBodies& bodies, InPlaceNodes in_place,
               const TrainingSettings& settings)
    : bound_(bound), bodies_(bodies), in_place_(std::move(in_place)) {
  for (const NodeId node : PickedOutOfPlace(bound_, settings)) in_place_[Index(node)] = false;
  const Graph& graph = bound_.graph();
  if (settings.in_place != InPlaceUse::kAuto || HasConvolution(graph)) return;
  for (size_t i = 0; i < in_place_.size(); ++i) {
    if (!in_place_[i].has_value() && IsActivation(graph.nodes[i])) in_place_[i] = false;
  }
}

InPlaceNodes FindInPlace(const BoundGraph& bound, const std::vector<Rewritten>& rewrites) {
  const Graph& graph = bound.graph();
  const ExporterMetadata& metadata = bound.metadata();
  const std::map<NodeId, bool> known = FindKnownInPlace(graph, metadata);
  const std::vector<std::optional<bool>> by_source = FindWrittenInPlace(metadata);
  const bool has_attention = HasAttention(graph, rewrites);
  const std::vector<bool> is_function = FindFunctionalActivations(graph, metadata);
  const std::vector<bool> is_of_norm = FindActivationsOfNorms(graph, metadata);
  InPlaceNodes in_place(graph.nodes.size());
  for (size_t i = 0; i < in_place.size(); ++i) {
    const auto node = static_cast<NodeId>(i);
    in_place[i] = by_source[Index(metadata.At(node).lines)];
    if (in_place[i] == true && IsSpelledOutOfPlace(metadata, node)) in_place[i] = false;
    const auto row = in_place[i].has_value() ? known.end() : known.find(node);
    if (row != known.end()) in_place[i] = row->second;
    if (!in_place[i].has_value() && is_of_norm[i]) in_place[i] = true;
    const std::vector<ValueId>& results = bound.At(node).outputs;
    const bool is_float =
        !results.empty() && results[0] != kNoValue && IsFloat(bound.TypeOf(results[0]).dtype);
    const bool is_known = in_place[i].has_value() || !is_float;
    if (is_known) continue;
    const bool adds =
        AddsToWhatWasRead(bound, node) || AddsToProduct(bound, node) || IsOfLongSum(bound, node);
    const bool is_kept = is_function[i] || adds || AddsResized(bound, node) ||
                         IsLeaky(bound.At(node)) || BeginsModule(bound, node);
    if (has_attention || is_kept) in_place[i] = false;
  }
  for (const NodeId node : FindOutOfPlaceActivations(graph, metadata))
    in_place[Index(node)] = false;
  for (const NodeId node : FindInPlaceSums(graph)) in_place[Index(node)] = true;
  for (size_t i = 0; i < in_place.size(); ++i) {
    if (AssignsItems(graph.nodes[i])) in_place[i] = true;
  }
  return in_place;
}

CallPlace Places::Of(NodeId node) const {
  return {.where = DisplayName(bound_.graph(), node),
          .module = bound_.ModuleAround(node),
          .frames = bound_.metadata().LinesOf(node).frames,
          .written_in_place = in_place_[Index(node)],
          .leaves_autograd = bodies_.without_grad[Index(node)]};
}

StatementId FrameAt(const ModuleTree& modules, const CallPlace& place, size_t level) {
  const size_t depth = modules.DepthOf(place.module);
  if (level >= depth) return kNoStatement;
  if (place.frames.size() >= depth) return place.frames[level];
  const size_t below = depth - (level + 1);
  return below <= 1 && below < place.frames.size() ? place.frames[place.frames.size() - 1 - below]
                                                   : kNoStatement;
}

std::optional<bool> WrittenInPlace(std::string_view line) {
  if (line.empty() || line.find("if self.inplace") != std::string_view::npos) return std::nullopt;
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
    const bool adds = AddsBuckets(graph, node) || AddsPositions(graph, node);
    if (are_picked || adds) found.insert(static_cast<NodeId>(i));
  }
  return found;
}

std::map<NodeId, bool> FindKnownInPlace(const Graph& graph, const ExporterMetadata& metadata) {
  std::map<NodeId, bool> found;
  std::vector<std::string_view> paths;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto node = static_cast<NodeId>(i);
    if (KnownUse(metadata.ClassesOf(node)) == ActivationUse::kInPlace) found.emplace(node, true);
    paths.push_back(metadata.PathOf(node));
  }
  const ModulesByName modules = ModulesOf(paths);
  const auto [sums, activations] = NodesByKind(graph);
  for (const InPlaceChildren& row : InPlaceModules()) {
    const bool is_of_sums = row.of == InPlaceChildren::Of::kSums;
    for (const std::string_view module : ModulesLike(row, modules)) {
      const std::string glob = row.glob.empty() ? std::string(module) : ChildPath(module, row.glob);
      for (const NodeId node : is_of_sums ? sums : activations) {
        const std::string_view path = paths[Index(node)];
        const bool is_there = (!row.is_listed || IsListed(path)) && MatchesGlob(path, glob);
        if (is_there) found.emplace(node, row.in_place);
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
    if (KnownUse(metadata.ClassesOf(node)) == ActivationUse::kOutOfPlace) found.insert(node);
  }
  for (const auto& [node, module] : activations) {
    if (excitations.contains(module)) found.insert(node);
  }
  return found;
}

bool HasConvolution(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& node) {
    return node.op_type == "Conv" || node.op_type == "ConvTranspose";
  });
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
    const bool multiplies = node.op_type == "MatMul" || node.op_type == "Einsum";
    if (reads && multiplies) return true;
    const bool passes_on = reads && (node.op_type == "Dropout" || node.op_type == "Cast");
    if (node.outputs.empty() || node.outputs[0] == kNoValue) continue;
    if (passes_on || node.op_type == "Softmax") is_weights[Index(node.outputs[0])] = true;
  }
  return false;
}

}  // namespace onnxfit
