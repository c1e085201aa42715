#include "estimator/fit/cudnn_remark.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

#include "estimator/base/calibration.h"
#include "estimator/workspaces/benchmarked_layers.h"
#include "estimator/workspaces/cudnn_workspaces.h"
#include "estimator/workspaces/workspace_form.h"

namespace onnxfit {
namespace {

// Of those whose plans come with the command: "40 as an H200 (cuDNN 9.19.0) plans them, 12 of them
// estimated from its plans for another batch, size, type or card".
std::string ShippedText(const MeasuredConvolutions& convolutions, int64_t known,
                        const TrainingSettings& settings) {
  constexpr std::string_view kOther = "for another batch, size, type or card";
  const std::string plans = ShippedPlansText(settings);
  if (convolutions.scaled == known) {
    return fmt::format("{} estimated from what {} plans {}", known, plans, kOther);
  }
  const std::string text = fmt::format("{} as {} plans them", known, plans);
  if (convolutions.scaled == 0) return text;
  return fmt::format("{}, {} of them estimated from its plans {}", text, convolutions.scaled,
                     kOther);
}

// Of convolutions that were not measured on the card: ShippedText(), "2 with copies of tensors in
// the order NHWC", "none in the others".  REQUIRES: there are some.
std::string OthersText(const MeasuredConvolutions& convolutions, const TrainingSettings& settings) {
  std::vector<std::string> parts;
  const int64_t known = convolutions.shipped + convolutions.scaled;
  if (known > 0) parts.push_back(ShippedText(convolutions, known, settings));
  const int64_t others = convolutions.all - convolutions.measured - known;
  if (others == 0) return parts[0];
  parts.push_back(HasWorkspaceForm(settings.device)
                      ? fmt::format("{} with copies of tensors in the order NHWC", others)
                      : "none in the others");
  return fmt::format("{}", fmt::join(parts, "; "));
}

// "its CUDA context, cuDNN's workspaces in 60 of 62 passes of convolutions, none in the others".
std::string MeasuredText(const MeasuredConvolutions& convolutions, const EstimateRequest& request) {
  std::vector<std::string> parts;
  const DeviceProfile& device = request.settings.device;
  const bool has_context = !request.overhead_bytes && !device.calibration->loaded.empty();
  if (has_context) parts.emplace_back("its CUDA context");
  if (convolutions.all == 0) return fmt::format("{}", fmt::join(parts, ", "));
  parts.push_back(fmt::format("cuDNN's workspaces in {} of {} passes of convolutions",
                              convolutions.measured, convolutions.all));
  if (convolutions.measured < convolutions.all) {
    parts.push_back(OthersText(convolutions, request.settings));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// " (pytorch-2.6 brings 9.1.0)"; "" where it brings that very one, or none is known.
std::string OtherVersionText(const FrameworkProfile& framework, std::string_view asked) {
  const std::string version = CudnnVersionText(framework.cudnn);
  if (framework.cudnn == 0 || version == asked) return "";
  return fmt::format(" ({} brings {})", framework.name, version);
}

// "" where nothing was measured on the card.
std::string MeasuredAssumption(const Prediction& prediction, const EstimateRequest& request) {
  const SharedCalibration& calibration = request.settings.device.calibration;
  if (calibration == nullptr) return "";
  const std::string measured =
      MeasuredText(CountMeasured(prediction.program, request.settings), request);
  if (measured.empty()) return "";
  const std::string file = calibration->file.empty() ? "" : "; " + calibration->file;
  if (calibration->basis != Basis::kMeasured) {
    return fmt::format("as cuDNN {}{} chooses for {}, asked without it: {}{}", calibration->cudnn,
                       OtherVersionText(request.settings.framework, calibration->cudnn),
                       calibration->card, measured,
                       calibration->lacks_driver
                           ? "; for want of a libcuda.so.1 not from what it would compile"
                           : "");
  }
  return fmt::format("as measured on {} ({}{}): {}", calibration->card, VersionsText(*calibration),
                     file, measured);
}

}  // namespace

std::string CudnnAssumption(const Prediction& prediction, const EstimateRequest& request) {
  std::string measured = MeasuredAssumption(prediction, request);
  if (!measured.empty()) return measured;
  const TrainingSettings& settings = request.settings;
  const MeasuredConvolutions convolutions = CountMeasured(prediction.program, settings);
  if (convolutions.all == 0) return "";
  if (convolutions.shipped + convolutions.scaled == 0 && !HasWorkspaceForm(settings.device)) {
    return "convolutions ask cuDNN for no workspace";
  }
  return fmt::format(
      "cuDNN's workspaces, of {} passes of convolutions: {} (--cudnn auto asks the library)",
      convolutions.all, OthersText(convolutions, settings));
}

int64_t OpenCudnnBytes(const Program& program, const TrainingSettings& settings) {
  return settings.device.is_cudnn_off ? 0 : MostCudnnWorkspaceBytes(program, settings);
}

std::string BenchmarkAssumption(const Prediction& prediction, const TrainingSettings& settings) {
  if (!settings.cudnn_benchmark) return "";
  const TriedCalls calls = CountTried(prediction.program, settings);
  if (calls.all == 0) return "";
  const std::string fastest =
      calls.known == 0 ? "all then"
                       : fmt::format("{} then keep the plan that was the fastest on {}, the others",
                                     calls.known, BenchmarkedCard(settings.device));
  return fmt::format(
      "the first of each of {} passes of convolutions tries plans and empties the cache; {} keep "
      "the plan that they have without (--cudnn-benchmark)",
      calls.all, fastest);
}

}  // namespace onnxfit
