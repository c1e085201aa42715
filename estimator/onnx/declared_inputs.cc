#include "estimator/onnx/declared_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_set>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/base/text.h"
#include "estimator/onnx/dim_binding.h"
#include "estimator/onnx/input_types.h"
#include "estimator/onnx/named_sizes.h"
#include "estimator/onnx/onnx_model.h"

namespace onnxfit {
namespace {

const onnx::TypeProto& InnermostOf(const onnx::TypeProto& type) {
  if (type.has_sequence_type()) return InnermostOf(type.sequence_type().elem_type());
  if (type.has_optional_type()) return InnermostOf(type.optional_type().elem_type());
  return type;
}

onnx::TypeProto& MutableInnermostOf(onnx::TypeProto& type) {
  if (type.has_sequence_type())
    return MutableInnermostOf(*type.mutable_sequence_type()->mutable_elem_type());
  if (type.has_optional_type())
    return MutableInnermostOf(*type.mutable_optional_type()->mutable_elem_type());
  return type;
}

void CollectFree(DeclaredInputs& declared) {
  std::unordered_set<std::string> listed;
  for (const DeclaredInput& input : declared.inputs) {
    if (!input.HasShape()) continue;
    for (int axis = 0; axis < input.Shape().dim_size(); ++axis) {
      const auto& dim = input.Shape().dim(axis);
      if (dim.has_dim_value()) continue;
      std::string name = DimName(dim, input.name, axis);
      if (!listed.insert(name).second) continue;
      declared.free.push_back({std::move(name), input.name, axis, IsMadeUp(dim.dim_param())});
    }
  }
}

// What nobody expects: that the batch is not the first dimension.
void SayPlace(DeclaredInputs& declared, const std::string& input, int axis, std::string_view why) {
  declared.place_axis = axis;
  if (axis > 0) declared.batch_place = fmt::format("dimension {} of {}{}", axis, input, why);
}

// `free` is the batch.
void PutFirst(DeclaredInputs& declared, std::vector<FreeDim>::iterator free) {
  declared.batch_is_written = free == declared.free.end();
  if (!declared.batch_is_written) std::rotate(declared.free.begin(), free, free + 1);
}

// A free dimension that is an input's first, or is called a batch; where height and width alone
// are free, the file fixes the batch.
void FindFreeBatch(DeclaredInputs& declared) {
  if (declared.free.empty()) return;
  const auto free = std::ranges::find_if(
      declared.free, [](const FreeDim& dim) { return dim.axis == 0 || IsBatchName(dim.name); });
  if (free != declared.free.end()) SayPlace(declared, free->input, free->axis, "");
  PutFirst(declared, free);
}

// The first input's first dimension, unless a recurrent layer reads another one as the batch:
// the free one of that place comes first.
void FindBatch(const Graph& graph, DeclaredInputs& declared) {
  const std::optional<InputAxis> found = FindRecurrentBatch(graph);
  if (!found.has_value()) return FindFreeBatch(declared);
  const std::string_view name = graph.values[Index(found->input)].name;
  const auto input = std::ranges::find(declared.inputs, name, &DeclaredInput::name);
  if (input == declared.inputs.end() || !input->HasShape() ||
      input->Shape().dim_size() <= found->axis) {
    return;
  }
  declared.batch_axis = found->axis;
  declared.batch_input = input->name;
  const std::string batch = DimName(input->Shape().dim(found->axis), input->name, found->axis);
  PutFirst(declared, std::ranges::find(declared.free, batch, &FreeDim::name));
  SayPlace(declared, input->name, found->axis, fmt::format(", as its {} reads it", found->layer));
}

}  // namespace

bool DeclaredInput::IsTensor() const { return InnermostOf(type).has_tensor_type(); }

bool DeclaredInput::HasShape() const { return InnermostOf(type).tensor_type().has_shape(); }

const onnx::TensorShapeProto& DeclaredInput::Shape() const {
  return InnermostOf(type).tensor_type().shape();
}

onnx::TensorShapeProto& DeclaredInput::MutableShape() {
  return *MutableInnermostOf(type).mutable_tensor_type()->mutable_shape();
}

const onnx::TensorShapeProto::Dimension* DeclaredInputs::BatchDim() const {
  for (const DeclaredInput& input : inputs) {
    if (!batch_input.empty() && input.name != batch_input) continue;
    if (input.HasShape() && input.Shape().dim_size() > batch_axis) {
      return &input.Shape().dim(batch_axis);
    }
  }
  return nullptr;
}

std::vector<std::string> DeclaredInputs::FreeNames() const {
  std::vector<std::string> names;
  for (const FreeDim& dim : free) names.push_back(dim.name);
  return names;
}

DeclaredInputs DeclareInputs(const Graph& graph) {
  DeclaredInputs declared;
  for (const onnx::ValueInfoProto* info : graph.model->inputs) {
    declared.inputs.push_back({info->name(), info->type()});
  }
  CollectFree(declared);
  FindBatch(graph, declared);
  return declared;
}

std::string DimName(const onnx::TensorShapeProto::Dimension& dim, std::string_view input,
                    int axis) {
  return dim.dim_param().empty() ? fmt::format("{}.{}", input, axis) : dim.dim_param();
}

std::string DeclaredShape(const onnx::TensorShapeProto& shape) {
  std::vector<std::string> dims;
  for (const auto& dim : shape.dim()) {
    const std::string name = dim.dim_param().empty() ? "?" : dim.dim_param();
    dims.push_back(dim.has_dim_value() ? std::to_string(dim.dim_value()) : name);
  }
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

bool IsBatchName(std::string_view name) {
  constexpr std::string_view kBatchNames[] = {"b", "bs", "n", "batch", "batch_size", "batchsize"};
  return std::any_of(std::begin(kBatchNames), std::end(kBatchNames),
                     [&](std::string_view batch) { return EditDistance(batch, name) == 0; });
}

std::vector<DType> InputTypes(const Graph& graph) {
  std::vector<DType> types;
  if (graph.model == nullptr) return types;
  for (const onnx::ValueInfoProto* input : graph.model->inputs) {
    types.push_back(static_cast<DType>(input->type().tensor_type().elem_type()));
  }
  return types;
}

}  // namespace onnxfit
