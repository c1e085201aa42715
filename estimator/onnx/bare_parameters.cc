// The parameters of files that torch.onnx.export wrote with export_params=False.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "estimator/base/quote.h"
#include "estimator/base/warnings.h"
#include "estimator/onnx/onnx_model.h"

namespace onnxfit {
namespace {

using Inputs = google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>;

// Leaves of a state_dict's names: torch.nn 2.11's modules have no others that are not made of
// these words ("weight_ih_l0", "in_proj_bias").
constexpr std::string_view kLeaves[] = {"weight", "bias", "running_mean", "running_var",
                                        "num_batches_tracked"};

bool IsParameterName(std::string_view name) {
  const std::string_view leaf = name.substr(name.rfind('.') + 1);  // npos + 1 is 0
  return std::ranges::any_of(kLeaves, [leaf](std::string_view word) {
    const size_t at = leaf.find(word);
    if (at == leaf.npos) return false;
    const size_t end = at + word.size();
    return (at == 0 || leaf[at - 1] == '_') && (end == leaf.size() || leaf[end] == '_');
  });
}

bool IsFixed(const onnx::ValueInfoProto& input) {
  if (!input.type().has_tensor_type() || !input.type().tensor_type().has_shape()) return false;
  const auto& dims = input.type().tensor_type().shape().dim();
  return std::ranges::all_of(dims, [](const auto& dim) { return dim.has_dim_value(); });
}

// A class token and an embedding of positions come in front of a module's layers: [1, …], where
// the batch is another one or is free, since the first input has it.
bool IsForAllSamples(const onnx::ValueInfoProto& input, const onnx::ValueInfoProto& first) {
  const auto& dims = input.type().tensor_type().shape().dim();
  const auto& batch = first.type().tensor_type().shape().dim();
  const bool is_float = input.type().tensor_type().elem_type() != onnx::TensorProto::INT64;
  if (!is_float || dims.size() < 2 || dims[0].dim_value() != 1 || batch.empty()) return false;
  return !batch[0].has_dim_value() || batch[0].dim_value() != 1;
}

// Where the parameters begin, which come behind what forward takes, in the order of the module's
// state_dict; nullopt where there are none.  Source: _model_to_graph of
// torch/onnx/_internal/torchscript_exporter/utils.py, torch 2.11.
std::optional<int> FirstParameter(const Inputs& inputs) {
  const auto named = std::find_if(inputs.begin() + std::min(1, inputs.size()), inputs.end(),
                                  [](const auto& input) { return IsParameterName(input.name()); });
  if (named == inputs.end() || !std::all_of(named, inputs.end(), IsFixed)) return std::nullopt;
  auto place = static_cast<int>(named - inputs.begin());
  while (place > 1 && IsFixed(inputs[place - 1]) && IsForAllSamples(inputs[place - 1], inputs[0])) {
    --place;
  }
  return place;
}

void Store(const onnx::ValueInfoProto& input, onnx::GraphProto& graph) {
  onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(input.name());
  tensor.set_data_type(input.type().tensor_type().elem_type());
  for (const auto& dim : input.type().tensor_type().shape().dim()) tensor.add_dims(dim.dim_value());
}

}  // namespace

std::optional<Warning> StoreBareParameters(onnx::GraphProto& graph) {
  if (graph.initializer_size() > 0 || graph.sparse_initializer_size() > 0) return std::nullopt;
  const std::optional<int> first = FirstParameter(graph.input());
  if (!first) return std::nullopt;
  const int count = graph.input_size() - *first;
  const std::string name = graph.input(*first).name();
  for (int i = *first; i < graph.input_size(); ++i) Store(graph.input(i), graph);
  graph.mutable_input()->DeleteSubrange(*first, count);
  return Warning{warning::kBareParameters,
                 fmt::format("the file holds no weights, as export_params=False has it: the last "
                             "{} inputs, from {} on, are taken for the model's parameters",
                             count, Quote(name))};
}

}  // namespace onnxfit
