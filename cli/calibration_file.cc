#include "cli/calibration_file.h"

#include <filesystem>
#include <utility>

#include "cli/flags.h"
#include "cli/replace_file.h"
#include "estimator/base/error.h"
#include "estimator/base/file_bytes.h"
#include "estimator/report/calibration_json.h"

namespace onnxfit {
namespace {

namespace fs = std::filesystem;

constexpr Commands kReadDefault =
    Only(Command::kEstimate) | Only(Command::kMaxBatch) | Only(Command::kVerify);

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

}  // namespace onnxfit
