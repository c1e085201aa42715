#include "estimator/onnx/declared_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <optional>
#include <unordered_set>
#include <utility>

#include "estimator/base/expression.h"
#include "estimator/base/index.h"
#include "estimator/base/text.h"
#include "estimator/onnx/dim_binding.h"
#include "estimator/onnx/input_types.h"
#include "estimator/onnx/named_sizes.h"
#include "estimator/onnx/onnx_model.h"

namespace onnxfit {
namespace {

std::string PlaceName(std::string_view input, int axis) {
  return fmt::format("{}.{}", input, axis);
}

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

std::vector<FreeDim> OpenDims(const std::vector<DeclaredInput>& inputs) {
  std::vector<FreeDim> open;
  for (const DeclaredInput& input : inputs) {
    if (!input.HasShape()) continue;
    for (int axis = 0; axis < input.Shape().dim_size(); ++axis) {
      const auto& dim = input.Shape().dim(axis);
      if (dim.has_dim_value()) continue;
      open.push_back({DimName(dim, input.name, axis), input.name, axis, IsMadeUp(dim.dim_param())});
    }
  }
  return open;
}

// The symbols in the name that a file gives a dimension.
std::vector<std::string> SymbolsIn(const FreeDim& dim) {
  const bool has_name = dim.name != PlaceName(dim.input, dim.axis);
  return has_name ? SymbolsOf(dim.name).value_or(std::vector<std::string>())
                  : std::vector<std::string>();
}

// Of how many different names of `open` each symbol is a part.  One that is a name alone counts
// twice.
std::map<std::string, int> CountParts(const std::vector<FreeDim>& open) {
  std::map<std::string, int> parts;
  std::unordered_set<std::string> seen;
  for (const FreeDim& dim : open) {
    if (!seen.insert(dim.name).second) continue;
    for (const std::string& symbol : SymbolsIn(dim)) parts[symbol] += symbol == dim.name ? 2 : 1;
  }
  return parts;
}

// "batch-size" and "encoder/length" are names, where "N - 1" and "length/2" are computed.
bool IsHyphenated(std::string_view name) {
  const auto is_letter = [](char c) {
    return c == '_' || std::isalpha(static_cast<unsigned char>(c)) != 0;
  };
  for (size_t i = 1; i + 1 < name.size(); ++i) {
    const bool is_sign = name[i] == '-' || name[i] == '/';
    if (is_sign && is_letter(name[i - 1]) && is_letter(name[i + 1])) return true;
  }
  return false;
}

// The others that a dimension is computed from, where its name says so and one of them, at least,
// is another dimension or a part of another's name.
std::vector<std::string> PartsOf(const FreeDim& dim, const std::map<std::string, int>& parts) {
  std::vector<std::string> symbols = SymbolsIn(dim);
  const bool is_name = symbols.empty() || symbols.front() == dim.name || IsHyphenated(dim.name);
  const auto is_shared = [&](const std::string& symbol) { return parts.at(symbol) > 1; };
  if (is_name || std::ranges::none_of(symbols, is_shared)) symbols.clear();
  return symbols;
}

void CollectFree(DeclaredInputs& declared) {
  const std::vector<FreeDim> open = OpenDims(declared.inputs);
  const std::map<std::string, int> parts = CountParts(open);
  std::unordered_set<std::string> listed;
  for (const FreeDim& dim : open) {
    std::vector<std::string> of = PartsOf(dim, parts);
    if (of.empty() && listed.insert(dim.name).second) declared.free.push_back(dim);
    if (!of.empty() && listed.insert(dim.name).second) {
      declared.computed.push_back({dim.name, dim.input, std::move(of)});
    }
  }
  for (const ComputedDim& computed : declared.computed) {
    for (const std::string& name : computed.of) {
      if (!listed.insert(name).second) continue;
      const auto at = std::ranges::find(open, computed.name, &FreeDim::name);
      declared.free.push_back({name, at->input, at->axis, IsMadeUp(name)});
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

// The free dimension of that place comes first.
void PutBatchAt(std::string_view name, int axis, std::string_view why, DeclaredInputs& declared) {
  const auto input = std::ranges::find(declared.inputs, name, &DeclaredInput::name);
  if (input == declared.inputs.end() || !input->HasShape() || input->Shape().dim_size() <= axis) {
    return;
  }
  declared.batch_axis = axis;
  declared.batch_input = input->name;
  const std::string batch = DimName(input->Shape().dim(axis), input->name, axis);
  PutFirst(declared, std::ranges::find(declared.free, batch, &FreeDim::name));
  SayPlace(declared, input->name, axis, why);
}

// The first input's first dimension, unless the file says another, or a recurrent layer reads
// another one as the batch.
void FindBatch(const Graph& graph, DeclaredInputs& declared) {
  if (const auto told = ParseBatchPlace(FindMetadata(graph.metadata, kBatchPlace))) {
    return PutBatchAt(told->input, told->axis, "", declared);
  }
  const std::optional<InputAxis> found = FindRecurrentBatch(graph);
  if (!found.has_value()) return FindFreeBatch(declared);
  PutBatchAt(graph.values[Index(found->input)].name, found->axis,
             fmt::format(", as its {} reads it", found->layer), declared);
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
    if (!input.HasShape() || input.Shape().dim_size() <= batch_axis) continue;
    const auto& dim = input.Shape().dim(batch_axis);
    const bool is_empty = dim.has_dim_value() && dim.dim_value() == 0;  // an empty tensor
    if (!is_empty) return &dim;
  }
  return nullptr;
}

const ComputedDim* DeclaredInputs::FindComputed(const std::string& name) const {
  const auto found = std::ranges::find(computed, name, &ComputedDim::name);
  return found == computed.end() ? nullptr : &*found;
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
  return dim.dim_param().empty() ? PlaceName(input, axis) : dim.dim_param();
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
