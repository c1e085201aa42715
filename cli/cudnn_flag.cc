#include "cli/cudnn_flag.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/cuda/asked_workspaces.h"
#include "benchmarks/cuda/libraries.h"
#include "cli/values.h"
#include "estimator/base/calibration.h"
#include "estimator/base/device.h"
#include "estimator/base/error.h"
#include "estimator/base/warnings.h"

namespace onnxfit {
namespace {

constexpr char kAuto[] = "auto";  // where PyTorch has it

std::shared_ptr<Libraries> Open(const std::string& typed) {
  std::shared_ptr<Libraries> libraries =
      OpenLibraries(PlacesOfEnvironment(typed == kAuto ? "" : typed));
  const LibraryFile& cudnn = libraries->files().back();
  if (cudnn.version.empty()) throw Error({.where = "--cudnn", .text = cudnn.why_missing});
  libraries->Workspaces({}, Describe(DefaultDevice()));  // says so where it is too old
  std::error_code ignored;
  const auto folder = std::filesystem::path(cudnn.path).parent_path();
  if (typed == kAuto || std::filesystem::equivalent(folder, typed, ignored)) return libraries;
  throw Error(
      {.where = "--cudnn",
       .text = fmt::format("expected a folder with libcudnn.so.9, found none in {}", Quoted(typed)),
       .hint = "--cudnn auto, which finds " + cudnn.path});
}

// A cuDNN to be asked.  Throws Error where it knows no such card.  REQUIRES: nothing was measured
// on the card (CalibrationsFor has nothing with --cudnn).
SharedCalibration WithSource(const std::shared_ptr<Libraries>& libraries,
                             const DeviceProfile& device) {
  Calibration known;
  known.card = device.name;
  known.compute_capability = device.compute_capability;
  known.multiprocessors = device.multiprocessors;
  known.cudnn = libraries->files().back().version;
  known.basis = Basis::kModelled;
  known.lacks_driver = !libraries->has_driver();
  libraries->Workspaces({}, Describe(device));
  known.source = AskedWorkspaces(libraries, Describe(device));
  return std::make_shared<const Calibration>(std::move(known));
}

// As WithSource; for a card that cuDNN does not know, null and a warning.
SharedCalibration SourceOrWarning(const std::shared_ptr<Libraries>& libraries, Target& target) {
  try {
    return WithSource(libraries, target.device);
  } catch (const Error& error) {
    target.warnings.push_back(
        {warning::kNoCudnnPlans, fmt::format("{}: cuDNN {} knows no such card ({})", target.name,
                                             libraries->files().back().version, error.what())});
    return nullptr;
  }
}

}  // namespace

void AskCudnn(const Options& options, DeviceProfile& device) {
  if (!options.cudnn.empty()) device.calibration = WithSource(Open(options.cudnn), device);
}

void AskCudnn(Options& options) {
  if (options.cudnn.empty()) return;
  const std::shared_ptr<Libraries> libraries = Open(options.cudnn);
  EstimateRequest& request = options.request;
  if (request.targets.empty()) {
    request.settings.device.calibration = WithSource(libraries, request.settings.device);
    return;
  }
  std::vector<std::pair<DeviceProfile, SharedCalibration>> asked;
  for (Target& target : request.targets) {
    const auto same = std::find_if(asked.begin(), asked.end(), [&](const auto& other) {
      return other.first.name == target.device.name && SameKernels(other.first, target.device);
    });
    if (same == asked.end()) {
      asked.emplace_back(target.device, SourceOrWarning(libraries, target));
      target.device.calibration = asked.back().second;
    } else {
      target.device.calibration = same->second;  // such cards share their predictions
    }
  }
  request.settings.device = request.targets[0].device;
}

}  // namespace onnxfit
