// Normalizations and softmax: what they keep for backward.  Sources: pytorch v2.6.0
// derivatives.yaml; order of allocations from recorded events, torch 2.11.
#include <algorithm>
#include <utility>
#include <vector>

#include "estimator/operators/dispatcher.h"
#include "estimator/operators/kernel_scratch.h"
#include "estimator/operators/layouts.h"
#include "estimator/operators/op_rule.h"
#include "estimator/operators/strides.h"

namespace onnxfit {
namespace {

// Statistics are kept in fp32, also of 16-bit inputs (in fp64 of fp64).
DType StatisticsType(DType input) {
  return input == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

// One number a channel: [C] of [N, C, ...].
TensorType PerChannel(const CallTypes& call) {
  const TensorType& x = call.in(0);
  return {StatisticsType(x.dtype), {x.dims.size() > 1 ? x.dims[1] : 1}};
}

// Elements of the dimensions that layer_norm normalizes: those of the weight, or so many (ints)
// of the last ones.
int64_t NormalizedNumel(const CallTypes& call) {
  if (call.has_input(1)) return Numel(call.in(1).dims);
  const Dims& dims = call.in(0).dims;
  const size_t count = call.ints().empty() ? 1 : Index(call.ints()[0]);
  const auto skipped = static_cast<std::ptrdiff_t>(dims.size() - std::min(count, dims.size()));
  return Numel(Dims(dims.begin() + skipped, dims.end()));
}

// One number a row of what is normalized: the leading dimensions of x.
TensorType PerRow(const CallTypes& call) {
  const TensorType& x = call.in(0);
  const int64_t normalized = NormalizedNumel(call);
  return {StatisticsType(x.dtype), {normalized == 0 ? 0 : Numel(x.dims) / normalized}};
}

// Of group_norm: one number a sample and group (ints: the groups), and a sample and channel.
TensorType PerGroup(const CallTypes& call) {
  const TensorType& x = call.in(0);
  return {x.dtype, {x.dims.empty() ? 1 : x.dims[0], call.ints().empty() ? 1 : call.ints()[0]}};
}

TensorType PerGroupInFp32(const CallTypes& call) {
  TensorType type = PerGroup(call);
  type.dtype = StatisticsType(type.dtype);
  return type;
}

TensorType PerSampleChannel(const CallTypes& call) {
  const TensorType& x = call.in(0);
  if (x.dims.size() < 2) return PerChannel(call);
  return {StatisticsType(x.dtype), {x.dims[0], x.dims[1]}};
}

// Of _weight_norm: one number for each of g.
TensorType NormsOfWeight(const CallTypes& call) {
  return {StatisticsType(call.in(0).dtype), call.in(1).dims};
}

// Partial sums of the gradients of weight and bias: rows of them, 0 where one kernel does.
// LaunchGammaBetaBackwardCUDAKernel of aten/src/ATen/native/cuda/layer_norm_kernel.cu since
// pytorch v2.8.0; torch 2.6, 2.11 and 2.15 events on cards with 108 and 132 multiprocessors.
int64_t PartialRows(int64_t rows, int64_t columns, const CallTypes& call) {
  const DeviceProfile& device = call.device();
  constexpr int64_t kMostRows = 64 * 1024;
  constexpr int64_t kBlock = 32;  // rows and columns that a block sums up
  constexpr int64_t kMostBlocks = 32768;
  if (!call.framework().norms_in_parts || rows <= kMostRows) return 0;
  if (columns / kBlock >= device.multiprocessors / 2) return 0;
  const auto blocks = [](int64_t n) { return (n + kBlock - 1) / kBlock; };
  return std::min(blocks(rows), kMostBlocks / blocks(columns));
}

void TakeAndFree(Kernel& kernel, const SumScratch& scratch) {
  if (scratch.partial_bytes == 0) return;
  const int partial = kernel.Take({DType::kUint8, {scratch.partial_bytes}});
  kernel.Free(kernel.Take({DType::kUint8, {scratch.semaphore_bytes}}));
  kernel.Free(partial);
}

// A gradient that is replaced by the sum of its partial sums.
struct PartialSums {
  int input;
  int gradient;
  int sums;
};

void SumUpRows(Kernel& kernel, int64_t rows) {
  std::vector<PartialSums> partial;
  for (const int i : {1, 2}) {
    if (!kernel.IsWanted(i)) continue;
    partial.push_back(
        {.input = i, .gradient = kernel.Take(kernel.types().in(Index(i))), .sums = 0});
  }
  for (PartialSums& p : partial) {
    const TensorType& type = kernel.types().in(Index(p.input));
    p.sums = kernel.Take({type.dtype, {rows, Numel(type.dims)}});
  }
  for (const PartialSums& p : partial) {
    constexpr uint64_t kColumns = 2;
    const TensorType& type = kernel.types().in(Index(p.input));
    kernel.MakeGrad(p.input);
    const Dims dims = {rows, Numel(type.dims)};
    const SumShape sum = SumOver(type.dtype, dims, ContiguousStrides(dims), kColumns);
    TakeAndFree(kernel, ScratchOf(sum, kernel.types().device()));
    kernel.Free(p.gradient);
  }
  for (size_t i = partial.size(); i-- > 0;) kernel.Free(partial[i].sums);
}

// Of layer_norm and rms_norm.
void BackwardByRows(Kernel& kernel) {
  const CallTypes& call = kernel.types();
  for (const TensorType& copy : {DenseInput<0>(call), DenseInput<1>(call), DenseInput<2>(call)}) {
    kernel.Take(copy);
  }
  kernel.MakeGrad(0);
  const int64_t columns = NormalizedNumel(call);
  const int64_t rows = columns == 0 ? 0 : Numel(call.in(0).dims) / columns;
  const int64_t partial = PartialRows(rows, columns, call);
  if (partial > 0) {
    SumUpRows(kernel, partial);
  } else {
    kernel.MakeGrad(1);
    kernel.MakeGrad(2);
  }
  if (!IsContiguous(call.incoming_gradient())) kernel.Take(call.incoming_gradient());
}

// Whether cuDNN runs it, whose backward makes all three gradients.  Source: _select_batch_
// norm_backend of aten/src/ATen/native/Normalization.cpp, pytorch v2.6.0; torch 2.11 events.
bool HasCudnnKernel(const TensorType& x, const TensorType& weight) {
  constexpr int64_t kMostSamples = 880801;
  const bool is_known =
      x.dtype == DType::kFloat16 ? weight.dtype == DType::kFloat32 : x.dtype != DType::kBFloat16;
  return is_known && x.dims.size() > 2 && x.dims[0] <= kMostSamples;
}
bool RunsOnCudnn(const CallTypes& call) {
  return call.has_input(1) && HasCudnnKernel(call.in(0), call.in(1));
}

// cuDNN is given x in the format that it suggests, of which autograd knows, and keeps it.
void TakeBatchNormApart(Dispatcher& d, const AtenCall& call) {
  std::vector<NameId> inputs = call.inputs;
  const bool has_weight = inputs.size() > 1 && inputs[1] != kNoName;
  if (has_weight && HasCudnnKernel(d.TypeOf(inputs[0]), d.TypeOf(inputs[1]))) {
    inputs[0] = MakeInFormat(d, inputs[0]);
  }
  d.MakeResult(call.op, std::move(inputs), call.ints);
}
Dims AsNormed(const CallTypes& call) { return RunsOnCudnn(call) ? InFormat(call) : AsInput(call); }

// PyTorch's own kernel knows channels last of pictures alone; means of another order are taken of a
// wide copy (batch_norm_mean_var of aten/src/ATen/native/cuda/Normalization.cu).
bool LiesInOtherOrder(const StridedType& type) {
  const bool is_picture =
      type.dims.size() == 4 && IsContiguousIn(MemoryFormat::kChannelsLast, type);
  return !IsContiguous(type) && !is_picture;
}
TensorType WideCopy(const CallTypes& call) {
  const StridedType& x = call.in(0);
  const bool is_made = !RunsOnCudnn(call) && LiesInOtherOrder(x) && BitsOf(x.dtype) == 16;
  return is_made ? TensorType{StatisticsType(x.dtype), x.dims} : TensorType();
}

// Sums of the blocks of its kernel for channels last.
SumScratch ScratchOfLastChannels(const CallTypes& call, int64_t sums) {
  const StridedType& x = call.in(0);
  if (RunsOnCudnn(call) || x.dims.size() != 4 || !IsContiguousIn(MemoryFormat::kChannelsLast, x))
    return {};
  const int64_t channels = x.dims[1];
  const int64_t rows = channels == 0 ? 0 : Numel(x.dims) / channels;
  return ScratchOfChannels(rows, channels, sums, BitsOf(StatisticsType(x.dtype)) / 8);
}
constexpr int64_t kStatistics = 4;  // as Welford's algorithm has them, and how many there are
constexpr int64_t kGradientSums = 2;
TensorType StagedStatistics(const CallTypes& call) {
  return ScratchBytes(ScratchOfLastChannels(call, kStatistics).partial_bytes);
}
TensorType SemaphoresOfChannels(const CallTypes& call) {
  return ScratchBytes(ScratchOfLastChannels(call, kStatistics).semaphore_bytes);
}

// cuDNN makes all three gradients, whichever are wanted.
void CudnnNormBackward(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  kernel.Take(GradientInFormat(types));
  for (const int i : {0, 1, 2}) kernel.MakeGradAnyway(i);
}

void BatchNormBackward(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  if (RunsOnCudnn(types)) return CudnnNormBackward(kernel);
  const bool is_last = types.in(0).dims.size() == 4 &&
                       SuggestedFormat(types.in(0)) == MemoryFormat::kChannelsLast &&
                       SuggestedFormat(types.incoming_gradient()) == MemoryFormat::kChannelsLast;
  if (is_last) {  // sums of the gradient, and of it times x
    kernel.Take(PerChannel(types));
    kernel.Take(PerChannel(types));
  } else {
    kernel.MakeGrad(0);
  }
  kernel.MakeGrad(1);
  kernel.MakeGrad(2);
  if (is_last) {
    TakeAndFree(kernel, ScratchOfLastChannels(types, kGradientSums));
    return kernel.MakeGrad(0);
  }
  if (types.in(0).dims.size() < 4) return;
  kernel.Take(DenseInput<0>(types));
  kernel.Take(DenseGradient(types));
}

// at::group_norm is given x.contiguous(), of which autograd knows.
void TakeGroupNormApart(Dispatcher& d, const AtenCall& call) {
  std::vector<NameId> inputs = call.inputs;
  inputs[0] = MakeDense(d, inputs[0]);
  d.MakeResult("group_norm", std::move(inputs), call.ints);
}

// What PyTorch's own kernel returns beside the result, also where it fills it with nothing
// (batch_norm_cuda of aten/src/ATen/native/cuda/Normalization.cu); cuDNN returns 0 elements.
TensorType PerChannelOfOwnKernel(const CallTypes& call) {
  TensorType type = PerChannel(call);
  if (RunsOnCudnn(call)) type.dims = {0};
  return type;
}

// One formula makes all three gradients, so it keeps the same whichever is wanted.
constexpr Gradient kNormBackward = Reads(In(0) | In(1) | Aux(0) | Aux(1));
// Whose formula names the bias among its arguments, and saves it so.
constexpr Gradient kLayerNormBackward = Reads(In(0) | In(1) | In(2) | Aux(0) | Aux(1));
// Whose formula names the running statistics.
constexpr Gradient kBatchNormBackward = Reads(In(0) | In(1) | In(3) | In(4) | Aux(0) | Aux(1));
// The same where the model reads the statistics of the batch or the row, too.
constexpr Gradient kOwnLayerNormBackward = Reads(In(0) | In(1) | In(2) | Out(1) | Out(2));
constexpr Gradient kOwnBatchNormBackward = Reads(In(0) | In(1) | In(3) | In(4) | Out(1) | Out(2));

// The same before there was a kernel for it: the weight comes last, in x's type (torch 2.5.1 and
// 2.8.0 events).
void TakeRmsNormOfCallsApart(Dispatcher& d, const AtenCall& call) {
  const StridedType x = d.TypeOf(call.inputs[0]);
  const TensorType wide = {DType::kFloat32, x.dims};
  TensorType narrow = wide;
  narrow.dims.back() = 1;
  const bool casts = x.dtype != DType::kFloat32;
  const NameId input = casts ? d.Make("_to_copy", {call.inputs[0]}, wide) : call.inputs[0];
  const NameId square = d.Make("pow.Tensor_Scalar", {input}, wide);
  const NameId mean = d.Make("mean", {square}, narrow);
  d.Drop(square);
  const NameId root = d.Make("rsqrt", {mean}, narrow);
  d.Drop(mean);
  const bool has_weight = call.inputs.size() > 1;
  if (!has_weight && !casts) return d.MakeResult("mul", {input, root});
  NameId normed = d.Make("mul", {input, root}, wide);
  if (!has_weight) return d.MakeResult("_to_copy", {normed});
  if (casts) {
    normed = d.Make("_to_copy", {normed}, {x.dtype, x.dims});
    d.SetResultType(d.TypeOf(call.inputs[1]).dtype);
  }
  d.MakeResult("mul", {normed, call.inputs[1]});
}

// aten/src/ATen/native/layer_norm.cpp (rms_norm), torch 2.11 events: in fp32 and in parts where
// autocast has made x of another type than the weight.
void TakeRmsNormApart(Dispatcher& d, const AtenCall& call) {
  const StridedType x = d.TypeOf(call.inputs[0]);
  if (!d.framework().fuses_rms_norm) return TakeRmsNormOfCallsApart(d, call);
  if (call.inputs.size() < 2 || x.dtype == d.TypeOf(call.inputs[1]).dtype) {
    return d.MakeResult("_fused_rms_norm", call.inputs);
  }
  const TensorType wide = {DType::kFloat32, x.dims};
  TensorType narrow = wide;
  narrow.dims.back() = 1;
  const NameId cast = d.Make("_to_copy", {call.inputs[0]}, wide);
  const NameId square = d.Make("pow.Tensor_Scalar", {cast}, wide);
  const NameId mean = d.Make("mean", {square}, narrow);
  const NameId root = d.Make("rsqrt", {mean}, narrow);
  d.Drop(mean);
  d.Drop(square);
  const NameId normed = d.Make("mul", {cast, root}, wide);
  const NameId scaled = d.Make("mul", {normed, call.inputs[1]}, wide);
  d.SetResultType(x.dtype);
  d.MakeResult("_to_copy", {scaled});
}

// at::instance_norm of aten/src/ATen/native/Normalization.cpp, pytorch v2.6.0: the batch norm of
// one sample of N * C channels.
void TakeInstanceNormApart(Dispatcher& d, const AtenCall& call) {
  const StridedType x = d.TypeOf(call.inputs[0]);
  const int64_t channels = x.dims[0] * x.dims[1];
  Dims dims = x.dims;
  dims[0] = 1;
  dims[1] = channels;
  std::vector<NameId> inputs(1);
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    const bool is_there = call.inputs[i] != kNoName;
    inputs.push_back(
        is_there ? d.Make("_repeat", {call.inputs[i]}, {d.TypeOf(call.inputs[i]).dtype, {channels}})
                 : kNoName);
  }
  inputs[0] = d.Reshape(call.inputs[0], dims);
  const NameId normed = d.Make("batch_norm", inputs, {x.dtype, dims});
  // New running statistics, one after the other: the mean over samples.
  for (size_t i = 3; i < call.inputs.size(); ++i) {
    if (call.inputs[i] != kNoName) d.Drop(d.Make("mean", {inputs[i]}, d.TypeOf(call.inputs[i])));
  }
  d.MakeResult("view", {normed});
}

constexpr OpRule kNormalizationRules[] = {
    {.name = "instance_norm", .take_apart = TakeInstanceNormApart},
    // x, weight, bias.  Running statistics exist already.
    {.name = "batch_norm",
     .take_apart = TakeBatchNormApart,
     .strides = AsNormed,
     .gradients = {ReadsInFormat(kBatchNormBackward.reads), kBatchNormBackward, kBatchNormBackward},
     .aux = {{{"save_mean", PerChannel}, {"save_invstd", PerChannel}}},
     .forward = {MakeOut(0), MakeAux(0), MakeAux(1), Scratch(WideCopy), Scratch(StagedStatistics),
                 Scratch(SemaphoresOfChannels)},
     .run_backward = BatchNormBackward},
    {.name = "native_batch_norm",
     .strides = AsNormed,
     .gradients = {kOwnBatchNormBackward, kOwnBatchNormBackward, kOwnBatchNormBackward}},
    // What it saves is the input as it lies, not its contiguous copy.
    {.name = "layer_norm",
     .autocast = AutocastPolicy::kFp32,
     .gradients = {kLayerNormBackward, kLayerNormBackward, kLayerNormBackward},
     .aux = {{{"mean", PerRow}, {"rstd", PerRow}}},
     .forward = {Scratch(DenseInput<0>), Scratch(DenseInput<1>), Scratch(DenseInput<2>), MakeOut(0),
                 MakeAux(0), MakeAux(1)},
     .run_backward = BackwardByRows},
    {.name = "native_layer_norm",
     .autocast = AutocastPolicy::kFp32,
     .gradients = {kOwnLayerNormBackward, kOwnLayerNormBackward, kOwnLayerNormBackward},
     .forward = {Scratch(DenseInput<0>), Scratch(DenseInput<1>), Scratch(DenseInput<2>), MakeOut(0),
                 MakeOut(1), MakeOut(2)},
     .run_backward = BackwardByRows},
    // x, weight: one kernel, but for types that differ.
    {.name = "rms_norm", .take_apart = TakeRmsNormApart},
    {.name = "_fused_rms_norm",
     .gradients = {Reads(In(0) | In(1) | Aux(0)), Reads(In(0) | In(1) | Aux(0))},
     .aux = {{{"rstd", PerRow}}},
     .forward = {Scratch(DenseInput<0>), Scratch(DenseInput<1>), MakeOut(0), MakeAux(0)},
     .run_backward = BackwardByRows},
    // aten/src/ATen/native/cuda/group_norm_kernel.cu, pytorch v2.6.0.
    {.name = "group_norm",
     .take_apart = TakeGroupNormApart,
     .autocast = AutocastPolicy::kFp32,
     .gradients = {kNormBackward, kNormBackward, kNormBackward},
     .aux = {{{"mean", PerGroup}, {"rstd", PerGroup}}},
     .forward = {MakeOut(0), MakeAux(0), MakeAux(1), Scratch(PerSampleChannel),
                 Scratch(PerSampleChannel)},
     .backward = {Scratch(DenseGradient), MakeGrad(0), MakeGrad(1), MakeGrad(2),
                  Scratch(PerSampleChannel), Scratch(PerSampleChannel),
                  ScratchWith(0, PerGroupInFp32), ScratchWith(0, PerGroupInFp32),
                  ScratchWith(0, PerSampleChannel)}},
    // With a fixed mean and variance: one formula of all three gradients.  torch 2.11 events.
    {.name = "batch_norm_inference",
     .take_apart = TakeBatchNormApart,
     .strides = AsNormed,
     .gradients = {kBatchNormBackward, kBatchNormBackward, kBatchNormBackward},
     .aux = {{{"save_mean", PerChannelOfOwnKernel}, {"save_invstd", PerChannelOfOwnKernel}}}},
    // v, g: torch.nn.utils.parametrizations.weight_norm.  The result, then the norms: one kernel,
    // and one for both gradients (aten/src/ATen/native/cuda/WeightNorm.cu, pytorch v2.6.0).
    {.name = "_weight_norm",
     .gradients = {Reads(In(0) | In(1) | Aux(0)), Reads(In(0) | In(1) | Aux(0))},
     .aux = {{{"norms", NormsOfWeight}}}},
    // half_to_float, aten/src/ATen/native/SoftMax.cpp; the copy host_softmax of
    // aten/src/ATen/native/cuda/SoftMax.cu, pytorch v2.6.0
    {.name = "softmax",
     .autocast = AutocastPolicy::kFp32FromHalf,
     .gradients = {Reads(Out(0))},
     .reads_input = &FrameworkProfile::softmax_reads_input,
     .forward = {MakeOut(0), Scratch(DenseInput<0>)},
     // grad * result, which lies as the gradient does
     .backward = {MakeGrad(0), Scratch(LikeOutput), Scratch(DenseGradient)}},
    {.name = "log_softmax",
     .autocast = AutocastPolicy::kFp32FromHalf,
     .gradients = {Reads(Out(0))},
     .reads_input = &FrameworkProfile::softmax_reads_input,
     .forward = {MakeOut(0), Scratch(DenseInput<0>)},
     .backward = {MakeGrad(0), Scratch(DenseGradient)}},
};

}  // namespace

std::span<const OpRule> NormalizationRules() { return kNormalizationRules; }

}  // namespace onnxfit
