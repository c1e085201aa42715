// Calls of PyTorch's that torch.export wrote as several nodes, by what it says of them.
#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>

#include "estimator/base/index.h"
#include "estimator/exporters/bound_graph.h"
#include "estimator/exporters/call_parts.h"
#include "estimator/exporters/exported_groups.h"
#include "estimator/patterns/rewrites.h"
#include "estimator/program/call_operands.h"

namespace onnxfit {
namespace {

using ArgumentPlaces = std::array<int8_t, 3>;  // of operands among a call's arguments; -1: no more
constexpr ArgumentPlaces kFirst = {0, -1, -1};
constexpr ArgumentPlaces kNone = {-1, -1, -1};
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

// group_norm (x, groups, weight, bias)
std::vector<int64_t> GroupsIn(const FxNode& call, int64_t) { return {NumberAt(call, 1, 1)}; }

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

// _fft_r2c (x, dims, …): {} of the last dimensions, which are not moved there.
std::vector<int64_t> TransformedOf(const FxNode& call, int64_t rank) {
  std::vector<int64_t> dims = ListOf<1>(call, rank);
  int64_t last = rank - std::ssize(dims);
  for (int64_t& dim : dims) dim += dim < 0 ? rank : 0;
  const bool are_last = std::ranges::all_of(dims, [&](int64_t dim) { return dim == last++; });
  return are_last ? std::vector<int64_t>() : dims;
}

// _fft_c2r (x, dims, …) and _fft_c2c, whose complex x ONNX has as pairs.
std::vector<int64_t> TransformedOfPairs(const FxNode& call, int64_t rank) {
  return TransformedOf(call, rank - 1);
}

// x.scatter_reduce (dim, index, src, reduce, include_self=True)
std::vector<int64_t> ReductionIn(const FxNode& call, int64_t) {
  const std::string_view how = call.arguments.size() > 4 ? call.arguments[4].text : "";
  const bool leaves_self = std::ranges::any_of(call.named, [](const auto& argument) {
    return argument.first == "include_self" && argument.second.text == "False";
  });
  return {static_cast<int64_t>(ReductionOf(how)), leaves_self ? 0 : 1};
}

// --- Names that arguments decide; `line` is that of the source, "" where the file has none ---

using NameOf = std::string_view (*)(const FxNode& call, std::string_view line);

// x.norm (p): 2, 1, infinity (either sign), or another power.  That of zero counts.
std::string_view NormOf(const FxNode& call, std::string_view) {
  const std::string_view power = call.arguments.size() > 1 ? call.arguments[1].text : "2";
  if (power.ends_with("inf")) return "norm.largest";
  if (power == "0" || power == "0.0") return kUnknownCall;
  if (power == "1" || power == "1.0") return "norm.one";
  return power == "2" || power == "2.0" ? "linalg_vector_norm" : "norm.power";
}

// x.clamp (min, max): a bound on one side is another kernel.
std::string_view ClampOf(const FxNode& call, std::string_view) {
  const auto is_given = [&](size_t place) {
    return place < call.arguments.size() && call.arguments[place].text != "None";
  };
  return !is_given(2) ? "clamp_min" : is_given(1) ? "clamp" : "clamp_max";
}

struct ExportedRow {
  std::string_view target;
  std::string_view aten;
  ArgumentPlaces operands = kFirst;
  std::string_view only_with = {};   // an argument's word, without which it is another call
  int8_t counted = -1;               // an argument whose length goes along: a list of sizes
  int8_t dimension = -1;             // an argument that names one of the first operand's; else 0
  bool has_parts = false;            // several results
  size_t least_parts = 1;            // that are read; with fewer its nodes run as they are written
  IntsOf ints = nullptr;             // instead of these
  std::string_view of_numbers = {};  // what it is where all operands but the first are numbers
  NameOf name_of = nullptr;          // instead of `aten`
  bool (*only_if)(const FxNode& call, std::string_view line) = nullptr;
  std::string_view last = {};  // the node that makes the result, without which it is another call
};

// torch.export makes index_put of index_copy and index_add, too, which name a dimension: those
// before it have no index.  x[…] = y of the code is index_put itself.
bool NamesDimension(const FxNode& call) {
  if (call.arguments.size() < 2) return false;
  const std::vector<FxArgument>& indices = call.arguments[1].items;
  return indices.size() > 1 && indices[0].text == "None";
}
bool Adds(const FxNode& call, std::string_view) {
  return call.arguments.size() > 3 && call.arguments[3].text == "True";
}
bool AddsAlong(const FxNode& call, std::string_view line) {
  const bool is_index_add = line.find("index_add") != std::string_view::npos;
  return Adds(call, line) && (NamesDimension(call) || is_index_add);
}
bool CopiesAlong(const FxNode& call, std::string_view line) {
  return NamesDimension(call) && !Adds(call, line) && !line.empty() && !HasSubscript(line);
}

// The call that reads the type of its operand alone.
constexpr std::string_view kFilledLike = "bernoulli";
// zeros_like (x): in x's own type.
bool KeepsType(const FxNode& call, std::string_view) {
  return std::ranges::none_of(call.named, [](const auto& a) { return a.first == "dtype"; });
}

constexpr ExportedRow kExportedRows[] = {
    {"aten.linear.default", "linear", {0, 1, 2}},
    {"aten.layer_norm.default", "layer_norm", {0, 2, 3}, "", 1},
    {.target = "aten.group_norm.default",
     .aten = "group_norm",
     .operands = {0, 2, 3},
     .ints = GroupsIn},
    {.target = "aten.max_pool2d_with_indices.default",
     .aten = "max_pool2d_with_indices",
     .has_parts = true,
     .least_parts = 2},
    {.target = "aten.max_pool3d_with_indices.default",
     .aten = "max_pool3d_with_indices",
     .has_parts = true,
     .least_parts = 2},
    {"aten._upsample_bilinear2d_aa.default", "_upsample_bilinear2d_aa"},
    {"aten._upsample_bicubic2d_aa.default", "_upsample_bicubic2d_aa"},
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
    {"aten.addcmul.default", "addcmul", {0, 1, 2}},
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
    {.target = "aten.clamp.default", .aten = "clamp", .name_of = ClampOf},
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
    {"aten.baddbmm.default", "baddbmm", {0, 1, 2}},
    {"aten.addbmm.default", "addbmm", {0, 1, 2}},
    {.target = "aten.linalg_vector_norm.default", .aten = "linalg_vector_norm", .name_of = NormOf},
    {"prims.var.default", "var"},
    {"aten.fill.Scalar", "fill"},
    {"aten.logsumexp.default", "logsumexp"},
    {"aten.rsqrt.default", "rsqrt"},
    {.target = "aten.as_strided.default", .aten = "as_strided", .ints = ListOf<2>},
    {"aten.clone.default", "contiguous", kFirst, "torch.contiguous_format"},
    {.target = "aten.unbind.int", .aten = "unbind", .dimension = 1, .has_parts = true},
    {"aten.index.Tensor", "index", {0, 1, -1}},
    {"aten.roll.default", "roll", kFirst, "", 2},
    {"aten.repeat_interleave.self_int", "repeat_interleave"},
    {"aten.slice_scatter.default", "slice_scatter", {0, 1, -1}},
    {"aten.select_scatter.default", "select_scatter", {0, 1, -1}, "", -1, 2},
    {"aten.bernoulli.default", "bernoulli.self"},
    {.target = "aten.index_put.default",
     .aten = "index_add",
     .operands = {0, 1, 2},
     .only_if = AddsAlong},
    {.target = "aten.index_put.default",
     .aten = "index_put.accumulate",
     .operands = {0, 2, 1},
     .only_if = Adds},
    {.target = "aten.index_put.default",
     .aten = "index_copy",
     .operands = {0, 1, 2},
     .only_if = CopiesAlong},
    {"aten.index_put.default", "index_put", {0, 2, 1}},
    {"aten.masked_scatter.default", "masked_scatter", {0, 1, 2}},
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
    {.target = "aten._fft_r2c.default", .aten = "_fft_r2c", .ints = TransformedOf},
    {.target = "aten._fft_c2r.default", .aten = "_fft_c2r", .ints = TransformedOfPairs},
    {.target = "aten._fft_c2c.default", .aten = "_fft_c2c", .ints = TransformedOfPairs},
    // Complex numbers, as pairs.
    {"aten.view_as_complex.default", "view"},
    {"aten.view_as_real.default", "view"},
    {.target = "aten.mul.Tensor", .aten = "mul", .operands = {0, 1, -1}, .last = "Concat"},
    {"aten.ne.Tensor", "ne", {0, 1, -1}},
    {"aten.ne.Scalar", "ne"},
    {"aten.fill.Tensor", "fill_", {0, 1, -1}},

    // Tensors that are filled, in the type of another one or in one of their own.
    {.target = "aten.zeros_like.default", .aten = kFilledLike, .only_if = KeepsType},
    {.target = "aten.ones_like.default", .aten = kFilledLike, .only_if = KeepsType},
    {.target = "aten.full_like.default", .aten = kFilledLike, .only_if = KeepsType},
    {.target = "aten.rand_like.default", .aten = kFilledLike, .only_if = KeepsType},
    {.target = "aten.randn_like.default", .aten = kFilledLike, .only_if = KeepsType},
    {.target = "aten.new_zeros.default", .aten = kFilledLike, .only_if = KeepsType},
    {.target = "aten.new_full.default", .aten = kFilledLike, .only_if = KeepsType},
    {.target = "aten.new_empty.default", .aten = kFilledLike, .only_if = KeepsType},
    {.target = "aten.empty_like.default", .aten = kFilledLike, .only_if = KeepsType},
    {.target = "aten.new_ones.default", .aten = kFilledLike, .only_if = KeepsType},
    {"aten.new_ones.default", "constant", kNone},
};

bool HasWord(const FxNode& call, std::string_view word) {
  const bool is_given = std::ranges::any_of(
      call.arguments, [&](const FxArgument& argument) { return argument.text == word; });
  return is_given || std::any_of(call.named.begin(), call.named.end(), [&](const auto& argument) {
           return argument.second.text == word;
         });
}

std::optional<ExportedRow> FindRow(const FxNode& call, std::string_view line) {
  for (const ExportedRow& row : kExportedRows) {
    if (row.target != call.target) continue;
    if (!row.only_with.empty() && !HasWord(call, row.only_with)) continue;
    if (row.only_if != nullptr && !row.only_if(call, line)) continue;
    ExportedRow found = row;
    if (row.name_of != nullptr) found.aten = row.name_of(call, line);
    return found.aten == kUnknownCall ? std::nullopt : std::optional(found);
  }
  return std::nullopt;
}

class ExportedCallFinder {
 public:
  explicit ExportedCallFinder(const ExportedGroups& groups)
      : groups_(groups), bound_(groups.bound()), graph_(bound_.graph()), shapes_(bound_.shapes()) {}

  std::vector<Rewritten> Find() const {
    std::vector<Rewritten> calls;
    for (int32_t i = 0; i < groups_.count(); ++i) {
      const auto row = FindRow(groups_.At(i).call, groups_.LineOf(i));
      auto call = row.has_value() ? Read(*row, i) : std::nullopt;
      if (call.has_value()) calls.push_back(std::move(*call));
    }
    return calls;
  }

 private:
  std::optional<Rewritten> Read(ExportedRow row, int32_t index) const {
    const FxGroup& group = groups_.At(index);
    Rewritten call;
    call.aten = row.aten;
    call.nodes = groups_.AnyNodesOf(index);
    call.ints = Ints(row, group.call);
    if (row.has_parts) call.results = ResultsOf(index, call.nodes);
    call.last = row.has_parts ? LastOf(call.nodes) : groups_.ResultOf(index, call.nodes);
    if (call.last != kNoNode && !row.of_numbers.empty() && ReadsOne(index, call.last)) {
      call.aten = row.of_numbers;
      row.operands = kFirst;
    }
    const bool is_whole = call.last != kNoNode && call.results.size() >= LeastParts(row) &&
                          (row.last.empty() || bound_.At(call.last).op_type == row.last);
    if (!is_whole || !FindOperands(row, index, call) || !Follows(call)) return std::nullopt;
    if (call.aten == "contiguous" && IsOfReshape(call.last)) call.aten = kNoCall;
    return FitsRule(groups_.bound(), call) ? std::optional(std::move(call)) : std::nullopt;
  }

  std::vector<int64_t> Ints(const ExportedRow& row, const FxNode& fx) const {
    const auto argument = [&](int8_t place) {
      return Index(place) < fx.arguments.size() ? fx.arguments[Index(place)] : FxArgument();
    };
    if (row.ints != nullptr) {
      const ValueId first = groups_.ValueOf(argument(0).text);
      if (first == kNoValue) return {};
      return row.ints(fx, std::ssize(shapes_.types[Index(first)].tensor.dims));
    }
    if (row.counted >= 0) return {static_cast<int64_t>(argument(row.counted).items.size())};
    if (row.dimension < 0) return {};
    const int64_t dimension = argument(row.dimension).number;
    const ValueId first = groups_.ValueOf(argument(0).text);
    if (dimension >= 0 || first == kNoValue) return {dimension};
    return {dimension + static_cast<int64_t>(shapes_.types[Index(first)].tensor.dims.size())};
  }

  static size_t LeastParts(const ExportedRow& row) { return row.has_parts ? row.least_parts : 0; }

  // x.reshape (…) of what torch.export saw no view of: it makes a copy, and _unsafe_view of that.
  // Whether PyTorch copies depends on how its kernels lay x out.
  bool IsOfReshape(NodeId copy) const {
    const std::span<const NodeId> readers = bound_.AllReadersOf(bound_.At(copy).outputs[0]);
    return readers.size() == 1 &&
           bound_.metadata().TargetOf(readers[0]) == "aten._unsafe_view.default";
  }

  // Integers have their type in all precisions.
  bool Follows(const Rewritten& call) const {
    return call.aten != kFilledLike ||
           IsFloat(bound_.TypeOf(bound_.At(call.last).outputs[0]).dtype);
  }

  static NodeId LastOf(const std::vector<NodeId>& nodes) {
    return nodes.empty() ? kNoNode : nodes.back();
  }

  // What others read of `nodes`, in their order.
  std::vector<ValueId> ResultsOf(int32_t index, const std::vector<NodeId>& nodes) const {
    std::vector<ValueId> results;
    for (const NodeId node : nodes) {
      for (const ValueId value : graph_.nodes[Index(node)].outputs) {
        if (groups_.IsReadOutside(value, index)) results.push_back(value);
      }
    }
    return results;
  }

  bool ReadsOne(int32_t index, NodeId last) const {
    const std::vector<FxArgument>& arguments = groups_.At(index).call.arguments;
    const bool is_twice = arguments.size() > 1 && arguments[0].text == arguments[1].text;
    return !is_twice && ReadFromOutside(index, last).size() == 1;
  }

  // Fills call.inputs; false where one is not found.
  bool FindOperands(const ExportedRow& row, int32_t index, Rewritten& call) const {
    const FxNode& fx = groups_.At(index).call;
    std::vector<ValueId> rest = ReadFromOutside(index, call.last);
    std::vector<size_t> missing;
    for (const FxArgument& argument : Operands(row, fx)) {
      if (argument.kind != FxArgument::Kind::kReference) {
        if (missing.empty()) DropStored(rest);
        break;
      }
      const ValueId value = groups_.ValueOf(argument.text);
      if (value == kNoValue) missing.push_back(call.inputs.size());
      std::erase(rest, value);
      call.inputs.push_back(value);
    }
    const bool has_operands = !call.inputs.empty() || row.operands == kNone;
    if (!has_operands || missing.size() != rest.size()) return false;
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

  // The transpose of a weight, of which the call says nothing: t of "x[i]" with x = w.t() it names.
  bool IsWeight(int32_t index, NodeId producer) const {
    const std::string_view result = bound_.NameOf(bound_.At(producer).outputs[0]);
    const std::vector<std::string_view> named = References(groups_.At(index).call);
    const bool is_named = std::ranges::find(named, result) != named.end();
    return !is_named && groups_.IsSharedWeight(producer);
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
      if (producer != kNoNode && (groups_.IsIn(producer, index) || IsWeight(index, producer))) {
        const std::vector<ValueId>& inputs = graph_.nodes[Index(producer)].inputs;
        open.insert(open.end(), inputs.rbegin(), inputs.rend());
      } else if (std::find(read.begin(), read.end(), value) == read.end()) {
        read.push_back(value);
      }
    }
    return read;
  }

  const ExportedGroups& groups_;
  const BoundGraph& bound_;
  const Graph& graph_;
  const Shapes& shapes_;
};

}  // namespace

std::vector<Rewritten> FindExportedCalls(const ExportedGroups& groups) {
  return ExportedCallFinder(groups).Find();
}

}  // namespace onnxfit
