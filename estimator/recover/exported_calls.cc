// Calls of PyTorch's that torch.export wrote as several nodes, by what it says of them.
#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "estimator/base/index.h"
#include "estimator/program/call_operands.h"
#include "estimator/recover/bound_graph.h"
#include "estimator/recover/rewrites.h"

namespace onnxfit {
namespace {

using ArgumentPlaces = std::array<int8_t, 3>;  // of operands among a call's arguments; -1: no more
constexpr ArgumentPlaces kFirst = {0, -1, -1};
constexpr std::string_view kUnknownCall;  // its nodes run as they are written

// What `call`, whose first operand is of `rank` dimensions, says beside its tensors.
using IntsOf = std::vector<int64_t> (*)(const FxNode& call, int64_t rank);

int64_t NumberAt(const FxNode& call, size_t place, int64_t absent) {
  return place < call.arguments.size() ? call.arguments[place].number : absent;
}

int64_t AxisAt(const FxNode& call, size_t place, int64_t absent, int64_t rank) {
  const int64_t axis = NumberAt(call, place, absent);
  return axis < 0 ? axis + rank : axis;
}

// x.unfold (dimension, size, step)
std::vector<int64_t> WindowsOf(const FxNode& call, int64_t rank) {
  return {AxisAt(call, 1, 0, rank), NumberAt(call, 2, 1), NumberAt(call, 3, 1)};
}

// x.diagonal (offset, dim1, dim2)
std::vector<int64_t> DiagonalOf(const FxNode& call, int64_t rank) {
  return {AxisAt(call, 2, 0, rank), AxisAt(call, 3, 1, rank)};
}

// The numbers of a list: x.as_strided (sizes, strides), pad (x, pads).
template <size_t kPlace>
std::vector<int64_t> ListOf(const FxNode& call, int64_t) {
  std::vector<int64_t> numbers;
  if (kPlace >= call.arguments.size()) return numbers;
  for (const FxArgument& item : call.arguments[kPlace].items) {
    if (item.kind != FxArgument::Kind::kNumber) return {};
    numbers.push_back(item.number);
  }
  return numbers;
}

// x.scatter_reduce (dim, index, src, reduce, include_self=True)
std::vector<int64_t> ReductionIn(const FxNode& call, int64_t) {
  const std::string_view how = call.arguments.size() > 4 ? call.arguments[4].text : "";
  const bool leaves_self = std::ranges::any_of(call.named, [](const auto& argument) {
    return argument.first == "include_self" && argument.second.text == "False";
  });
  return {static_cast<int64_t>(ReductionOf(how)), leaves_self ? 0 : 1};
}

struct ExportedRow {
  std::string_view target;
  std::string_view aten;
  ArgumentPlaces operands = kFirst;
  std::string_view only_with = {};   // an argument's word, without which it is another call
  int8_t counted = -1;               // an argument whose length goes along: a list of sizes
  int8_t dimension = -1;             // an argument that names one of the first operand's; else 0
  bool has_parts = false;            // several results
  IntsOf ints = nullptr;             // instead of these
  std::string_view of_numbers = {};  // what it is where all operands but the first are numbers
};

constexpr ExportedRow kExportedRows[] = {
    {"aten.linear.default", "linear", {0, 1, 2}},
    {"aten.layer_norm.default", "layer_norm", {0, 2, 3}, "", 1},
    {"aten.silu.default", "silu"},
    {"aten.hardswish.default", "hardswish"},
    {"aten.gelu.default", "gelu"},
    {"aten.mish.default", "mish"},
    {"aten.softplus.default", "softplus"},
    {"aten.log_sigmoid.default", "log_sigmoid"},
    {"aten.glu.default", "glu"},
    {"aten.log1p.default", "log1p"},
    {"aten.log2.default", "log2"},
    {"aten.log10.default", "log10"},
    {"aten.im2col.default", "im2col"},
    {"aten.expm1.default", "expm1"},
    {.target = "aten.clamp.Tensor",
     .aten = "clamp.Tensor",
     .operands = {0, 1, 2},
     .of_numbers = "clamp"},
    {.target = "aten.clamp_min.Tensor",
     .aten = "clamp_min.Tensor",
     .operands = {0, 1, -1},
     .of_numbers = "clamp_min"},
    {.target = "aten.clamp_max.Tensor",
     .aten = "clamp_max.Tensor",
     .operands = {0, 1, -1},
     .of_numbers = "clamp_max"},
    {"aten.addcdiv.default", "addcdiv", {0, 1, 2}},
    {"aten.atan2.default", "atan2", {0, 1, -1}},
    {"aten.div.Tensor_mode", "div.Tensor_mode", {0, 1, -1}},
    {"aten.remainder.Tensor", "remainder", {0, 1, -1}},
    {"aten.lerp.Tensor", "lerp.Tensor", {0, 1, 2}},
    {"aten.logaddexp.default", "logaddexp", {0, 1, -1}},
    {"aten.logaddexp2.default", "logaddexp2", {0, 1, -1}},
    {"aten.xlogy.Tensor", "xlogy", {0, 1, -1}},
    {"aten.frac.default", "frac"},
    {"aten.trunc.default", "trunc"},
    {"aten.round.decimals", "round.decimals"},
    {"aten.logit.default", "logit"},
    {"aten.sinc.default", "sinc"},
    {"aten.special_erfcx.default", "special_erfcx"},
    {"aten.mse_loss.default", "mse_loss", {0, 1, -1}},
    {"aten.clamp_min.default", "clamp_min"},
    {"aten.clamp_max.default", "clamp_max"},
    {"aten.amax.default", "amax"},
    {"aten.amin.default", "amin"},
    {"aten.max.default", "max"},
    {"aten.min.default", "min"},
    {"aten.prod.default", "prod"},
    {.target = "aten.prod.dim_int", .aten = "prod", .dimension = 1},
    {"aten.logcumsumexp.default", "logcumsumexp"},
    {"aten.cross.default", "cross", {0, 1, -1}},
    {"aten.linalg_cross.default", "linalg_cross", {0, 1, -1}},
    {"aten.mv.default", "mv", {0, 1, -1}},
    {"aten.dot.default", "dot", {0, 1, -1}},
    {"aten.vdot.default", "vdot", {0, 1, -1}},
    {"aten.addmv.default", "addmv", {0, 1, 2}},
    {"aten.addr.default", "addr", {0, 1, 2}},
    {"aten.addbmm.default", "addbmm", {0, 1, 2}},
    {"aten.linalg_vector_norm.default", "linalg_vector_norm"},
    {"aten.logsumexp.default", "logsumexp"},
    {"aten.rsqrt.default", "rsqrt"},
    {.target = "aten.as_strided.default", .aten = "as_strided", .ints = ListOf<2>},
    {"aten.clone.default", "contiguous", kFirst, "torch.contiguous_format"},
    {.target = "aten.unbind.int", .aten = "unbind", .dimension = 1, .has_parts = true},
    {"aten.index.Tensor", "index", {0, 1, -1}},
    {"aten.roll.default", "roll", kFirst, "", 2},
    {"aten.slice_scatter.default", "slice_scatter", {0, 1, -1}},
    {"aten.select_scatter.default", "select_scatter", {0, 1, -1}, "", -1, 2},
    {"aten.bernoulli.default", "bernoulli.self"},
    // What is added there may be index_add, of which torch.export makes the same.
    {"aten.index_put.default", kUnknownCall, {0, 2, 1}, "True"},
    {"aten.index_put.default", "index_put", {0, 2, 1}},
    {.target = "aten.scatter_reduce.two",
     .aten = "scatter_reduce",
     .operands = {0, 2, 3},
     .ints = ReductionIn},
    {.target = "aten.pad.default",
     .aten = "pad.circular",
     .only_with = "circular",
     .ints = ListOf<1>},
    {.target = "aten.unfold.default", .aten = "unfold", .ints = WindowsOf},
    {.target = "aten.diagonal.default", .aten = "diagonal", .ints = DiagonalOf},
    {"aten.ne.Tensor", "ne", {0, 1, -1}},
    {"aten.ne.Scalar", "ne"},
    {"aten.fill.Tensor", "fill_", {0, 1, -1}},
};

bool HasWord(const FxNode& call, std::string_view word) {
  const bool is_given = std::ranges::any_of(
      call.arguments, [&](const FxArgument& argument) { return argument.text == word; });
  return is_given || std::any_of(call.named.begin(), call.named.end(), [&](const auto& argument) {
           return argument.second.text == word;
         });
}

const ExportedRow* FindRow(const FxNode& call) {
  for (const ExportedRow& row : kExportedRows) {
    if (row.target != call.target) continue;
    if (!row.only_with.empty() && !HasWord(call, row.only_with)) continue;
    return row.aten == kUnknownCall ? nullptr : &row;
  }
  return nullptr;
}

class ExportedCallFinder {
 public:
  explicit ExportedCallFinder(const BoundGraph& bound)
      : bound_(bound), graph_(bound.graph()), metadata_(bound.metadata()), shapes_(bound.shapes()) {
    for (const SignatureEntry& entry : metadata_.signature) targets_[entry.name] = entry.target;
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      values_.emplace(graph_.values[i].name, static_cast<ValueId>(i));
    }
  }

  std::vector<Rewritten> Find() const {
    std::vector<Rewritten> calls;
    for (size_t i = 0; i < metadata_.groups.size(); ++i) {
      const ExportedRow* row = FindRow(metadata_.groups[i].call);
      auto call = row == nullptr ? std::nullopt : Read(*row, static_cast<int32_t>(i));
      if (call.has_value()) calls.push_back(std::move(*call));
    }
    return calls;
  }

 private:
  std::optional<Rewritten> Read(ExportedRow row, int32_t index) const {
    const FxGroup& group = metadata_.groups[Index(index)];
    Rewritten call;
    call.aten = row.aten;
    for (const NodeId node : group.nodes) {
      if (!IsHost(node) && !IsSharedWeight(node)) call.nodes.push_back(node);
    }
    call.ints = Ints(row, group.call);
    if (row.has_parts) call.results = ResultsOf(index, call.nodes);
    call.last = row.has_parts ? LastOf(call.nodes) : ResultOf(index, call.nodes);
    if (call.last != kNoNode && !row.of_numbers.empty() && ReadsOne(index, call.last)) {
      call.aten = row.of_numbers;
      row.operands = kFirst;
    }
    if (call.last == kNoNode || !FindOperands(row, index, call)) return std::nullopt;
    return Fits(call) ? std::optional(std::move(call)) : std::nullopt;
  }

  // Where the file says what PyTorch does not do, its nodes run as they are written.
  bool Fits(const Rewritten& call) const {
    const auto dims_of = [&](ValueId value) {
      return value == kNoValue ? nullptr : &shapes_.types[Index(value)].tensor.dims;
    };
    CallOperands operands = {.op = call.aten, .ints = call.ints};
    std::vector<ValueId> results = call.results;
    if (results.empty()) results.push_back(graph_.nodes[Index(call.last)].outputs[0]);
    for (const ValueId value : call.inputs) operands.inputs.push_back(dims_of(value));
    for (const ValueId value : results) operands.outputs.push_back(dims_of(value));
    return FitsRule(operands);
  }

  std::vector<int64_t> Ints(const ExportedRow& row, const FxNode& fx) const {
    const auto argument = [&](int8_t place) {
      return Index(place) < fx.arguments.size() ? fx.arguments[Index(place)] : FxArgument();
    };
    if (row.ints != nullptr) {
      const ValueId first = ValueOf(argument(0).text);
      if (first == kNoValue) return {};
      return row.ints(fx, std::ssize(shapes_.types[Index(first)].tensor.dims));
    }
    if (row.counted >= 0) return {static_cast<int64_t>(argument(row.counted).items.size())};
    if (row.dimension < 0) return {};
    const int64_t dimension = argument(row.dimension).number;
    const ValueId first = ValueOf(argument(0).text);
    if (dimension >= 0 || first == kNoValue) return {dimension};
    return {dimension + static_cast<int64_t>(shapes_.types[Index(first)].tensor.dims.size())};
  }

  static NodeId LastOf(const std::vector<NodeId>& nodes) {
    return nodes.empty() ? kNoNode : nodes.back();
  }

  // What others read of `nodes`, in their order.
  std::vector<ValueId> ResultsOf(int32_t index, const std::vector<NodeId>& nodes) const {
    std::vector<ValueId> results;
    for (const NodeId node : nodes) {
      for (const ValueId value : graph_.nodes[Index(node)].outputs) {
        if (IsReadOutside(value, index)) results.push_back(value);
      }
    }
    return results;
  }

  bool IsHost(NodeId id) const {
    const Node& node = graph_.nodes[Index(id)];
    return std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId value) {
      return value == kNoValue || shapes_.known[Index(value)].has_value() ||
             shapes_.known_scalar[Index(value)].has_value();
    });
  }

  // The transpose of a weight that calls of one module share: the exporter writes it once
  // (onnxscript's CommonSubexpressionEliminationPass), under the name of the first.
  bool IsSharedWeight(NodeId id) const {
    const Node& node = graph_.nodes[Index(id)];
    return node.op_type == "Transpose" && graph_.values[Index(node.inputs[0])].initializer >= 0 &&
           IsReadOutside(node.outputs[0], metadata_.GroupOf(id));
  }

  bool IsIn(NodeId node, int32_t index) const { return metadata_.GroupOf(node) == index; }

  // The only node that others, or the model's caller, read of; kNoNode where there are more.
  NodeId ResultOf(int32_t index, const std::vector<NodeId>& nodes) const {
    NodeId result = kNoNode;
    for (const NodeId node : nodes) {
      const std::vector<ValueId>& outputs = graph_.nodes[Index(node)].outputs;
      const auto leaves = std::count_if(outputs.begin(), outputs.end(),
                                        [&](ValueId value) { return IsReadOutside(value, index); });
      if (leaves == 0) continue;
      if (leaves > 1 || result != kNoNode || !IsReadOutside(outputs[0], index)) return kNoNode;
      result = node;
    }
    return result;
  }

  bool IsReadOutside(ValueId value, int32_t index) const {
    if (value == kNoValue) return false;
    return graph_.values[Index(value)].is_output ||
           std::ranges::any_of(bound_.AllReadersOf(value),
                               [&](NodeId node) { return !IsIn(node, index); });
  }

  bool ReadsOne(int32_t index, NodeId last) const {
    const std::vector<FxArgument>& arguments = metadata_.groups[Index(index)].call.arguments;
    const bool is_twice = arguments.size() > 1 && arguments[0].text == arguments[1].text;
    return !is_twice && ReadFromOutside(index, last).size() == 1;
  }

  // Fills call.inputs; false where one is not found.
  bool FindOperands(const ExportedRow& row, int32_t index, Rewritten& call) const {
    const FxNode& fx = metadata_.groups[Index(index)].call;
    std::vector<ValueId> rest = ReadFromOutside(index, call.last);
    std::vector<size_t> missing;
    for (const FxArgument& argument : Operands(row, fx)) {
      if (argument.kind != FxArgument::Kind::kReference) {
        if (missing.empty()) DropStored(rest);
        break;
      }
      const ValueId value = ValueOf(argument.text);
      if (value == kNoValue) missing.push_back(call.inputs.size());
      std::erase(rest, value);
      call.inputs.push_back(value);
    }
    if (call.inputs.empty() || missing.size() != rest.size()) return false;
    for (size_t i = 0; i < missing.size(); ++i) call.inputs[missing[i]] = rest[i];
    return true;
  }

  // Those at the row's places, a list's items one by one: table[:, index] of a call of index.
  static std::vector<FxArgument> Operands(const ExportedRow& row, const FxNode& fx) {
    std::vector<FxArgument> operands;
    for (const int8_t place : row.operands) {
      if (place < 0 || Index(place) >= fx.arguments.size()) break;
      const FxArgument& argument = fx.arguments[Index(place)];
      if (argument.kind != FxArgument::Kind::kList) operands.push_back(argument);
      std::copy_if(
          argument.items.begin(), argument.items.end(), std::back_inserter(operands),
          [](const FxArgument& item) { return item.kind == FxArgument::Kind::kReference; });
    }
    return operands;
  }

  // Exporters write ones or zeros for an operand that is None.
  void DropStored(std::vector<ValueId>& values) const {
    std::erase_if(values,
                  [&](ValueId value) { return graph_.values[Index(value)].initializer >= 0; });
  }

  // A value of the graph, or a tensor of the module under its name there.
  ValueId ValueOf(std::string_view name) const {
    const auto target = targets_.find(name);
    const auto value = values_.find(target == targets_.end() ? name : target->second);
    return value == values_.end() ? kNoValue : value->second;
  }

  // What the nodes that lead to `last` read of others, once each, the first operand's first:
  // x of x @ (transpose of w).  No numbers.
  std::vector<ValueId> ReadFromOutside(int32_t index, NodeId last) const {
    std::vector<ValueId> read;
    std::vector<ValueId> open = {graph_.nodes[Index(last)].outputs[0]};
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      if (value == kNoValue || shapes_.known[Index(value)].has_value() ||
          shapes_.known_scalar[Index(value)].has_value()) {
        continue;
      }
      const NodeId producer = graph_.values[Index(value)].producer;
      if (producer != kNoNode && (IsIn(producer, index) || IsSharedWeight(producer))) {
        const std::vector<ValueId>& inputs = graph_.nodes[Index(producer)].inputs;
        open.insert(open.end(), inputs.rbegin(), inputs.rend());
      } else if (std::find(read.begin(), read.end(), value) == read.end()) {
        read.push_back(value);
      }
    }
    return read;
  }

  const BoundGraph& bound_;
  const Graph& graph_;
  const ExporterMetadata& metadata_;
  const Shapes& shapes_;
  std::unordered_map<std::string_view, std::string_view> targets_;  // of the signature, by name
  std::unordered_map<std::string_view, ValueId> values_;
};

}  // namespace

std::vector<Rewritten> FindExportedCalls(const BoundGraph& bound) {
  return bound.metadata().groups.empty() ? std::vector<Rewritten>()
                                         : ExportedCallFinder(bound).Find();
}

}  // namespace onnxfit
