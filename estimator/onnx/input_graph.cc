#include "estimator/onnx/input_graph.h"

#include <utility>

#include "estimator/base/error.h"
#include "estimator/onnx/onnx_model.h"

namespace onnxfit {
namespace {

constexpr int kInputsIrVersion = 8;
constexpr int kInputsOpset = 17;

void Declare(const DeclaredTensor& input, onnx::GraphProto& graph) {
  onnx::ValueInfoProto& info = *graph.add_input();
  info.set_name(input.name);
  onnx::TypeProto::Tensor& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(static_cast<int>(input.dtype));
  type.mutable_shape();
  for (const DeclaredDim& dim : input.dims) {
    auto& declared = *type.mutable_shape()->add_dim();
    dim.name.empty() ? declared.set_dim_value(dim.size) : declared.set_dim_param(dim.name);
  }
}

}  // namespace

// A graph has to have a node: the first input is returned as it is.
Graph GraphOfInputs(const std::string& path, const std::vector<DeclaredTensor>& inputs) {
  if (inputs.empty()) {
    throw Error({.file = path, .text = "a model that takes a tensor was expected, found none"});
  }
  onnx::ModelProto model;
  model.set_ir_version(kInputsIrVersion);
  model.add_opset_import()->set_version(kInputsOpset);
  onnx::GraphProto& graph = *model.mutable_graph();
  for (const DeclaredTensor& input : inputs) Declare(input, graph);
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type("Identity");
  node.add_input(inputs[0].name);
  node.add_output("output of " + inputs[0].name);
  graph.add_output()->set_name(node.output(0));
  return BuildGraph(std::move(model), path);
}

}  // namespace onnxfit
