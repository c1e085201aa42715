#include "estimator/lost/lost_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "estimator/base/framework.h"
#include "estimator/base/index.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/libraries/libraries.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

// k where `child` is "PARENT.k".
std::optional<int> PlaceIn(std::string_view parent, std::string_view child) {
  if (child.size() < parent.size() + 2 || !child.starts_with(parent) ||
      child[parent.size()] != '.') {
    return std::nullopt;
  }
  const char* const begin = child.data() + parent.size() + 1;
  const char* const end = child.data() + child.size();
  int place = 0;
  const auto [last, code] = std::from_chars(begin, end, place);
  return code == std::errc() && last == end ? std::optional<int>(place) : std::nullopt;
}

class LostOperandFinder {
 public:
  LostOperandFinder(const Graph& graph, const ExporterMetadata& metadata)
      : graph_(graph),
        metadata_(metadata),
        modules_(metadata.modules),
        training_(IsTrainingExport(graph)) {
    for (const Value& value : graph.values) known_.insert(value.name);
    for (const SignatureEntry& entry : metadata.signature) {
      known_.insert(entry.name);
      targets_.emplace(entry.name, entry.target);
      names_.emplace(entry.target, entry.name);
    }
    for (const FxGroup& group : metadata.groups) {
      known_.insert(group.call.name);
      for (const std::string_view name : References(group.call)) read_.insert(name);
    }
  }

  LostOperands Find() {
    LostOperands found;
    found.drops.resize(graph_.nodes.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      found.drops[i] = FindOperands(static_cast<NodeId>(i));
    }
    found.calls = std::move(lost_);
    return found;
  }

 private:
  // Operands that are gone, of a call whose first node this is.  True for a dropout.
  bool FindOperands(NodeId id) {
    const FxNode* call = metadata_.CallOf(id);
    if (call == nullptr || !seen_.insert(call->name).second) return false;
    std::vector<std::string_view> gone;
    for (const std::string_view name : References(*call)) {
      if (!known_.contains(name)) gone.push_back(name);
    }
    std::vector<ValueId> open = gone.empty() ? std::vector<ValueId>() : OpenInputs(id, *call);
    std::stable_partition(gone.begin(), gone.end(),
                          [&](std::string_view name) { return operands_.contains(name); });
    bool dropped = false;
    for (const std::string_view name : gone) dropped |= FindOperand(id, *call, name, open);
    return dropped;
  }

  bool FindOperand(NodeId id, const FxNode& call, std::string_view name,
                   std::vector<ValueId>& open) {
    const bool is_clone = Stem(name) == "clone";
    if (!is_clone && AddRepeated(id, call, name)) return false;
    const std::string_view aten = is_clone ? "dropout" : RemovedCall(Stem(name));
    if (aten.empty() || open.empty()) return false;
    const auto known = operands_.find(name);
    const auto read =
        known == operands_.end() ? open.begin() : std::ranges::find(open, known->second);
    if (read == open.end()) return false;
    const ValueId input = *read;
    open.erase(read);
    operands_.emplace(name, input);
    if (is_clone && IsBeforeFc2(id)) return false;
    const bool drops = is_clone && !training_ && !IsOwnView(input, id);
    Add(id, input, name, is_clone && !drops ? "contiguous" : aten);
    return drops;
  }

  void Add(NodeId id, ValueId input, std::string_view name, std::string_view aten) {
    const bool drops = aten == "dropout";
    const ModuleId caller = drops ? ModuleOfDropout(input, id) : SharedModule(input, id);
    const NodeId maker = graph_.values[Index(input)].producer;
    lost_.push_back({.before = id,
                     .input = input,
                     .name = std::string(name),
                     .op = aten,
                     .behind = RunsAtOnce(aten, maker, id) ? maker : kNoNode,
                     .caller = caller,
                     .module = drops && caller != kOutside ? std::string(name) : std::string()});
  }

  // "return f(x) * self.scale"; "w = drop(softmax(w))", where its reader is in the same forward;
  // "x = x.permute(0, 2, 1).contiguous()".
  bool RunsAtOnce(std::string_view aten, NodeId maker, NodeId reader) const {
    const bool may_stand = aten == "dropout" || aten == "contiguous";
    if (!may_stand || maker == kNoNode) return aten.ends_with(".Scalar");
    const std::string_view line = metadata_.LinesOf(maker).innermost;
    const bool stands = aten == "dropout" || line.find(".contiguous()") != line.npos;
    const ModuleId module = metadata_.ModuleOf(reader);
    return stands && module != kOutside && metadata_.ModuleOf(maker) == module;
  }

  // What the exporter removes where it changes no number: x + 0, x * 1, a cat of one tensor,
  // x.detach().
  static std::string_view RemovedCall(std::string_view stem) {
    constexpr std::pair<std::string_view, std::string_view> kRows[] = {
        {"add", "add.Scalar"}, {"sub", "add.Scalar"}, {"mul", "mul.Scalar"},
        {"div", "mul.Scalar"}, {"cat", "cat"},        {"detach", "detach"},
    };
    for (const auto& [name, aten] : kRows) {
      if (name == stem) return aten;
    }
    return {};
  }

  // The innermost module that holds both the call that made `input` and the one that reads it.
  ModuleId SharedModule(ValueId input, NodeId reader) const {
    const ModuleId module = metadata_.ModuleOf(reader);
    const NodeId producer = graph_.values[Index(input)].producer;
    return producer == kNoNode ? module : modules_.Common(metadata_.ModuleOf(producer), module);
  }

  // The module whose child a dropout was that stood between `input` and `reader`: the one around
  // the module that made `input`, but that of the reader's where it calls the reader's module.
  ModuleId ModuleOfDropout(ValueId input, NodeId reader) const {
    const NodeId producer = graph_.values[Index(input)].producer;
    if (producer == kNoNode) return kOutside;
    const ModuleId made_in = metadata_.ModuleOf(producer);
    const ModuleId shared = SharedModule(input, reader);
    if (made_in == shared) return shared;
    const ModuleId caller = modules_.CallerOf(made_in);
    const bool is_embedding = caller != shared && EndsWithDropout(ChildOf(modules_.NameOf(caller)));
    const bool is_beside =
        modules_.DepthOf(metadata_.ModuleOf(reader)) == modules_.DepthOf(shared) + 1;
    if ((is_beside && !is_embedding) || IsOfFairseqLayer(made_in)) return shared;
    return caller;
  }

  // Fairseq's layers drop out what their attention returns; GPT-2's attention does so itself.
  bool IsOfFairseqLayer(ModuleId module) const {
    return IsFairseqsProjection(modules_.NameOf(module),
                                modules_.NameOf(modules_.CallerOf(module)));
  }

  // "relu_3" where the node reads what "relu_1" made.  Not where it reads that twice: an
  // operand is hidden by its value.
  bool AddRepeated(NodeId id, const FxNode& call, std::string_view name) {
    const auto references = References(call);
    for (const ValueId input : graph_.nodes[Index(id)].inputs) {
      const NodeId producer = input == kNoValue ? kNoNode : graph_.values[Index(input)].producer;
      const FxNode* kept = producer == kNoNode ? nullptr : metadata_.CallOf(producer);
      if (kept == nullptr || Stem(kept->name) != Stem(name)) continue;
      if (std::find(references.begin(), references.end(), kept->name) != references.end()) continue;
      lost_.push_back({id, input, std::string(name), "", producer});
      const std::string sibling = UnreadSibling(*kept);
      if (sibling.empty()) return true;
      lost_.back().tensors_of = sibling;
      lost_.back().caller = modules_.CallerOf(metadata_.ModuleOf(producer));
      lost_.back().module = sibling;
      return true;
    }
    return false;
  }

  // "layers.0.norm2", of whose tensors no call reads any, where `kept` is a call of
  // "layers.0.norm1" and its exporter has merged equal tensors; else "".
  std::string UnreadSibling(const FxNode& kept) {
    for (const std::string_view name : References(kept)) {
      const auto own = targets_.find(name);
      if (own == targets_.end()) continue;
      for (const SignatureEntry& entry : metadata_.signature) {
        const std::string_view module = ParentOf(entry.target);
        const bool is_beside = ChildOf(entry.target) == ChildOf(own->second) &&
                               ParentOf(module) == ParentOf(ParentOf(own->second));
        if (is_beside && !read_.contains(entry.name) && read_again_.insert(module).second) {
          return std::string(module);
        }
      }
      return "";
    }
    return "";
  }

  // "relu" of "relu_3".
  static std::string_view Stem(std::string_view name) {
    const size_t end = name.find_last_not_of("0123456789");
    const bool is_numbered = end != std::string_view::npos && end + 1 < name.size();
    return is_numbered && name[end] == '_' ? name.substr(0, end) : name;
  }

  // What the node reads in the places of operands that are gone.
  std::vector<ValueId> OpenInputs(NodeId id, const FxNode& call) const {
    const auto references = References(call);
    std::vector<ValueId> open;
    for (const ValueId input : graph_.nodes[Index(id)].inputs) {
      if (input == kNoValue) continue;
      const std::string_view value = CallsNameOf(input);
      if (value.empty()) continue;
      const bool is_named = std::ranges::find(references, value) != references.end();
      if (!is_named && std::ranges::find(open, input) == open.end()) open.push_back(input);
    }
    return open;
  }

  // How calls refer to an activation or a tensor of the signature; "" for other constants.
  std::string_view CallsNameOf(ValueId value) const {
    const std::string_view name = graph_.values[Index(value)].name;
    if (IsActivation(value)) return name;
    const auto entry = names_.find(name);
    return entry == names_.end() ? std::string_view() : entry->second;
  }

  // The second layer of fairseq's blocks, in a numbered layer.
  bool IsBeforeFc2(NodeId reader) const {
    const std::string path = metadata_.PathOf(reader);
    return IsFairseqsSecondLayer(path) && IsNumbered(ChildOf(ParentOf(path)));
  }

  // A view whose clone was contiguous(), not a dropout: the same module made it, or the one in
  // front of the reader's in a Sequential, between which no dropout stands.
  bool IsOwnView(ValueId value, NodeId reader) const {
    constexpr std::string_view kViews[] = {"Transpose", "Squeeze", "Gather", "Expand"};
    const NodeId producer = graph_.values[Index(value)].producer;
    if (producer == kNoNode) return false;
    const std::string_view op = graph_.nodes[Index(producer)].op_type;
    const bool is_view = std::find(std::begin(kViews), std::end(kViews), op) != std::end(kViews);
    const ModuleId maker = metadata_.ModuleOf(producer);
    const ModuleId module = metadata_.ModuleOf(reader);
    return (is_view && maker == module) || ((is_view || op == "Slice") && AreNext(maker, module));
  }

  // "net.1" and "net.2" of one Sequential "net".
  bool AreNext(ModuleId first, ModuleId second) const {
    const ModuleId caller = modules_.CallerOf(second);
    if (second == kOutside || modules_.CallerOf(first) != caller) return false;
    const auto before = PlaceIn(modules_.NameOf(caller), modules_.NameOf(first));
    const auto behind = PlaceIn(modules_.NameOf(caller), modules_.NameOf(second));
    return before.has_value() && behind.has_value() && *behind == *before + 1;
  }

  bool IsActivation(ValueId value) const { return graph_.values[Index(value)].initializer < 0; }

  const Graph& graph_;
  const ExporterMetadata& metadata_;
  const ModuleTree& modules_;
  bool training_;  // exported in training mode: no dropout is lost
  std::unordered_set<std::string_view> known_;
  std::map<std::string_view, std::string_view> targets_;  // of the signature, by name
  std::map<std::string_view, std::string_view> names_;    // by target
  std::unordered_set<std::string_view> read_;             // what calls refer to
  std::unordered_set<std::string_view> read_again_;       // modules of calls that were merged
  std::unordered_set<std::string_view> seen_;
  std::map<std::string_view, ValueId> operands_;  // that are gone: what is read in their place
  std::vector<LostCall> lost_;
};

// Children of a Sequential that left no node: dropouts of a file exported for inference.
class GapFinder {
 public:
  GapFinder(const Graph& graph, const ExporterMetadata& metadata, const std::vector<bool>& drops,
            const std::vector<FoldedBatchNorm>& folded)
      : graph_(graph), metadata_(metadata), modules_(metadata.modules), drops_(drops) {
    for (const FoldedBatchNorm& norm : folded) folded_.insert(norm.convolution);
  }

  std::vector<LostCall> Find() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) FindGap(static_cast<NodeId>(i), drops_[i]);
    return std::move(lost_);
  }

 private:
  // Those right before this node; `dropped`: it has a dropout of its own.
  void FindGap(NodeId id, bool dropped) {
    const ModuleId module = metadata_.ModuleOf(id);
    if (module == kOutside) return;  // a node of which the file says nothing
    if (module != module_) Enter(module);
    for (size_t depth = 1; depth < path_.size(); ++depth) {
      const auto place = PlaceIn(modules_.NameOf(path_[depth - 1]), modules_.NameOf(path_[depth]));
      if (place.has_value()) FindGapIn(modules_.PathOf(path_[depth - 1]), *place, id, dropped);
    }
  }

  void Enter(ModuleId module) {
    module_ = module;
    path_.clear();
    for (; module != kOutside; module = modules_.CallerOf(module)) path_.push_back(module);
    std::ranges::reverse(path_);
    LeaveContainers();
  }

  void FindGapIn(const std::string& path, int place, NodeId id, bool dropped) {
    Container& container = open_[path];
    const bool folds = folded_.contains(id) || container.last_folded;
    const int missing = place - container.last - 1 - (dropped ? 1 : 0) - (folds ? 1 : 0);
    if (missing > 0) AddBefore(id, path + "." + std::to_string(place - 1));
    container = {.last = std::max(place, container.last), .last_folded = folded_.contains(id)};
  }

  // A module that is called again counts its children anew.
  void LeaveContainers() {
    std::erase_if(open_, [&](const auto& entry) {
      return std::ranges::none_of(
          path_, [&](ModuleId module) { return modules_.PathOf(module) == entry.first; });
    });
  }

  void AddBefore(NodeId id, std::string name) {
    const int call = calls_of_[name]++;  // a module may be called again
    if (call > 0) name += fmt::format("_{}", call);
    for (const ValueId input : graph_.nodes[Index(id)].inputs) {
      const bool is_activation = input != kNoValue && graph_.values[Index(input)].initializer < 0;
      if (!is_activation) continue;
      lost_.push_back({id, input, std::move(name), "dropout"});
      return;
    }
  }

  struct Container {
    int last = -1;             // the child seen last
    bool last_folded = false;  // it had a batch norm behind it
  };

  const Graph& graph_;
  const ExporterMetadata& metadata_;
  const ModuleTree& modules_;
  const std::vector<bool>& drops_;  // by node
  std::unordered_set<NodeId> folded_;
  ModuleId module_ = kOutside;  // of the last node that has one
  std::vector<ModuleId> path_;  // the modules around it, outermost first
  std::map<std::string, Container> open_;
  std::map<std::string, int> calls_of_;  // by the name of a dropout
  std::vector<LostCall> lost_;
};

// How writers begin the name of what a dropout made, which they keep as an Identity.
constexpr std::string_view kDroppedOut[] = {
    "p2o.pd_op.dropout.",  // paddle2onnx 2.1.0
};

bool IsNamedDropout(const Graph& graph, const Node& node) {
  const auto has = [](const std::vector<ValueId>& values) {
    return !values.empty() && values[0] != kNoValue;
  };
  if (node.op_type != "Identity" || !has(node.inputs) || !has(node.outputs)) return false;
  const std::string_view name = graph.values[Index(node.outputs[0])].name;
  return std::ranges::any_of(kDroppedOut,
                             [&](std::string_view it) { return name.starts_with(it); });
}

void AddNamedDropouts(const Graph& graph, std::vector<LostCall>& calls) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!IsNamedDropout(graph, node)) continue;
    const std::string_view name = graph.values[Index(node.outputs[0])].name;
    calls.push_back({static_cast<NodeId>(i), node.inputs[0], std::string(name), "dropout"});
  }
}

}  // namespace

LostOperands FindLostOperands(const Graph& graph, const ExporterMetadata& metadata) {
  return LostOperandFinder(graph, metadata).Find();
}

namespace {

// "x + (q - x).detach()" of a straight-through estimator, whose detach() leaves no node: without it
// the sum would be q, which nobody writes so.
std::vector<LostCall> FindStraightThrough(const Graph& graph) {
  std::vector<int> reads(graph.values.size());
  for (const Node& node : graph.nodes) {
    for (const ValueId value : node.inputs) {
      if (value != kNoValue) ++reads[Index(value)];
    }
  }
  std::vector<LostCall> calls;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& add = graph.nodes[i];
    if (add.op_type != "Add" || add.inputs[0] == kNoValue) continue;
    const Value& difference = graph.values[Index(add.inputs[1])];
    if (difference.producer == kNoNode) continue;
    const Node& sub = graph.nodes[Index(difference.producer)];
    const bool is_only_read = reads[Index(add.inputs[1])] == 1 && !difference.is_output;
    if (sub.op_type != "Sub" || sub.inputs[1] != add.inputs[0] || !is_only_read) continue;
    calls.push_back({.before = static_cast<NodeId>(i),
                     .input = add.inputs[1],
                     .name = std::string(difference.name) + ".detach",
                     .op = "detach"});
  }
  return calls;
}

}  // namespace

std::vector<LostCall> FindLostCalls(const Graph& graph, const ExporterMetadata& metadata,
                                    const LostOperands& operands,
                                    const std::vector<FoldedBatchNorm>& folded) {
  std::vector<LostCall> calls =
      metadata.groups.empty() ? FindStraightThrough(graph) : operands.calls;
  if (IsTrainingExport(graph)) return calls;
  for (LostCall& gap : GapFinder(graph, metadata, operands.drops, folded).Find()) {
    calls.push_back(std::move(gap));
  }
  AddNamedDropouts(graph, calls);
  std::ranges::stable_sort(calls, {}, &LostCall::before);
  return calls;
}

bool NamesDropouts(const Graph& graph) {
  return std::ranges::any_of(graph.nodes,
                             [&](const Node& node) { return IsNamedDropout(graph, node); });
}

bool IsTrainingExport(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return node.op_type == "Dropout" || node.op_type == "RandomUniformLike" ||
           IntAttribute(node, "training_mode", 0) == 1 ||
           (node.op_type == "BatchNormalization" && node.outputs.size() > 1);  // before opset 14
  });
}

bool ShowsDropouts(const Graph& graph, const ExporterMetadata& metadata) {
  constexpr std::string_view kFirstSilent = "2.14";
  if (metadata.groups.empty()) return false;
  const FrameworkProfile* const wrote = FindFramework(graph.torch);
  return wrote == nullptr || wrote < FindFramework(kFirstSilent);
}

bool IsUnfoldedExport(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    const bool may_be = node.op_type == "Transpose" && node.name.starts_with('/');
    if (!may_be || node.inputs.empty() || node.inputs[0] == kNoValue) return false;
    const Value& weight = graph.values[Index(node.inputs[0])];
    return weight.initializer >= 0 && !IsComputedName(weight.name);
  });
}

}  // namespace onnxfit
