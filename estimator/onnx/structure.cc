#include "estimator/onnx/structure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>

#include "estimator/base/text.h"
#include "estimator/onnx/onnx_model.h"

namespace onnxfit {
namespace {

std::string DimsText(const onnx::TensorShapeProto& shape) {
  std::string text;
  for (const auto& dim : shape.dim()) {
    if (!text.empty()) text += ',';
    text += dim.has_dim_param() ? dim.dim_param() : fmt::format("{}", dim.dim_value());
  }
  return text;
}

}  // namespace

std::string StructureDigest(const Graph& graph) {
  const onnx::GraphProto& proto = graph.model->proto.graph();
  std::string text;
  const auto out = std::back_inserter(text);
  for (const onnx::ValueInfoProto& input : proto.input()) {
    const onnx::TypeProto::Tensor& type = input.type().tensor_type();
    fmt::format_to(out, "input {} {} {}\n", input.name(), type.elem_type(), DimsText(type.shape()));
  }
  for (const onnx::TensorProto& tensor : proto.initializer()) {
    fmt::format_to(out, "initializer {} {} {}\n", tensor.name(), tensor.data_type(),
                   fmt::join(tensor.dims(), ","));
  }
  for (const onnx::NodeProto& node : proto.node()) {
    fmt::format_to(out, "node {} {} {} {}\n", node.domain(), node.op_type(),
                   fmt::join(node.input(), ","), fmt::join(node.output(), ","));
  }
  for (const onnx::ValueInfoProto& output : proto.output()) {
    fmt::format_to(out, "output {}\n", output.name());
  }
  return Digest(text);
}

}  // namespace onnxfit
