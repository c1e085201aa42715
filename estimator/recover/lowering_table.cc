// Which ATen calls PyTorch runs for an ONNX operator.
#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <vector>

#include "estimator/recover/convolution_nodes.h"
#include "estimator/recover/lowering.h"
#include "estimator/recover/lowering_indexing.h"
#include "estimator/recover/lowering_views.h"

namespace onnxfit {

ValueId InputOf(const Node& node, size_t i) {
  return i < node.inputs.size() ? node.inputs[i] : kNoValue;
}

void LowerUnary(Lowering& lowering, const Node& node, std::string_view aten) {
  const NameId input = lowering.TensorOf(InputOf(node, 0));
  lowering.Emit(aten, {input}, {lowering.NewResult(node.outputs[0])});
}

void LowerAll(Lowering& lowering, const Node& node, std::string_view aten) {
  std::vector<NameId> inputs;
  for (const ValueId value : node.inputs) inputs.push_back(lowering.TensorOf(value));
  lowering.Emit(aten, std::move(inputs), {lowering.NewResult(node.outputs[0])});
}

namespace {

// Two tensors, or a tensor and a number, which then is an argument of the call.
void LowerBinary(Lowering& lowering, const Node& node, std::string_view aten) {
  const ValueId a = InputOf(node, 0);
  const ValueId b = InputOf(node, 1);
  const auto is_number = [&](ValueId value) {
    return lowering.IsHost(value) && Numel(lowering.TypeOf(value).dims) <= 1;
  };
  if (is_number(a) == is_number(b)) return LowerAll(lowering, node, aten);
  const LoweringRow& row = *FindLowering(node.op_type);
  const bool number_first = is_number(a) && !row.aten_of_first_scalar.empty();
  const std::string_view scalar = number_first ? row.aten_of_first_scalar : row.aten_of_scalar;
  const NameId tensor = lowering.TensorOf(is_number(a) ? b : a);
  lowering.Emit(scalar.empty() ? aten : scalar, {tensor}, {lowering.NewResult(node.outputs[0])});
}

// masked_fill is a choice between a number and a tensor, the number first; torch.where with a
// number makes a tensor of it (torch/onnx, symbolic_opset9.py, pytorch v2.11.0).
void LowerWhere(Lowering& lowering, const Node& node, std::string_view aten) {
  const auto is_number = [&](ValueId value) {
    return lowering.IsHost(value) && Numel(lowering.TypeOf(value).dims) <= 1;
  };
  const ValueId hidden = InputOf(node, 1);
  if (!is_number(hidden) || is_number(InputOf(node, 2))) return LowerAll(lowering, node, aten);
  const NameId x = lowering.TensorOf(InputOf(node, 2));
  const NameId mask = lowering.TensorOf(InputOf(node, 0));
  lowering.Emit("masked_fill", {x, mask}, {lowering.NewResult(node.outputs[0])});
}

// What torch.export writes for a cat of one tensor with an empty one, as a cache begins, is a copy;
// the cache holds it until another takes its place.
void LowerIdentity(Lowering& lowering, const Node& node, std::string_view) {
  if (lowering.TargetOf(node) == "aten.cat.default") {
    lowering.EnterReaderOf(node.outputs[0]);
    return LowerUnary(lowering, node, "cat");
  }
  lowering.Alias(node.outputs[0], node.inputs[0]);
}

// A bias that is not a parameter is one that the exporter computed: a tensor of zeros, or
// what it folded a batch norm into.
std::vector<NameId> ConvolutionInputs(Lowering& lowering, const Node& node) {
  std::vector<NameId> inputs = {lowering.TensorOf(InputOf(node, 0)),
                                lowering.TensorOf(InputOf(node, 1))};
  const ValueId bias = InputOf(node, 2);
  if (lowering.IsParameter(bias)) inputs.push_back(lowering.TensorOf(bias));
  return inputs;
}

std::vector<int64_t> ConvolutionInts(const Lowering& lowering, const Node& node) {
  return ToInts(ReadArguments(
      node, {lowering.TypeOf(node.inputs[0]).dims, lowering.TypeOf(node.inputs[1]).dims,
             lowering.TypeOf(node.outputs[0]).dims}));
}

void LowerConvolution(Lowering& lowering, const Node& node, std::string_view aten) {
  std::vector<NameId> inputs = ConvolutionInputs(lowering, node);
  std::vector<int64_t> ints = ConvolutionInts(lowering, node);
  const FoldedBatchNorm* folded = lowering.FoldedInto(node);
  if (folded == nullptr) {
    lowering.Emit(aten, std::move(inputs), {lowering.NewResult(node.outputs[0])}, std::move(ints));
    return;
  }
  const std::string bias = folded->convolution_module + ".bias";
  const bool lost_bias = folded->convolution_has_bias && inputs.size() < 3;
  if (lost_bias && lowering.HasLostTensor(bias)) inputs.push_back(lowering.LostTensor(bias));
  const TensorType type = lowering.WithPrecision(lowering.TypeOf(node.outputs[0]));
  lowering.EnterConvolutionOf(*folded);
  const NameId convolved = lowering.NewName(folded->module + ".input", type);
  lowering.Emit(aten, std::move(inputs), {convolved}, std::move(ints));
  lowering.EnterSibling(folded->module);
  const auto tensor = [&](const char* name) { return lowering.LostTensor(folded->module + name); };
  lowering.Emit(lowering.trains() ? "batch_norm" : "batch_norm_inference",
                {convolved, tensor(".weight"), tensor(".bias"), tensor(".running_mean"),
                 tensor(".running_var")},
                {lowering.NewResult(node.outputs[0])});
}

// torch.nn.Linear, whose weight is transposed; else torch.addmm(bias, x, w).
void LowerGemm(Lowering& lowering, const Node& node, std::string_view) {
  const NameId x = lowering.TensorOf(InputOf(node, 0));
  const NameId weight = lowering.TensorOf(InputOf(node, 1));
  const ValueId bias_value = InputOf(node, 2);
  const bool has_bias = bias_value != kNoValue && !lowering.IsHost(bias_value);
  const NameId bias = has_bias ? lowering.TensorOf(bias_value) : kNoName;
  const NameId result = lowering.NewResult(node.outputs[0]);
  if (IntAttribute(node, "transB", 0) != 0) {
    lowering.Emit("linear", has_bias ? std::vector{x, weight, bias} : std::vector{x, weight},
                  {result});
  } else if (has_bias) {
    lowering.Emit("addmm", {bias, x, weight}, {result});
  } else {
    lowering.Emit("mm", {x, weight}, {result});
  }
}

// In training PyTorch computes statistics, whatever mode the file was exported in.
void LowerBatchNorm(Lowering& lowering, const Node& node, std::string_view) {
  LowerAll(lowering, node, lowering.trains() ? "batch_norm" : "batch_norm_inference");
}

// Where `equation` reorders the dimensions of one operand, "nhwc->nchw": their new order.
std::vector<int64_t> OrderOf(std::string_view equation) {
  const size_t arrow = std::min(equation.find("->"), equation.size());
  const std::string_view from = equation.substr(0, arrow);
  const std::string_view to = equation.substr(std::min(arrow + 2, equation.size()));
  if (from.size() != to.size() || !std::is_permutation(from.begin(), from.end(), to.begin()))
    return {};
  std::vector<int64_t> order;
  for (const char letter : to) order.push_back(static_cast<int64_t>(from.find(letter)));
  return order;
}

void LowerEinsum(Lowering& lowering, const Node& node, std::string_view aten) {
  const Attribute* equation = FindAttribute(node, "equation");
  const auto* text =
      equation == nullptr ? nullptr : std::get_if<std::string_view>(&equation->value);
  std::vector<int64_t> order = text == nullptr ? std::vector<int64_t>() : OrderOf(*text);
  if (node.inputs.size() != 1 || order.empty()) return lowering.LowerUnknown(node);
  const NameId input = lowering.TensorOf(node.inputs[0]);
  lowering.Emit(aten, {input}, {lowering.NewResult(node.outputs[0])}, std::move(order));
}

// Without a weight of the module: exporters write ones.
void LowerLayerNorm(Lowering& lowering, const Node& node, std::string_view aten) {
  const ValueId weight = InputOf(node, 1);
  if (weight != kNoValue && lowering.IsMadeOfNumbers(weight))
    return LowerUnary(lowering, node, aten);
  LowerAll(lowering, node, aten);
}

// Without weight and bias of the module: exporters write ones and zeros.
void LowerInstanceNorm(Lowering& lowering, const Node& node, std::string_view aten) {
  if (lowering.IsParameter(InputOf(node, 1))) return LowerAll(lowering, node, aten);
  LowerUnary(lowering, node, aten);
}

void LowerDropout(Lowering& lowering, const Node& node, std::string_view aten) {
  if (!lowering.DropsOut(node)) return LowerIdentity(lowering, node, aten);
  LowerUnary(lowering, node, lowering.DropoutOp());
}

void LowerTranspose(Lowering& lowering, const Node& node, std::string_view aten) {
  const Attribute* perm = FindAttribute(node, "perm");
  std::vector<int64_t> permutation;
  const auto* order = perm == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(&perm->value);
  if (order != nullptr) {
    permutation = *order;
  } else {
    permutation.resize(lowering.TypeOf(InputOf(node, 0)).dims.size());
    std::iota(permutation.rbegin(), permutation.rend(), int64_t{0});
  }
  const NameId input = lowering.TensorOf(InputOf(node, 0));
  lowering.Emit(aten, {input}, {lowering.NewResult(node.outputs[0])}, std::move(permutation));
}

// A bound on one side is torch.clamp's, both may be an activation's.
void LowerClip(Lowering& lowering, const Node& node, std::string_view aten) {
  const bool is_clamp = lowering.TargetOf(node).starts_with("aten.clamp");
  const bool has_both = InputOf(node, 1) != kNoValue && InputOf(node, 2) != kNoValue;
  const bool is_old = node.inputs.size() < 2;  // the bounds are attributes
  if (!has_both && !is_old) aten = InputOf(node, 1) == kNoValue ? "clamp_max" : "clamp_min";
  LowerUnary(lowering, node, has_both && is_clamp ? "clamp" : aten);
}

// 1 / x is x.reciprocal() * 1 (torch/_tensor.py, __rtruediv__, pytorch v2.11.0); torch.export
// writes both.
void LowerDiv(Lowering& lowering, const Node& node, std::string_view aten) {
  const bool is_inverse = lowering.IsHost(node.inputs[0]) && !lowering.IsHost(node.inputs[1]) &&
                          Numel(lowering.TypeOf(node.inputs[0]).dims) <= 1;
  if (!is_inverse || !lowering.TargetOf(node).empty()) return LowerBinary(lowering, node, aten);
  const NameId x = lowering.TensorOf(node.inputs[1]);
  const NameId result = lowering.NewResult(node.outputs[0]);
  const TensorType type = lowering.WithPrecision(lowering.TypeOf(node.outputs[0]));
  const NameId inverse = lowering.NewName("reciprocal", type);
  lowering.Emit("reciprocal", {x}, {inverse});
  lowering.Emit("mul.Scalar", {inverse}, {result});
}

// x.max(dim) or x.amax(dim): TorchScript writes both alike.
void LowerReduceMax(Lowering& lowering, const Node& node, std::string_view aten) {
  const bool has_places = !lowering.TargetOf(node).starts_with("aten.am");
  if (has_places) return LowerUnary(lowering, node, aten);
  LowerUnary(lowering, node, node.op_type == "ReduceMin" ? "amin" : "amax");
}

// Its upper triangle is kept unless `upper` is 0.
void LowerTrilu(Lowering& lowering, const Node& node, std::string_view) {
  LowerUnary(lowering, node, IntAttribute(node, "upper", 1) != 0 ? "triu" : "tril");
}

// What an operator is called for tensors of 3, 4 and 5 dimensions.
struct RankedNames {
  std::string_view of_two;  // of two dimensions beside batch and channels, which the row says
  std::string_view of_one;
  std::string_view of_three;
};

std::string_view NameForRank(const Lowering& lowering, const Node& node, std::string_view aten) {
  constexpr RankedNames kNames[] = {
      {"max_pool2d", "max_pool1d", "max_pool3d"},
      {"avg_pool2d", "avg_pool1d", "avg_pool3d"},
      {"upsample_nearest2d", "upsample_nearest1d", "upsample_nearest3d"},
      {"upsample_bilinear2d", "upsample_linear1d", "upsample_trilinear3d"},
  };
  const size_t rank = lowering.TypeOf(node.inputs[0]).dims.size();
  for (const RankedNames& names : kNames) {
    if (names.of_two == aten && rank == 3) return names.of_one;
    if (names.of_two == aten && rank == 5) return names.of_three;
  }
  return aten;
}

void LowerPool(Lowering& lowering, const Node& node, std::string_view aten) {
  LowerUnary(lowering, node, NameForRank(lowering, node, aten));
}

void LowerResize(Lowering& lowering, const Node& node, std::string_view aten) {
  const Attribute* mode = FindAttribute(node, "mode");
  const auto* how = mode == nullptr ? nullptr : std::get_if<std::string_view>(&mode->value);
  if (how != nullptr && *how == "linear") aten = "upsample_bilinear2d";
  if (how != nullptr && *how == "cubic") aten = "upsample_bicubic2d";
  LowerUnary(lowering, node, NameForRank(lowering, node, aten));
}

// Nothing happens between equal types, to a number of Python's, nor where the exporter alone
// casts: PyTorch's kernels promote what they read.
void LowerCast(Lowering& lowering, const Node& node, std::string_view aten) {
  const ValueId number = node.inputs[0];
  if (lowering.IsHost(number) && Numel(lowering.TypeOf(number).dims) <= 1) {
    return LowerIdentity(lowering, node, aten);
  }
  const TensorType from = lowering.WithPrecision(lowering.TypeOf(node.inputs[0]));
  const TensorType to = lowering.WithPrecision(lowering.TypeOf(node.outputs[0]));
  const bool is_exporters = lowering.TargetOf(node) == "prims.convert_element_type.default";
  if (from.dtype == to.dtype || is_exporters) {
    return lowering.Alias(node.outputs[0], node.inputs[0]);
  }
  LowerUnary(lowering, node, aten);
}

void LowerPad(Lowering& lowering, const Node& node, std::string_view aten) {
  const Attribute* mode = FindAttribute(node, "mode");
  const auto* how = mode == nullptr ? nullptr : std::get_if<std::string_view>(&mode->value);
  const bool copies = how != nullptr && *how != "constant";
  LowerUnary(lowering, node, copies ? "pad.copies" : aten);
}

// A tensor that is made from numbers alone.
void LowerFill(Lowering& lowering, const Node& node, std::string_view aten) {
  lowering.Emit(aten, {}, {lowering.NewResult(node.outputs[0])});
}

// torch.export writes torch.zeros and its like as a number that is expanded.
void LowerExpand(Lowering& lowering, const Node& node, std::string_view aten) {
  const bool fills = FillsTensor(lowering.TargetOf(node));
  fills ? LowerFill(lowering, node, "constant") : LowerUnary(lowering, node, aten);
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
    {"PRelu", "prelu", LowerAll},
    {"Elu", "elu", LowerUnary},
    {"Celu", "celu", LowerUnary},
    {"Selu", "selu", LowerUnary},
    {"Softplus", "softplus", LowerUnary},
    {"Clip", "hardtanh", LowerClip},
    {"HardSigmoid", "hardsigmoid", LowerUnary},
    {"HardSwish", "hardswish", LowerUnary},
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
    {"IsNaN", "isnan", LowerUnary},
    {"IsInf", "isinf", LowerUnary},

    // Pooling and reductions.
    {"MaxPool", "max_pool2d", LowerPool},
    {"AveragePool", "avg_pool2d", LowerPool},
    {"GlobalAveragePool", "mean", LowerUnary},
    {"ReduceMean", "mean", LowerUnary},
    {"ReduceSum", "sum", LowerUnary},
    {"ReduceMax", "max.dim", LowerReduceMax},
    {"ReduceMin", "min.dim", LowerReduceMax},
    {"ReduceL2", "linalg_vector_norm", LowerUnary},
    {"ReduceLogSumExp", "logsumexp", LowerUnary},
    {"TopK", "topk", LowerTopK},
    {"ArgMax", "argmax", LowerUnary},
    {"ArgMin", "argmin", LowerUnary},

    // Views, copies and joins.
    {"Identity", "", LowerIdentity},
    {"Reshape", "view", LowerReshape},
    {"Flatten", "view", LowerUnary},
    {"Squeeze", "view", LowerUnary},
    {"Unsqueeze", "view", LowerUnary},
    {"Transpose", "permute", LowerTranspose},
    {"Einsum", "permute", LowerEinsum},
    {"Expand", "expand", LowerExpand},
    {"Slice", "slice", LowerSlice},
    {"Split", "split", LowerSplit},
    {"SplitToSequence", "split", LowerSplitToSequence},
    {"SequenceAt", "slice", LowerSequenceAt},
    {"Concat", "cat", LowerAll},
    {"Pad", "pad", LowerPad},
    {"DepthToSpace", "pixel_shuffle", LowerUnary},
    {"Tile", "repeat", LowerUnary},
    {"Resize", "upsample_nearest2d", LowerResize},
    {"Upsample", "upsample_nearest2d", LowerResize},
    {"Gather", "embedding", LowerGather},
    {"GatherElements", "gather", LowerAll},
    {"ScatterElements", "scatter", LowerScatter},

    // Tensors made from numbers.
    {"ConstantOfShape", "constant", LowerFill},
    {"Range", "constant", LowerFill},
    {"RandomUniformLike", "constant", LowerFill},
    {"RandomNormalLike", "constant", LowerFill},
};

}  // namespace

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
