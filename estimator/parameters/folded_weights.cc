// Weights of linear layers that an exporter stored transposed, without their names.
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>

#include "estimator/base/index.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/parameters/roles.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

constexpr NodeId kNever = std::numeric_limits<NodeId>::max();

// A tensor that kept the name that it has in the module.
bool IsNamed(std::string_view name) {
  return name.find('.') != std::string_view::npos && !IsComputedName(name);
}

bool IsIn(std::string_view name, std::string_view module) {
  return name.size() > module.size() && name.starts_with(module) && name[module.size()] == '.';
}

// Whether a part of `path` is a number: "encoder.layer.3".
bool HasNumber(std::string_view path) {
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find('.', start), path.size());
    if (IsNumbered(path.substr(start, end - start))) return true;
    start = end + 1;
  }
  return false;
}

bool IsNorm(std::string_view module) {
  std::string lower(ChildOf(module));
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower.ends_with("layernorm") || lower.ends_with("layer_norm");
}

class FoldedWeightFinder {
 public:
  FoldedWeightFinder(const Graph& graph, const ExporterMetadata& metadata)
      : graph_(graph), metadata_(metadata) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) IndexNode(static_cast<NodeId>(i));
    for (const Initializer& initializer : graph.initializers) {
      if (IsNamed(NameOf(initializer.value))) named_.push_back(initializer.value);
    }
  }

  std::vector<FoldedWeight> Find() const {
    std::vector<FoldedWeight> found;
    for (const Initializer& initializer : graph_.initializers) {
      const NodeId product = ProductWith(initializer);
      const std::string module = product == kNoNode ? std::string() : ModuleOf(product);
      if (module.empty()) continue;
      const std::string weight = WeightOf(module);
      if (values_.contains(weight)) continue;
      found.push_back({initializer.value, weight, Anchor(module, product),
                       TiedTo(initializer, product, module)});
    }
    return found;
  }

 private:
  std::string_view NameOf(ValueId value) const { return graph_.values[Index(value)].name; }

  void IndexNode(NodeId id) {
    const Node& node = graph_.nodes[Index(id)];
    if (!HasResult(node)) return;
    for (const ValueId value : node.inputs) {
      if (value == kNoValue) continue;
      ++readers_[value];
      first_use_.try_emplace(value, id);
      if (IsNamed(NameOf(value))) values_.emplace(NameOf(value), value);
    }
    if (node.op_type == "MatMul" && node.inputs.size() == 2) products_.emplace(node.inputs[1], id);
    if (node.op_type == "Add" && node.inputs.size() == 2) {
      for (const ValueId value : node.inputs) sums_.emplace(value, id);
    }
    for (const ValueId value : node.outputs) {
      if (value != kNoValue && graph_.values[Index(value)].is_output) ends_.insert(id);
    }
    if (node.op_type == "Gather" && !node.inputs.empty()) gathered_.push_back(node.inputs[0]);
  }

  // The first product with a nameless [k, n], which nothing else reads; else kNoNode.
  NodeId ProductWith(const Initializer& weight) const {
    const bool is_weight = IsFloat(weight.type.dtype) && weight.type.dims.size() == 2;
    const size_t calls = products_.count(weight.value);
    if (!is_weight || calls == 0 || IsNamed(NameOf(weight.value))) return kNoNode;
    const bool is_read_elsewhere = calls != static_cast<size_t>(readers_.at(weight.value));
    return is_read_elsewhere ? kNoNode : products_.lower_bound(weight.value)->second;
  }

  // By its scope, which leaves out modules whose forward is not called ("self.model.decoder(x)"),
  // or that of the bias which is added.
  std::string ModuleOf(NodeId product) const {
    const std::string by_scope = metadata_.PathOf(product);
    const auto [begin, end] = sums_.equal_range(graph_.nodes[Index(product)].outputs[0]);
    for (auto sum = begin; sum != end; ++sum) {
      for (const ValueId term : graph_.nodes[Index(sum->second)].inputs) {
        const std::string_view owner = ParentOf(NameOf(term));
        const bool is_bias = ChildOf(NameOf(term)) == "bias" && values_.contains(NameOf(term));
        if (is_bias && ChildOf(owner) == ChildOf(by_scope)) return std::string(owner);
      }
    }
    return by_scope;
  }

  // torch.nn.MultiheadAttention calls its own otherwise.
  std::string WeightOf(const std::string& module) const {
    const bool is_attention = values_.contains(module + ".in_proj_bias");
    return module + (is_attention ? ".in_proj_weight" : ".weight");
  }

  ValueId Anchor(const std::string& module, NodeId product) const {
    for (const char* bias : {".bias", ".in_proj_bias"}) {
      const auto found = values_.find(module + bias);
      if (found != values_.end()) return found->second;
    }
    for (std::string_view around = module; around.find('.') != std::string_view::npos;) {
      around = ParentOf(around);
      const bool has_tensors =
          std::ranges::any_of(named_, [&](ValueId value) { return IsIn(NameOf(value), around); });
      if (has_tensors) return AnchorIn(around, around == ParentOf(module), product);
    }
    return kNoValue;
  }

  // In front of the first tensor of `module` that comes later, or behind the last one.
  ValueId AnchorIn(std::string_view module, bool is_parent, NodeId product) const {
    const bool in_layer = HasNumber(module);
    bool passed = false;
    for (const ValueId value : named_) {
      const bool is_in = IsIn(NameOf(value), module);
      if (passed && !is_in) return value;
      if (!is_in) continue;
      const std::string_view owner = ParentOf(NameOf(value));
      const bool is_beside = ParentOf(owner) == module && in_layer && !HasNumber(ChildOf(owner));
      if (is_beside && (is_parent || IsNorm(owner))) return value;
      if (FirstUse(value) > product) return value;
      passed = true;
    }
    return kNoValue;
  }

  NodeId FirstUse(ValueId value) const {
    const auto use = first_use_.find(value);
    return use == first_use_.end() ? kNever : use->second;
  }

  // The product is an output, or the sum that follows is; a layer with a bias of its own is
  // not taken for one.
  bool IsHead(NodeId product, const std::string& module) const {
    if (values_.contains(module + ".bias")) return false;
    const ValueId result = graph_.nodes[Index(product)].outputs[0];
    const bool is_summed = sums_.contains(result) && std::ranges::any_of(ends_, [&](NodeId end) {
                             const std::vector<ValueId>& inputs = graph_.nodes[Index(end)].inputs;
                             return std::ranges::find(inputs, result) != inputs.end();
                           });
    return ends_.contains(product) || is_summed;
  }

  ValueId TiedTo(const Initializer& weight, NodeId product, const std::string& module) const {
    if (!IsHead(product, module)) return kNoValue;
    const Dims transposed = {weight.type.dims[1], weight.type.dims[0]};
    const auto table = std::ranges::find_if(gathered_, [&](ValueId value) {
      const int32_t stored = value == kNoValue ? -1 : graph_.values[Index(value)].initializer;
      return stored >= 0 &&
             graph_.initializers[Index(stored)].type == TensorType{weight.type.dtype, transposed};
    });
    return table == gathered_.end() ? kNoValue : *table;
  }

  const Graph& graph_;
  const ExporterMetadata& metadata_;
  std::vector<ValueId> named_;  // in the order of the file
  std::map<std::string, ValueId, std::less<>> values_;
  std::unordered_map<ValueId, int> readers_;
  std::unordered_map<ValueId, NodeId> first_use_;
  std::multimap<ValueId, NodeId> products_;  // by second factor
  std::multimap<ValueId, NodeId> sums_;      // by operand
  std::set<NodeId> ends_;                    // nodes that make an output
  std::vector<ValueId> gathered_;
};

// --- torch.export's --------------------------------------------------------------------------

// Calls that the optimizer runs on a parameter, as it names their results: "t_1", "unsqueeze".
constexpr std::string_view kOfParameters[] = {"t",         "transpose", "permute",
                                              "unsqueeze", "neg",       "exp"};
// Of matrices alone: those of more dimensions are mostly of what a table gave.
constexpr std::string_view kOfMatrices[] = {"t", "transpose", "permute"};

bool IsAmong(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

bool MayBeOfParameter(const Initializer& initializer, std::string_view name) {
  const std::string_view call = name.substr(0, name.find('_'));
  const bool is_matrix = initializer.type.dims.size() == 2;
  return IsFloat(initializer.type.dtype) && IsAmong(call, kOfParameters) &&
         (is_matrix || !IsAmong(call, kOfMatrices));
}

// "" of what the model itself has.
std::string_view ModuleAround(std::string_view path) {
  return path.find('.') == path.npos ? std::string_view() : ParentOf(path);
}

// The module whose forward reads it: that around a ParameterList, of "U.0".
std::string_view OwnerOf(std::string_view parameter) {
  const std::string_view module = ModuleAround(parameter);
  return IsNumbered(ChildOf(parameter)) ? ModuleAround(module) : module;
}

// The parameters that a signature names and the file does not hold, by module, the first last.
std::map<std::string_view, std::vector<std::string_view>> LostParameters(
    const Graph& graph, const ExporterMetadata& metadata) {
  std::set<std::string_view> stored;
  for (const Initializer& each : graph.initializers) {
    stored.insert(graph.values[Index(each.value)].name);
  }
  std::map<std::string_view, std::vector<std::string_view>> lost;
  for (auto entry = metadata.signature.rbegin(); entry != metadata.signature.rend(); ++entry) {
    if (entry->kind != SignatureEntry::Kind::kParameter || stored.contains(entry->target)) continue;
    lost[OwnerOf(entry->target)].push_back(entry->target);
  }
  return lost;
}

}  // namespace

std::map<ValueId, std::string_view> FindFoldedParameters(const BoundGraph& bound,
                                                         const TensorUses& uses) {
  auto lost = LostParameters(bound.graph(), bound.metadata());
  std::map<std::pair<NodeId, size_t>, const Initializer*> by_reader;  // and its input
  for (const Initializer& initializer : bound.graph().initializers) {
    const auto use = uses.first.find(initializer.value);
    if (use == uses.first.end()) continue;
    if (MayBeOfParameter(initializer, bound.NameOf(initializer.value)))
      by_reader.emplace(std::pair(use->second.node, use->second.input), &initializer);
  }
  std::map<ValueId, std::string_view> found;
  for (const auto& [reader, initializer] : by_reader) {
    std::vector<std::string_view>& names = lost[bound.metadata().PathOf(reader.first)];
    if (names.empty()) continue;
    found.emplace(initializer->value, names.back());
    names.pop_back();
  }
  return found;
}

std::vector<FoldedWeight> FindFoldedWeights(const Graph& graph, const ExporterMetadata& metadata) {
  return FoldedWeightFinder(graph, metadata).Find();
}

}  // namespace onnxfit
