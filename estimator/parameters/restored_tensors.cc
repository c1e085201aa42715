// Tensors of the module that an exporter has merged with equal ones, or dropped.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/parameters/roles.h"
#include "estimator/patterns/rewrites.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

// An input of a node.
struct Slot {
  NodeId node = kNoNode;
  size_t input = 0;
};

// Operators that a bias belongs to.
struct BiasRow {
  std::string_view op_type;
  int64_t (*channels)(const Node&, const Dims& weight);
  bool is_input;  // the node itself takes it; else an Add did, which is gone
};

int64_t FirstDim(const Node&, const Dims& weight) { return weight[0]; }
int64_t SecondDim(const Node&, const Dims& weight) { return weight[1]; }

int64_t TransposedChannels(const Node& node, const Dims& weight) {
  return CheckedMul(weight[1], IntAttribute(node, "group", 1));
}

int64_t GemmColumns(const Node& node, const Dims& weight) {
  return weight[IntAttribute(node, "transB", 0) == 0 ? 1 : 0];
}

constexpr BiasRow kBiases[] = {
    {"Conv", FirstDim, true},
    {"ConvTranspose", TransposedChannels, true},
    {"Gemm", GemmColumns, true},
    {"MatMul", SecondDim, false},
};

const BiasRow* FindBiasRow(std::string_view op_type) {
  for (const BiasRow& row : kBiases) {
    if (row.op_type == op_type) return &row;
  }
  return nullptr;
}

class Restorer {
 public:
  Restorer(Graph& graph, const ExporterMetadata& metadata) : graph_(graph), metadata_(metadata) {
    for (const SignatureEntry& entry : metadata.signature) entries_.emplace(entry.name, &entry);
    for (const SignatureEntry& entry : metadata.signature) targets_.emplace(entry.target, kNoValue);
    for (const FxGroup& group : metadata.groups) calls_.emplace(group.call.name);
    for (const Initializer& initializer : graph.initializers) {
      const auto found = targets_.find(NameOf(initializer.value));
      if (found != targets_.end()) found->second = initializer.value;
    }
  }

  void Restore() {
    restored_ += SplitCopies(graph_, metadata_);
    for (const FxGroup& group : metadata_.groups) RestoreOperands(group);
    RestoreRecurrentBiases();
    for (const FxGroup& group : metadata_.groups) RestoreViewed(group);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) RestoreSummand(static_cast<NodeId>(i));
    NameViews();
    NameExpanded();
    if (restored_ == 0) return;
    graph_.notes.push_back(
        fmt::format("{} tensor{} that the exporter merged with equal ones, or dropped as zeros, {} "
                    "put back",
                    restored_, restored_ == 1 ? "" : "s", restored_ == 1 ? "is" : "are"));
  }

 private:
  std::string_view NameOf(ValueId value) const { return graph_.values[Index(value)].name; }

  // What the group's call names and its nodes do not read: another tensor stands in its
  // place, after the exporter's own constants; a bias in whose place nothing stands was zero.
  void RestoreOperands(const FxGroup& group) {
    std::vector<const SignatureEntry*> named = Named(group.call);
    if (named.empty() || IsFolded(group) || IsOfRecurrent(group)) return;
    std::vector<Slot> slots = StoredSlots(group);
    const size_t operands = named.size();
    std::erase_if(named, [&](const SignatureEntry* entry) { return TakeSlot(*entry, slots); });
    if (slots.empty() && named.size() == 1 && operands > 1) return RestoreBias(group, *named[0]);
    if (slots.size() < named.size()) return;
    slots.erase(slots.begin(), slots.end() - static_cast<std::ptrdiff_t>(named.size()));
    for (size_t i = 0; i < named.size(); ++i) Give(*named[i], slots[i]);
  }

  // "view_1", self.gamma.view(1, -1, 1, 1): the exporter has computed it, and keeps one of equal
  // ones, so that no call names the parameter.  It is one that the call's module has and the file
  // has not, of several the one that the call's line names first.
  void RestoreViewed(const FxGroup& group) {
    if (std::ranges::none_of(References(group.call), [&](auto name) { return IsGone(name); })) {
      return;
    }
    std::vector<const SignatureEntry*> lost = LostBeside(group.nodes.front());
    std::vector<Slot> slots = lost.empty() ? std::vector<Slot>() : StoredSlots(group);
    std::erase_if(slots, [&](const Slot& slot) {
      return !IsNamedLikeView(NameOf(At(slot))) && !viewed_.contains(At(slot));
    });
    for (size_t i = 0; i < std::min(lost.size(), slots.size()); ++i) {
      const ValueId stored = At(slots[i]);
      Give(*lost[i], slots[i]);
      restored_ += At(slots[i]) == stored ? 1 : 0;
      viewed_.insert(stored);
    }
  }

  // Calls that make views; and what the exporter's own function for addcmul multiplies first, 1 and
  // the view (torch 2.11, onnx/_internal/exporter: "tmp_7").
  static bool IsNamedLikeView(std::string_view name) {
    constexpr std::string_view kViews[] = {"view", "reshape", "unsqueeze", "permute", "tmp"};
    return name.find('.') == std::string_view::npos &&
           std::ranges::any_of(kViews, [&](auto view) { return name.starts_with(view); });
  }

  bool IsGone(std::string_view name) const {
    return !calls_.contains(name) && !entries_.contains(name);
  }

  // Parameters that the module around `id` has and the file has not, in the order of its line.
  std::vector<const SignatureEntry*> LostBeside(NodeId id) const {
    const std::string& module = metadata_.PathOf(id);
    const std::string_view line = metadata_.LinesOf(id).innermost;
    std::vector<std::pair<size_t, const SignatureEntry*>> lost;
    for (const SignatureEntry& entry : metadata_.signature) {
      const bool is_lost =
          entry.kind == SignatureEntry::Kind::kParameter && targets_.at(entry.target) == kNoValue;
      if (!is_lost || ParentOf(entry.target) != module) continue;
      lost.emplace_back(line.find("self." + std::string(ChildOf(entry.target))), &entry);
    }
    std::ranges::stable_sort(lost, {}, [](const auto& row) { return row.first; });
    std::vector<const SignatureEntry*> ordered;
    for (const auto& [place, entry] : lost) ordered.push_back(entry);
    return ordered;
  }

  // "add_94", 1 + the weight of the norm that reads it (Gemma's): the weight itself, of which the
  // file has no other trace.  One stands for those of equal weights.
  void RestoreSummand(NodeId id) {
    for (ValueId& value : graph_.nodes[Index(id)].inputs) {
      const Initializer* stored = InitializerOf(graph_, value);
      const bool is_first = stored != nullptr && NameOf(value).starts_with("add");
      if (!is_first && !summands_.contains(value)) continue;
      const auto own = targets_.find(metadata_.PathOf(id) + ".weight");
      if (own == targets_.end() || own->second != kNoValue) continue;
      if (is_first) {
        graph_.values[Index(value)].name = own->first;
        ++restored_;
      } else {
        value = NewValue(own->first, stored->type);
      }
      own->second = value;
      summands_.insert(value);
    }
  }

  // Takes the first of `slots` that reads `entry` under its name; false where none does.
  bool TakeSlot(const SignatureEntry& entry, std::vector<Slot>& slots) {
    const auto slot = std::find_if(slots.begin(), slots.end(),
                                   [&](const Slot& s) { return NameOf(At(s)) == entry.target; });
    if (slot == slots.end()) return false;
    slots.erase(slot);
    return true;
  }

  std::vector<const SignatureEntry*> Named(const FxNode& call) const {
    std::vector<const SignatureEntry*> named;
    for (const std::string_view name : References(call)) {
      const auto entry = entries_.find(name);
      if (entry != entries_.end()) named.push_back(entry->second);
    }
    return named;
  }

  // A batch norm in a convolution: its tensors are in no slot (batch_norms.h).
  bool IsFolded(const FxGroup& group) const {
    if (group.call.target.find("batch_norm") == std::string_view::npos) return false;
    return std::none_of(group.nodes.begin(), group.nodes.end(), [&](NodeId node) {
      return graph_.nodes[Index(node)].op_type == "BatchNormalization";
    });
  }

  // ONNX orders gates otherwise: its nodes read the weights in slices, biases computed together.
  bool IsOfRecurrent(const FxGroup& group) const {
    return std::any_of(group.nodes.begin(), group.nodes.end(),
                       [&](NodeId node) { return IsRecurrent(graph_.nodes[Index(node)].op_type); });
  }

  // As long as their weights have rows.
  void RestoreRecurrentBiases() {
    std::vector<std::pair<std::string_view, TensorType>> lost;
    for (const auto& [target, value] : targets_) {
      const auto bias = targets_.find(BiasOfRecurrentWeight(target));
      const Initializer* weight = InitializerOf(graph_, value);
      const bool is_lost = bias != targets_.end() && bias->second == kNoValue;
      if (!is_lost || weight == nullptr || weight->type.dims.size() != 2) continue;
      lost.emplace_back(bias->first, TensorType{weight->type.dtype, {weight->type.dims[0]}});
    }
    std::sort(lost.begin(), lost.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [name, type] : lost) targets_.at(name) = NewValue(name, type);
  }

  // Inputs that are tensors of a module: no single numbers, no shapes.
  std::vector<Slot> StoredSlots(const FxGroup& group) {
    std::vector<Slot> slots;
    for (const NodeId id : group.nodes) {
      const Node& node = graph_.nodes[Index(id)];
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        Slot slot = SlotBehind({id, i});
        const Initializer* stored = InitializerOf(graph_, At(slot));
        if (stored == nullptr) continue;
        const bool is_tensor = IsFloat(stored->type.dtype) && !stored->type.dims.empty();
        if (is_tensor || targets_.contains(NameOf(At(slot)))) slots.push_back(slot);
      }
    }
    return slots;
  }

  // One parameter that the file does not hold is what torch.export's optimizer made views of:
  // "unsqueeze_8" of the table of DeBERTa's relative positions, for each layer one.
  void NameViews() {
    const SignatureEntry* lost = OnlyLostParameter();
    if (lost == nullptr) return;
    ValueId& own = targets_.at(lost->target);
    std::unordered_set<ValueId> others;
    for (const Initializer& stored : graph_.initializers) {
      if (!IsView(stored) || (own != kNoValue && stored.type != InitializerOf(graph_, own)->type))
        continue;
      if (own == kNoValue) {
        own = stored.value;
        graph_.values[Index(own)].name = lost->target;
        ++restored_;
      } else {
        others.insert(stored.value);
      }
    }
    for (Node& node : graph_.nodes) {
      for (ValueId& value : node.inputs) {
        if (others.contains(value)) value = own;
      }
    }
  }

  bool IsView(const Initializer& stored) const {
    const Dims& dims = stored.type.dims;
    return IsFloat(stored.type.dtype) && dims.size() == 3 && dims[0] == 1 &&
           NameOf(stored.value).starts_with("unsqueeze");
  }

  // "expand", a class token that was expanded to the file's own batch: of the token the file has
  // no other trace, no call reads it.  Where there are as many of both, in the same order.
  void NameExpanded() {
    std::vector<std::string_view> lost = UnreadParameters();
    std::vector<ValueId> expanded;
    for (const Initializer& stored : graph_.initializers) {
      const bool is_folded =
          NameOf(stored.value).starts_with("expand") && !targets_.contains(NameOf(stored.value));
      if (is_folded && IsFloat(stored.type.dtype)) expanded.push_back(stored.value);
    }
    if (lost.size() != expanded.size()) return;
    for (size_t i = 0; i < lost.size(); ++i) {
      graph_.values[Index(expanded[i])].name = lost[i];
      targets_.at(lost[i]) = expanded[i];
      ++restored_;
    }
  }

  // Targets of parameters that the file does not hold and no call names.
  std::vector<std::string_view> UnreadParameters() const {
    std::unordered_set<std::string_view> read;
    for (const FxGroup& group : metadata_.groups) {
      for (const std::string_view name : References(group.call)) read.insert(name);
    }
    std::vector<std::string_view> unread;
    for (const SignatureEntry& entry : metadata_.signature) {
      const bool is_lost =
          entry.kind == SignatureEntry::Kind::kParameter && targets_.at(entry.target) == kNoValue;
      if (is_lost && !read.contains(entry.name)) unread.push_back(entry.target);
    }
    return unread;
  }

  const SignatureEntry* OnlyLostParameter() const {
    const SignatureEntry* lost = nullptr;
    for (const SignatureEntry& entry : metadata_.signature) {
      const bool is_lost =
          entry.kind == SignatureEntry::Kind::kParameter && targets_.at(entry.target) == kNoValue;
      if (is_lost && lost != nullptr) return nullptr;
      if (is_lost) lost = &entry;
    }
    return lost;
  }

  // Where the weight is read that `slot` reads transposed by another call's node: calls of one
  // module share that.
  Slot SlotBehind(const Slot& slot) {
    const ValueId value = At(slot);
    const NodeId maker = value == kNoValue ? kNoNode : graph_.values[Index(value)].producer;
    const bool is_view = maker != kNoNode && graph_.nodes[Index(maker)].op_type == "Transpose" &&
                         metadata_.GroupOf(maker) != metadata_.GroupOf(slot.node);
    return is_view && InitializerOf(graph_, graph_.nodes[Index(maker)].inputs[0]) != nullptr
               ? Slot{maker, 0}
               : slot;
  }

  ValueId& At(const Slot& slot) { return graph_.nodes[Index(slot.node)].inputs[slot.input]; }

  // The slot reads `entry`: what it reads now is either that, computed anew, or another
  // tensor of equal values.
  void Give(const SignatureEntry& entry, const Slot& slot) {
    const ValueId stored = At(slot);
    ValueId& own = targets_.at(entry.target);
    if (own == kNoValue && !targets_.contains(NameOf(stored))) {
      graph_.values[Index(stored)].name = entry.target;
      own = stored;
    }
    if (own == kNoValue) own = NewValue(entry.target, InitializerOf(graph_, stored)->type);
    At(slot) = own;
  }

  ValueId NewValue(std::string_view name, TensorType type) {
    graph_.values.push_back({.name = name});
    const auto value = static_cast<ValueId>(graph_.values.size() - 1);
    StoreTensor(graph_, value, std::move(type));
    ++restored_;
    return value;
  }

  void RestoreBias(const FxGroup& group, const SignatureEntry& entry) {
    for (const NodeId id : group.nodes) {
      Node& node = graph_.nodes[Index(id)];
      const BiasRow* row = FindBiasRow(node.op_type);
      const Initializer* weight =
          node.inputs.size() < 2 ? nullptr : InitializerOf(graph_, node.inputs[1]);
      if (row == nullptr || weight == nullptr || weight->type.dims.size() < 2) continue;
      const TensorType type = {weight->type.dtype, {row->channels(node, weight->type.dims)}};
      const ValueId bias = NewValue(entry.target, type);
      targets_.at(entry.target) = bias;
      if (row->is_input) node.inputs.resize(2);
      if (row->is_input) node.inputs.push_back(bias);
      return;
    }
  }

  Graph& graph_;
  const ExporterMetadata& metadata_;
  std::unordered_map<std::string_view, const SignatureEntry*> entries_;  // by name
  std::unordered_map<std::string_view, ValueId> targets_;  // kNoValue: not in the file
  std::unordered_set<std::string_view> calls_;             // names of all calls
  std::unordered_set<ValueId> viewed_;                     // parameters, stored as views
  std::unordered_set<ValueId> summands_;                   // weights, stored as 1 + themselves
  size_t restored_ = 0;
};

}  // namespace

void RestoreTensors(Graph& graph, const ExporterMetadata& metadata) {
  Restorer(graph, metadata).Restore();
}

}  // namespace onnxfit
