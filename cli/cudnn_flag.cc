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
#include "estimator/base/error.h"

namespace onnxfit {
namespace {

constexpr char kAuto[] = "auto";  // where PyTorch has it

std::shared_ptr<Libraries> Open(const std::string& typed) {
  std::shared_ptr<Libraries> libraries =
      OpenLibraries(PlacesOfEnvironment(typed == kAuto ? "" : typed));
  const LibraryFile& cudnn = libraries->files().back();
  if (cudnn.version.empty()) throw Error({.where = "--cudnn", .text = cudnn.why_missing});
  std::error_code ignored;
  const auto folder = std::filesystem::path(cudnn.path).parent_path();
  if (typed == kAuto || std::filesystem::equivalent(folder, typed, ignored)) return libraries;
  throw Error(
      {.where = "--cudnn",
       .text = fmt::format("expected a folder with libcudnn.so.9, found none in {}", Quoted(typed)),
       .hint = "--cudnn auto, which finds " + cudnn.path});
}

// What is known of the card, and a cuDNN for the rest.
SharedCalibration WithSource(const std::shared_ptr<Libraries>& libraries,
                             const DeviceProfile& device) {
  Calibration known;
  if (device.calibration != nullptr) {
    known = *device.calibration;
  } else {
    known.card = device.name;
    known.compute_capability = device.compute_capability;
    known.multiprocessors = device.multiprocessors;
    known.cudnn = libraries->files().back().version;
    known.basis = Basis::kModelled;
  }
  known.source = AskedWorkspaces(libraries, Describe(device));
  return std::make_shared<const Calibration>(std::move(known));
}

}  // namespace

void AskCudnn(const Options& options, DeviceProfile& device) {
  if (!options.cudnn.empty()) device.calibration = WithSource(Open(options.cudnn), device);
}

void AskCudnn(Options& options) {
  if (options.cudnn.empty()) return;
  const std::shared_ptr<Libraries> libraries = Open(options.cudnn);
  std::vector<DeviceProfile*> devices = {&options.request.settings.device};
  for (Target& target : options.request.targets) devices.push_back(&target.device);
  std::vector<std::pair<DeviceProfile, SharedCalibration>> asked;
  for (DeviceProfile* device : devices) {
    const auto same = std::find_if(asked.begin(), asked.end(), [&](const auto& other) {
      return other.first.name == device->name && SameKernels(other.first, *device);
    });
    if (same == asked.end()) {
      asked.emplace_back(*device, WithSource(libraries, *device));
      device->calibration = asked.back().second;
    } else {
      device->calibration = same->second;  // runs on the same kernels share their predictions
    }
  }
}

}  // namespace onnxfit
