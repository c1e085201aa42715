#include "estimator/eager/cudnn_workspace.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/eager/cudnn_convolutions.h"

namespace onnxfit {
namespace {

int64_t BytesOfValue(const Program& program, NameId name) {
  return name == kNoName ? 0 : BytesOf(program.values[Index(name)].type);
}

int64_t CopiedBytes(const Program& program, const AtenCall& call) {
  const int64_t read =
      CheckedAdd(BytesOfValue(program, call.inputs[0]), BytesOfValue(program, call.inputs[1]));
  return CheckedAdd(read, BytesOfValue(program, call.outputs[0]));
}

std::optional<int64_t> FindMeasured(const Program& program, const AtenCall& call,
                                    ConvolutionPass pass, const DeviceProfile& device) {
  if (device.calibration == nullptr) return std::nullopt;
  const std::optional<Convolution> convolution = ConvolutionOf(program, call, pass);
  return convolution ? FindWorkspace(*device.calibration, *convolution) : std::nullopt;
}

}  // namespace

int64_t MeasuredWorkspaceBytes(const Program& program, const AtenCall& call, ConvolutionPass pass,
                               const DeviceProfile& device) {
  return FindMeasured(program, call, pass, device).value_or(0);
}

int64_t MostCudnnWorkspaceBytes(const Program& program, const DeviceProfile& device) {
  int64_t most = 0;
  const std::vector<std::vector<ConvolutionPass>> passes = PassesOf(program);
  for (size_t i = 0; i < passes.size(); ++i) {
    const AtenCall& call = program.calls[i];
    const bool is_unknown = std::ranges::any_of(passes[i], [&](ConvolutionPass pass) {
      return !FindMeasured(program, call, pass, device);
    });
    if (is_unknown) most = std::max(most, CopiedBytes(program, call));
  }
  return most;
}

MeasuredConvolutions CountMeasured(const Program& program, const DeviceProfile& device) {
  MeasuredConvolutions count;
  std::set<Convolution> seen;
  const std::vector<std::vector<ConvolutionPass>> passes = PassesOf(program);
  for (size_t i = 0; i < passes.size(); ++i) {
    for (const ConvolutionPass pass : passes[i]) {
      const AtenCall& call = program.calls[i];
      const auto convolution = ConvolutionOf(program, call, pass);
      if (convolution && !seen.insert(*convolution).second) continue;
      ++count.all;
      if (FindMeasured(program, call, pass, device)) ++count.measured;
    }
  }
  return count;
}

}  // namespace onnxfit
