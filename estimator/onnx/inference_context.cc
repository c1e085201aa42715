#include "estimator/onnx/inference_context.h"

#include <onnx/shape_inference/implementation.h>

#include <utility>

#include "estimator/onnx/schemas.h"

namespace onnxfit {

namespace inference = onnx::shape_inference;

// Inference reads lists of dimensions, axes and lengths; nothing sensible has more.
constexpr int64_t kMaxShapeElements = 1 << 16;

// Inference writes types into the sub-graph, hence the copy.
struct NodeContext::SubGraph {
  SubGraph(const onnx::GraphProto& body, const OuterScope& scope)
      : graph(body),
        context(scope.types_by_name, scope.opsets, nullptr, {}, &SchemasOnDemand(), &data),
        inferencer(graph, context, onnx::ShapeInferenceOptions(false, 1, true)) {}

  onnx::GraphProto graph;
  inference::DataValueMap data;
  inference::GraphInferenceContext context;
  inference::GraphInferencerImpl inferencer;
};

NodeContext::NodeContext(const onnx::NodeProto& node, std::vector<Input> inputs,
                         std::vector<onnx::TypeProto*> outputs, const ScopeMaker& scope)
    : node_(node), inputs_(std::move(inputs)), outputs_(std::move(outputs)), scope_(scope) {}

NodeContext::~NodeContext() = default;

const onnx::AttributeProto* NodeContext::getAttribute(const std::string& name) const {
  const onnx::AttributeProto* written = FindAttribute(node_, name);
  if (written != nullptr || defaults_ == nullptr) return written;
  const auto found = defaults_->attributes().find(name);
  if (found == defaults_->attributes().end()) return nullptr;
  const onnx::AttributeProto& absent = found->second.default_value;
  return absent.has_name() ? &absent : nullptr;
}

const onnx::TypeProto* NodeContext::getInputType(size_t index) const {
  if (index >= inputs_.size()) fail_type_inference("Input ", index, " is missing");
  return inputs_[index].type;
}

bool NodeContext::hasInput(size_t index) const {
  return index < inputs_.size() && inputs_[index].type != nullptr;
}

const onnx::TensorProto* NodeContext::getInputData(size_t index) const {
  if (!hasInput(index) || !inputs_[index].known->has_value()) return nullptr;
  if (!HasUpTo(**inputs_[index].known, kMaxShapeElements)) return nullptr;
  if (data_.empty()) data_.resize(inputs_.size());
  if (data_[index] == nullptr) {
    data_[index] = std::make_unique<onnx::TensorProto>(ToProto(**inputs_[index].known));
  }
  return data_[index].get();
}

onnx::TypeProto* NodeContext::getOutputType(size_t index) {
  if (index >= outputs_.size()) fail_type_inference("Output ", index, " is missing");
  return outputs_[index];
}

bool NodeContext::hasOutput(size_t index) {
  const auto output = static_cast<int>(index);
  return output < node_.output_size() && !node_.output(output).empty();
}

onnx::GraphInferencer* NodeContext::getGraphAttributeInferencer(const std::string& name) {
  std::unique_ptr<SubGraph>& sub_graph = sub_graphs_[name];
  if (sub_graph == nullptr) {
    const onnx::AttributeProto* attribute = getAttribute(name);
    if (attribute == nullptr || !attribute->has_g()) {
      fail_type_inference("Attribute ", name, " does not contain a graph");
    }
    sub_graph = std::make_unique<SubGraph>(attribute->g(), scope_());
  }
  return &sub_graph->inferencer;
}

namespace {

void InferBody(const onnx::FunctionProto& body, NodeContext& context) {
  inference::DataValueMap data;
  inference::SymbolTableImpl symbols;
  inference::InferShapeForFunctionNode(body, &SchemasOnDemand(), context,
                                       onnx::ShapeInferenceOptions(false, 1, true), {}, &symbols,
                                       &data);
}

std::vector<onnx::TypeProto> InputTypes(const onnx::NodeProto& node, const NodeContext& context) {
  std::vector<onnx::TypeProto> types;
  for (size_t i = 0; i < context.getNumInputs(); ++i) {
    types.push_back(context.hasInput(i) ? *context.getInputType(i) : onnx::TypeProto());
  }
  types.resize(static_cast<size_t>(node.input_size()));
  return types;
}

}  // namespace

bool InferOutputs(const onnx::OpSchema& schema, const onnx::NodeProto& node, int64_t opset,
                  NodeContext& context) {
  if (schema.has_type_and_shape_inference_function()) {
    schema.GetTypeAndShapeInferenceFunction()(context);
    return true;
  }
  const int version = static_cast<int>(opset);
  context.UseDefaults(schema);
  if (schema.HasFunction()) {
    InferBody(*schema.GetFunction(version), context);
    return true;
  }
  if (!schema.HasContextDependentFunction()) return false;
  onnx::FunctionProto body;
  const onnx::FunctionBodyBuildContextImpl build(node, InputTypes(node, context));
  if (!schema.BuildContextDependentFunction(build, body, version)) return false;
  InferBody(body, context);
  return true;
}

}  // namespace onnxfit
