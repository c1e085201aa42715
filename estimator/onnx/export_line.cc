// The Python that exports a model with free dimensions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "estimator/base/index.h"
#include "estimator/onnx/onnx_model.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit {
namespace {

// That Python takes for one, and none of torch.export's own, such as "s10".
bool IsGivenName(const std::string& name) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_word = [&](char c) {
    return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  const bool is_name = !name.empty() && !is_digit(name[0]) && std::ranges::all_of(name, is_word);
  const bool is_symbol =
      name.size() > 1 && name[0] == 's' && std::all_of(name.begin() + 1, name.end(), is_digit);
  return is_name && !is_symbol;
}

std::string EntryOf(int axis, const std::string& name) {
  const std::string standard = axis == 0 ? "batch" : fmt::format("size_{}", axis);
  return fmt::format("{}: \"{}\"", axis, IsGivenName(name) ? name : standard);
}

// What is free of an input: `dims`, and what is already.
std::vector<std::string> EntriesOf(const onnx::ValueInfoProto& input,
                                   const std::vector<ChangedDim>& dims) {
  std::vector<std::string> entries;
  const auto& declared = input.type().tensor_type().shape().dim();
  for (int axis = 0; axis < declared.size(); ++axis) {
    const auto changed = std::ranges::find_if(
        dims, [&](const ChangedDim& dim) { return dim.input == input.name() && dim.axis == axis; });
    if (changed != dims.end()) {
      entries.push_back(EntryOf(axis, changed->name));
    } else if (!declared[axis].has_dim_value()) {
      entries.push_back(EntryOf(axis, declared[axis].dim_param()));
    }
  }
  return entries;
}

bool IsOfPytorch(const Graph& graph) {
  const std::string& producer = graph.model->proto.producer_name();
  return producer.empty() || producer == "pytorch";
}

// Older files list their initializers among the inputs.
bool IsInput(const Graph& graph, const std::string& name) {
  return std::ranges::any_of(graph.inputs,
                             [&](ValueId id) { return graph.values[Index(id)].name == name; });
}

}  // namespace

std::string DynamicShapes(const Graph& graph, const std::vector<ChangedDim>& dims) {
  std::vector<std::vector<std::string>> inputs;
  for (const onnx::ValueInfoProto& input : graph.model->proto.graph().input()) {
    if (IsInput(graph, input.name())) inputs.push_back(EntriesOf(input, dims));
  }
  return DynamicShapes(inputs);
}

std::string DynamicShapes(const std::vector<std::vector<std::string>>& inputs) {
  std::vector<std::string> each;
  for (const std::vector<std::string>& entries : inputs) {
    each.push_back(entries.empty() ? "None" : fmt::format("{{{}}}", fmt::join(entries, ", ")));
  }
  return fmt::format("dynamic_shapes=({}{})", fmt::join(each, ", "), each.size() == 1 ? "," : "");
}

std::string DynamicAxes(const Graph& graph, const std::vector<ChangedDim>& dims) {
  std::vector<std::string> inputs;
  for (const onnx::ValueInfoProto& input : graph.model->proto.graph().input()) {
    const std::vector<std::string> entries = EntriesOf(input, dims);
    if (!IsInput(graph, input.name()) || entries.empty()) continue;
    inputs.push_back(fmt::format("\"{}\": {{{}}}", input.name(), fmt::join(entries, ", ")));
  }
  return fmt::format("dynamic_axes={{{}}}", fmt::join(inputs, ", "));
}

std::string ExportLine(const Graph& graph, const std::vector<ChangedDim>& dims) {
  const bool is_batch =
      std::ranges::all_of(dims, [](const ChangedDim& dim) { return dim.axis == 0; });
  if (!IsOfPytorch(graph)) {
    return is_batch ? "an export whose batch is a free dimension"
                    : "an export with that dimension free";
  }
  // Of some versions torch.export takes a batch of 1 for a constant; 2.11 does not.
  const bool has_one = std::ranges::any_of(
      dims, [](const ChangedDim& dim) { return dim.axis == 0 && dim.from == 1; });
  return fmt::format("torch.onnx.export(model, args, \"m.onnx\", dynamo=True, {}){}",
                     DynamicShapes(graph, dims), has_one ? "  # args of 2 samples or more" : "");
}

}  // namespace onnxfit
