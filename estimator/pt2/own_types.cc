#include "estimator/pt2/own_types.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "estimator/base/bytes.h"

namespace onnxfit::pt2 {
namespace {

constexpr int kLeastBits = 16;  // less is packed or quantized

void AddFloats(const ExportedProgram& exported, InputSpec::Kind kind,
               std::vector<TensorType>& floats) {
  for (const InputSpec& spec : exported.inputs) {
    const auto tensor = exported.graph.tensors.find(spec.name);
    if (spec.kind != kind || tensor == exported.graph.tensors.end()) continue;
    if (!IsFloat(tensor->second.dtype) || BitsOf(tensor->second.dtype) < kLeastBits) continue;
    TensorType& type = floats.emplace_back(TensorType{tensor->second.dtype, {}});
    for (const Size& size : tensor->second.sizes) type.dims.push_back(size.number);
  }
}

}  // namespace

std::vector<TensorType> FloatsOf(const ExportedProgram& exported) {
  std::vector<TensorType> floats;
  AddFloats(exported, InputSpec::Kind::kParameter, floats);
  if (floats.empty()) AddFloats(exported, InputSpec::Kind::kUser, floats);
  return floats;
}

DType MostCommonType(const ExportedProgram& exported) {
  std::map<DType, int64_t> numels;
  for (const TensorType& type : FloatsOf(exported)) {
    numels[type.dtype] = CheckedAdd(numels[type.dtype], std::max<int64_t>(Numel(type.dims), 1));
  }
  const auto most = std::ranges::max_element(
      numels, {}, [](const auto& type_and_numel) { return type_and_numel.second; });
  return most == numels.end() ? DType::kUndefined : most->first;
}

bool HasTypesOf(Precision precision, const ExportedProgram& exported) {
  if (AutocastType(precision) != DType::kUndefined) return false;
  return std::ranges::all_of(FloatsOf(exported), [&](const TensorType& type) {
    return type.dtype == ParameterType(precision);
  });
}

}  // namespace onnxfit::pt2
