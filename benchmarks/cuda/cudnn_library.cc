#include "benchmarks/cuda/cudnn_library.h"

#include <fmt/format.h>

#include "benchmarks/cuda/convolution_plan.h"
#include "estimator/base/error.h"

namespace onnxfit {
namespace {

struct Precision {
  const char* name;
  DType dtype;
};
constexpr Precision kPrecisions[] = {
    {.name = "fp32", .dtype = DType::kFloat32},
    {.name = "fp16", .dtype = DType::kFloat16},
    {.name = "bf16", .dtype = DType::kBFloat16},
};

// One of resnet's.
Convolution Small(DType dtype) {
  return {.pass = ConvolutionPass::kForward,
          .dtype = dtype,
          .input = {8, 64, 56, 56},
          .weight = {64, 64, 3, 3},
          .output = {8, 64, 56, 56},
          .stride = {1, 1},
          .padding = {1, 1},
          .dilation = {1, 1}};
}

constexpr int64_t kTensorBytes = int64_t{8} * 64 * 56 * 56 * 4;
constexpr int64_t kWeightBytes = int64_t{64} * 64 * 3 * 3 * 4;

void MeasureConvolution(const CudnnDevice& device, const Precision& precision, MemoryMeter& meter) {
  const std::string what = fmt::format("kernels of {} convolutions", precision.name);
  const DeviceBuffer x(kTensorBytes);
  const DeviceBuffer w(kWeightBytes);
  const DeviceBuffer y(kTensorBytes);
  meter.Restart();
  const std::optional<ConvolutionPlan> plan = PlanConvolution(device, Small(precision.dtype));
  if (!plan) return;  // bfloat16 before Ampere
  meter.Read(what);
  const DeviceBuffer workspace(WorkspaceBytes(*plan));
  meter.Restart();
  Run(*plan, device, x.get(), w.get(), y.get(), workspace.get());
  meter.Read(what);
}

// "forward of bfloat16[32, 3, 224, 224] by [64, 3, 7, 7]".
std::string TextOf(const Convolution& convolution) {
  constexpr const char* kPasses[] = {"forward", "data gradient", "weight gradient"};
  return fmt::format("{} of {} by {}", kPasses[static_cast<size_t>(convolution.pass)],
                     ToString(TensorType{convolution.dtype, convolution.input}),
                     ToString(convolution.weight));
}

class OpenCudnn : public CudnnLibrary {
 public:
  OpenCudnn(const SharedLibrary& cudnn, bool has_driver)
      : calls_(LoadCudnnCalls(cudnn)), has_driver_(has_driver) {}

  void Measure(MemoryMeter& meter) override {
    meter.Restart();
    const CudnnDevice device(calls_);
    meter.Read("cudnn handle");
    for (const Precision& precision : kPrecisions) MeasureConvolution(device, precision, meter);
  }

  PlannedWorkspaces Workspaces(const std::vector<Convolution>& convolutions,
                               const DescribedCard* card) override {
    return card == nullptr ? Plan(CudnnDevice(calls_), convolutions)
                           : Plan(CudnnDevice(calls_, *card, has_driver_), convolutions);
  }

 private:
  static PlannedWorkspaces Plan(const CudnnDevice& device,
                                const std::vector<Convolution>& convolutions) {
    PlannedWorkspaces answers;
    for (const Convolution& convolution : convolutions) Answer(device, convolution, answers);
    return answers;
  }

  static void Answer(const CudnnDevice& device, const Convolution& convolution,
                     PlannedWorkspaces& answers) {
    try {
      if (const auto plan = PlanConvolution(device, convolution)) {
        answers.found.push_back({.convolution = convolution, .bytes = WorkspaceBytes(*plan)});
      } else {
        answers.missing.push_back(TextOf(convolution) + ": cuDNN has no plan for this card");
      }
    } catch (const Error& error) {
      answers.missing.push_back(fmt::format("{}: {}", TextOf(convolution), error.what()));
    }
  }

  const CudnnCalls calls_;
  const bool has_driver_;
};

}  // namespace

std::unique_ptr<CudnnLibrary> NewCudnnLibrary(const SharedLibrary& cudnn, bool has_driver) {
  return std::make_unique<OpenCudnn>(cudnn, has_driver);
}

}  // namespace onnxfit
