#include "estimator/onnx/stored_contents.h"

#include "estimator/onnx/external_data.h"

namespace onnxfit {
namespace {

// The numbers of a tensor without raw_data, as they would lie there.
std::string_view TypedFloats(const onnx::TensorProto& tensor) {
  const auto& floats = tensor.float_data();
  return {reinterpret_cast<const char*>(floats.data()),
          static_cast<size_t>(floats.size()) * sizeof(float)};
}

std::string_view KeptBytes(const onnx::TensorProto& tensor) {
  const bool is_typed = !tensor.has_raw_data() && tensor.data_type() == onnx::TensorProto::FLOAT;
  return is_typed ? TypedFloats(tensor) : std::string_view(tensor.raw_data());
}

}  // namespace

StoredContents::StoredContents(const onnx::GraphProto& graph, const std::vector<CutTensor>& cut,
                               const std::string& model_path)
    : model_path_(model_path) {
  for (const CutTensor& tensor : cut) cut_.emplace(tensor.name, tensor.raw_data);
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    kept_.emplace(tensor.name(), &tensor);
  }
}

std::string StoredContents::Read(std::string_view name, const TensorType& type, int64_t offset,
                                 int64_t size) const {
  const auto kept = kept_.find(name);
  if (kept == kept_.end()) return {};
  if (kept->second->data_location() == onnx::TensorProto::EXTERNAL) {
    return ReadExternalBytes(*kept->second, model_path_, offset, size);
  }
  const auto cut = cut_.find(name);
  const std::string_view bytes = cut == cut_.end() ? KeptBytes(*kept->second) : cut->second;
  if (static_cast<int64_t>(bytes.size()) != BytesOf(type)) return {};
  return std::string(bytes.substr(static_cast<size_t>(offset), static_cast<size_t>(size)));
}

}  // namespace onnxfit
