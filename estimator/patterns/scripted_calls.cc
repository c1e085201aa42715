// ATen calls that TorchScript's exporter has taken apart into several nodes.  Sources:
// torch/onnx/_internal/torchscript_exporter/symbolic_opset*.py, pytorch v2.11.0; what each becomes
// there is the pattern, with the exporter's own casts, constants and order of operands, by which it
// is known from code that spells the same.
#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/base/module_names.h"
#include "estimator/exporters/bound_graph.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/exporters/node_patterns.h"
#include "estimator/patterns/rewrites.h"

namespace onnxfit {
namespace {

// A call in front of the last one: its operands are letters of the pattern or numbers of earlier
// ones, its result is as what a letter stands for.
struct CallBefore {
  std::string_view aten;
  std::string_view operands;
  char type;
};

struct ScriptedCall {
  std::string_view aten;
  std::string_view operands;  // letters of the pattern, and numbers of the calls before
  NodePattern pattern;
  std::vector<int64_t> ints = {};
  std::vector<CallBefore> before = {};
  // What the file says of this one beside its nodes; false where it is another call.
  bool (*finish)(const BoundGraph&, const NodePattern::Match&, Rewritten&) = nullptr;
};

// at::Reduction
constexpr int64_t kUnreduced = 0;
constexpr int64_t kMean = 1;
constexpr int64_t kSum = 2;

// Of more than 25 rows, and of the power 2, by products.
// Source: cdist of aten/src/ATen/native/Distance.cpp, pytorch v2.11.0.
bool SayHowDistancesAreMade(const BoundGraph& bound, const NodePattern::Match& match,
                            Rewritten& call) {
  constexpr int64_t kFewRows = 25;
  const Dims& x = bound.DimsOf(match.At('x'));
  const Dims& y = bound.DimsOf(match.At('y'));
  if (x.size() < 2 || x.size() != y.size()) return false;
  if (!std::equal(x.begin(), x.end() - 2, y.begin())) return false;
  const double power = bound.NumberOf(match.At('p'));
  const bool is_large = x.end()[-2] > kFewRows || y.end()[-2] > kFewRows;
  if (power == 2 && is_large) call.aten = "_euclidean_dist";
  call.ints = {power == 0 ? 1 : 0};
  return true;
}

bool SayDimension(const BoundGraph& bound, const NodePattern::Match& match, Rewritten& call) {
  const KnownTensor* axes = bound.Known(match.At('k'));
  if (axes == nullptr || axes->elements().size() != 1) return false;
  const int64_t axis = axes->elements()[0];
  call.ints = {axis < 0 ? axis + std::ssize(bound.DimsOf(match.At('x'))) : axis};
  return true;
}

// addcmul's factor has one dimension there; a number that code spells has none.
bool HasFactor(const BoundGraph& bound, const NodePattern::Match& match, Rewritten&) {
  return bound.IsNumber(match.At('k')) && bound.DimsOf(match.At('k')).size() == 1;
}

// torch.nn.utils.parametrizations.weight_norm's, or torch.nn.utils.weight_norm's before it.
bool AreWeightNorms(const BoundGraph& bound, const NodePattern::Match& match, Rewritten&) {
  const auto name = [&](char tensor) { return bound.NameOf(match.At(tensor)); };
  const auto is_stored = [&](char tensor) {
    return bound.IsStored(match.At(tensor), bound.DimsOf(match.At(tensor)).size());
  };
  if (!is_stored('v') || !is_stored('g')) return false;
  const std::string_view v = name('v');
  const std::string_view g = name('g');
  const bool is_old = v.ends_with("_v") && g.ends_with("_g");
  const bool is_new = ChildOf(v) == "original1" && ChildOf(g) == "original0";
  return (is_old || is_new) && v.substr(0, v.size() - 1) == g.substr(0, g.size() - 1);
}

// Of the last two dimensions, in front of which the exporter moves the others.
bool SayDiagonal(const BoundGraph& bound, const NodePattern::Match& match, Rewritten& call) {
  const int64_t rank = std::ssize(bound.DimsOf(match.At('x')));
  call.ints = {rank - 2, rank - 1};
  return rank >= 2;
}

// x[mask] = v of a mask to which the exporter adds the dimensions that it has less than x: PyTorch
// asks nonzero for the mask's places, not for those of all that is written.  Where it has one less,
// x.masked_scatter(mask.unsqueeze(-1), v) of a model's code looks the same.
// Source: index_put of torch/onnx/_internal/torchscript_exporter/symbolic_opset11.py, v2.11.0.
bool SayMaskedPlaces(const BoundGraph& bound, const NodePattern::Match& match, Rewritten& call) {
  const Dims& mask = bound.DimsOf(match.At('m'));
  const Dims& x = bound.DimsOf(match.At('x'));
  if (mask.size() + 1 >= x.size() || !std::equal(mask.begin(), mask.end(), x.begin())) return false;
  int64_t numel = 1;  // of what stands at a place
  for (size_t i = mask.size(); i < x.size(); ++i) numel *= x[i];
  if (numel == 0) return false;
  const int64_t written = Numel(bound.DimsOf(match.At('v'))) / numel;
  const int64_t places = written == 1 ? Numel(mask) : written;  // one row for all of them, perhaps
  call.before[0].type = {DType::kInt64, {places, std::ssize(mask)}};
  return true;
}

// In eval it is its input.
bool OnlyTrains(const BoundGraph&, const NodePattern::Match& match, Rewritten& call) {
  call.only_in_training = true;
  call.inputs[0] = match.At('x');
  return true;
}

// q_coords - k_coords + (k_size - 1) * ratio of get_rel_pos, which counts from
// torch.arange(q_size)[:, None] * ratio and names no device.  Sources: timm 1.0.31,
// models/vision_transformer_sam.py; transformers 5.17, models/sam/modeling_sam.py,
// models/vitdet/modeling_vitdet.py and what is copied from them.
constexpr NodePattern kRelativeCoordinates[] = {
    "Add(Sub(Mul(Unsqueeze(_, 1), _), Mul(Unsqueeze(_, 0), _)), Mul(_, _))",
    "Add(Sub(Mul(Cast(Unsqueeze(_, 1)), _), Mul(Cast(Unsqueeze(_, 0)), _)), Mul(_, _))",
};

bool ReadsFromHost(const BoundGraph& bound, const NodePattern::Match& match, Rewritten& call) {
  const ValueId indices = match.At('n');
  const NodeId cast = bound.Inner(indices, "Cast");
  const NodeId sum = cast == kNoNode ? kNoNode : bound.Inner(bound.At(cast).inputs[0], "Add");
  if (sum == kNoNode) return false;
  call.ints = {Numel(bound.DimsOf(indices))};
  return std::ranges::any_of(kRelativeCoordinates, [&](const NodePattern& pattern) {
    return pattern.Find(bound, sum).has_value();
  });
}

// Of places that are counted in both dimensions, in which the exporter puts windows last.
bool AreWindows(const BoundGraph& bound, const NodePattern::Match& match, Rewritten&) {
  const std::vector<int64_t> perm = {0, 1, 2, 4, 3, 5};
  const NodeId moved = bound.Maker(match.At('t'), "Transpose");  // not where a cast is between
  return moved != kNoNode && bound.Known(match.At('h')) != nullptr &&
         bound.Known(match.At('w')) != nullptr && IntsAttribute(bound.At(moved), "perm") == perm;
}

// x[:, i, j]: constants of the exporter are lists of Python's, which stay on the host.
bool SayWhereIndicesAre(const BoundGraph& bound, const NodePattern::Match& match, Rewritten& call) {
  const auto is_list = [&](char index) {
    return bound.Maker(match.At(index), "Constant") != kNoNode;
  };
  if (!is_list('i') || !is_list('j')) return true;
  call.aten = "index.host";
  call.inputs.resize(1);
  call.ints = {Numel(bound.DimsOf(match.At('i'))) + Numel(bound.DimsOf(match.At('j')))};
  return true;
}

std::span<const ScriptedCall> ScriptedCalls() {
  static const std::vector<ScriptedCall> calls = {
      // Elementwise.  With a number in the place of y they are other operators' nodes.
      {"atan2", "xy",
       "a = Atan(Div(x, y)); "
       "Where(Less(y, 0), Where(Greater(x, 0), Add(a, 3.141593), Sub(a, 3.141593)), a)"},
      {"remainder", "xy", "Sub(x, Mul(Floor(Div(x, y)), y))"},
      // rounding_mode='floor', 92 times in torchvision, timm, transformers and diffusers, and
      // 'trunc'; floor (x / y) 31 times.
      {"div.Tensor_mode", "xy", "Floor(Div(x, y))"},
      {"div.Tensor_mode", "xy", "Cast(Whole(Div(x, y)))"},
      {"clamp.Tensor", "xyz", "Min(Max(x, Same(y)), Same(z))"},
      {"clamp_min.Tensor", "xy", "Max(x, Same(y))"},
      {"clamp_max.Tensor", "xy", "Min(x, Same(y))"},
      {"lerp.Tensor", "xyw",
       "d = Sub(y, x); "
       "Where(Less(w, 0.5), Add(x, Mul(w, d)), Sub(y, Mul(d, Sub(1, w))))"},
      {"addcmul", "xyz", "Add(x, Mul(Mul(y, z), k))", {}, {}, HasFactor},
      {"logit", "x", "Log(Div(x, Sub(1, x)))"},
      {"nan_to_num", "x",
       "a = Where(IsNaN(x), #, x); "
       "b = Where(And(IsInf(Cast(a)), Greater(a, 0)), #, a); "
       "Where(And(IsInf(Cast(b)), Less(b, 0)), #, b)"},
      {"hardshrink", "x", "Where(Or(Greater(x, #), Less(x, #)), x, 0)"},
      {"softshrink", "x",
       "Add(Where(Greater(x, #), Sub(x, #), 0), Where(Less(x, #), Add(x, #), 0))"},
      {"rrelu", "x", "PRelu(x, RandomUniformLike(x))"},
      {"masked_fill.Tensor", "xmv", "Where(Same(m), v, x)"},

      // Norms and distances.
      {"norm.largest", "x", "ReduceMax(Abs(Reshape(x, _)))"},
      {"norm.largest", "x", "ReduceMin(Abs(Reshape(x, _)))"},
      {"norm.power", "x", "Pow(ReduceSum(Pow(Abs(Reshape(x, _)), #)), Div(1, #))"},
      {"norm.power", "x", "Pow(ReduceSum(Pow(Abs(x), #)), Div(1, #))"},
      {"cdist",
       "xy",
       "Pow(ReduceSum(Pow(Sub(Unsqueeze(x), Unsqueeze(y)), p)), Div(1, Add(#, #)))",
       {},
       {},
       SayHowDistancesAreMade},
      {"cosine_similarity",
       "xy",
       "Div(ReduceSum(Mul(x, y), k), "
       "Max(Sqrt(Mul(ReduceSum(Mul(x, x)), ReduceSum(Mul(y, y)))), #))",
       {},
       {},
       SayDimension},
      {"_weight_norm", "vg", "Mul(Div(v, ReduceL2(v)), g)", {}, {}, AreWeightNorms},
      // at::norm (x1 - x2 + eps, p, -1)
      {"norm",
       "1",
       "d = Sub(x, y); Pow(ReduceSum(Pow(d, 2)), Div(1, Add(#, #)))",
       {},
       {{"sub", "xy", 'd'}, {"add.Scalar", "0", 'd'}}},

      // Losses.
      {"binary_cross_entropy_with_logits",
       "xy",
       "s = Sigmoid(x); ReduceMean(Neg(Add(Mul(y, Log(s)), "
       "Mul(Sub(1, y), Log(Sub(1, s))))))",
       {kMean}},
      {"binary_cross_entropy_with_logits",
       "xy",
       "s = Sigmoid(x); ReduceSum(Neg(Add(Mul(y, Log(s)), "
       "Mul(Sub(1, y), Log(Sub(1, s))))))",
       {kSum}},
      {"binary_cross_entropy_with_logits",
       "xy",
       "s = Sigmoid(x); "
       "Neg(Add(Mul(y, Log(s)), Mul(Sub(1, y), Log(Sub(1, s)))))",
       {kUnreduced}},
      {"mse_loss",
       "01",
       "a = Add(Add(ConstantOfShape(_), x), y); p = Expand(x, Shape(a)); "
       "q = Expand(y, Shape(a)); ReduceMean(Mul(Sub(p, q), Sub(p, q)))",
       {kMean},
       {{"expand", "x", 'p'}, {"expand", "y", 'q'}}},
      // var = var.clone (), and its log and the rest as written (torch/nn/functional.py).
      {"mul.Scalar",
       "5",
       "v = Clip(w, _); l = Log(v); s = Sub(x, y); p = Pow(s, 2); q = Div(p, v); "
       "a = Add(l, q); Mul(a, 0.5)",
       {},
       {{"clone", "w", 'v'},
        {"log", "0", 'l'},
        {"sub", "xy", 's'},
        {"pow.Tensor_Scalar", "2", 'p'},
        {"div", "30", 'q'},
        {"add", "14", 'a'}}},

      // transformers' drop_path (5.17, modeling_beit.py and others), with
      // torch.rand(shape, dtype=input.dtype), a type of which the file has that of the export.
      {"mul",
       "32",
       "n = RandomUniformLike(ConstantOfShape(_)); k = Add(n, #); q = Div(x, #); "
       "Mul(q, Floor(k))",
       {},
       {{"bernoulli", "x", 'n'},
        {"add.Scalar", "0", 'k'},
        {"floor", "1", 'k'},
        {"mul.Scalar", "x", 'q'}},
       OnlyTrains},

      // Places: x, values, indices.
      {"index.host", "x", "Gather(x, n)", {}, {}, ReadsFromHost},
      {"index",
       "xij",
       "c = Add(j, Mul(i, _)); "
       "Reshape(Transpose(Reshape(Gather(Flatten(Transpose(x)), c), _)), _)",
       {},
       {},
       SayWhereIndicesAre},
      {"index",
       "xij",
       "c = Add(j, Mul(i, _)); Reshape(Reshape(Gather(Flatten(x), c), _), _)",
       {},
       {},
       SayWhereIndicesAre},
      {"diagonal", "x", "GatherND(ReduceSum(Mul(x, EyeLike(_)), _), _)", {}, {}, SayDiagonal},
      {"im2col",
       "x",
       "t = Transpose(Gather(Gather(Pad(x, _), h), w)); Reshape(t, Concat(Unsqueeze(_)))",
       {},
       {},
       AreWindows},
      {"index_put.accumulate", "xvi",
       "Add(x, ScatterND(ConstantOfShape(Shape(x)), Unsqueeze(i), Reshape(v, _)))"},
      {"index_put", "xvi",
       "ScatterND(x, Unsqueeze(i), Reshape(v, Concat(Shape(i), Slice(Shape(x)))))"},
      {"index_put",
       "xv0",
       "ScatterND(x, Transpose(NonZero(Expand(Unsqueeze(m), Shape(x)))), Slice(Reshape(v, _)))",
       {},
       {{"nonzero", "m", 'm'}},
       SayMaskedPlaces},
      {"masked_scatter", "xmv",
       "ScatterND(x, Transpose(NonZero(Expand(m, Shape(x)))), Slice(Reshape(v, _)))"},
      // The shape to which indices are expanded is x's, with theirs put in its place.
      {"index_fill.Tensor", "xiv",
       "ScatterElements(x, "
       "Expand(Unsqueeze(i), Where(_, _, ScatterElements(Shape(x), _, Shape(i)))), "
       "Expand(v, Where(_, _, ScatterElements(Shape(x), _, Shape(i)))))"},
      {"index_copy", "xiv",
       "ScatterElements(x, "
       "Expand(Unsqueeze(i), Where(_, _, ScatterElements(Shape(x), _, Shape(i)))), "
       "v)"},
  };
  return calls;
}

// A number of Python's, where an operand of the call is a tensor: zeros of a size are one, too.
bool IsSpelledNumber(const BoundGraph& bound, ValueId value) {
  if (value == kNoValue) return true;
  return bound.shapes().known_scalar[Index(value)].has_value() && Numel(bound.DimsOf(value)) == 1;
}

std::optional<Rewritten> Found(const BoundGraph& bound, const ScriptedCall& row, NodeId last) {
  auto match = row.pattern.Find(bound, last);
  if (!match.has_value()) return std::nullopt;
  const auto is_letter = [](char operand) { return operand >= 'a'; };
  const auto operand_of = [&](char operand) {
    return is_letter(operand) ? HiddenCall::Operand{.value = match->At(operand)}
                              : HiddenCall::Operand{.hidden = operand - '0'};
  };
  Rewritten call = {row.aten, {}, last, std::move(match->nodes), row.ints};
  for (const CallBefore& before : row.before) {
    call.before.push_back(
        {.aten = before.aten, .inputs = {}, .type = bound.TypeOf(match->At(before.type))});
    for (const char operand : before.operands) {
      call.before.back().inputs.push_back(operand_of(operand));
    }
  }
  for (const char operand : row.operands) {
    const ValueId value = is_letter(operand) ? match->At(operand) : kNoValue;
    if (is_letter(operand) && IsSpelledNumber(bound, value)) return std::nullopt;
    if (!is_letter(operand)) {
      call.before[Index(operand - '0')].takes_place_of = static_cast<int>(call.inputs.size());
    }
    call.inputs.push_back(value);
  }
  if (row.finish != nullptr && !row.finish(bound, *match, call)) return std::nullopt;
  return call;
}

}  // namespace

std::vector<Rewritten> FindScriptedCalls(const BoundGraph& bound) {
  std::vector<Rewritten> calls;
  const std::vector<Node>& nodes = bound.graph().nodes;
  for (const ScriptedCall& row : ScriptedCalls()) {
    const std::string_view op = row.pattern.LastOperator();
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].op_type != op || !IsNamedByTorchScript(nodes[i])) continue;
      auto found = Found(bound, row, static_cast<NodeId>(i));
      if (found.has_value()) calls.push_back(std::move(*found));
    }
  }
  return calls;
}

}  // namespace onnxfit
