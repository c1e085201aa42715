// Tensors that a file has once and a module under several names: tied ones, and equal ones that an
// exporter has merged.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/libraries/libraries.h"
#include "estimator/parameters/roles.h"
#include "estimator/patterns/rewrites.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

// --- Copies that an exporter has merged -----------------------------------------------------

// How many modules the paths of two tensors share, from the outermost in.
size_t SharedPath(std::string_view a, std::string_view b) {
  size_t shared = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i) {
    if (a[i] == '.') ++shared;
  }
  return shared;
}

// "layers.#.mlp.bias" of "layers.3.mlp.bias".
std::string InAnyLayer(std::string_view name) {
  std::string bound;
  for (size_t start = 0; start < name.size();) {
    const size_t end = std::min(name.find('.', start), name.size());
    const std::string_view part = name.substr(start, end - start);
    const bool is_number = IsNumbered(part);
    bound += is_number ? "#" : part;
    bound += '.';
    start = end + 1;
  }
  return bound;
}

class Placer {
 public:
  Placer(const Graph& graph, size_t first) : graph_(graph) {
    for (size_t i = 0; i < first; ++i) order_.push_back(static_cast<int32_t>(i));
    for (size_t i = first; i < graph.initializers.size(); ++i) {
      place_in_layer_[InAnyLayer(NameOf(static_cast<int32_t>(i)))] = i;
    }
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const ValueId value : graph.nodes[i].inputs) first_use_.try_emplace(value, i);
    }
  }

  void Place(int32_t initializer) {
    const size_t place = std::max(PlaceBeside(initializer), earliest_);
    order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(place), initializer);
    earliest_ = place + 1;
  }

  const std::vector<int32_t>& order() const { return order_; }

 private:
  std::string_view NameOf(int32_t initializer) const {
    return graph_.values[Index(graph_.initializers[Index(initializer)].value)].name;
  }

  bool IsLater(int32_t a, int32_t b) const {
    const auto in_layer_a = place_in_layer_.find(InAnyLayer(NameOf(a)));
    const auto in_layer_b = place_in_layer_.find(InAnyLayer(NameOf(b)));
    const bool are_known = in_layer_a != place_in_layer_.end() &&
                           in_layer_b != place_in_layer_.end() &&
                           NumberedLayer(NameOf(a)) == NumberedLayer(NameOf(b));
    return are_known ? in_layer_a->second > in_layer_b->second : FirstUse(a) > FirstUse(b);
  }

  size_t FirstUse(int32_t initializer) const {
    const auto use = first_use_.find(graph_.initializers[Index(initializer)].value);
    return use == first_use_.end() ? std::numeric_limits<size_t>::max() : use->second;
  }

  size_t PlaceBeside(int32_t initializer) const {
    size_t most = 0;
    for (const int32_t other : order_) {
      most = std::max(most, SharedPath(NameOf(other), NameOf(initializer)));
    }
    size_t behind = order_.size();
    for (size_t i = 0; i < order_.size(); ++i) {
      if (SharedPath(NameOf(order_[i]), NameOf(initializer)) != most) continue;
      if (i >= earliest_ && IsLater(order_[i], initializer)) return i;
      behind = i + 1;
    }
    return behind;
  }

  const Graph& graph_;
  std::vector<int32_t> order_;                    // indices of initializers
  size_t earliest_ = 0;                           // place of what comes next
  std::map<std::string, size_t> place_in_layer_;  // as in the last one, all of which is moved
  std::unordered_map<ValueId, size_t> first_use_;
};

// How TorchScript's exporter calls the transpose of a weight that it computed: "onnx::MatMul_123".
constexpr std::string_view kFactor = "onnx::MatMul_";

// Views that ONNX has as an Identity: of pairs, which it has both before and behind it, and of all,
// "self.table[:, :n]" (torch 2.11).
bool IsView(std::string_view target) {
  return target == "aten.view_as_complex.default" || target == "aten.alias.default";
}

// `b = Identity (a)`, `a` an initializer.
class CopySplitter {
 public:
  CopySplitter(Graph& graph, const ExporterMetadata& metadata)
      : graph_(graph), metadata_(metadata), kept_(graph.initializers.size()) {}

  // The exporter writes them in reverse.
  void Split() {
    for (auto id = static_cast<NodeId>(graph_.nodes.size()) - 1; id >= 0; --id) {
      if (!IsView(metadata_.TargetOf(id))) SplitIdentity(graph_.nodes[Index(id)]);
    }
    if (graph_.initializers.size() > kept_) PlaceMerged(graph_, kept_);
    if (!sources_.empty()) FindLayers();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) ReadSources(static_cast<NodeId>(i));
  }

  size_t added() const { return graph_.initializers.size() - kept_; }

 private:
  std::string_view NameOf(ValueId value) const { return graph_.values[Index(value)].name; }

  // `b = Identity (a)`: b becomes an initializer, the node is left without a result.
  void SplitIdentity(Node& node) {
    if (node.op_type != "Identity" || node.inputs.size() != 1 || node.outputs.size() != 1) return;
    const Initializer* source = InitializerOf(graph_, node.inputs[0]);
    const ValueId value = node.outputs[0];
    if (source == nullptr || value == kNoValue || graph_.values[Index(value)].is_output) return;
    if (!IsFloat(source->type.dtype) || IsLifted(NameOf(node.inputs[0]))) return;
    node.outputs[0] = kNoValue;
    graph_.values[Index(value)].producer = kNoNode;
    if (NameOf(node.inputs[0]).starts_with(kFactor)) {
      sources_.emplace(value, node.inputs[0]);
    } else {
      StoreTensor(graph_, value, TensorType(source->type));
    }
  }

  void FindLayers() {
    for (const Initializer& initializer : graph_.initializers) {
      const std::string_view layer = NumberedLayer(NameOf(initializer.value));
      if (!layer.empty()) layers_.emplace(layer);
    }
  }

  // What the exporter computed of a weight that is used twice, it computed twice.  But a layer
  // with tensors of its own has weights of its own, equal where it is a copy of another layer
  // (torch.nn.TransformerEncoder makes its layers so).
  void ReadSources(NodeId id) {
    for (ValueId& value : graph_.nodes[Index(id)].inputs) {
      const auto copied = sources_.find(value);
      const ValueId source = copied == sources_.end() ? value : copied->second;
      if (value == kNoValue || !NameOf(source).starts_with(kFactor)) continue;
      const std::string layer(NumberedLayer(metadata_.PathOf(id) + "."));
      const auto [kept, is_first] = kept_in_.try_emplace({source, layer}, source);
      if (is_first && value != source && layers_.contains(layer)) {
        kept->second = value;
        StoreTensor(graph_, value, TensorType(InitializerOf(graph_, source)->type));
      }
      value = kept->second;
    }
  }

  Graph& graph_;
  const ExporterMetadata& metadata_;
  size_t kept_;                                                 // initializers of the file
  std::unordered_map<ValueId, ValueId> sources_;                // of copies of nameless tensors
  std::set<std::string, std::less<>> layers_;                   // numbered ones that hold tensors
  std::map<std::pair<ValueId, std::string>, ValueId> kept_in_;  // source, layer -> what it reads
};

// --- Ties -----------------------------------------------------------------------------------

using Kind = SignatureEntry::Kind;

// The parameters that are stored, or that a call reads, by the signature's names.
std::unordered_set<std::string_view> NamesInUse(const Graph& graph,
                                                const ExporterMetadata& metadata) {
  std::unordered_set<std::string_view> stored;
  for (const Initializer& initializer : graph.initializers) {
    stored.insert(graph.values[Index(initializer.value)].name);
  }
  std::unordered_set<std::string_view> names;
  for (const SignatureEntry& entry : metadata.signature) {
    if (stored.contains(entry.target)) names.insert(entry.name);
  }
  for (const FxGroup& group : metadata.groups) {
    for (const std::string_view name : References(group.call)) names.insert(name);
  }
  return names;
}

class TieFinder {
 public:
  TieFinder(const Graph& graph, const ExporterMetadata& metadata)
      : metadata_(metadata), used_(NamesInUse(graph, metadata)) {
    for (const SignatureEntry& entry : metadata.signature) {
      if (entry.kind == Kind::kParameter) parameters_.emplace(entry.name, &entry);
    }
    for (size_t i = 0; i < metadata.groups.size(); ++i) {
      const NodeId first = metadata.groups[i].nodes.front();
      groups_of_.emplace(metadata.PathOf(first), i);
    }
  }

  std::map<std::string_view, std::string_view> Find() const {
    std::map<std::string_view, std::string_view> first_names;
    for (const SignatureEntry& entry : metadata_.signature) {
      if (entry.kind != Kind::kParameter || used_.contains(entry.name)) continue;
      const SignatureEntry* kept = KeptFor(entry);
      if (kept != nullptr && &entry < kept) first_names.try_emplace(kept->target, entry.target);
    }
    return first_names;
  }

 private:
  // What the calls of the entry's module read in its stead, or of its child that has it, too.
  const SignatureEntry* KeptFor(const SignatureEntry& entry) const {
    const std::string module(ParentOf(entry.target));
    const SignatureEntry* kept = KeptIn(module, entry);
    return kept != nullptr ? kept
                           : KeptIn(fmt::format("{}.{}", module, ChildWithTiedBias()), entry);
  }

  const SignatureEntry* KeptIn(const std::string& module, const SignatureEntry& entry) const {
    const auto [begin, end] = groups_of_.equal_range(module);
    for (auto group = begin; group != end; ++group) {
      for (const std::string_view name : References(metadata_.groups[group->second].call)) {
        const auto found = parameters_.find(name);
        if (found == parameters_.end()) continue;
        const bool is_elsewhere = ParentOf(found->second->target) != ParentOf(entry.target);
        if (is_elsewhere && ChildOf(found->second->target) == ChildOf(entry.target)) {
          return found->second;
        }
      }
    }
    return nullptr;
  }

  const ExporterMetadata& metadata_;
  std::unordered_set<std::string_view> used_;
  std::unordered_map<std::string_view, const SignatureEntry*> parameters_;  // by name
  std::unordered_multimap<std::string, size_t> groups_of_;                  // by module
};

void DoubtTie(const TrainingSettings& settings, Roles& roles) {
  const bool is_told = settings.assumed.tied_head.has_value();
  if (is_told || std::ranges::count(roles.doubts, Doubt::kTiedHead) > 0) return;
  roles.doubts.push_back(Doubt::kTiedHead);
}

}  // namespace

const Initializer* InitializerOf(const Graph& graph, ValueId value) {
  const int32_t index = value == kNoValue ? -1 : graph.values[Index(value)].initializer;
  return index < 0 ? nullptr : &graph.initializers[Index(index)];
}

void StoreTensor(Graph& graph, ValueId value, TensorType type) {
  graph.values[Index(value)].initializer = static_cast<int32_t>(graph.initializers.size());
  graph.initializers.push_back({.value = value, .type = std::move(type), .external = true});
}

size_t SplitCopies(Graph& graph, const ExporterMetadata& metadata) {
  CopySplitter splitter(graph, metadata);
  splitter.Split();
  return splitter.added();
}

void PlaceMerged(Graph& graph, size_t first) {
  Placer placer(graph, first);
  for (size_t i = first; i < graph.initializers.size(); ++i) placer.Place(static_cast<int32_t>(i));
  std::vector<Initializer> ordered;
  for (const int32_t i : placer.order()) ordered.push_back(graph.initializers[Index(i)]);
  graph.initializers = std::move(ordered);
  for (size_t i = 0; i < graph.initializers.size(); ++i) {
    graph.values[Index(graph.initializers[i].value)].initializer = static_cast<int32_t>(i);
  }
}

std::map<std::string_view, std::string_view> FindFirstNames(const Graph& graph,
                                                            const ExporterMetadata& metadata) {
  return metadata.signature.empty() ? std::map<std::string_view, std::string_view>()
                                    : TieFinder(graph, metadata).Find();
}

bool LikelyTiesHead(const Graph& graph, const ExporterMetadata& metadata) {
  const auto is_stored = [&](ValueId id) {
    if (id == kNoValue) return false;
    const Value& value = graph.values[Index(id)];
    return value.initializer >= 0 ||
           (value.producer != kNoNode && graph.nodes[Index(value.producer)].op_type == "Constant");
  };
  std::set<ValueId> words;
  bool has_gate = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.inputs.empty() || node.inputs[0] == kNoValue) continue;
    if (node.op_type == "Gather" && is_stored(node.inputs[0])) words.insert(node.outputs[0]);
    const bool is_product = node.op_type == "Mul" && node.inputs.size() == 2;
    if (is_product && words.contains(node.inputs[0]) && is_stored(node.inputs[1])) return true;
    has_gate = has_gate || HasOwnHead(metadata.PathOf(static_cast<NodeId>(i)));
  }
  return !has_gate;
}

void DecideTie(const BoundGraph& bound, const TrainingSettings& settings,
               const FoldedWeight& weight, Roles& roles) {
  const std::string_view table = bound.NameOf(weight.tied);
  const std::optional<bool> stored = AreTransposes(bound.graph(), weight.value, weight.tied);
  if (stored.has_value() && !settings.assumed.tied_head.has_value()) {
    if (*stored) roles.ties.emplace_back(weight.value, weight.tied);
    roles.notes.push_back(fmt::format("{} {} {}, by the elements that the file stores", weight.name,
                                      *stored ? "is" : "is not", table));
    return;
  }
  DoubtTie(settings, roles);
  const bool is_tied =
      settings.assumed.tied_head.value_or(LikelyTiesHead(bound.graph(), bound.metadata()));
  if (is_tied) roles.ties.emplace_back(weight.value, weight.tied);
  const std::string bytes =
      FormatBytes(BytesOf({ParameterType(settings.precision), bound.DimsOf(weight.value)}));
  if (is_tied) {
    roles.assumptions.push_back(
        fmt::format("{} is taken to be {}, tied: {} less are parameters (--assume tied-head=no, "
                    "if it is not)",
                    weight.name, table, bytes));
  } else if (!settings.assumed.tied_head.has_value()) {
    roles.assumptions.push_back(
        fmt::format("{} is not taken to be {}, though it may be: {} more are parameters (--assume "
                    "tied-head=yes, if they are tied)",
                    weight.name, table, bytes));
  }
}

}  // namespace onnxfit
