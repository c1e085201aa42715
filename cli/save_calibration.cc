#include "cli/save_calibration.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "benchmarks/cuda/libraries.h"
#include "cli/calibration_file.h"
#include "estimator/base/bytes.h"
#include "estimator/base/calibration.h"
#include "estimator/base/error.h"
#include "estimator/eager/cudnn_convolutions.h"
#include "estimator/fit/predict.h"

namespace onnxfit {
namespace {

std::string FileFor(const Options& options) {
  const bool is_named = !options.calibration.empty() && options.calibration != kNoCalibration;
  return is_named ? options.calibration : std::string(kCalibrationName);
}

std::string VersionOf(const Libraries& libraries, std::string_view name) {
  for (const LibraryFile& file : libraries.files()) {
    if (file.name == name) return file.version;
  }
  return "";
}

Calibration StartFor(const DetectedGpu& gpu, const Libraries& libraries) {
  Calibration calibration;
  calibration.card = gpu.name;
  calibration.compute_capability = gpu.compute_capability;
  calibration.multiprocessors = gpu.multiprocessors;
  calibration.driver = gpu.driver;
  calibration.cuda = CudaVersionText(gpu.cuda_runtime);
  calibration.cublas = VersionOf(libraries, "cublas");
  calibration.cudnn = VersionOf(libraries, "cudnn");
  return calibration;
}

// What could not be had.
void TellMissing(const Libraries& libraries, const PlannedWorkspaces& planned, std::ostream& err) {
  for (const LibraryFile& file : libraries.files()) {
    if (!file.why_missing.empty()) err << fmt::format("{}: {}\n", file.name, file.why_missing);
  }
  for (const std::string& missing : planned.missing) err << missing << '\n';
}

}  // namespace

void CheckSave(const Options& options) {
  if (!options.verify.saves) return;
  const std::string file = FileFor(options);
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored)) ReadCalibrationFile(file);
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  if (folder.empty() || std::filesystem::is_directory(folder, ignored)) return;
  throw Error({.file = file, .where = "--calibration", .text = "there is no such folder"});
}

void MeasureAndSave(const Graph& graph, const EstimateRequest& request, const DetectedGpu& gpu,
                    const Options& options, std::ostream& err) {
  const std::unique_ptr<Libraries> libraries = OpenLibraries(PlacesOfEnvironment());
  Calibration calibration = StartFor(gpu, *libraries);
  calibration.loaded = libraries->MeasureLoaded();
  // Somebody else gave memory back meanwhile: nothing is known of that part.
  std::erase_if(calibration.loaded, [](const LoadedBytes& loaded) { return loaded.bytes < 0; });
  const PlannedWorkspaces planned =
      libraries->Workspaces(ConvolutionsOf(Predict(graph, request).program));
  calibration.convolutions = planned.found;
  TellMissing(*libraries, planned, err);
  int64_t loaded_bytes = 0;
  for (const LoadedBytes& loaded : calibration.loaded) loaded_bytes += loaded.bytes;
  const std::string file = FileFor(options);
  SaveCalibration(file, calibration);
  err << fmt::format("saved {}: context and libraries {}, {} workspaces of cuDNN\n", file,
                     FormatBytes(loaded_bytes), planned.found.size());
}

}  // namespace onnxfit
