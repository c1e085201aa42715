#include "estimator/onnx/missing_initializers.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "estimator/base/error.h"
#include "estimator/base/quote.h"
#include "estimator/onnx/captures.h"

namespace onnxfit {
namespace {

using Types = std::unordered_map<std::string_view, const onnx::TypeProto*>;

// In the order in which nodes read them.
std::vector<std::string_view> MissingNames(const onnx::GraphProto& graph) {
  std::unordered_set<std::string_view> made;
  for (const auto& input : graph.input()) made.insert(input.name());
  for (const auto& tensor : graph.initializer()) made.insert(tensor.name());
  for (const auto& sparse : graph.sparse_initializer()) made.insert(sparse.values().name());
  for (const auto& node : graph.node()) made.insert(node.output().begin(), node.output().end());
  std::vector<std::string_view> missing;
  const auto read = [&](std::string_view name) {
    if (!name.empty() && made.insert(name).second) missing.push_back(name);
  };
  for (const auto& node : graph.node()) {
    for (const std::string& input : node.input()) read(input);
    for (const std::string_view name : CapturedNames(node)) read(name);
  }
  return missing;
}

bool IsComplete(const onnx::TypeProto& type) {
  if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return false;
  const auto& dims = type.tensor_type().shape().dim();
  return type.tensor_type().elem_type() != onnx::TensorProto::UNDEFINED &&
         std::ranges::all_of(dims, [](const auto& dim) { return dim.has_dim_value(); });
}

Types StoredTypes(const onnx::GraphProto& graph) {
  Types types;
  for (const auto& info : graph.value_info()) {
    if (IsComplete(info.type())) types.emplace(info.name(), &info.type());
  }
  return types;
}

void Declare(onnx::GraphProto& graph, const std::string& name, const onnx::TypeProto& type) {
  onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(type.tensor_type().elem_type());
  for (const auto& dim : type.tensor_type().shape().dim()) tensor.add_dims(dim.dim_value());
}

[[noreturn]] void RefuseBare(std::string_view first, size_t count) {
  throw Error({.where = fmt::format("initializer {}", Quote(first)),
               .text = fmt::format("the file names it and {} others and holds neither them nor "
                                   "their shapes, as include_initializers=False writes it",
                                   count - 1),
               .hint = "program.save(\"m.onnx\", external_data=True), whose m.onnx.data may be "
                       "left out; of a model without weights, initializers with their dims, as "
                       "in models/README.md"});
}

}  // namespace

void DeclareMissingInitializers(onnx::ModelProto& model, std::vector<std::string>& notes) {
  onnx::GraphProto& graph = *model.mutable_graph();
  const std::vector<std::string_view> missing = MissingNames(graph);
  if (missing.empty()) return;
  const Types types = StoredTypes(graph);
  std::vector<std::string_view> unknown;
  std::ranges::copy_if(missing, std::back_inserter(unknown),
                       [&](std::string_view name) { return !types.contains(name); });
  if (unknown.size() > 1 && graph.initializer_size() == 0) {
    RefuseBare(unknown.front(), unknown.size());
  }
  const size_t declared = missing.size() - unknown.size();
  for (const std::string_view name : missing) {
    const auto type = types.find(name);
    if (type != types.end()) Declare(graph, std::string(name), *type->second);
  }
  if (declared == 0) return;
  notes.push_back(
      fmt::format("{} tensors that the file names and does not hold have the types "
                  "that it stores",
                  declared));
}

}  // namespace onnxfit
