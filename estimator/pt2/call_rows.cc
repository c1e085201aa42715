#include "estimator/pt2/call_rows.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/program/convolution_arguments.h"
#include "estimator/pt2/libraries.h"
#include "estimator/pt2/recurrent_layers.h"

namespace onnxfit::pt2 {
namespace {

// --- What many rows do -------------------------------------------------------------------------

// The first argument is the tensor, and what else there is are settings.
void WriteUnary(CallWriter& writer, const Call& call, std::string_view op) {
  const std::vector<NameId> tensors = writer.Tensors(call);
  if (tensors.empty()) return writer.WriteUnknown(call);
  writer.Emit(op, {tensors[0]}, {writer.Result(call)});
}

// Every tensor is an operand.
void WriteAll(CallWriter& writer, const Call& call, std::string_view op) {
  std::vector<NameId> tensors = writer.Tensors(call);
  writer.Emit(op, std::move(tensors), {writer.Result(call)});
}

// x.to(like.dtype), which is x where that is its type.
NameId CastLike(CallWriter& writer, NameId x, NameId like) {
  const ProgramValue& value = writer.program().values[Index(x)];
  const NameId cast = writer.NewName(value.name + ".cast", value.type);
  writer.Emit("type_as", {x, like}, {cast});
  return cast;
}

// A tensor and a number run as the operator with a scalar; in place nothing is made, unless a
// gradient flows.
template <const char* kScalar>
void WriteBinary(CallWriter& writer, const Call& call, std::string_view op) {
  std::vector<NameId> tensors = writer.Tensors(call);
  const bool has_number = tensors.size() < 2;
  const bool is_filled = has_number && WritesInPlace(call.target) && !tensors.empty();
  if (is_filled && !writer.IsTracked(tensors[0])) return writer.ReturnSame(call, tensors[0]);
  if (!has_number && CastsToWeightFirst(call))
    tensors[1] = CastLike(writer, tensors[1], tensors[0]);
  writer.Emit(has_number ? std::string_view(kScalar) : op, std::move(tensors),
              {writer.Result(call)});
}

// A tensor that is made from numbers alone.
void WriteConstant(CallWriter& writer, const Call& call, std::string_view op) {
  writer.Emit(op, {}, {writer.Result(call)});
}

// To a type that the code spells ("x.to(torch.float32)", "x.float()"), or to that of another
// tensor, which is the run's: the file has numbers for both.
bool SpellsFloat32(const Call& call) {
  if (call.lines.empty()) return false;
  const std::string_view line = call.lines.back().text;
  return line.find("float32") != std::string_view::npos ||
         line.find(".float()") != std::string_view::npos;
}

// The same in a type that is given, most likely as that of what it will be joined with:
// torch.zeros(sizes, dtype=query.dtype).
void WriteFilled(CallWriter& writer, const Call& call, std::string_view op) {
  const bool is_float = IsFloat(writer.TypeOfResult(call).dtype);
  const bool is_given = CallWriter::Find(call, "dtype") != nullptr && !SpellsFloat32(call);
  const NameId partner = is_float && is_given ? writer.PartnerOfResult(call) : kNoName;
  if (partner == kNoName) return WriteConstant(writer, call, op);
  writer.Emit("bernoulli", {partner}, {writer.Result(call)});
}

// The same in the type of its first operand: x.new_empty(…), rand_like(x).
void WriteLike(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  const bool is_float = IsFloat(writer.TypeOfResult(call).dtype);
  const bool follows = self != kNoName && is_float && CallWriter::Find(call, "dtype") == nullptr;
  follows ? writer.Emit("bernoulli", {self}, {writer.Result(call)})
          : WriteConstant(writer, call, op);
}

void ReturnFirst(CallWriter& writer, const Call& call, std::string_view) {
  const std::vector<NameId> tensors = writer.Tensors(call);
  if (tensors.empty()) return writer.WriteUnknown(call);
  writer.ReturnSame(call, tensors[0]);
}

// Several results.
void WriteParts(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  if (self == kNoName) return writer.WriteUnknown(call);
  writer.Emit(op, {self}, writer.Results(call));
}

// --- Convolutions and products -----------------------------------------------------------------

std::vector<int64_t> Spread(std::vector<int64_t> values, size_t count, int64_t absent) {
  if (values.empty()) values = {absent};
  if (values.size() == 1) values.resize(count, values[0]);
  return values;
}

// PyTorch pads a call of padding "same" as much on both sides, or before it runs.
std::vector<int64_t> PaddingOf(CallWriter& writer, const Call& call, const Dims& weight,
                               const std::vector<int64_t>& dilation) {
  const size_t count = weight.size() - 2;
  const std::string_view text = writer.TextAt(call, "padding");
  if (text.empty()) return Spread(writer.IntsAt(call, "padding"), count, 0);
  std::vector<int64_t> padding(count, 0);
  for (size_t i = 0; i < count && text == "same"; ++i) {
    padding[i] = dilation[i] * (weight[i + 2] - 1) / 2;
  }
  return padding;
}

void WriteConvolution(CallWriter& writer, const Call& call, std::string_view op) {
  const std::vector<NameId> tensors = writer.Tensors(call);
  if (tensors.size() < 2) return writer.WriteUnknown(call);
  const Dims weight = writer.DimsOf(tensors[1]);
  if (weight.size() < 3) return writer.WriteUnknown(call);
  ConvolutionArguments arguments;
  arguments.stride = Spread(writer.IntsAt(call, "stride"), weight.size() - 2, 1);
  arguments.dilation = Spread(writer.IntsAt(call, "dilation"), weight.size() - 2, 1);
  arguments.padding = PaddingOf(writer, call, weight, arguments.dilation);
  arguments.groups = writer.IntAt(call, "groups", 1);
  arguments.is_transposed = call.target.find("transpose") != std::string_view::npos ||
                            writer.IntAt(call, "transposed", 0) != 0;
  writer.Emit(op, tensors, {writer.Result(call)}, ToInts(arguments));
}

// einsum("bhqd,bhkd->bhqk") is a product of matrices; one operand is reordered.
void WriteEinsum(CallWriter& writer, const Call& call, std::string_view) {
  writer.WriteUnknown(call);
}

// --- Normalizations ----------------------------------------------------------------------------

void WriteBatchNorm(CallWriter& writer, const Call& call, std::string_view op) {
  std::vector<NameId> tensors;
  for (const char* name : {"input", "weight", "bias", "running_mean", "running_var"}) {
    tensors.push_back(writer.TensorAt(call, name));
  }
  writer.Emit(writer.trains() ? op : "batch_norm_inference", std::move(tensors),
              {writer.Result(call)});
}

void WriteLayerNorm(CallWriter& writer, const Call& call, std::string_view op) {
  const auto count = static_cast<int64_t>(writer.IntsAt(call, "normalized_shape").size());
  writer.Emit(op, writer.Tensors(call), {writer.Result(call)}, {count});
}

void WriteGroupNorm(CallWriter& writer, const Call& call, std::string_view op) {
  writer.Emit(op, writer.Tensors(call), {writer.Result(call)},
              {writer.IntAt(call, "num_groups", 1)});
}

// --- Dropouts ----------------------------------------------------------------------------------

// Which mode the module was exported in does not matter: the call is there in both.
// Source: dropout of aten/src/ATen/native/Dropout.cpp, pytorch v2.11.0.
void WriteDropout(CallWriter& writer, const Call& call, std::string_view op) {
  const bool drops = writer.trains() && writer.RealAt(call, "p", 0.5) > 0;
  const double given = writer.settings().dropout.value_or(1);
  if (!drops || given == 0) return ReturnFirst(writer, call, op);
  WriteUnary(writer, call, WritesInPlace(call.target) ? "dropout_" : op);
}

// --- Attention ---------------------------------------------------------------------------------

// A mask that hides nothing, and a causal one, are none where torch.export alone makes them
// (libraries.h).
void WriteAttention(CallWriter& writer, const Call& call, std::string_view op) {
  const bool drops = writer.trains() && writer.RealAt(call, "dropout_p", 0) > 0 &&
                     writer.settings().dropout.value_or(1) != 0;
  std::vector<NameId> operands;
  for (const char* name : {"query", "key", "value"})
    operands.push_back(writer.TensorAt(call, name));
  bool is_causal = writer.IntAt(call, "is_causal", 0) != 0;
  const Known* mask = writer.LibraryMaskAt(call, "attn_mask");
  NameId given = writer.TensorAt(call, "attn_mask");
  is_causal = is_causal || (mask != nullptr && IsCausal(*mask));
  if (mask != nullptr && (IsCausal(*mask) || AreAllTrue(*mask))) given = kNoName;
  if (given != kNoName) operands.push_back(given);
  writer.Emit(op, std::move(operands), {writer.Result(call)}, {drops ? 1 : 0, is_causal ? 1 : 0});
}

// --- Elementwise -------------------------------------------------------------------------------

// A bound on one side is another kernel.
void WriteClamp(CallWriter& writer, const Call& call, std::string_view op) {
  const bool has_both =
      CallWriter::Find(call, "min") != nullptr && CallWriter::Find(call, "max") != nullptr;
  WriteUnary(writer, call, has_both ? op : "clamp_min");
}

// torch.where(arange(S)[:, None] >= arange(S), bias, -3e38), which attention with a bias is told
// to be causal by: each call makes it anew.
// Source: sdpa_attention_forward of integrations/sdpa_attention.py, transformers 5.17.
void WriteCausalBias(CallWriter& writer, const Call& call, NameId bias) {
  const TensorType type = writer.program().values[Index(bias)].type;
  const int64_t size = type.dims.back();
  const std::string name(call.name);
  const auto make = [&](const char* op, std::vector<NameId> inputs, const TensorType& made) {
    const NameId result = writer.NewName(name + "." + op, made);
    writer.Emit(op, std::move(inputs), {result});
    return result;
  };
  const NameId rows = make("constant", {}, {DType::kInt64, {size}});
  const NameId column = make("view", {rows}, {DType::kInt64, {size, 1}});
  const NameId columns = make("constant", {}, {DType::kInt64, {size}});
  const NameId shown = make("compare", {column, columns}, {DType::kBool, {size, size}});
  const NameId lowest = make("constant", {}, {type.dtype, {}});
  writer.Emit("where", {shown, bias, lowest}, {writer.Result(call, type)});
}

// A number becomes a tensor on the device first.
// Source: where of aten/src/ATen/native/TensorCompare.cpp, pytorch v2.11.0.
void WriteWhere(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  const bool is_bias = self != kNoName && writer.DimsOf(self).size() > 1;
  const Known* shown = is_bias ? writer.LibraryMaskAt(call, "condition") : nullptr;
  if (shown != nullptr && AreAllTrue(*shown)) return writer.ReturnSame(call, self);
  if (shown != nullptr && IsCausal(*shown)) return WriteCausalBias(writer, call, self);
  std::vector<NameId> operands = {writer.TensorAt(call, "condition")};
  for (const char* name : {"self", "other"}) {
    NameId operand = writer.TensorAt(call, name);
    if (operand == kNoName) {
      TensorType type = writer.TypeOfResult(call);
      type.dims.clear();
      operand = writer.NewName(std::string(call.name) + "." + name, type);
      writer.Emit("constant", {}, {operand});
    }
    operands.push_back(operand);
  }
  writer.Emit(op, std::move(operands), {writer.Result(call)});
}

void WriteCast(CallWriter& writer, const Call& call, std::string_view op) {
  TensorType type = writer.TypeOfResult(call);
  if (writer.TextAt(call, "dtype") == "float32" && SpellsFloat32(call) && IsFloat(type.dtype) &&
      BitsOf(type.dtype) < 32) {
    type.dtype = DType::kFloat32;
  }
  const NameId self = writer.TensorAt(call, "self");
  if (self == kNoName) return WriteConstant(writer, call, "constant");
  writer.Emit(op, {self}, {writer.CastResult(call, self, type)});
}

// --- Views -------------------------------------------------------------------------------------

void WriteTranspose(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  const size_t rank = writer.DimsOf(self).size();
  std::vector<int64_t> order(rank);
  std::iota(order.begin(), order.end(), int64_t{0});
  const bool names_axes = CallWriter::Find(call, "dim0") != nullptr;
  const int64_t last = static_cast<int64_t>(rank) - 1;
  const int64_t a = names_axes ? writer.AxisAt(call, "dim0", self, 0) : last - 1;
  const int64_t b = names_axes ? writer.AxisAt(call, "dim1", self, 0) : last;
  if (a < 0 || b < 0 || a > last || b > last) return ReturnFirst(writer, call, op);  // a vector
  std::swap(order[Index(a)], order[Index(b)]);
  writer.Emit(op, {self}, {writer.Result(call)}, std::move(order));
}

void WritePermute(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  std::vector<int64_t> order = writer.IntsAt(call, "dims");
  for (int64_t& axis : order) {
    if (axis < 0) axis += std::ssize(writer.DimsOf(self));
  }
  writer.Emit(op, {self}, {writer.Result(call)}, std::move(order));
}

// The axis and the step go along where the step is not 1.
void WriteSlice(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  const int64_t step = writer.IntAt(call, "step", 1);
  const Dims taken = writer.TypeOfResult(call).dims;  // as the export counts them
  const Dims& dims = writer.DimsOf(self);
  const auto axis = writer.AxisAt(call, "dim", self, 0);
  const bool has_axis = axis >= 0 && axis < std::ssize(dims) && taken.size() == dims.size();
  if (has_axis && taken[Index(axis)] > dims[Index(axis)]) {
    const std::string_view result = call.results[0].text;
    writer.RefuseRows(call, "self", result, taken[Index(axis)], dims[Index(axis)]);
  }
  std::vector<int64_t> ints;
  if (step != 1) ints = {writer.AxisAt(call, "dim", self, 0), step};
  writer.Emit(op, {self}, {writer.Result(call)}, std::move(ints));
}

void WriteSelect(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  writer.Emit(op, {self}, {writer.Result(call)}, {writer.AxisAt(call, "dim", self, 0)});
}

void WriteUnbind(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  writer.Emit(op, {self}, writer.Results(call), {writer.AxisAt(call, "dim", self, 0)});
}

// A copy that keeps the order of dimensions is a clone, one that is asked to be dense another.
void WriteClone(CallWriter& writer, const Call& call, std::string_view op) {
  const bool is_dense = writer.TextAt(call, "memory_format") == "contiguous_format";
  WriteUnary(writer, call, is_dense ? "contiguous" : op);
}

// Of views with one dimension more.
// Source: stack of aten/src/ATen/native/TensorShape.cpp, pytorch v2.11.0.
void WriteStack(CallWriter& writer, const Call& call, std::string_view) {
  const TensorType type = writer.TypeOfResult(call);
  const std::vector<NameId> tensors = writer.Tensors(call);
  if (tensors.empty()) return writer.WriteUnknown(call);
  int64_t axis = writer.IntAt(call, "dim", 0);
  if (axis < 0) axis += std::ssize(type.dims);
  TensorType part = type;
  if (axis >= 0 && axis < std::ssize(part.dims)) part.dims[Index(axis)] = 1;
  std::vector<NameId> views;
  for (const NameId tensor : tensors) {
    views.push_back(writer.NewName(std::string(call.name) + ".unsqueezed", part));
    writer.Emit("view", {tensor}, {views.back()});
  }
  writer.Emit("cat", std::move(views), {writer.Result(call)});
}

// x[1:] - x[:-1]; of bools, which differ.
// Source: diff_helper of aten/src/ATen/native/ReduceOps.cpp, pytorch v2.11.0.
void WriteDiff(CallWriter& writer, const Call& call, std::string_view) {
  const NameId self = writer.TensorAt(call, "self");
  if (self == kNoName) return writer.WriteUnknown(call);
  TensorType part = writer.TypeOfResult(call);
  part.dtype = writer.program().values[Index(self)].type.dtype;
  std::vector<NameId> parts;
  for (const char* name : {".after", ".before"}) {
    parts.push_back(writer.NewName(std::string(call.name) + name, part));
    writer.Emit("slice", {self}, {parts.back()});
  }
  writer.Emit(IsFloat(part.dtype) ? "sub" : "compare", std::move(parts), {writer.Result(call)});
}

// Rows of a table by indices, which are known where they are positions.
void WriteEmbedding(CallWriter& writer, const Call& call, std::string_view op) {
  const Known* indices = writer.KnownAt(call, "indices");
  const Dims& table = writer.DimsOf(writer.TensorAt(call, "weight"));
  if (indices != nullptr && !indices->elements.empty() && !table.empty()) {
    const int64_t asked = *std::ranges::max_element(indices->elements) + 1;
    const std::string_view counted = CallWriter::Find(call, "indices")->text;
    if (asked > table[0]) writer.RefuseRows(call, "weight", counted, asked, table[0]);
  }
  WriteAll(writer, call, op);
}

// --- Pooling, reductions, places ---------------------------------------------------------------

// A mean where one pixel is left.
// Source: adaptive_avg_pool2d of aten/src/ATen/native/AdaptiveAveragePooling.cpp, pytorch v2.11.0.
void WriteAdaptivePool(CallWriter& writer, const Call& call, std::string_view op) {
  const std::vector<int64_t> size = writer.IntsAt(call, "output_size");
  const bool is_mean = std::ranges::all_of(size, [](int64_t side) { return side == 1; });
  WriteUnary(writer, call, is_mean ? "mean" : op);
}

// Values and places; where nobody reads these, they are an auxiliary result.
void WriteWithPlaces(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  std::vector<NameId> results = writer.Results(call);
  if (results.size() > 1 && !writer.IsRead(call.results[1].text)) results.resize(1);
  writer.Emit(results.size() > 1 ? "topk" : op, {self}, std::move(results));
}

// x[:, i]: the tensors among a list of indices.
void WriteIndex(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  const Argument* indices = CallWriter::Find(call, "indices");
  std::vector<NameId> operands = {self};
  if (indices != nullptr) {
    for (const Argument& item : indices->items) {
      const NameId index = writer.TensorOf(item);
      if (index != kNoName) operands.push_back(index);
    }
  }
  if (operands.size() < 2) return writer.WriteUnknown(call);
  writer.Emit(op, std::move(operands), {writer.Result(call)});
}

void WritePad(CallWriter& writer, const Call& call, std::string_view op) {
  const std::string_view mode = writer.TextAt(call, "mode");
  WriteUnary(writer, call, mode.empty() || mode == "constant" ? op : "pad.copies");
}

constexpr char kAddScalar[] = "add.Scalar";
constexpr char kMulScalar[] = "mul.Scalar";
constexpr char kPowScalar[] = "pow.Tensor_Scalar";
constexpr char kCompare[] = "compare";

constexpr CallRow kCallRows[] = {
    // Convolutions and products.
    {"conv1d.default", "convolution", WriteConvolution},
    {"conv2d.default", "convolution", WriteConvolution},
    {"conv3d.default", "convolution", WriteConvolution},
    {"conv1d.padding", "convolution", WriteConvolution},
    {"conv2d.padding", "convolution", WriteConvolution},
    {"conv_transpose1d.default", "convolution", WriteConvolution},
    {"conv_transpose2d.input", "convolution", WriteConvolution},
    {"conv_transpose3d.input", "convolution", WriteConvolution},
    {"convolution.default", "convolution", WriteConvolution},
    {"linear.default", "linear", WriteAll},
    {"matmul.default", "matmul", WriteAll},
    {"bmm.default", "bmm", WriteAll},
    {"mm.default", "mm", WriteAll},
    {"addmm.default", "addmm", WriteAll},
    {"einsum.default", "", WriteEinsum},

    // Normalizations.
    {"batch_norm.default", "batch_norm", WriteBatchNorm},
    {"layer_norm.default", "layer_norm", WriteLayerNorm},
    {"group_norm.default", "group_norm", WriteGroupNorm},
    {"rms_norm.default", "rms_norm", WriteLayerNorm},
    {"instance_norm.default", "instance_norm", WriteAll},
    {"softmax.int", "softmax", WriteUnary},
    {"_softmax.default", "softmax", WriteUnary},
    {"log_softmax.int", "log_softmax", WriteUnary},
    {"_log_softmax.default", "log_softmax", WriteUnary},

    // Activations and dropouts.
    {"relu.default", "relu", WriteUnary},
    {"relu6.default", "hardtanh", WriteUnary},
    {"leaky_relu.default", "leaky_relu", WriteUnary},
    {"prelu.default", "prelu", WriteAll},
    {"elu.default", "elu", WriteUnary},
    {"celu.default", "elu", WriteUnary},
    {"selu.default", "elu", WriteUnary},
    {"glu.default", "glu", WriteUnary},
    {"gelu.default", "gelu", WriteUnary},
    {"silu.default", "silu", WriteUnary},
    {"mish.default", "mish", WriteUnary},
    {"softplus.default", "softplus", WriteUnary},
    {"log_sigmoid.default", "log_sigmoid", WriteUnary},
    {"hardtanh.default", "hardtanh", WriteUnary},
    {"hardswish.default", "hardswish", WriteUnary},
    {"hardsigmoid.default", "hardsigmoid", WriteUnary},
    {"sigmoid.default", "sigmoid", WriteUnary},
    {"tanh.default", "tanh", WriteUnary},
    {"dropout.default", "dropout", WriteDropout},
    {"scaled_dot_product_attention.default", "scaled_dot_product_attention", WriteAttention},

    // Recurrent layers.
    {"lstm.input", "lstm", WriteRecurrent},
    {"gru.input", "gru", WriteRecurrent},
    {"rnn_tanh.input", "rnn", WriteRecurrent},
    {"rnn_relu.input", "rnn", WriteRecurrent},

    // Elementwise arithmetic.
    {"multiply.Tensor", "mul", WriteBinary<kMulScalar>},
    {"divide.Tensor", "div", WriteBinary<kMulScalar>},
    {"subtract.Tensor", "sub", WriteBinary<kAddScalar>},
    {"add.Tensor", "add", WriteBinary<kAddScalar>},
    {"sub.Tensor", "sub", WriteBinary<kAddScalar>},
    {"rsub.Scalar", "neg", WriteUnary},
    {"mul.Tensor", "mul", WriteBinary<kMulScalar>},
    {"div.Tensor", "div", WriteBinary<kMulScalar>},
    {"add.Scalar", "add.Scalar", WriteUnary},
    {"sub.Scalar", "add.Scalar", WriteUnary},
    {"mul.Scalar", "mul.Scalar", WriteUnary},
    {"div.Scalar", "mul.Scalar", WriteUnary},
    {"div.Tensor_mode", "compare", WriteAll},
    {"floor_divide.default", "compare", WriteAll},
    {"remainder.Scalar", "compare", WriteUnary},
    {"pow.Tensor_Scalar", "pow.Tensor_Scalar", WriteUnary},
    {"pow.Tensor_Tensor", "pow", WriteBinary<kPowScalar>},
    {"pow.Scalar", "pow.Scalar", WriteUnary},
    {"minimum.default", "minimum", WriteAll},
    {"maximum.default", "maximum", WriteAll},
    {"min.other", "minimum", WriteAll},
    {"max.other", "maximum", WriteAll},
    {"neg.default", "neg", WriteUnary},
    {"exp.default", "exp", WriteUnary},
    {"expm1.default", "expm1", WriteUnary},
    {"log.default", "log", WriteUnary},
    {"log1p.default", "log1p", WriteUnary},
    {"sqrt.default", "sqrt", WriteUnary},
    {"rsqrt.default", "rsqrt", WriteUnary},
    {"reciprocal.default", "reciprocal", WriteUnary},
    {"erf.default", "erf", WriteUnary},
    {"abs.default", "abs", WriteUnary},
    {"sin.default", "sin", WriteUnary},
    {"cos.default", "cos", WriteUnary},
    {"tan.default", "tan", WriteUnary},
    {"atan.default", "atan", WriteUnary},
    {"floor.default", "floor", WriteUnary},
    {"ceil.default", "floor", WriteUnary},
    {"round.default", "floor", WriteUnary},
    {"sign.default", "floor", WriteUnary},
    {"tril.default", "tril", WriteUnary},
    {"triu.default", "tril", WriteUnary},
    {"cumsum.default", "cumsum", WriteUnary},
    {"clamp.default", "clamp", WriteClamp},
    {"clamp.Tensor", "clamp", WriteUnary},
    {"clamp_min.default", "clamp_min", WriteUnary},
    {"clamp_max.default", "clamp_min", WriteUnary},
    {"where.self", "where", WriteWhere},
    {"where.ScalarOther", "where", WriteWhere},
    {"where.ScalarSelf", "where", WriteWhere},
    {"where.Scalar", "where", WriteWhere},
    {"masked_fill.Scalar", "masked_fill", WriteAll},
    {"to.dtype", "to", WriteCast},
    {"to.dtype_layout", "to", WriteCast},
    {"to.device", "to", WriteCast},
    {"_to_copy.default", "to", WriteCast},
    {"to.other", "type_as", WriteAll},
    {"type_as.default", "type_as", WriteAll},

    // Comparisons and logic.
    {"eq.Tensor", "compare", WriteBinary<kCompare>},
    {"eq.Scalar", "compare", WriteUnary},
    {"ne.Tensor", "compare", WriteBinary<kCompare>},
    {"ne.Scalar", "compare", WriteUnary},
    {"gt.Tensor", "compare", WriteBinary<kCompare>},
    {"gt.Scalar", "compare", WriteUnary},
    {"ge.Tensor", "compare", WriteBinary<kCompare>},
    {"ge.Scalar", "compare", WriteUnary},
    {"lt.Tensor", "compare", WriteBinary<kCompare>},
    {"lt.Scalar", "compare", WriteUnary},
    {"le.Tensor", "compare", WriteBinary<kCompare>},
    {"le.Scalar", "compare", WriteUnary},
    {"logical_and.default", "compare", WriteAll},
    {"logical_or.default", "compare", WriteAll},
    {"logical_not.default", "compare", WriteUnary},
    {"bitwise_and.Tensor", "compare", WriteAll},
    {"bitwise_or.Tensor", "compare", WriteAll},
    {"bitwise_not.default", "compare", WriteUnary},
    {"__and__.Tensor", "compare", WriteAll},
    {"__or__.Tensor", "compare", WriteAll},
    {"isnan.default", "compare", WriteUnary},
    {"isinf.default", "compare", WriteUnary},

    // Pooling and reductions.
    {"max_pool1d.default", "max_pool2d", WriteUnary},
    {"max_pool2d.default", "max_pool2d", WriteUnary},
    {"max_pool3d.default", "max_pool2d", WriteUnary},
    {"avg_pool1d.default", "avg_pool2d", WriteUnary},
    {"avg_pool2d.default", "avg_pool2d", WriteUnary},
    {"avg_pool3d.default", "avg_pool2d", WriteUnary},
    {"adaptive_avg_pool1d.default", "avg_pool2d", WriteAdaptivePool},
    {"adaptive_avg_pool2d.default", "avg_pool2d", WriteAdaptivePool},
    {"adaptive_avg_pool3d.default", "avg_pool2d", WriteAdaptivePool},
    {"mean.default", "mean", WriteUnary},
    {"mean.dim", "mean", WriteUnary},
    {"sum.default", "sum", WriteUnary},
    {"sum.dim_IntList", "sum", WriteUnary},
    {"max.dim", "max.dim", WriteWithPlaces},
    {"min.dim", "max.dim", WriteWithPlaces},
    {"amax.default", "amax", WriteUnary},
    {"amin.default", "amax", WriteUnary},
    {"argmax.default", "argmax", WriteUnary},
    {"argmin.default", "argmax", WriteUnary},
    {"topk.default", "topk", WriteParts},
    {"logsumexp.default", "logsumexp", WriteUnary},
    {"linalg_vector_norm.default", "norm", WriteUnary},
    {"norm.ScalarOpt_dim", "norm", WriteUnary},

    // Views, copies and joins.
    {"view.default", "view", WriteUnary},
    {"reshape.default", "view", WriteUnary},
    {"_unsafe_view.default", "view", WriteUnary},
    {"view_as.default", "view", WriteUnary},
    {"unsqueeze.default", "view", WriteUnary},
    {"squeeze.default", "view", WriteUnary},
    {"squeeze.dim", "view", WriteUnary},
    {"squeeze.dims", "view", WriteUnary},
    {"flatten.using_ints", "view", WriteUnary},
    {"unflatten.int", "view", WriteUnary},
    {"as_strided.default", "as_strided", WriteUnary},
    {"alias.default", "", ReturnFirst},
    {"detach.default", "", ReturnFirst},
    {"t.default", "permute", WriteTranspose},
    {"transpose.int", "permute", WriteTranspose},
    {"numpy_T.default", "permute", WriteTranspose},
    {"permute.default", "permute", WritePermute},
    {"expand.default", "expand", WriteUnary},
    {"expand_as.default", "expand", WriteUnary},
    {"select.int", "select", WriteSelect},
    {"slice.Tensor", "slice", WriteSlice},
    {"narrow.default", "slice", WriteSlice},
    {"split.Tensor", "split", WriteParts},
    {"split_with_sizes.default", "split", WriteParts},
    {"chunk.default", "split", WriteParts},
    {"unbind.int", "unbind", WriteUnbind},
    {"contiguous.default", "contiguous", WriteUnary},
    {"clone.default", "clone", WriteClone},
    {"cat.default", "cat", WriteAll},
    {"concat.default", "cat", WriteAll},
    {"stack.default", "", WriteStack},
    {"diff.default", "", WriteDiff},
    {"pad.default", "pad", WritePad},
    {"constant_pad_nd.default", "pad", WriteUnary},
    {"pixel_shuffle.default", "pixel_shuffle", WriteUnary},
    {"repeat.default", "tile", WriteUnary},
    {"tile.default", "tile", WriteUnary},
    {"repeat_interleave.self_int", "tile", WriteUnary},
    {"upsample_nearest2d.vec", "upsample", WriteUnary},
    {"upsample_bilinear2d.vec", "upsample", WriteUnary},
    {"upsample_bicubic2d.vec", "upsample", WriteUnary},
    {"embedding.default", "embedding", WriteEmbedding},
    {"index.Tensor", "index", WriteIndex},
    {"index_select.default", "index_select", WriteAll},
    {"gather.default", "gather", WriteAll},
    {"scatter.src", "scatter", WriteAll},
    {"scatter.value", "scatter", WriteAll},
    {"scatter_add.default", "scatter_add", WriteAll},

    // Tensors made from numbers.
    {"arange.default", "constant", WriteConstant},
    {"arange.start", "constant", WriteConstant},
    {"arange.start_step", "constant", WriteConstant},
    {"linspace.default", "constant", WriteConstant},
    {"full.default", "constant", WriteFilled},
    {"full_like.default", "constant", WriteLike},
    {"zeros.default", "constant", WriteFilled},
    {"zeros_like.default", "constant", WriteLike},
    {"ones.default", "constant", WriteFilled},
    {"ones_like.default", "constant", WriteLike},
    {"empty.memory_format", "constant", WriteFilled},
    {"empty_like.default", "constant", WriteLike},
    {"new_zeros.default", "constant", WriteLike},
    {"new_ones.default", "constant", WriteLike},
    {"new_full.default", "constant", WriteLike},
    {"new_empty.default", "constant", WriteLike},
    {"eye.default", "constant", WriteConstant},
    {"rand.default", "constant", WriteFilled},
    {"randn.default", "constant", WriteFilled},
    {"rand_like.default", "constant", WriteLike},
    {"randn_like.default", "constant", WriteLike},
    {"scalar_tensor.default", "constant", WriteConstant},
    {"lift_fresh_copy.default", "", ReturnFirst},

    // Written over: nothing new.
    {"bernoulli_.float", "", ReturnFirst},
    {"fill_.Scalar", "", ReturnFirst},
    {"zero_.default", "", ReturnFirst},
    {"copy_.default", "", ReturnFirst},
};

// "relu.default" of "relu_.default"; "" where the call is not in place.
std::string OutOfPlace(std::string_view target) {
  const size_t dot = target.find('.');
  if (dot == std::string_view::npos || dot == 0 || target[dot - 1] != '_' || target[0] == '_') {
    return "";
  }
  return std::string(target.substr(0, dot - 1)) + std::string(target.substr(dot));
}

const CallRow* FindByTarget(std::string_view target) {
  static const auto index = [] {
    std::unordered_map<std::string_view, const CallRow*> rows;
    for (const CallRow& row : kCallRows) rows.emplace(row.target, &row);
    return rows;
  }();
  const auto found = index.find(target);
  return found == index.end() ? nullptr : found->second;
}

std::string_view WithoutNamespace(std::string_view target) {
  return target.starts_with(kAtenNamespace) ? target.substr(kAtenNamespace.size())
                                            : std::string_view();
}

}  // namespace

const CallRow* FindCallRow(std::string_view target) {
  const std::string_view own = WithoutNamespace(target);
  const CallRow* row = FindByTarget(own);
  return row == nullptr ? FindByTarget(OutOfPlace(own)) : row;
}

bool RunsOnHost(std::string_view target) {
  const std::string_view own = WithoutNamespace(target);
  const bool asserts = own.starts_with("_assert") || own.starts_with("sym_");
  return asserts || target.starts_with("_operator.") || target.starts_with("math.") ||
         target.starts_with("torch.sym_");
}

bool WritesInPlace(std::string_view target) {
  return !OutOfPlace(WithoutNamespace(target)).empty();
}

}  // namespace onnxfit::pt2
