// Which ATen calls PyTorch runs for an ONNX operator.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/program/einsum.h"
#include "estimator/recover/lowering.h"

namespace onnxfit {

ValueId InputOf(const Node& node, size_t i) {
  return i < node.inputs.size() ? node.inputs[i] : kNoValue;
}

void LowerUnary(UnitWriter& unit, const Node& node, std::string_view aten) {
  const NameId input = unit.TensorOf(InputOf(node, 0));
  unit.Emit(aten, {input}, {unit.NewResult(node.outputs[0])});
}

void LowerAll(UnitWriter& unit, const Node& node, std::string_view aten) {
  std::vector<NameId> inputs;
  for (const ValueId value : node.inputs) inputs.push_back(unit.TensorOf(value));
  unit.Emit(aten, std::move(inputs), {unit.NewResult(node.outputs[0])});
}

// Exporters write the slopes in the rank of the input: PyTorch is given the parameter.
void LowerPRelu(UnitWriter& unit, const Node& node, std::string_view aten) {
  ValueId slopes = node.inputs[1];
  for (const std::string_view op : {"Reshape", "Unsqueeze"}) {
    const NodeId shaped = unit.bound().Maker(slopes, op);
    const ValueId given = shaped == kNoNode ? kNoValue : unit.bound().At(shaped).inputs[0];
    if (given != kNoValue && unit.bound().IsStored(given, 1)) slopes = given;
  }
  const NameId x = unit.TensorOf(node.inputs[0]);
  unit.Emit(aten, {x, unit.TensorOf(slopes)}, {unit.NewResult(node.outputs[0])});
}

void EmitBatchNorm(UnitWriter& unit, NameId input, const std::string& module, ValueId result) {
  const auto tensor = [&](const char* name) { return unit.values().LostTensor(module + name); };
  unit.Emit(
      unit.trains() ? "batch_norm" : "batch_norm_inference",
      {input, tensor(".weight"), tensor(".bias"), tensor(".running_mean"), tensor(".running_var")},
      {unit.NewResult(result)});
}

namespace {

// Two tensors, or a tensor and a number, which then is an argument of the call.
void LowerBinary(UnitWriter& unit, const Node& node, std::string_view aten) {
  const ValueId a = InputOf(node, 0);
  const ValueId b = InputOf(node, 1);
  const auto is_number = [&](ValueId value) { return unit.values().IsNumber(value); };
  if (is_number(a) == is_number(b)) return LowerAll(unit, node, aten);
  const LoweringRow& row = *FindLowering(node.op_type);
  const bool number_first = is_number(a) && !row.aten_of_first_scalar.empty();
  const std::string_view scalar = number_first ? row.aten_of_first_scalar : row.aten_of_scalar;
  const NameId tensor = unit.TensorOf(is_number(a) ? b : a);
  unit.Emit(scalar.empty() ? aten : scalar, {tensor}, {unit.NewResult(node.outputs[0])});
}

void LowerMod(UnitWriter& unit, const Node& node, std::string_view aten) {
  LowerBinary(unit, node, IntAttribute(node, "fmod", 0) != 0 ? "fmod" : aten);
}

// Numbers that the code spells and no call has made a tensor of: the tensor is that call's alone,
// though other nodes may read the same constant.
std::vector<ValueId> UnwrittenNumbers(const UnitWriter& unit, const Node& node) {
  std::vector<ValueId> numbers;
  for (const size_t place : {size_t{1}, size_t{2}}) {
    const ValueId value = InputOf(node, place);
    const bool is_spelled = value != kNoValue && unit.values().IsNumber(value) &&
                            unit.bound().Maker(value, "Constant") != kNoNode;
    if (is_spelled) numbers.push_back(value);
  }
  return numbers;
}

// masked_fill is a choice between a number and a tensor, the number first; torch.where with a
// number makes a tensor of it (torch/onnx, symbolic_opset9.py, pytorch v2.11.0).
void LowerWhere(UnitWriter& unit, const Node& node, std::string_view aten) {
  const auto is_number = [&](ValueId value) { return unit.values().IsNumber(value); };
  const ValueId hidden = InputOf(node, 1);
  if (!is_number(hidden) || is_number(InputOf(node, 2))) {
    const std::vector<ValueId> numbers = UnwrittenNumbers(unit, node);
    LowerAll(unit, node, aten);
    for (const ValueId number : numbers) unit.values().Exchange(number, kNoName);
    return;
  }
  const NameId x = unit.TensorOf(InputOf(node, 2));
  const NameId mask = unit.TensorOf(InputOf(node, 0));
  unit.Emit("masked_fill", {x, mask}, {unit.NewResult(node.outputs[0])});
}

// What torch.export writes for a cat of one tensor with an empty one, as a cache begins, is a copy;
// the cache holds it until another takes its place.
void LowerIdentity(UnitWriter& unit, const Node& node, std::string_view) {
  if (unit.TargetOf(node) == "aten.cat.default") return LowerUnary(unit, node, "cat");
  const bool detaches = unit.TargetOf(node) == "aten.detach.default";
  if (!detaches || !unit.values().FollowsParameter(node.inputs[0])) {
    return unit.Alias(node.outputs[0], node.inputs[0]);
  }
  CallPlace place = unit.place();
  place.leaves_autograd = true;
  UnitWriter without_gradient = unit.At(std::move(place));
  LowerUnary(without_gradient, node, "view");
}

// torch.nn.Linear, whose weight is transposed; else torch.addmm(bias, x, w).
void LowerGemm(UnitWriter& unit, const Node& node, std::string_view) {
  const NameId x = unit.TensorOf(InputOf(node, 0));
  const NameId weight = unit.TensorOf(InputOf(node, 1));
  const ValueId bias_value = InputOf(node, 2);
  const bool has_bias = bias_value != kNoValue && !unit.values().IsHost(bias_value);
  const NameId bias = has_bias ? unit.TensorOf(bias_value) : kNoName;
  const NameId result = unit.NewResult(node.outputs[0]);
  if (IntAttribute(node, "transB", 0) != 0) {
    unit.Emit("linear", has_bias ? std::vector{x, weight, bias} : std::vector{x, weight}, {result});
  } else if (has_bias) {
    unit.Emit("addmm", {bias, x, weight}, {result});
  } else {
    unit.Emit("mm", {x, weight}, {result});
  }
}

// In training PyTorch computes statistics, whatever mode the file was exported in.
void LowerBatchNorm(UnitWriter& unit, const Node& node, std::string_view) {
  LowerAll(unit, node, unit.trains() ? "batch_norm" : "batch_norm_inference");
}

void LowerEinsum(UnitWriter& unit, const Node& node, std::string_view) {
  const Attribute* equation = FindAttribute(node, "equation");
  const auto* text =
      equation == nullptr ? nullptr : std::get_if<std::string_view>(&equation->value);
  std::vector<Dims> dims;
  for (const ValueId input : node.inputs) dims.push_back(unit.TypeOf(input).dims);
  const TensorType& type = unit.TypeOf(node.outputs[0]);
  const auto steps = text == nullptr ? std::nullopt : PlanEinsum(*text, dims);
  if (!steps || steps->back().dims != type.dims) return unit.LowerUnknown(node);
  std::vector<NameId> tensors;
  for (const ValueId input : node.inputs) tensors.push_back(unit.TensorOf(input));
  const std::string name(unit.bound().NameOf(node.outputs[0]));
  WriteSteps(*steps, tensors, dims, [&](const EinsumStep& step, std::vector<NameId> inputs) {
    const bool is_last = &step == &steps->back();
    const NameId made = is_last ? unit.NewResult(node.outputs[0])
                                : unit.NewName(fmt::format("{}.{}", name, step.op),
                                               unit.WithPrecision({type.dtype, step.dims}));
    unit.Emit(step.op, std::move(inputs), {made}, step.ints);
    return made;
  });
}

// Without a weight of the module: exporters write ones; without a bias, zeros.
void LowerLayerNorm(UnitWriter& unit, const Node& node, std::string_view aten) {
  const auto is_left_out = [&](size_t i) {
    const ValueId value = InputOf(node, i);
    return value != kNoValue && unit.values().IsMadeOfNumbers(value);
  };
  if (is_left_out(1)) return LowerUnary(unit, node, aten);
  if (!is_left_out(2)) return LowerAll(unit, node, aten);
  std::vector<NameId> operands = {unit.TensorOf(InputOf(node, 0)), unit.TensorOf(InputOf(node, 1))};
  unit.Emit(aten, std::move(operands), {unit.NewResult(node.outputs[0])});
}

// Without weight and bias of the module: exporters write ones and zeros.
void LowerInstanceNorm(UnitWriter& unit, const Node& node, std::string_view aten) {
  const ValueId weight = InputOf(node, 1);
  const bool is_made = weight != kNoValue && unit.values().FollowsParameter(weight);
  is_made ? LowerAll(unit, node, aten) : LowerUnary(unit, node, aten);
}

void LowerDropout(UnitWriter& unit, const Node& node, std::string_view aten) {
  if (!unit.DropsOut(node)) return LowerIdentity(unit, node, aten);
  LowerUnary(unit, node, unit.DropoutOp());
}

void LowerTranspose(UnitWriter& unit, const Node& node, std::string_view aten) {
  const Attribute* perm = FindAttribute(node, "perm");
  std::vector<int64_t> permutation;
  const auto* order = perm == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(&perm->value);
  if (order != nullptr) {
    permutation = *order;
  } else {
    permutation.resize(unit.TypeOf(InputOf(node, 0)).dims.size());
    std::iota(permutation.rbegin(), permutation.rend(), int64_t{0});
  }
  const NameId input = unit.TensorOf(InputOf(node, 0));
  unit.Emit(aten, {input}, {unit.NewResult(node.outputs[0])}, std::move(permutation));
}

// A bound on one side is torch.clamp's, both may be an activation's.
void LowerClip(UnitWriter& unit, const Node& node, std::string_view aten) {
  const bool is_clamp = unit.TargetOf(node).starts_with("aten.clamp");
  const bool has_both = InputOf(node, 1) != kNoValue && InputOf(node, 2) != kNoValue;
  const bool is_old = node.inputs.size() < 2;  // the bounds are attributes
  if (!has_both && !is_old) aten = InputOf(node, 1) == kNoValue ? "clamp_max" : "clamp_min";
  LowerUnary(unit, node, has_both && is_clamp ? "clamp" : aten);
}

// 1 / x is x.reciprocal() * 1 (torch/_tensor.py, __rtruediv__, pytorch v2.11.0); torch.export
// writes both.
void LowerDiv(UnitWriter& unit, const Node& node, std::string_view aten) {
  const bool is_inverse =
      unit.values().IsNumber(node.inputs[0]) && !unit.values().IsHost(node.inputs[1]);
  if (!is_inverse || !unit.TargetOf(node).empty()) return LowerBinary(unit, node, aten);
  const NameId x = unit.TensorOf(node.inputs[1]);
  const NameId result = unit.NewResult(node.outputs[0]);
  const TensorType type = unit.WithPrecision(unit.TypeOf(node.outputs[0]));
  const NameId inverse = unit.Make("reciprocal", {x}, "reciprocal", type);
  unit.Emit("mul.Scalar", {inverse}, {result});
}

// x.max(dim) or x.amax(dim): TorchScript writes both alike; x.max() names no dimension.
void LowerReduceMax(UnitWriter& unit, const Node& node, std::string_view aten) {
  const bool has_list = FindAttribute(node, "axes") != nullptr;
  if (node.inputs.size() < 2 && !has_list && unit.TargetOf(node).empty()) {
    return LowerUnary(unit, node, node.op_type == "ReduceMin" ? "min" : "max");
  }
  const bool is_of_all = has_list && IntsAttribute(node, "axes").empty();  // x.amax ()
  const NodeId maker = unit.bound().graph().values[Index(node.outputs[0])].producer;
  const bool has_places = !unit.TargetOf(node).starts_with("aten.am") && !is_of_all &&
                          !IsTakenOffMaximum(unit.bound(), maker);
  if (has_places) return LowerUnary(unit, node, aten);
  LowerUnary(unit, node, node.op_type == "ReduceMin" ? "amin" : "amax");
}

// x.prod () or, of one dimension, x.prod (dim).
void LowerReduceProd(UnitWriter& unit, const Node& node, std::string_view aten) {
  const KnownTensor* given = unit.bound().Known(InputOf(node, 1));
  std::vector<int64_t> axes =
      given == nullptr ? IntsAttribute(node, "axes")
                       : std::vector<int64_t>(given->elements().begin(), given->elements().end());
  if (axes.size() > 1) return unit.LowerUnknown(node);
  for (int64_t& axis : axes) {
    if (axis < 0) axis += std::ssize(unit.TypeOf(node.inputs[0]).dims);
  }
  unit.Emit(aten, {unit.TensorOf(node.inputs[0])}, {unit.NewResult(node.outputs[0])},
            std::move(axes));
}

// Its upper triangle is kept unless `upper` is 0.
void LowerTrilu(UnitWriter& unit, const Node& node, std::string_view) {
  LowerUnary(unit, node, IntAttribute(node, "upper", 1) != 0 ? "triu" : "tril");
}

// What an operator is called for tensors of 3, 4 and 5 dimensions.
struct RankedNames {
  std::string_view of_two;  // of two dimensions beside batch and channels, which the row says
  std::string_view of_one;
  std::string_view of_three;
};

std::string_view NameForRank(const UnitWriter& unit, const Node& node, std::string_view aten) {
  constexpr RankedNames kNames[] = {
      {"max_pool2d", "max_pool1d", "max_pool3d"},
      {"avg_pool2d", "avg_pool1d", "avg_pool3d"},
      {"adaptive_max_pool2d", "adaptive_max_pool1d", "adaptive_max_pool3d"},
      {"upsample_nearest2d", "upsample_nearest1d", "upsample_nearest3d"},
      {"upsample_bilinear2d", "upsample_linear1d", "upsample_trilinear3d"},
  };
  const size_t rank = unit.TypeOf(node.inputs[0]).dims.size();
  for (const RankedNames& names : kNames) {
    if (names.of_two == aten && rank == 3) return names.of_one;
    if (names.of_two == aten && rank == 5) return names.of_three;
  }
  return aten;
}

void LowerPool(UnitWriter& unit, const Node& node, std::string_view aten) {
  LowerUnary(unit, node, NameForRank(unit, node, aten));
}

void LowerResize(UnitWriter& unit, const Node& node, std::string_view aten) {
  const Attribute* mode = FindAttribute(node, "mode");
  const auto* how = mode == nullptr ? nullptr : std::get_if<std::string_view>(&mode->value);
  if (how != nullptr && *how == "linear") aten = "upsample_bilinear2d";
  if (how != nullptr && *how == "cubic") aten = "upsample_bicubic2d";
  LowerUnary(unit, node, NameForRank(unit, node, aten));
}

// ints: as those of a .pt2's (WriteGridSampler).
void LowerGridSample(UnitWriter& unit, const Node& node, std::string_view aten) {
  const auto text = [&](std::string_view name, std::string_view absent) {
    const Attribute* attribute = FindAttribute(node, name);
    const auto* found =
        attribute == nullptr ? nullptr : std::get_if<std::string_view>(&attribute->value);
    return found == nullptr ? absent : *found;
  };
  const std::string_view mode = text("mode", "linear");
  const bool is_plain =
      (mode == "linear" || mode == "bilinear") && text("padding_mode", "zeros") == "zeros";
  const bool is_known = is_plain && IntAttribute(node, "align_corners", 0) != 0;
  unit.Emit(aten, {unit.TensorOf(InputOf(node, 0)), unit.TensorOf(InputOf(node, 1))},
            {unit.NewResult(node.outputs[0])}, {is_known ? 1 : 0});
}

bool IsNarrow(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

// x.half () of a model in fp32, to TorchScript's exporter: under autocast it would have cast
// weights, too.
bool SpellsNarrowType(const UnitWriter& unit, const Node& cast) {
  if (!IsNamedByTorchScript(cast)) return false;
  return std::ranges::none_of(unit.graph().nodes, [&](const Node& node) {
    const bool casts_weight = node.op_type == "Cast" && unit.bound().IsStored(node.inputs[0], 2);
    return casts_weight && IsNarrow(unit.TypeOf(node.outputs[0]).dtype);
  });
}

// The type of `value` in this run: as the file says it where nothing that goes into the model has
// it (x.double() of a model in float32), for float64 alone where nobody names the call, since what
// exports under autocast casts to 16 bits everywhere.
TensorType TypeInRun(const UnitWriter& unit, ValueId value, const Node& cast) {
  const TensorType& type = unit.TypeOf(value);
  if (unit.settings().keeps_types) return type;
  const bool is_wide = type.dtype == DType::kFloat64;
  const bool is_spelled = IsNarrow(type.dtype) && (unit.TargetOf(cast) == "aten._to_copy.default" ||
                                                   SpellsNarrowType(unit, cast));
  if (!is_wide && !is_spelled) return unit.WithPrecision(type);
  const Graph& graph = unit.graph();
  const bool is_given =
      std::ranges::any_of(graph.initializers,
                          [&](const Initializer& each) { return each.type.dtype == type.dtype; }) ||
      std::ranges::any_of(graph.inputs,
                          [&](ValueId input) { return unit.TypeOf(input).dtype == type.dtype; });
  return is_given ? unit.WithPrecision(type) : type;
}

// Nothing happens between equal types, to a number of Python's, nor where the exporter alone
// casts: PyTorch's kernels promote what they read.
void LowerCast(UnitWriter& unit, const Node& node, std::string_view aten) {
  if (unit.values().IsNumber(node.inputs[0])) return LowerIdentity(unit, node, aten);
  const std::string_view target = unit.TargetOf(node);
  const TensorType from = TypeInRun(unit, node.inputs[0], node);
  const TensorType to = TypeInRun(unit, node.outputs[0], node);
  const bool is_exporters = target == "prims.convert_element_type.default";
  if (from.dtype == to.dtype || is_exporters) {
    return unit.Alias(node.outputs[0], node.inputs[0]);
  }
  const NameId input = unit.TensorOf(node.inputs[0]);
  const NameId giver = GiverToCast(unit, node);
  const NameId result = unit.NewResult(node.outputs[0]);
  if (giver != kNoName) return unit.Emit("type_as", {input, giver}, {result});
  unit.program().values[Index(result)].type.dtype = to.dtype;
  unit.Emit(aten, {input}, {result});
}

// [N, C] and [C] by one kernel, [N, C, H, W] by another.
void LowerNll(UnitWriter& unit, const Node& node, std::string_view aten) {
  const size_t rank = unit.TypeOf(node.inputs[0]).dims.size();
  if (rank == 3 || rank > 4) return unit.LowerUnknown(node);
  LowerAll(unit, node, rank == 4 ? "nll_loss2d" : aten);
}

void LowerPad(UnitWriter& unit, const Node& node, std::string_view aten) {
  const Attribute* mode = FindAttribute(node, "mode");
  const auto* how = mode == nullptr ? nullptr : std::get_if<std::string_view>(&mode->value);
  if (how != nullptr && *how == "reflect") aten = "pad.reflect";
  if (how != nullptr && (*how == "edge" || *how == "wrap")) aten = "pad.copies";
  LowerUnary(unit, node, aten);
}

// A number of Python's, or what becomes a tensor where one is read.
void LowerConstant(UnitWriter& unit, const Node& node, std::string_view) {
  const ValueId value = node.outputs[0];
  if (Numel(unit.TypeOf(value).dims) <= 1) unit.values().TakeAsNumber(value);
}

// A tensor that is made from numbers alone.
void LowerFill(UnitWriter& unit, const Node& node, std::string_view aten) {
  const NameId giver = GiverOfType(unit, node);
  if (giver != kNoName) return unit.Emit("bernoulli", {giver}, {unit.NewResult(node.outputs[0])});
  unit.Emit(aten, {}, {unit.NewResult(node.outputs[0])});
}

// torch.export writes torch.zeros and its like as a number that is expanded.
void LowerExpand(UnitWriter& unit, const Node& node, std::string_view aten) {
  const bool fills = FillsTensor(unit.TargetOf(node));
  fills ? LowerFill(unit, node, "constant") : LowerUnary(unit, node, aten);
}

constexpr LoweringRow kLoweringRows[] = {
    // Convolutions and products.
    {"Conv", "convolution", LowerConvolution},
    {"ConvTranspose", "convolution", LowerConvolution},
    {"Gemm", "addmm", LowerGemm},
    {"MatMul", "matmul", LowerAll},

    // Normalizations.
    {"BatchNormalization", "batch_norm", LowerBatchNorm},
    {"LayerNormalization", "layer_norm", LowerLayerNorm},
    {"InstanceNormalization", "instance_norm", LowerInstanceNorm},
    {"Softmax", "softmax", LowerUnary},
    {"LogSoftmax", "log_softmax", LowerUnary},

    // Activations.
    {"Relu", "relu", LowerUnary},
    {"LeakyRelu", "leaky_relu", LowerUnary},
    {"PRelu", "prelu", LowerPRelu},
    {"Elu", "elu", LowerUnary},
    {"Celu", "celu", LowerUnary},
    {"Selu", "selu", LowerUnary},
    {"Softplus", "softplus", LowerUnary},
    {"Clip", "hardtanh", LowerClip},
    {"HardSigmoid", "hardsigmoid", LowerUnary},
    {"HardSwish", "hardswish", LowerUnary},
    {"Shrink", "hardshrink", LowerUnary},
    {"Mish", "mish", LowerUnary},
    {"Gelu", "gelu", LowerUnary},
    {"Sigmoid", "sigmoid", LowerUnary},
    {"Tanh", "tanh", LowerUnary},
    {"Dropout", "dropout", LowerDropout},

    // Elementwise arithmetic.
    {"Add", "add", LowerBinary, "add.Scalar"},
    {"Sub", "sub", LowerBinary, "add.Scalar", "neg"},
    {"Mul", "mul", LowerBinary, "mul.Scalar"},
    {"Div", "div", LowerDiv, "mul.Scalar", "reciprocal"},
    {"Pow", "pow", LowerBinary, "pow.Tensor_Scalar", "pow.Scalar"},
    {"Mod", "remainder", LowerMod},
    {"Min", "minimum", LowerBinary, "clamp_max"},
    {"Max", "maximum", LowerBinary, "clamp_min"},
    {"Neg", "neg", LowerUnary},
    {"Exp", "exp", LowerUnary},
    {"Log", "log", LowerUnary},
    {"Sqrt", "sqrt", LowerUnary},
    {"Reciprocal", "reciprocal", LowerUnary},
    {"Erf", "erf", LowerUnary},
    {"Abs", "abs", LowerUnary},
    {"Sin", "sin", LowerUnary},
    {"Tan", "tan", LowerUnary},
    {"Atan", "atan", LowerUnary},
    {"Asin", "asin", LowerUnary},
    {"Acos", "acos", LowerUnary},
    {"Sinh", "sinh", LowerUnary},
    {"Cosh", "cosh", LowerUnary},
    {"Asinh", "asinh", LowerUnary},
    {"Acosh", "acosh", LowerUnary},
    {"Atanh", "atanh", LowerUnary},
    {"Cos", "cos", LowerUnary},
    {"Floor", "floor", LowerUnary},
    {"Ceil", "ceil", LowerUnary},
    {"Round", "round", LowerUnary},
    {"Sign", "sign", LowerUnary},
    {"Trilu", "tril", LowerTrilu},
    {"CumSum", "cumsum", LowerUnary},
    {"Where", "where", LowerWhere},
    {"Cast", "to", LowerCast},
    {"CastLike", "to", LowerCast},

    // Comparisons and logic.
    {"Equal", "eq", LowerBinary},
    {"Greater", "gt", LowerBinary},
    {"GreaterOrEqual", "ge", LowerBinary},
    {"Less", "lt", LowerBinary},
    {"LessOrEqual", "le", LowerBinary},
    {"And", "logical_and", LowerBinary},
    {"Or", "logical_or", LowerBinary},
    {"Xor", "logical_xor", LowerBinary},
    {"Not", "logical_not", LowerUnary},
    {"BitwiseAnd", "bitwise_and", LowerBinary},
    {"BitwiseOr", "bitwise_or", LowerBinary},
    {"BitwiseXor", "bitwise_xor", LowerBinary},
    {"BitwiseNot", "bitwise_not", LowerUnary},
    {"IsNaN", "isnan", LowerUnary},
    {"IsInf", "isinf", LowerUnary},

    // Pooling and reductions.
    {"MaxPool", "max_pool2d", LowerPool},
    {"AveragePool", "avg_pool2d", LowerPool},
    {"GlobalAveragePool", "mean", LowerUnary},
    {"GlobalMaxPool", "adaptive_max_pool2d", LowerPool},
    {"ReduceMean", "mean", LowerUnary},
    {"ReduceSum", "sum", LowerUnary},
    {"ReduceMax", "max.dim", LowerReduceMax},
    {"ReduceMin", "min.dim", LowerReduceMax},
    {"ReduceL2", "linalg_vector_norm", LowerUnary},
    {"ReduceLogSumExp", "logsumexp", LowerUnary},
    {"ReduceProd", "prod", LowerReduceProd},
    {"NegativeLogLikelihoodLoss", "nll_loss", LowerNll},
    {"TopK", "topk", LowerTopK},
    {"ArgMax", "argmax", LowerUnary},
    {"ArgMin", "argmin", LowerUnary},
    {"OneHot", "one_hot", LowerUnary},

    // Views, copies and joins.
    {"Identity", "", LowerIdentity},
    {"Reshape", "view", LowerReshape},
    {"Flatten", "view", LowerUnary},
    {"Squeeze", "view", LowerUnary},
    {"Unsqueeze", "view", LowerUnary},
    {"Transpose", "permute", LowerTranspose},
    {"Einsum", "", LowerEinsum},
    {"Expand", "expand", LowerExpand},
    {"Slice", "slice", LowerSlice},
    {"Split", "split", LowerSplit},
    {"SplitToSequence", "split", LowerSplitToSequence},
    {"SequenceAt", "slice", LowerSequenceAt},
    {"Concat", "cat", LowerAll},
    {"Pad", "pad", LowerPad},
    {"DepthToSpace", "pixel_shuffle", LowerUnary},
    {"SpaceToDepth", "pixel_unshuffle", LowerUnary},
    {"Tile", "repeat", LowerUnary},
    {"Col2Im", "col2im", LowerUnary},
    {"GridSample", "grid_sampler", LowerGridSample},
    {"Resize", "upsample_nearest2d", LowerResize},
    {"Upsample", "upsample_nearest2d", LowerResize},
    {"Gather", "embedding", LowerGather},
    {"GatherElements", "gather", LowerAll},
    {"GatherND", "index", LowerPlaces},
    {"ScatterElements", "scatter", LowerScatter},
    {"ScatterND", "index_put", LowerPlaces},

    // What data choose: new places of integers, and elements at them.
    {"NonZero", "nonzero", LowerTopK},
    {"NonMaxSuppression", "nonzero", LowerTopK},
    {"Unique", "nonzero", LowerTopK},
    {"Compress", "index", LowerPlaces},
    {"RoiAlign", "index_select", LowerAll},

    // Integers of less bits, in inference: each node makes a tensor, and nothing beside it.
    {"QuantizeLinear", "nonzero", LowerQuantized},
    {"DequantizeLinear", "nonzero", LowerQuantized},
    {"DynamicQuantizeLinear", "nonzero", LowerQuantized},
    {"QLinearConv", "nonzero", LowerQuantized},
    {"QLinearMatMul", "nonzero", LowerQuantized},
    {"ConvInteger", "nonzero", LowerQuantized},
    {"MatMulInteger", "nonzero", LowerQuantized},
    {"com.microsoft.QAttention", "nonzero", LowerQuantized},
    {"com.microsoft.QGemm", "nonzero", LowerQuantized},
    {"com.microsoft.QLinearAdd", "nonzero", LowerQuantized},
    {"com.microsoft.QLinearMul", "nonzero", LowerQuantized},
    {"com.microsoft.QLinearConcat", "nonzero", LowerQuantized},
    {"com.microsoft.QLinearGlobalAveragePool", "nonzero", LowerQuantized},
    {"com.microsoft.QLinearLeakyRelu", "nonzero", LowerQuantized},
    {"com.microsoft.QLinearSigmoid", "nonzero", LowerQuantized},
    {"com.microsoft.QLinearSoftmax", "nonzero", LowerQuantized},
    {"com.microsoft.DynamicQuantizeMatMul", "nonzero", LowerQuantized},
    {"com.microsoft.MatMulIntegerToFloat", "nonzero", LowerQuantized},

    // Tensors made from numbers.
    {"Constant", "", LowerConstant},
    {"ConstantOfShape", "constant", LowerFill},
    {"Range", "constant", LowerFill},
    {"Bernoulli", "bernoulli.self", LowerUnary},
    {"RandomUniformLike", "constant", LowerFill},
    {"RandomNormalLike", "constant", LowerFill},
};

}  // namespace

std::span<const LoweringRow> LoweringRows() { return kLoweringRows; }

const LoweringRow* FindLowering(std::string_view op_type) {
  static const auto index = [] {
    std::unordered_map<std::string_view, const LoweringRow*> rows;
    for (const LoweringRow& row : kLoweringRows) rows.emplace(row.op_type, &row);
    return rows;
  }();
  const auto found = index.find(op_type);
  return found == index.end() ? nullptr : found->second;
}

}  // namespace onnxfit
