#include "estimator/fit/file_types.h"

#include <optional>

#include "estimator/onnx/graph.h"
#include "estimator/pt2/exported_program.h"
#include "estimator/pt2/own_types.h"

namespace onnxfit {
namespace {

const pt2::ExportedProgram* ProgramOf(const Graph& file) {
  if (file.exported != nullptr) return file.exported.get();
  return file.embedded == nullptr ? nullptr : file.embedded->exported.get();
}

// Without autocast.
std::optional<Precision> PrecisionOf(DType type) {
  for (const Precision precision :
       {Precision::kFp32, Precision::kBf16, Precision::kFp16, Precision::kFp64}) {
    if (ParameterType(precision) == type) return precision;
  }
  return std::nullopt;
}

}  // namespace

EstimateRequest WithTypesOf(const Graph& file, EstimateRequest request) {
  TrainingSettings& settings = request.settings;
  if (!settings.keeps_types) return request;
  const pt2::ExportedProgram* program = ProgramOf(file);
  if (program == nullptr) {
    settings.keeps_types = false;
    return request;
  }
  if (AutocastType(settings.precision) != DType::kUndefined) return request;
  const std::optional<Precision> own = PrecisionOf(pt2::MostCommonType(*program));
  settings.keeps_types = own.has_value();
  settings.precision = own.value_or(settings.precision);
  return request;
}

}  // namespace onnxfit
