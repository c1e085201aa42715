#include "cli/runtime_inputs.h"

#include <fmt/format.h>

#include "cli/python_models.h"
#include "estimator/base/error.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit {
namespace {

std::vector<RuntimeInput> InputsOf(const Graph& graph, const Shapes& shapes) {
  std::vector<RuntimeInput> inputs;
  for (const ValueId value : graph.inputs) {
    const ValueType& type = shapes.types[static_cast<size_t>(value)];
    const std::string name(graph.values[static_cast<size_t>(value)].name);
    if (type.is_sequence || type.tensor.dtype == DType::kString) {
      throw Error({.where = "input " + name,
                   .text = fmt::format("expected a tensor of numbers for --runtime, found {}",
                                       type.is_sequence ? "a list" : "texts")});
    }
    inputs.push_back({name, type.tensor});
  }
  return inputs;
}

// "batch 8, seq 128": where nothing varies the batch alone.
std::string NameOf(const Sweep& sweep, const EstimateRequest& request, int64_t batch) {
  std::string name = fmt::format("batch {}", batch);
  for (const SweptDim& dim : sweep.dims) {
    name += fmt::format(", {} {}", dim.name, request.binding.dims.at(dim.name));
  }
  return name;
}

}  // namespace

RuntimeShapes ShapesOf(const Options& options, const Graph& graph,
                       const std::vector<EstimateRequest>& requests) {
  RuntimeShapes told;
  for (const EstimateRequest& request : requests) {
    const Shapes shapes = BindShapes(graph, request.binding);
    if (told.inputs.empty()) told.batch = shapes.batch;
    told.inputs.push_back(InputsOf(graph, shapes));
    told.names.push_back(NameOf(options.sweep, request, shapes.batch));
  }
  return told;
}

void RefuseWithoutRuntime(const std::string& found, std::string_view provider) {
  const std::string python = DefaultPython();
  const bool is_cpu = provider == "CPU";
  throw Error(
      {.where = python,
       .text = fmt::format("expected onnxruntime with its {} provider, found {}", provider, found),
       .hint = fmt::format(
           "{} -m pip install {}; ONNXFIT_PYTHON for another Python", python,
           is_cpu ? "onnxruntime" : "\"onnxruntime-gpu[cuda,cudnn]\", which needs no card")});
}

}  // namespace onnxfit
