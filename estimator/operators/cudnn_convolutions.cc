// Which backend PyTorch takes: _select_conv_backend and use_cudnn_depthwise in
// aten/src/ATen/native/Convolution.cpp, pytorch v2.6.0.
#include "estimator/operators/cudnn_convolutions.h"

#include <algorithm>
#include <set>

#include "estimator/base/index.h"
#include "estimator/operators/op_rule.h"
#include "estimator/operators/strides.h"
#include "estimator/program/call_operands.h"

namespace onnxfit {
namespace {

const StridedType& TypeOf(const Program& program, NameId name) {
  return program.values[Index(name)].type;
}

bool LiesChannelsLast(const Program& program, const AtenCall& call) {
  return CudnnFormat(TypeOf(program, call.inputs[0]), TypeOf(program, call.inputs[1])) ==
         MemoryFormat::kChannelsLast;
}

// A convolution along one dimension runs as one of two, the first of which has size 1.
void ViewAsPlane(Convolution& convolution) {
  if (convolution.weight.size() != 3) return;
  for (Dims* dims : {&convolution.input, &convolution.weight, &convolution.output}) {
    dims->insert(dims->begin() + 2, 1);
  }
  convolution.stride.insert(convolution.stride.begin(), 1);
  convolution.padding.insert(convolution.padding.begin(), 0);
  convolution.dilation.insert(convolution.dilation.begin(), 1);
}

// Each channel by itself.
bool IsDepthwise(const Convolution& c) {
  return !c.is_transposed && c.groups > 1 && c.input[1] == c.groups && c.weight[0] % c.groups == 0;
}

// Where it was found to be faster than PyTorch's own kernel: of those in fp16 that CanCudnn.
bool IsFastDepthwise(const Convolution& c) {
  const int64_t batch = c.input[0];
  const int64_t channels = c.input[1];
  const int64_t width = c.input[3];
  const int64_t filter = c.weight[3];
  const int64_t stride = c.stride[1];
  if (c.input[2] == 1 && stride == 1) return true;
  if (c.weight[2] != filter || (filter != 1 && filter != 3 && filter != 5)) return false;
  if (width < 7 || stride > 2) return false;
  if (stride == 1) return true;
  if (batch == 1) return filter > 1 || width <= 28;
  if (filter == 1) return batch <= 16 && channels >= 128 && width <= 7;
  return channels >= 512 || (channels >= 256 && width >= 28);
}

bool TakesCudnnDepthwise(const Convolution& c) {
  const bool is_dilated =
      std::any_of(c.dilation.begin(), c.dilation.end(), [](int64_t d) { return d != 1; });
  const bool is_square = c.input.size() == 4 && (c.stride[0] == c.stride[1] || c.input[2] == 1);
  return c.dtype == DType::kFloat16 && !is_dilated && is_square && c.input[1] >= 32 &&
         IsFastDepthwise(c);
}

std::optional<Convolution> ForwardOf(const TensorType& x, const TensorType& weight,
                                     const TensorType& result, const std::vector<int64_t>& ints) {
  const std::optional<ConvolutionArguments> arguments = ArgumentsIn(ints);
  if (!arguments) return std::nullopt;
  Convolution convolution = {.dtype = x.dtype,
                             .input = x.dims,
                             .weight = weight.dims,
                             .output = result.dims,
                             .stride = arguments->stride,
                             .padding = arguments->padding,
                             .dilation = arguments->dilation,
                             .groups = arguments->groups,
                             .is_transposed = arguments->is_transposed};
  ViewAsPlane(convolution);
  return convolution;
}

bool FindsGradient(const OpRule& rule, size_t input) {
  return rule.keeps_everything ||
         GradientOf(rule, static_cast<int>(input)).form != Gradient::Form::kNone;
}

// Which names a gradient flows to, as the calls are passed in order.
class Wanted {
 public:
  explicit Wanted(const Program& program) : is_wanted_(program.values.size()) {
    if (!HasBackward(program)) return;
    for (const NameId name : program.parameters) is_wanted_[Index(name)] = true;
    for (const NameId name : program.received) is_wanted_[Index(name)] = true;
  }

  bool Has(NameId name) const { return name != kNoName && is_wanted_[Index(name)]; }

  void Pass(const Program& program, const AtenCall& call) {
    const OpRule& rule = FindOpRule(call.op);
    bool any = false;
    for (size_t i = 0; i < call.inputs.size() && !any && !call.leaves_autograd; ++i) {
      any = Has(call.inputs[i]) && FindsGradient(rule, i);
    }
    for (const NameId name : call.outputs) {
      if (name != kNoName) is_wanted_[Index(name)] = any && IsFloat(TypeOf(program, name).dtype);
    }
  }

 private:
  std::vector<bool> is_wanted_;  // by NameId
};

}  // namespace

MemoryFormat CudnnFormat(const StridedType& x, const StridedType& weight) {
  const bool is_last = SuggestedFormat(x) == MemoryFormat::kChannelsLast ||
                       SuggestedFormat(weight) == MemoryFormat::kChannelsLast;
  const bool is_double = x.dtype == DType::kFloat64 || weight.dtype == DType::kFloat64;
  return is_last && !is_double ? MemoryFormat::kChannelsLast : MemoryFormat::kContiguous;
}

bool AsksCudnn(const StridedType& x, const StridedType& weight, const TensorType& result,
               const std::vector<int64_t>& ints) {
  if (CudnnFormat(x, weight) == MemoryFormat::kChannelsLast) return true;
  const std::optional<Convolution> convolution = ForwardOf(x, weight, result, ints);
  return !convolution || !IsDepthwise(*convolution) || TakesCudnnDepthwise(*convolution);
}

bool AsksCudnn(const Program& program, const AtenCall& call) {
  return FindOpRule(call.op).asks_cudnn &&
         AsksCudnn(TypeOf(program, call.inputs[0]), TypeOf(program, call.inputs[1]),
                   TypeOf(program, call.outputs[0]), call.ints);
}

std::optional<Convolution> ConvolutionOf(const Program& program, const AtenCall& call,
                                         ConvolutionPass pass) {
  if (!AsksCudnn(program, call)) return std::nullopt;
  std::optional<Convolution> convolution =
      ForwardOf(TypeOf(program, call.inputs[0]), TypeOf(program, call.inputs[1]),
                TypeOf(program, call.outputs[0]), call.ints);
  if (!convolution) return std::nullopt;
  convolution->pass = pass;
  convolution->is_channels_last = LiesChannelsLast(program, call);
  return convolution;
}

std::vector<std::vector<ConvolutionPass>> PassesOf(const Program& program) {
  std::vector<std::vector<ConvolutionPass>> passes(program.calls.size());
  Wanted wanted(program);
  for (size_t i = 0; i < program.calls.size(); ++i) {
    const AtenCall& call = program.calls[i];
    wanted.Pass(program, call);
    if (!AsksCudnn(program, call)) continue;
    passes[i].push_back(ConvolutionPass::kForward);
    if (wanted.Has(call.inputs[0])) passes[i].push_back(ConvolutionPass::kDataGradient);
    if (wanted.Has(call.inputs[1])) passes[i].push_back(ConvolutionPass::kWeightGradient);
  }
  return passes;
}

std::vector<Convolution> ConvolutionsOf(const Program& program) {
  std::vector<Convolution> all;
  std::set<Convolution> seen;
  const std::vector<std::vector<ConvolutionPass>> passes = PassesOf(program);
  for (size_t i = 0; i < passes.size(); ++i) {
    for (const ConvolutionPass pass : passes[i]) {
      const auto convolution = ConvolutionOf(program, program.calls[i], pass);
      if (convolution && seen.insert(*convolution).second) all.push_back(*convolution);
    }
  }
  return all;
}

}  // namespace onnxfit
