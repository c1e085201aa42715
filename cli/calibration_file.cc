#include "cli/calibration_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "cli/flags.h"
#include "cli/output.h"
#include "estimator/base/bytes.h"
#include "estimator/base/calibration.h"
#include "estimator/base/error.h"
#include "estimator/base/file_bytes.h"
#include "estimator/cuda/libraries.h"
#include "estimator/fit/predict.h"
#include "estimator/operators/cudnn_convolutions.h"
#include "estimator/report/calibration_json.h"

namespace onnxfit {
namespace {

namespace fs = std::filesystem;

constexpr Commands kReadDefault = Only(Command::kEstimate) | Only(Command::kMaxBatch) |
                                  Only(Command::kReport) | Only(Command::kVerify) |
                                  Only(Command::kAnnotate);

std::vector<Calibration> ReadFile(const std::string& path) {
  try {
    const FileBytes file(path, [](std::string_view) {}, {.what = "a calibration"});
    return ReadCalibrations(file.bytes());
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    parts.file = path;
    throw Error(parts);
  }
}

}  // namespace

std::vector<SharedCalibration> ReadCalibrationFile(const std::string& path) {
  std::vector<SharedCalibration> calibrations;
  for (Calibration& calibration : ReadFile(path)) {
    calibration.file = path;
    calibrations.push_back(std::make_shared<const Calibration>(std::move(calibration)));
  }
  return calibrations;
}

void SaveCalibration(const std::string& path, const Calibration& calibration) {
  std::error_code ignored;
  std::vector<Calibration> calibrations;
  if (fs::exists(path, ignored)) calibrations = ReadFile(path);
  PutCalibration(calibration, calibrations);
  ReplaceFile(path, ToJson(calibrations), "calibration");
}

std::vector<SharedCalibration> CalibrationsFor(const Options& options) {
  if (options.calibration == kNoCalibration) return {};
  if (!options.cudnn.empty()) {  // one source of workspaces, or nobody knows whose they are
    if (options.calibration.empty()) return {};
    throw Error({.where = "--cudnn", .text = "expected without --calibration, found with it"});
  }
  std::error_code ignored;
  const bool will_write = options.verify.saves && !fs::exists(options.calibration, ignored);
  if (!options.calibration.empty() && will_write) return {};
  if (!options.calibration.empty()) return ReadCalibrationFile(options.calibration);
  const bool reads_default = (kReadDefault & Only(options.command)) != 0;
  const std::string standard(kCalibrationName);
  if (!reads_default || !fs::is_regular_file(standard, ignored)) return {};
  return ReadCalibrationFile(standard);
}

// What follows is verify --save.
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
