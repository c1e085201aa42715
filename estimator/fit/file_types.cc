#include "estimator/fit/file_types.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "estimator/onnx/graph.h"
#include "estimator/onnx/input_types.h"
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

// Elements of each type of floats, in what nodes of an ONNX file read: parameters and inputs, but a
// few numbers, such as the scales of a Resize, which are float32 in any file.
struct NodesTypes {
  std::map<DType, int64_t> parameters;
  std::set<DType> inputs;

  DType MostCommon() const {
    const auto most = std::ranges::max_element(
        parameters, {}, [](const auto& type_and_numel) { return type_and_numel.second; });
    return most == parameters.end() ? DType::kUndefined : most->first;
  }
  bool HasOthersThan(DType type) const {
    return parameters.size() > 1 ||
           std::ranges::any_of(inputs, [&](DType input) { return input != type; });
  }
};

bool IsWide(DType type) { return IsFloat(type) && BitsOf(type) >= 16; }

NodesTypes TypesOfNodes(const Graph& file) {
  constexpr int64_t kFew = 16;
  NodesTypes types;
  for (const Initializer& stored : file.initializers) {
    const int64_t numel = NumelOrHuge(stored.type.dims);
    if (!IsWide(stored.type.dtype) || numel <= kFew) continue;
    types.parameters[stored.type.dtype] += std::min(numel, int64_t{1} << 40);
  }
  for (const DType type : InputTypes(file)) {
    if (IsWide(type)) types.inputs.insert(type);
  }
  return types;
}

// Where nodes alone say the types: the whole model was cast, if they are all the same, and the run
// is the one that -p names; else each has its own.
EstimateRequest WithTypesOfNodes(const Graph& file, EstimateRequest request) {
  TrainingSettings& settings = request.settings;
  settings.keeps_types = false;
  if (AutocastType(settings.precision) != DType::kUndefined) return request;
  const NodesTypes types = TypesOfNodes(file);
  const DType own = types.MostCommon();
  const std::optional<Precision> precision = PrecisionOf(own);
  if (!precision.has_value()) return request;
  settings.precision = *precision;
  settings.keeps_types = types.HasOthersThan(own);
  return request;
}

}  // namespace

EstimateRequest WithTypesOf(const Graph& file, EstimateRequest request) {
  TrainingSettings& settings = request.settings;
  if (!settings.keeps_types) return request;
  const pt2::ExportedProgram* program = ProgramOf(file);
  if (program == nullptr) return WithTypesOfNodes(file, std::move(request));
  if (AutocastType(settings.precision) != DType::kUndefined) return request;
  const std::optional<Precision> own = PrecisionOf(pt2::MostCommonType(*program));
  settings.keeps_types = own.has_value();
  settings.precision = own.value_or(settings.precision);
  return request;
}

}  // namespace onnxfit
