// The list of patterns, in which earlier rows win; the small ones are here.
#include "estimator/patterns/rewrites.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/exporters/bound_graph.h"
#include "estimator/exporters/exported_groups.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/libraries/libraries.h"
#include "estimator/program/call_operands.h"

namespace onnxfit {
namespace {

// --- Noise ----------------------------------------------------------------------------------

// bernoulli_(p).div_(p) of a new tensor, as exported: a comparison of random numbers with p,
// cast and divided.  Empty where `div` does not end it.
std::vector<NodeId> NoiseNodes(const BoundGraph& bound, NodeId div) {
  const ValueId sample = bound.At(div).inputs[0];
  const NodeId like = bound.Inner(sample, "CastLike");  // torch.export's way
  const NodeId cast = like == kNoNode ? bound.Inner(sample, "Cast") : like;
  if (cast == kNoNode) return {};
  const NodeId less = bound.Inner(bound.At(cast).inputs[0], "Less");
  if (less == kNoNode) return {};
  const NodeId random = bound.Inner(bound.At(less).inputs[0], "RandomUniformLike");
  if (random == kNoNode) return {};
  return {random, less, cast, div};
}

// x.mul_(noise), noise for every element: nn.Dropout(inplace=True), which torch.export
// writes in its parts.
std::optional<Rewritten> FindInPlaceDropout(const BoundGraph& bound, NodeId mul) {
  const Node& node = bound.At(mul);
  const NodeId div = node.inputs.size() == 2 ? bound.Inner(node.inputs[1], "Div") : kNoNode;
  std::vector<NodeId> nodes = div == kNoNode ? std::vector<NodeId>() : NoiseNodes(bound, div);
  if (nodes.empty() || bound.DimsOf(node.inputs[0]) != bound.DimsOf(node.inputs[1])) {
    return std::nullopt;
  }
  nodes.push_back(mul);
  return Rewritten{"dropout_", {node.inputs[0]}, mul, std::move(nodes), {}, true};
}

// torchvision's StochasticDepth: the noise that it multiplies with, a number a sample, in the
// type of what it is multiplied with, and the product.
std::optional<Rewritten> FindBernoulli(const BoundGraph& bound, NodeId div) {
  std::vector<NodeId> nodes = NoiseNodes(bound, div);
  const ValueId x = nodes.empty() ? kNoValue : bound.MultipliedBy(bound.At(div).outputs[0]);
  if (x == kNoValue) return std::nullopt;
  return Rewritten{"bernoulli", {x}, div, std::move(nodes), {}, true};
}

std::optional<Rewritten> FindNoisy(const BoundGraph& bound, NodeId mul) {
  const Node& node = bound.At(mul);
  if (node.inputs.size() != 2) return std::nullopt;
  for (const size_t side : {size_t{1}, size_t{0}}) {
    const NodeId div = bound.Inner(node.inputs[side], "Div");
    if (div == kNoNode || NoiseNodes(bound, div).empty()) continue;
    return Rewritten{"mul", {node.inputs[1 - side], node.inputs[side]}, mul, {mul}, {}, true};
  }
  return std::nullopt;
}

// --- Chunks ---------------------------------------------------------------------------------

// Inputs of Slice.
enum : size_t { kData, kStarts, kEnds, kAxes, kInputs };

bool IsOneAxis(const BoundGraph& bound, const Node& slice) {
  if (slice.op_type != "Slice" || slice.inputs.size() != kInputs) return false;
  const KnownTensor* axes = bound.Known(slice.inputs[kAxes]);
  return axes != nullptr && axes->elements().size() == 1;
}

// The number that input `i` of a slice is, else -1.
int64_t NumberOf(const BoundGraph& bound, const Node& slice, size_t i) {
  const KnownTensor* known = bound.Known(slice.inputs[i]);
  return known == nullptr || known->elements().size() != 1 ? -1 : known->elements()[0];
}

// The slice of the same tensor that ends where `next` begins, by the same product.
NodeId Before(const BoundGraph& bound, const Node& next) {
  if (bound.Maker(next.inputs[kStarts], "Mul") == kNoNode) return kNoNode;
  for (const NodeId reader : bound.ReadersOf(next.inputs[kData])) {
    const Node& slice = bound.At(reader);
    if (!IsOneAxis(bound, slice) || slice.inputs[kData] != next.inputs[kData]) continue;
    const bool is_same_axis = NumberOf(bound, slice, kAxes) == NumberOf(bound, next, kAxes);
    if (is_same_axis && slice.inputs[kEnds] == next.inputs[kStarts]) return reader;
  }
  return kNoNode;
}

bool EndsWithData(const BoundGraph& bound, const Node& slice) {
  const Dims& dims = bound.DimsOf(slice.inputs[kData]);
  int64_t axis = bound.Known(slice.inputs[kAxes])->elements()[0];
  if (axis < 0) axis += static_cast<int64_t>(dims.size());
  return bound.Maker(slice.inputs[kEnds], "Mul") != kNoNode &&
         NumberOf(bound, slice, kEnds) >= dims[Index(axis)];
}

bool IsReadBefore(const BoundGraph& bound, NodeId slice, NodeId last) {
  return std::ranges::any_of(bound.ReadersOf(bound.At(slice).outputs[0]),
                             [&](NodeId reader) { return reader < last; });
}

// --- Heads ----------------------------------------------------------------------------------

constexpr size_t kMaskArgument = 3;

// Whether the call that `rewritten` was got a tensor as mask, and none is left.
bool HasLostMask(const ExporterMetadata& metadata, const Rewritten& rewritten) {
  if (rewritten.aten != "scaled_dot_product_attention") return false;
  if (rewritten.inputs[kMaskArgument] != kNoValue) return false;
  const FxNode* call = metadata.CallOf(rewritten.last);
  return call != nullptr && call->arguments.size() > kMaskArgument &&
         call->arguments[kMaskArgument].kind == FxArgument::Kind::kReference;
}

// The first value behind Reshape, [Identity], Expand, Unsqueeze, each with no other reader;
// their nodes go into `nodes`.  kNoValue where that is not what made `value`.
ValueId Unrepeated(const BoundGraph& bound, ValueId value, std::vector<NodeId>& nodes) {
  constexpr std::string_view kSteps[] = {"Reshape", "Identity", "Expand", "Unsqueeze"};
  for (const std::string_view step : kSteps) {
    const NodeId node = bound.Inner(value, step);
    if (node == kNoNode && step == "Identity") continue;
    if (node == kNoNode) return kNoValue;
    nodes.push_back(node);
    value = bound.At(node).inputs[0];
  }
  return value;
}

// --- Sums of products -----------------------------------------------------------------------

// What `mul` scales by a number; kNoValue where it does not.
ValueId Scaled(const BoundGraph& bound, NodeId mul) {
  const std::vector<ValueId>& inputs = bound.At(mul).inputs;
  return bound.IsNumber(inputs[1]) ? inputs[0] : kNoValue;
}

// beta * x + alpha * (a @ b) of matrices in batches, as TorchScript writes x.baddbmm(a, b).
std::optional<Rewritten> FindBatchedSum(const BoundGraph& bound, NodeId last) {
  const std::vector<ValueId>& summands = bound.At(last).inputs;
  const NodeId scaled = bound.Inner(summands[0], "Mul");
  const NodeId added = bound.Inner(summands[1], "Mul");
  if (scaled == kNoNode || added == kNoNode) return std::nullopt;
  const ValueId product = Scaled(bound, scaled);
  const ValueId x = Scaled(bound, added);
  const NodeId matmul = product == kNoValue ? kNoNode : bound.Inner(product, "MatMul");
  if (matmul == kNoNode || x == kNoValue) return std::nullopt;
  const std::vector<ValueId>& factors = bound.At(matmul).inputs;
  if (bound.TypeOf(factors[0]).dims.size() != 3 || bound.TypeOf(factors[1]).dims.size() != 3) {
    return std::nullopt;
  }
  return Rewritten{"baddbmm", {x, factors[0], factors[1]}, last, {matmul, scaled, added, last}};
}

// --- The list -------------------------------------------------------------------------------

struct RewriteRow {
  std::string_view last;  // operator of the last node
  std::optional<Rewritten> (*find)(const BoundGraph&, NodeId last);
};

// Known by the source line: before what the exporter says of parts of them.
constexpr RewriteRow kByLine[] = {
    {"Mul", FindFusedRmsNorm},
    {"Mul", FindPlainRmsNorm},
};

constexpr RewriteRow kRewrites[] = {
    {"MatMul", FindAttention},          //
    {"Transpose", FindBiasCopy},        //
    {"ConstantOfShape", FindZeroBias},  //
    {"Expand", FindZeroBias},           // as torch.export writes torch.zeros
    {"Squeeze", FindPackedProjection},  //
    {"Add", FindUnmasked},              //
    {"Where", FindUnfilled},            //
    {"Add", FindBatchedSum},            //
    {"ScatterND", FindSliceWrite},
    {"Not", FindNotEqual},
    {"Cast", FindWideSoftmax},
    {"Div", FindLogOfBase},
    {"Log", FindLog1p},
    {"Mul", FindTokenPositions},
    {"Slice", FindChunk},         //
    {"Concat", FindRoll},         //
    {"Concat", FindCircularPad},  //
    {"Concat", FindUnfold},       //
    {"Squeeze", FindUnbind},      //
    {"Gather", FindAsStrided},    //
    {"Mul", FindSilu},            //
    {"Mul", FindHardSwish},       //
    {"Mul", FindMish},            //
    {"Mul", FindGlu},             //
    {"Mul", FindInPlaceDropout},  //
    {"Div", FindBernoulli},       //
    {"Mul", FindNoisy},           //
    {"Mul", FindGeluTanh},        //
    {"Mul", FindRmsNorm},         //
    {"Div", FindRsqrt},           //
    {"Reciprocal", FindRsqrt},    //
    {"Add", FindLayerNorm},       //
    {"Mul", FindGelu},            //
    {"Add", FindLinear},          //
    {"MatMul", FindProduct},      //
    {"Add", FindGroupNorm},
    {"BatchNormalization", FindBatchStatistics},
    {"Sqrt", FindVariance},
    {"Div", FindVariance},
    {"ReduceMean", FindVariance},
};

bool AnyTaken(const Rewritten& found, const std::vector<bool>& taken) {
  for (const NodeId node : found.nodes) {
    if (taken[Index(node)]) return true;
  }
  return false;
}

class Search {
 public:
  Search(const Graph& graph, const BoundGraph& bound)
      : graph_(graph), bound_(bound), taken_(graph.nodes.size()) {}

  void Take(Rewritten found) {
    if (AnyTaken(found, taken_)) return;
    for (const NodeId node : found.nodes) taken_[Index(node)] = true;
    rewrites_.push_back(std::move(found));
  }

  void TakeAll(std::span<const RewriteRow> rows) {
    for (const RewriteRow& row : rows) {
      for (size_t i = 0; i < graph_.nodes.size(); ++i) {
        if (graph_.nodes[i].op_type != row.last) continue;
        auto found = row.find(bound_, static_cast<NodeId>(i));
        if (found.has_value()) Take(std::move(*found));
      }
    }
  }

  std::vector<Rewritten> Rewrites() && { return std::move(rewrites_); }

 private:
  const Graph& graph_;
  const BoundGraph& bound_;
  std::vector<bool> taken_;  // by node
  std::vector<Rewritten> rewrites_;
};

}  // namespace

std::optional<Rewritten> FindChunk(const BoundGraph& bound, NodeId last) {
  const Node& end = bound.At(last);
  if (!IsOneAxis(bound, end) || !EndsWithData(bound, end)) return std::nullopt;
  Rewritten chunk;
  chunk.aten = "split";
  chunk.inputs = {end.inputs[kData]};
  chunk.last = last;
  NodeId slice = last;
  for (;;) {
    if (IsReadBefore(bound, slice, last)) return std::nullopt;
    chunk.nodes.insert(chunk.nodes.begin(), slice);
    chunk.results.insert(chunk.results.begin(), bound.At(slice).outputs[0]);
    if (NumberOf(bound, bound.At(slice), kStarts) == 0) break;
    const NodeId before = Before(bound, bound.At(slice));
    if (before == kNoNode || before >= slice) return std::nullopt;
    slice = before;
  }
  return chunk.nodes.size() < 2 ? std::nullopt : std::optional(std::move(chunk));
}

std::optional<Rewritten> FindNotEqual(const BoundGraph& bound, NodeId last) {
  const NodeId equal = bound.Inner(bound.At(last).inputs[0], "Equal");
  if (equal == kNoNode) return std::nullopt;
  return Rewritten{"ne", bound.At(equal).inputs, last, {equal, last}};
}

std::optional<Rewritten> FindWideSoftmax(const BoundGraph& bound, NodeId last) {
  const Node& cast = bound.At(last);
  const TensorType& type = bound.TypeOf(cast.outputs[0]);
  const std::string_view target = bound.metadata().TargetOf(last);
  const bool is_softmax = target.empty() || target.find("softmax") != std::string_view::npos;
  if (type.dtype != DType::kFloat64 || !is_softmax) return std::nullopt;
  for (const auto& [op, aten] : {std::pair("Softmax", "softmax"), {"LogSoftmax", "log_softmax"}}) {
    const NodeId softmax = bound.Inner(cast.inputs[0], op);
    if (softmax == kNoNode) continue;
    const ValueId x = bound.At(softmax).inputs[0];
    if (bound.TypeOf(x).dtype == DType::kFloat64) return std::nullopt;
    Rewritten call = {aten, {x}, last, {softmax, last}};
    call.before.push_back({.aten = "to", .inputs = {{.value = x}}, .type = type});
    call.before.back().takes_place_of = 0;
    call.before.back().as_written = true;
    call.own_type = type.dtype;
    return call;
  }
  return std::nullopt;
}

std::optional<Rewritten> FindLogOfBase(const BoundGraph& bound, NodeId last) {
  const std::vector<ValueId>& inputs = bound.At(last).inputs;
  const NodeId log = bound.Inner(inputs[0], "Log");
  if (log == kNoNode || !bound.metadata().TargetOf(last).empty()) return std::nullopt;
  constexpr std::pair<double, std::string_view> kBases[] = {{std::numbers::ln10, "log10"},
                                                            {std::numbers::ln2, "log2"}};
  for (const auto& [number, aten] : kBases) {
    if (std::abs(bound.NumberOf(inputs[1]) - number) > 1e-5) continue;
    return Rewritten{aten, {bound.At(log).inputs[0]}, last, {log, last}};
  }
  return std::nullopt;
}

std::optional<Rewritten> FindLog1p(const BoundGraph& bound, NodeId last) {
  const NodeId sum = bound.Inner(bound.At(last).inputs[0], "Add");
  if (sum == kNoNode || !bound.metadata().TargetOf(last).empty()) return std::nullopt;
  const std::vector<ValueId>& summands = bound.At(sum).inputs;
  if (bound.NumberOf(summands[0]) != 1) return std::nullopt;
  return Rewritten{"log1p", {summands[1]}, last, {sum, last}};
}

std::optional<Rewritten> FindTokenPositions(const BoundGraph& bound, NodeId last) {
  const Node& product = bound.At(last);
  const size_t side = bound.InnerSide(product, "CumSum");
  if (side > 1) return std::nullopt;
  const NodeId sum = bound.Inner(product.inputs[side], "CumSum");
  const ValueId mask = bound.At(sum).inputs[0];
  const TensorType& type = bound.TypeOf(mask);
  if (product.inputs[1 - side] != mask || type.dtype != DType::kInt32) return std::nullopt;
  Rewritten call = {"mul", {mask, mask}, last, {sum, last}};
  call.before.push_back({"cumsum", {{.value = mask}}, {DType::kInt64, type.dims}});
  call.before.push_back({"to", {{.hidden = 0}}, type});
  call.before.push_back({"add.Scalar", {{.hidden = 1}}, type, {}, 0});
  return call;
}

void TakeBackRepeatedHeads(const BoundGraph& bound, std::vector<Rewritten>& rewrites) {
  for (Rewritten& rewritten : rewrites) {
    if (!HasLostMask(bound.metadata(), rewritten)) continue;
    const Dims& key = bound.TypeOf(rewritten.inputs[1]).dims;
    const Dims& value = bound.TypeOf(rewritten.inputs[2]).dims;
    if (key.empty() || value.empty() || !PassesGroupedHeads(key.back(), value.back())) continue;
    std::vector<NodeId> nodes;
    const ValueId k = Unrepeated(bound, rewritten.inputs[1], nodes);
    const ValueId v = Unrepeated(bound, rewritten.inputs[2], nodes);
    if (k == kNoValue || v == kNoValue) continue;
    rewritten.inputs[1] = k;
    rewritten.inputs[2] = v;
    rewritten.nodes.insert(rewritten.nodes.begin(), nodes.begin(), nodes.end());
  }
}

bool FitsRule(const BoundGraph& bound, const Rewritten& call) {
  const auto dims_of = [&](ValueId value) {
    return value == kNoValue ? nullptr : &bound.DimsOf(value);
  };
  CallOperands operands = {.op = call.aten, .ints = call.ints};
  std::vector<ValueId> results = call.results;
  if (results.empty()) results.push_back(bound.At(call.last).outputs[0]);
  for (const ValueId value : call.inputs) operands.inputs.push_back(dims_of(value));
  for (const ValueId value : results) operands.outputs.push_back(dims_of(value));
  return FitsRule(operands);
}

std::vector<Rewritten> FindRewrites(const BoundGraph& bound) {
  Search search(bound.graph(), bound);
  search.TakeAll(kByLine);
  for (Rewritten& call : FindFunctionCalls(bound)) search.Take(std::move(call));
  for (Rewritten& call : FindRecurrentCalls(bound)) search.Take(std::move(call));
  if (!bound.metadata().groups.empty()) {
    const ExportedGroups groups(bound);
    for (Rewritten& call : FindRegeneratedParts(groups)) search.Take(std::move(call));
    for (Rewritten& call : FindSliceWrites(groups)) search.Take(std::move(call));
    for (Rewritten& call : FindDecomposedCalls(groups)) search.Take(std::move(call));
    for (Rewritten& call : FindExportedCalls(groups)) search.Take(std::move(call));
  }
  for (Rewritten& call : FindScriptedCalls(bound)) search.Take(std::move(call));
  for (Rewritten& call : FindPermutedCopies(bound)) search.Take(std::move(call));
  for (Rewritten& call : FindHeadCopies(bound)) search.Take(std::move(call));
  search.TakeAll(kRewrites);
  std::vector<Rewritten> rewrites = std::move(search).Rewrites();
  TakeBackRepeatedHeads(bound, rewrites);
  return rewrites;
}

}  // namespace onnxfit
