#include "estimator/training/channels_last.h"

#include "estimator/base/index.h"
#include "estimator/operators/op_rule.h"

namespace onnxfit {
namespace {

constexpr size_t kMostCallsAConvolution = 300;
constexpr int64_t kFewChannels = 64;

const Dims& DimsOf(const Program& program, const AtenCall& call, size_t input) {
  return program.values[Index(call.inputs[input])].type.dims;
}

// Weights: output channels, input channels of a group, then the kernel's; of transposed ones input
// channels, output channels of a group.
bool IsSlower(const Program& program, const AtenCall& call) {
  const Dims& x = DimsOf(program, call, 0);
  const Dims& y = program.values[Index(call.outputs[0])].type.dims;
  const Dims& weight = DimsOf(program, call, 1);
  const int64_t of_all_groups = y[1] == weight[0] ? x[1] : y[1];
  const bool is_grouped = weight[1] > 1 && of_all_groups != weight[1];
  return is_grouped || (weight.size() > 2 && 2 * weight[0] <= weight[1] && weight[2] > 1);
}

bool HasFewChannels(const Program& program, const AtenCall& call) {
  const Dims& weight = DimsOf(program, call, 1);
  return weight[0] <= kFewChannels && weight[1] <= kFewChannels;
}

}  // namespace

std::vector<std::pair<int32_t, NameId>> ReadInChannelsLast(const Program& program,
                                                           size_t model_end) {
  std::vector<std::pair<int32_t, NameId>> read;
  size_t convolutions = 0;
  bool are_small = true;
  for (size_t i = 0; i < model_end; ++i) {
    const AtenCall& call = program.calls[i];
    if (FindOpRule(call.op).name != "convolution") continue;
    if (IsSlower(program, call)) return {};
    ++convolutions;
    are_small = are_small && HasFewChannels(program, call);
    for (const size_t input : {size_t{0}, size_t{1}}) {
      const Dims& dims = DimsOf(program, call, input);
      // One channel, or one element of each, lies the same.
      const bool differs = dims.size() == 4 && dims[1] > 1 && dims[2] * dims[3] > 1;
      if (differs) read.emplace_back(static_cast<int32_t>(i), call.inputs[input]);
    }
  }
  const bool is_for_it = !are_small && model_end < kMostCallsAConvolution * convolutions;
  return is_for_it ? read : std::vector<std::pair<int32_t, NameId>>{};
}

}  // namespace onnxfit
