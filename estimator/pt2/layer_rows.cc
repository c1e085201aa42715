// Layers: what has parameters, a mode, or a window.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "estimator/program/call_operands.h"
#include "estimator/pt2/call_rows.h"
#include "estimator/pt2/libraries.h"

namespace onnxfit::pt2 {
namespace {

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

// Where padding "same" is an odd number, x is padded by one more behind it before.
// Source: _convolution_same of aten/src/ATen/native/Convolution.cpp, pytorch v2.11.0.
NameId PaddedBehind(CallWriter& writer, const Call& call, NameId x, const Dims& weight,
                    const std::vector<int64_t>& dilation) {
  TensorType type = writer.program().values[Index(x)].type;
  if (writer.TextAt(call, "padding") != "same" || type.dims.size() != weight.size()) return x;
  bool is_padded = false;
  for (size_t i = 2; i < weight.size(); ++i) {
    if (dilation[i - 2] * (weight[i] - 1) % 2 == 0) continue;
    ++type.dims[i];
    is_padded = true;
  }
  if (!is_padded) return x;
  const NameId padded = writer.NewName(std::string(call.name) + ".pad", type);
  writer.Emit("pad", {x}, {padded});
  return padded;
}

NameId MadeContiguous(CallWriter& writer, const Call& call, NameId input) {
  const std::string_view name = MadeContiguousFor(call, writer.trains());
  if (name.empty()) return input;
  const ProgramValue& value = writer.program().values[Index(input)];
  const NameId made = writer.NewName(value.name + ".contiguous", value.type);
  writer.EmitInCaller(std::string(name), "contiguous", {input}, {made});
  return made;
}

void WriteConvolution(CallWriter& writer, const Call& call, std::string_view op) {
  std::vector<NameId> tensors = writer.Tensors(call);
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
  tensors[0] = MadeContiguous(writer, call, tensors[0]);
  tensors[0] = PaddedBehind(writer, call, tensors[0], weight, arguments.dilation);
  writer.Emit(op, std::move(tensors), {writer.Result(call)}, ToInts(arguments));
}

// Of run_decompositions: the mean and the deviation of the batch are results too, and nobody reads
// them; new running ones are written back behind the last call.
bool ReadsStatistics(CallWriter& writer, const Call& call) {
  const auto is_read = [&](size_t i) {
    return i < call.results.size() && writer.IsRead(call.results[i].text);
  };
  return is_read(1) || is_read(2);
}

// All three are results, and the statistics are what is kept.
void WriteWithStatistics(CallWriter& writer, const Call& call, std::string_view op,
                         std::vector<NameId> tensors, std::vector<int64_t> ints = {}) {
  std::vector<NameId> results = writer.Results(call);
  results.resize(std::min<size_t>(results.size(), 3));
  writer.Emit(op, std::move(tensors), std::move(results), std::move(ints));
}

void WriteBatchNorm(CallWriter& writer, const Call& call, std::string_view op) {
  std::vector<NameId> tensors;
  for (const char* name : {"input", "weight", "bias", "running_mean", "running_var"}) {
    tensors.push_back(writer.TensorAt(call, name));
  }
  if (ReadsStatistics(writer, call)) {
    if (!writer.trains()) return writer.WriteUnknown(call);
    return WriteWithStatistics(writer, call, "native_batch_norm", std::move(tensors));
  }
  // In eval mode it has a backward all the same, which `op` has.
  const bool is_fixed = !writer.RunsInTraining(call) && writer.leaves_autograd();
  writer.Emit(writer.trains() && !is_fixed ? op : "batch_norm_inference", std::move(tensors),
              {writer.Result(call)});
}

// Whether all that a norm is given was cast to the type of the autocast around its module before.
bool IsCastFirst(const CallWriter& writer, const Call& call) {
  if (CastsToAutocastFirst(call)) return true;
  return writer.leaves_autocast() && !call.modules.empty() &&
         CastsNormToAutocast(call.modules.back().type);
}

// Of operands that torch.autocast's type holds, where it is on.
void WriteCastFirst(CallWriter& writer, const Call& call, std::string_view op,
                    std::vector<int64_t> ints) {
  const DType lower = AutocastType(writer.settings().precision);
  std::vector<NameId> operands = writer.Tensors(call);
  for (NameId& operand : operands) {
    if (operand == kNoName || lower == DType::kUndefined) continue;
    const ProgramValue& value = writer.program().values[Index(operand)];
    const NameId cast = writer.NewName(value.name + ".cast", {lower, value.type.dims});
    writer.Emit("to", {operand}, {cast});
    operand = cast;
  }
  writer.EmitOutsideAutocast(op, std::move(operands), {writer.Result(call)}, std::move(ints));
}

void WriteLayerNorm(CallWriter& writer, const Call& call, std::string_view op) {
  const auto count = static_cast<int64_t>(writer.IntsAt(call, "normalized_shape").size());
  if (ReadsStatistics(writer, call)) {
    std::vector<NameId> tensors;
    for (const char* name : {"input", "weight", "bias"}) {
      tensors.push_back(writer.TensorAt(call, name));
    }
    return WriteWithStatistics(writer, call, "native_layer_norm", std::move(tensors), {count});
  }
  if (IsCastFirst(writer, call)) return WriteCastFirst(writer, call, op, {count});
  writer.Emit(op, writer.Tensors(call), {writer.Result(call)}, {count});
}

void WriteGroupNorm(CallWriter& writer, const Call& call, std::string_view op) {
  if (ReadsStatistics(writer, call)) return writer.WriteUnknown(call);
  const int64_t groups = writer.IntAt(call, "num_groups", writer.IntAt(call, "group", 1));
  if (IsCastFirst(writer, call)) return WriteCastFirst(writer, call, op, {groups});
  writer.Emit(op, writer.Tensors(call), {writer.Result(call)}, {groups});
}

// In training by the statistics of each sample, else as a batch norm.
void WriteInstanceNorm(CallWriter& writer, const Call& call, std::string_view op) {
  std::vector<NameId> tensors;
  for (const char* name : {"input", "weight", "bias", "running_mean", "running_var"}) {
    tensors.push_back(writer.TensorAt(call, name));
  }
  while (tensors.size() > 1 && tensors.back() == kNoName) tensors.pop_back();
  const bool is_fixed = tensors.size() == 5 && !writer.trains();
  writer.Emit(is_fixed ? "batch_norm_inference" : op, std::move(tensors), {writer.Result(call)});
}

// Pools whose places the model reads, too.
void WritePoolWithPlaces(CallWriter& writer, const Call& call, std::string_view op) {
  const bool reads_places = call.results.size() > 1 && writer.IsRead(call.results[1].text);
  if (!reads_places) return WriteUnary(writer, call, op);
  const bool is_of_volumes = op.find("3d") != std::string_view::npos;
  op = is_of_volumes ? "max_pool3d_with_indices" : "max_pool2d_with_indices";
  writer.Emit(op, {writer.TensorAt(call, "self")}, writer.Results(call));
}

// ints: whether the product has a factor.
void WriteBatchedSum(CallWriter& writer, const Call& call, std::string_view op) {
  std::vector<int64_t> ints;
  if (writer.RealAt(call, "alpha", 1) != 1) ints.push_back(1);
  writer.Emit(op, writer.Tensors(call), {writer.Result(call)}, std::move(ints));
}

// Picture and samples; values and places.
void WriteAllWithParts(CallWriter& writer, const Call& call, std::string_view op) {
  writer.Emit(op, writer.Tensors(call), writer.Results(call));
}

// ints: the dimension.
void WriteCosineSimilarity(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId x1 = writer.TensorAt(call, "x1");
  const NameId x2 = writer.TensorAt(call, "x2");
  if (x1 == kNoName || x2 == kNoName || writer.DimsOf(x1).size() != writer.DimsOf(x2).size()) {
    return writer.WriteUnknown(call);
  }
  writer.Emit(op, {x1, x2}, {writer.Result(call)}, {writer.AxisAt(call, "dim", x1, 1)});
}

// Distances by the root of squares, without a third one between what differs from x.
void WriteTripletLoss(CallWriter& writer, const Call& call, std::string_view op) {
  const bool is_plain = writer.RealAt(call, "p", 2) == 2 && writer.IntAt(call, "swap", 0) == 0 &&
                        writer.IntAt(call, "reduction", 1) < 2;
  is_plain ? WriteAll(writer, call, op) : writer.WriteUnknown(call);
}

// Of other sizes PyTorch asks cuSOLVER, or solves otherwise.
void WriteInverse(CallWriter& writer, const Call& call, std::string_view op) {
  constexpr int64_t kMostRows = 16;
  const Dims dims = writer.DimsOf(writer.TensorAt(call, "A"));
  const bool is_known =
      dims.size() > 2 && dims.back() <= kMostRows && Numel({dims.begin(), dims.end() - 2}) > 1;
  is_known ? WriteAll(writer, call, op) : writer.WriteUnknown(call);
}

void WriteSolve(CallWriter& writer, const Call& call, std::string_view op) {
  const Dims matrices = writer.DimsOf(writer.TensorAt(call, "self"));
  const Dims sides = writer.DimsOf(writer.TensorAt(call, "B"));
  const bool is_known = writer.IntAt(call, "left", 1) != 0 && matrices.size() > 1 &&
                        matrices.size() == sides.size() &&
                        std::equal(matrices.begin(), matrices.end() - 1, sides.begin());
  is_known ? WriteAll(writer, call, op) : writer.WriteUnknown(call);
}

void WriteLinear(CallWriter& writer, const Call& call, std::string_view op) {
  std::vector<NameId> operands = writer.Tensors(call);
  if (operands.size() > 1 && CastsArgumentFirst(call)) {
    const ProgramValue& value = writer.program().values[Index(operands[0])];
    const NameId cast = writer.NewName(value.name + ".cast", value.type);
    writer.EmitInCaller("hidden_states", "type_as", {operands[0], operands[1]}, {cast});
    operands[0] = cast;
  }
  writer.Emit(op, std::move(operands), {writer.Result(call)});
}

// Which mode the module was exported in does not matter: the call is there in both.
// Source: dropout of aten/src/ATen/native/Dropout.cpp, pytorch v2.11.0.
void WriteDropout(CallWriter& writer, const Call& call, std::string_view op) {
  if (ReadsStatistics(writer, call)) return writer.WriteUnknown(call);  // native_dropout's mask
  const bool drops = writer.RunsInTraining(call) && writer.RealAt(call, "p", 0.5) > 0;
  const double given = writer.settings().dropout.value_or(1);
  if (!drops || given == 0) return ReturnFirst(writer, call, op);
  WriteUnary(writer, call, WritesInPlace(call.target) ? "dropout_" : op);
}

// Of whole channels: noise of [N, C, 1, …], then x * noise.  In eval nothing runs.
// Source: _dropout_impl of aten/src/ATen/native/Dropout.cpp, pytorch v2.11.0.
void WriteFeatureDropout(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId x = writer.TensorAt(call, "input");
  const bool drops = writer.RunsInTraining(call) && writer.RealAt(call, "p", 0.5) > 0;
  if (!drops || writer.settings().dropout.value_or(1) == 0 || writer.DimsOf(x).size() < 2) {
    return ReturnFirst(writer, call, op);
  }
  TensorType type = writer.program().values[Index(x)].type;
  std::fill(type.dims.begin() + 2, type.dims.end(), 1);
  const NameId noise = writer.NewName(std::string(call.name) + ".noise", type);
  writer.Emit("bernoulli", {x}, {noise});
  writer.Emit("mul", {x, noise}, {writer.Result(call)});
}

// Of whole channels or of each element: noise, and a shift that is computed from it, then
// x * noise + shift in place.
// Source: _dropout_impl of aten/src/ATen/native/Dropout.cpp, pytorch v2.11.0.
template <bool kOfChannels>
void WriteAlphaDropout(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId x = writer.TensorAt(call, "input");
  const bool drops = writer.RunsInTraining(call) && writer.RealAt(call, "p", 0.5) > 0;
  if (!drops || writer.settings().dropout.value_or(1) == 0) return ReturnFirst(writer, call, op);
  TensorType type = writer.program().values[Index(x)].type;
  for (size_t i = 2; kOfChannels && i < type.dims.size(); ++i) type.dims[i] = 1;
  const NameId noise = writer.NewName(std::string(call.name) + ".noise", type);
  const NameId shift = writer.NewName(std::string(call.name) + ".shift", type);
  writer.Emit("bernoulli", {x}, {noise});
  writer.Emit("add.Scalar", {noise}, {shift});
  writer.Emit(op, {x, noise, shift}, {writer.Result(call)});
}

// softmax(x, dim, dtype=y.dtype), which autocast leaves as it is.
// Source: fp32_set_opt_dtype of aten/src/ATen/autocast_mode.h, pytorch v2.11.0.
void WriteSoftmaxLike(CallWriter& writer, const Call& call, std::string_view op, NameId giver) {
  NameId x = writer.TensorAt(call, "self");
  if (x != giver) {
    const TensorType type = writer.program().values[Index(x)].type;
    const NameId cast = writer.NewName(std::string(call.name) + ".cast", type);
    writer.Emit("type_as", {x, giver}, {cast});
    x = cast;
  }
  writer.EmitOutsideAutocast(op, {x}, {writer.Result(call)});
}

// The type that the call is told, where its input has another; kUndefined of others.
DType GivenType(CallWriter& writer, const Call& call) {
  const NameId x = writer.TensorAt(call, "self");
  const DType made = writer.TypeOfResult(call).dtype;
  const bool is_same = x == kNoName || writer.program().values[Index(x)].type.dtype == made;
  return is_same ? DType::kUndefined : made;
}

// softmax(x, dim, dtype=torch.float32) of 16 bits casts first.  Of fp16 its kernel does without:
// there this is the cast too much, for a moment.
// Source: softmax of aten/src/ATen/native/SoftMax.cpp, pytorch v2.11.0.
void WriteSoftmax(CallWriter& writer, const Call& call, std::string_view op) {
  DType own = writer.OwnTypeOfResult(call);
  if (writer.RunsAsExported()) own = GivenType(writer, call);
  const bool is_narrow = !writer.RunsAsExported() && BitsOf(writer.TypeOfResult(call).dtype) < 32;
  if (is_narrow && FindArgument(call, "dtype") != nullptr &&
      (SpellsFloat32(call) || writer.WayOf(call) == CastWay::kToFloat32)) {
    own = DType::kFloat32;
  }
  const NameId x = writer.TensorAt(call, "self");
  const NameId giver = x == kNoName ? kNoName : GiverUnderAutocast(writer, call);
  if (giver != kNoName) return WriteSoftmaxLike(writer, call, op, giver);
  if (own == DType::kUndefined || x == kNoName) return WriteUnary(writer, call, op);
  const TensorType type = {own, writer.DimsOf(x)};
  const NameId cast = writer.NewName(std::string(call.name) + ".cast", type);
  writer.Emit("to", {x}, {cast});
  writer.Emit(op, {cast}, {writer.Result(call, type)});
}

constexpr CallRow kLayerRows[] = {
    // Convolutions and products.
    {"conv1d.default", "convolution", WriteConvolution},
    {"conv2d.default", "convolution", WriteConvolution},
    {"conv3d.default", "convolution", WriteConvolution},
    {"conv1d.padding", "convolution", WriteConvolution},
    {"conv2d.padding", "convolution", WriteConvolution},
    {"conv3d.padding", "convolution", WriteConvolution},
    {"conv_transpose1d.default", "convolution", WriteConvolution},
    {"conv_transpose2d.input", "convolution", WriteConvolution},
    {"conv_transpose3d.input", "convolution", WriteConvolution},
    {"convolution.default", "convolution", WriteConvolution},
    {"linear.default", "linear", WriteLinear},
    {"matmul.default", "matmul", WriteAll},
    {"bmm.default", "bmm", WriteAll},
    // What transformers calls where it does not compile: torch.nn.functional.grouped_mm, of cards
    // of compute capability 8.0 (_can_use_grouped_mm of integrations/moe.py, transformers 5.17.0).
    {"transformers.grouped_mm_fallback.default", "_grouped_mm", WriteAll},
    {"_grouped_mm.default", "_grouped_mm", WriteAll},
    {"baddbmm.default", "baddbmm", WriteBatchedSum},
    {"einsum.default", "", WriteEinsum},
    {"mm.default", "mm", WriteAll},
    {"mv.default", "mv", WriteAll},
    {"dot.default", "dot", WriteAll},
    {"vdot.default", "vdot", WriteAll},
    {"linalg_vecdot.default", "linalg_vecdot", WriteAll},
    {"linalg_inv.default", "linalg_inv", WriteInverse},
    {"linalg_solve_triangular.default", "linalg_solve_triangular", WriteSolve},
    {"addmv.default", "addmv", WriteAll},
    {"addr.default", "addr", WriteAll},
    {"addbmm.default", "addbmm", WriteAll},
    {"outer.default", "mul", WriteOuter},
    {"kron.default", "mul", WriteKron},
    {"tensordot.default", "mm", WriteTensordot},
    {"bilinear.default", "_trilinear", WriteBilinear},
    {"cosine_similarity.default", "cosine_similarity", WriteCosineSimilarity},
    {"triplet_margin_loss.default", "triplet_margin_loss", WriteTripletLoss},
    {"addmm.default", "addmm", WriteAll},

    // Normalizations.
    {"batch_norm.default", "batch_norm", WriteBatchNorm},
    {"native_batch_norm.default", "batch_norm", WriteBatchNorm},
    {"_native_batch_norm_legit.default", "batch_norm", WriteBatchNorm},
    {"_native_batch_norm_legit_functional.default", "batch_norm", WriteBatchNorm},
    {"_native_batch_norm_legit_no_training.default", "batch_norm", WriteBatchNorm},
    {"layer_norm.default", "layer_norm", WriteLayerNorm},
    {"native_layer_norm.default", "layer_norm", WriteLayerNorm},
    {"group_norm.default", "group_norm", WriteGroupNorm},
    {"native_group_norm.default", "group_norm", WriteGroupNorm},
    {"rms_norm.default", "rms_norm", WriteLayerNorm},
    {"instance_norm.default", "instance_norm", WriteInstanceNorm},
    {"_batch_norm_with_update.default", "batch_norm", WriteBatchNorm},
    {"softmax.int", "softmax", WriteSoftmax},
    {"_softmax.default", "softmax", WriteUnary},
    {"log_softmax.int", "log_softmax", WriteSoftmax},
    {"_log_softmax.default", "log_softmax", WriteUnary},
    {"_weight_norm.default", "_weight_norm", WriteAll},

    // Activations and dropouts.
    {"relu.default", "relu", WriteUnary},
    {"relu6.default", "relu6", WriteUnary},
    {"leaky_relu.default", "leaky_relu", WriteUnary},
    {"prelu.default", "prelu", WriteAll},
    {"elu.default", "elu", WriteUnary},
    {"celu.default", "celu", WriteUnary},
    {"selu.default", "selu", WriteUnary},
    {"glu.default", "glu", WriteUnary},
    {"gelu.default", "gelu", WriteUnary},
    {"silu.default", "silu", WriteUnary},
    {"mish.default", "mish", WriteUnary},
    {"softplus.default", "softplus", WriteUnary},
    {"log_sigmoid.default", "log_sigmoid", WriteUnary},
    {"hardtanh.default", "hardtanh", WriteUnary},
    {"hardswish.default", "hardswish", WriteUnary},
    {"hardsigmoid.default", "hardsigmoid", WriteUnary},
    {"hardshrink.default", "hardshrink", WriteUnary},
    {"softshrink.default", "softshrink", WriteUnary},
    {"rrelu.default", "rrelu", WriteUnary},
    {"threshold.default", "threshold", WriteUnary},
    {"sigmoid.default", "sigmoid", WriteUnary},
    {"tanh.default", "tanh", WriteUnary},
    {"dropout.default", "dropout", WriteDropout},
    {"native_dropout.default", "dropout", WriteDropout},
    {"feature_dropout.default", "", WriteFeatureDropout},
    {"alpha_dropout.default", "alpha_dropout", WriteAlphaDropout<false>},
    {"feature_alpha_dropout.default", "alpha_dropout", WriteAlphaDropout<true>},
    {"scaled_dot_product_attention.default", "scaled_dot_product_attention", WriteAttention},

    // Recurrent layers.
    {"lstm.input", "lstm", WriteRecurrent},
    {"gru.input", "gru", WriteRecurrent},
    {"rnn_tanh.input", "rnn", WriteRecurrent},
    {"rnn_relu.input", "rnn", WriteRecurrent},
    {"lstm.data", "lstm", WriteRecurrent},
    {"gru.data", "gru", WriteRecurrent},
    {"rnn_tanh.data", "rnn", WriteRecurrent},
    {"rnn_relu.data", "rnn", WriteRecurrent},

    // Pooling.
    {"max_pool1d.default", "max_pool1d", WriteUnary},
    {"max_pool2d.default", "max_pool2d", WriteUnary},
    {"max_pool3d.default", "max_pool3d", WriteUnary},
    {"avg_pool1d.default", "avg_pool1d", WriteUnary},
    {"avg_pool2d.default", "avg_pool2d", WriteUnary},
    {"avg_pool3d.default", "avg_pool3d", WriteUnary},
    {"max_pool1d_with_indices.default", "max_pool1d", WritePoolWithPlaces},
    {"max_pool2d_with_indices.default", "max_pool2d", WritePoolWithPlaces},
    {"max_pool3d_with_indices.default", "max_pool3d", WritePoolWithPlaces},
    {"fractional_max_pool2d.default", "fractional_max_pool2d", WriteAllWithParts},
    {"fractional_max_pool3d.default", "fractional_max_pool3d", WriteAllWithParts},
    {"max_unpool2d.default", "max_unpool2d", WriteAll},
    {"max_unpool3d.default", "max_unpool3d", WriteAll},
    {"adaptive_max_pool1d.default", "adaptive_max_pool1d", WritePoolWithPlaces},
    {"adaptive_max_pool2d.default", "adaptive_max_pool2d", WritePoolWithPlaces},
    {"adaptive_max_pool3d.default", "adaptive_max_pool3d", WritePoolWithPlaces},
    {"adaptive_avg_pool1d.default", "adaptive_avg_pool1d", WriteUnary},
    {"adaptive_avg_pool2d.default", "adaptive_avg_pool2d", WriteUnary},
    {"adaptive_avg_pool3d.default", "adaptive_avg_pool3d", WriteUnary},
};

}  // namespace

std::span<const CallRow> LayerRows() { return kLayerRows; }

}  // namespace onnxfit::pt2
