// Pools and interpolation: in which memory format their results are, and what their kernels copy.
// Sources: pytorch v2.11.0, tools/autograd/derivatives.yaml, aten/src/ATen/native/Pool.h and
// Pooling.cpp, native/cuda/{DilatedMaxPool2d,DilatedMaxPool3d,AveragePool2d,AveragePool3d,
// AdaptiveAveragePooling,AdaptiveMaxPooling2d,UpSampleNearest2d,UpSampleBilinear2d}.cu and their
// likes; orders from recorded events, torch 2.11 (values before their places).
#include <algorithm>

#include "estimator/operators/dispatcher.h"
#include "estimator/operators/layouts.h"
#include "estimator/operators/op_rule.h"

namespace onnxfit {
namespace {

bool SuggestsChannelsLast(const StridedType& type) {
  return SuggestedFormat(type) == MemoryFormat::kChannelsLast;
}

// --- Pools ---

// What a line is to a pool of planes: [N, C, 1, L].
TensorType AsPlane(const Dispatcher& d, NameId line) {
  TensorType type = d.TypeOf(line);
  type.dims.insert(type.dims.end() - 1, 1);
  return type;
}

void TakeLinePoolApart(Dispatcher& d, const AtenCall& call, std::string_view op) {
  const NameId plane = d.Make("view", {call.inputs[0]}, AsPlane(d, call.inputs[0]));
  const NameId pooled = d.Make(op, {plane}, AsPlane(d, call.outputs[0]), call.ints);
  d.MakeResult("view", {pooled});
}

// Whether one element of each channel is left, of `spatial` dimensions behind it.
bool LeavesOne(const Dims& dims, size_t spatial) {
  return dims.size() > spatial && std::all_of(dims.end() - static_cast<std::ptrdiff_t>(spatial),
                                              dims.end(), [](int64_t side) { return side == 1; });
}

// The mean, whose strides then say channels last again, where pictures have that format.
// Source: adaptive_avg_pool2d of aten/src/ATen/native/AdaptiveAveragePooling.cpp and its like in
// AdaptiveAveragePooling3d.cpp, pytorch v2.11.0.
Dims StridesOfMean(const StridedType& picture, const Dims& dims) {
  if (!SuggestsChannelsLast(picture)) return {};
  Dims strides(dims.size(), dims[1]);
  strides[1] = 1;
  return strides;
}

void TakePoolApart(Dispatcher& d, const AtenCall& call, std::string_view kernel) {
  const Dims& dims = d.TypeOf(call.outputs[0]).dims;
  if (!LeavesOne(dims, kernel.ends_with("3d") ? 3 : 2)) {
    d.MakeResult(kernel, {call.inputs[0]}, call.ints);
    return;
  }
  const Dims strides = StridesOfMean(d.TypeOf(call.inputs[0]), dims);
  if (strides.empty()) return d.MakeResult("mean", {call.inputs[0]});
  const NameId mean = d.Make("mean", {call.inputs[0]}, d.TypeOf(call.outputs[0]));
  d.MakeResult("as_strided", {mean}, strides);
}

void TakeAdaptiveLinePoolApart(Dispatcher& d, const AtenCall& call) {
  const Dims& dims = d.TypeOf(call.outputs[0]).dims;
  if (dims.empty() || dims.back() != 1) return TakeLinePoolApart(d, call, "_adaptive_avg_pool2d");
  const NameId plane = d.Make("view", {call.inputs[0]}, AsPlane(d, call.inputs[0]));
  const TensorType pooled = AsPlane(d, call.outputs[0]);
  NameId mean = d.Make("mean", {plane}, pooled);
  const Dims strides = StridesOfMean(d.TypeOf(plane), pooled.dims);
  if (!strides.empty()) mean = d.Make("as_strided", {mean}, pooled, strides);
  d.MakeResult("view", {mean});
}

// Pictures alone keep their format, unbatched ones of three dimensions do not.
MemoryFormat FormatOfVolumes(const CallTypes& call) {
  return call.in(0).dims.size() == 5 ? SuggestedFormat(call.in(0)) : MemoryFormat::kContiguous;
}
Dims InFormatOfVolumes(const CallTypes& call) {
  return StridesIn(FormatOfVolumes(call), call.out(0).dims);
}
TensorType VolumesInFormat(const CallTypes& call) {
  return CopyUnlessIn(FormatOfVolumes(call), call.in(0));
}
void VolumePoolBackward(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  kernel.MakeGrad(0, StridesIn(FormatOfVolumes(types), types.in(0).dims));
  kernel.Take(CopyUnlessIn(FormatOfVolumes(types), types.incoming_gradient()));
}

// What is contiguous beside a tensor in another format: kernels know no other one.
TensorType DenseOutput(const CallTypes& call) {
  return SuggestsChannelsLast(call.in(0)) ? LikeOutput(call) : TensorType();
}
TensorType DensePlacesOfOutput(const CallTypes& call) {
  return SuggestsChannelsLast(call.in(0)) ? IntegersLikeOutput(call) : TensorType();
}
TensorType DenseInputGradient(const CallTypes& call) {
  return SuggestsChannelsLast(call.in(0)) ? LikeInput(call) : TensorType();
}

// The kernel for channels last reads any strides; the other one those of one picture.
TensorType BatchUnlessChannelsLast(const CallTypes& call) {
  const bool is_read = SuggestsChannelsLast(call.in(0)) || call.in(0).dims.size() == 3;
  return is_read ? TensorType() : DenseInput<0>(call);
}
TensorType GradientUnlessChannelsLast(const CallTypes& call) {
  return SuggestsChannelsLast(call.in(0)) ? TensorType() : DenseGradient(call);
}
TensorType BatchOfVolumes(const CallTypes& call) {
  return call.in(0).dims.size() == 5 ? DenseInput<0>(call) : TensorType();
}

// --- Interpolation ---

// Fewer channels are not worth the kernels for channels last, which copies then stand for.
bool HasManyChannels(const CallTypes& call) {
  constexpr int64_t kLeastChannels = 4;
  return call.in(0).dims[1] >= kLeastChannels;
}
bool ReadsChannelsLast(const CallTypes& call) {
  return SuggestsChannelsLast(call.in(0)) && HasManyChannels(call);
}
TensorType OutputOfFewChannels(const CallTypes& call) {
  return ReadsChannelsLast(call) ? TensorType() : DenseOutput(call);
}
TensorType InputOfNearest(const CallTypes& call) {
  return ReadsChannelsLast(call) ? InputInFormat(call) : DenseInput<0>(call);
}

// In the incoming gradient's format.
void PictureBackward(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  const StridedType& gradient = types.incoming_gradient();
  const MemoryFormat format = SuggestedFormat(gradient);
  const bool is_read = format == MemoryFormat::kContiguous || HasManyChannels(types);
  kernel.MakeGrad(0, StridesIn(format, types.in(0).dims));
  if (!is_read) kernel.Take(LikeInput(types));
  kernel.Take(is_read ? CopyUnlessIn(format, gradient) : DenseGradient(types));
}
template <bool kByCopy>
void InGradientsFormat(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  const MemoryFormat format = SuggestedFormat(types.incoming_gradient());
  kernel.MakeGrad(0, StridesIn(format, types.in(0).dims));
  kernel.Take(DenseGradient(types));
  if (kByCopy && format == MemoryFormat::kChannelsLast) kernel.Take(LikeInput(types));
}

constexpr BackwardSteps kDenseBackward = {MakeGrad(0), Scratch(DenseGradient)};

constexpr OpRule kPoolRules[] = {
    {.name = "max_pool1d",
     .take_apart = [](Dispatcher& d, const AtenCall& c) { TakeLinePoolApart(d, c, "max_pool2d"); }},
    {.name = "max_pool2d",
     .strides = InFormat,
     .gradients = {ReadsInFormat(In(0) | Aux(0))},
     .aux = {{{"indices", IntegersLikeOutput}}},
     .forward = {MakeOut(0), MakeAux(0), Scratch(InputInFormat)},
     .backward = {MakeGrad(0), Scratch(InputInFormat), Scratch(GradientInFormat)}},
    {.name = "max_pool3d",
     .strides = InFormatOfVolumes,
     .gradients = {Reads(In(0) | Aux(0))},
     .aux = {{{"indices", IntegersLikeOutput}}},
     .forward = {MakeOut(0), MakeAux(0), Scratch(VolumesInFormat)},
     .run_backward = VolumePoolBackward},
    // Whose indices the model reads, too.
    {.name = "max_pool2d_with_indices",
     .strides = InFormat,
     .gradients = {ReadsInFormat(In(0) | Out(1))},
     .forward = {MakeOut(0), MakeOut(1), Scratch(InputInFormat)},
     .backward = {MakeGrad(0), Scratch(InputInFormat), Scratch(GradientInFormat)}},
    {.name = "max_pool3d_with_indices",
     .strides = InFormatOfVolumes,
     .gradients = {Reads(In(0) | Out(1))},
     .forward = {MakeOut(0), MakeOut(1), Scratch(VolumesInFormat)},
     .run_backward = VolumePoolBackward},
    {.name = "adaptive_max_pool1d",
     .take_apart = [](Dispatcher& d,
                      const AtenCall& c) { TakeLinePoolApart(d, c, "adaptive_max_pool2d"); }},
    {.name = "adaptive_max_pool2d",
     .strides = InFormat,
     .gradients = {ReadsInFormat(In(0) | Aux(0))},
     .aux = {{{"indices", IntegersLikeOutput}}},
     .forward = {MakeOut(0), MakeAux(0), Scratch(DenseOutput), Scratch(DensePlacesOfOutput),
                 Scratch(DenseInput<0>)},
     .backward = {MakeGrad(0), Scratch(DenseGradient), Scratch(DensePlacesOfOutput),
                  Scratch(DenseInputGradient)}},
    {.name = "adaptive_max_pool3d",
     .gradients = {Reads(In(0) | Aux(0))},
     .aux = {{{"indices", IntegersLikeOutput}}},
     .forward = {MakeOut(0), MakeAux(0), Scratch(BatchOfVolumes)},
     .backward = kDenseBackward},
    // picture, samples; values, places
    {.name = "fractional_max_pool2d",
     .gradients = {Reads(In(0) | Out(1))},
     .backward = {Scratch(DenseGradient), MakeGrad(0)}},
    {.name = "fractional_max_pool3d", .gradients = {Reads(In(0) | Out(1))}},
    {.name = "max_unpool2d",  // values, places
     .gradients = {Reads(In(1))},
     .forward = {Scratch(DenseInput<0>), MakeOut(0)},
     .backward = {Scratch(DenseGradient), MakeGrad(0)}},
    {.name = "avg_pool1d",
     .take_apart = [](Dispatcher& d, const AtenCall& c) { TakeLinePoolApart(d, c, "avg_pool2d"); }},
    {.name = "avg_pool2d",
     .strides = InFormat,
     .gradients = {ReadsInFormat(In(0))},
     .forward = {MakeOut(0), Scratch(InputInFormat)},
     .backward = {MakeGrad(0), Scratch(InputInFormat), Scratch(GradientInFormat)}},
    {.name = "avg_pool3d",
     .gradients = {Reads(In(0))},
     .forward = {MakeOut(0), Scratch(DenseInput<0>)},
     .backward = kDenseBackward},
    {.name = "adaptive_avg_pool1d", .take_apart = TakeAdaptiveLinePoolApart},
    {.name = "adaptive_avg_pool2d",
     .take_apart = [](Dispatcher& d,
                      const AtenCall& c) { TakePoolApart(d, c, "_adaptive_avg_pool2d"); }},
    {.name = "adaptive_avg_pool3d",
     .take_apart = [](Dispatcher& d,
                      const AtenCall& c) { TakePoolApart(d, c, "_adaptive_avg_pool3d"); }},
    {.name = "_adaptive_avg_pool2d",
     .strides = InFormat,
     .gradients = {ReadsInFormat(In(0))},
     .forward = {Scratch(BatchUnlessChannelsLast), MakeOut(0)},
     .backward = {MakeGrad(0), Scratch(GradientUnlessChannelsLast)}},
    {.name = "_adaptive_avg_pool3d",
     .gradients = {Reads(In(0))},
     .forward = {Scratch(BatchOfVolumes), MakeOut(0)},
     .backward = kDenseBackward},

    {.name = "upsample_nearest2d",
     .strides = InFormat,
     .autocast = AutocastPolicy::kFp32,
     .not_autocast = &FrameworkProfile::upsamples_as_is,
     .gradients = {Reads({})},
     .forward = {MakeOut(0), Scratch(OutputOfFewChannels), Scratch(InputOfNearest)},
     .run_backward = PictureBackward},
    {.name = "upsample_nearest3d",  // and of one dimension
     .strides = InFormat,
     .autocast = AutocastPolicy::kFp32,
     .not_autocast = &FrameworkProfile::upsamples_as_is,
     .gradients = {Reads({})},
     .forward = {MakeOut(0), Scratch(DenseOutput), Scratch(DenseInput<0>)},
     .backward = kDenseBackward},
    // Kernels that read any strides.
    {.name = "upsample_bilinear2d",
     .strides = InFormat,
     .autocast = AutocastPolicy::kFp32,
     .not_autocast = &FrameworkProfile::upsamples_as_is,
     .gradients = {Reads({})},
     .run_backward = PictureBackward},
    {.name = "upsample_bicubic2d",  // and linear of one dimension
     .strides = InFormat,
     .autocast = AutocastPolicy::kFp32,
     .not_autocast = &FrameworkProfile::upsamples_as_is,
     .gradients = {Reads({})},
     .backward = kDenseBackward},
    {.name = "upsample_trilinear3d",
     .strides = InFormat,
     .autocast = AutocastPolicy::kFp32,
     .not_autocast = &FrameworkProfile::upsamples_as_is,
     .gradients = {Reads({})},
     .run_backward = InGradientsFormat<true>},
    // Antialiased.
    {.name = "_upsample_bilinear2d_aa",
     .strides = InFormat,
     .autocast = AutocastPolicy::kFp32,
     .not_autocast = &FrameworkProfile::upsamples_as_is,
     .gradients = {Reads({})},
     .forward = {MakeOut(0), Scratch(DenseOutput), Scratch(DenseInput<0>)},
     .run_backward = InGradientsFormat<false>},
    {.name = "_upsample_bicubic2d_aa",
     .strides = InFormat,
     .autocast = AutocastPolicy::kFp32,
     .not_autocast = &FrameworkProfile::upsamples_as_is,
     .gradients = {Reads({})},
     .forward = {MakeOut(0), Scratch(DenseOutput), Scratch(DenseInput<0>)},
     .backward = kDenseBackward},
};

}  // namespace

std::span<const OpRule> PoolRules() { return kPoolRules; }

}  // namespace onnxfit
