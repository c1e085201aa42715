// How a single node is inferred: by ONNX's own functions, and what their types do not tell of
// lists.
#include <onnx/shape_inference/implementation.h>

#include <algorithm>

#include "estimator/onnx/inferrer.h"

namespace onnxfit {

// --- Types in ONNX's own form ---------------------------------------------------

const onnx::TypeProto& Innermost(const onnx::TypeProto& type) {
  if (type.has_sequence_type()) return Innermost(type.sequence_type().elem_type());
  if (type.has_optional_type()) return Innermost(type.optional_type().elem_type());
  return type;
}

bool AllDimsKnown(const onnx::TypeProto& type) {
  if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return false;
  const auto& dims = type.tensor_type().shape().dim();
  return type.tensor_type().elem_type() != onnx::TensorProto::UNDEFINED &&
         std::all_of(dims.begin(), dims.end(), [](const auto& dim) { return dim.has_dim_value(); });
}

TensorType TensorTypeFrom(const onnx::TypeProto& type) {
  TensorType tensor{static_cast<DType>(type.tensor_type().elem_type()), {}};
  if (!type.tensor_type().has_shape()) tensor.dims.push_back(-1);
  for (const auto& dim : type.tensor_type().shape().dim()) {
    tensor.dims.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
  }
  return tensor;
}

onnx::TypeProto ProtoFrom(DType dtype, const Dims& dims) {
  onnx::TypeProto type;
  type.mutable_tensor_type()->set_elem_type(static_cast<int32_t>(dtype));
  auto* shape = type.mutable_tensor_type()->mutable_shape();
  for (const int64_t dim : dims) shape->add_dim()->set_dim_value(dim);
  return type;
}

// --- One node, as ONNX's inference functions see it -----------------------------

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

// What ONNX's function leaves open: Dropout's mask before opset 10, which ONNX's model zoo has.
void InferMask(const onnx::NodeProto& node, NodeContext& context) {
  if (node.op_type() != "Dropout" || !context.hasOutput(1) || !context.hasInput(0)) return;
  onnx::TypeProto* const mask = context.getOutputType(1);
  if (mask->value_case() == onnx::TypeProto::VALUE_NOT_SET) *mask = *context.getInputType(0);
}

}  // namespace

bool InferOutputs(const onnx::OpSchema& schema, const onnx::NodeProto& node, int64_t opset,
                  NodeContext& context) {
  if (schema.has_type_and_shape_inference_function()) {
    schema.GetTypeAndShapeInferenceFunction()(context);
    InferMask(node, context);
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

// --- The shapes in lists of tensors ---------------------------------------------

namespace {

// Longer lists are not followed.
constexpr int64_t kMaxList = 1 << 16;

// Lengths along the axis, `most` of them: given one by one, or a scalar that the last may fall
// short of.
std::optional<std::vector<int64_t>> PartLengths(const Call& call, int64_t dim, int64_t most) {
  const bool given = call.input_types.size() > 1;
  if (given && (!call.has(1) || call.in(1).is_float() || !HasUpTo(call.in(1), most))) {
    return std::nullopt;
  }
  if (given && !call.in(1).dims.empty()) return InFull(call.in(1)).integers();
  const int64_t length = given ? call.in(1).integers()[0] : 1;
  if (length <= 0 || dim / length + (dim % length > 0 ? 1 : 0) > most) return std::nullopt;
  std::vector<int64_t> lengths;
  for (int64_t at = 0; at < dim; at += length) lengths.push_back(std::min(length, dim - at));
  return lengths;
}

std::optional<ListDims> SplitToSequence(const Call& call, int64_t left) {
  const Dims& dims = call.input_types[0].dims;
  const size_t axis = AxisOf(IntAttribute(*call.node, "axis", 0), dims.size());
  if (axis >= dims.size()) return std::nullopt;
  const int64_t most = std::min(kMaxList, left / PartCost(dims.size()));
  const auto lengths = PartLengths(call, dims[axis], most);
  if (!lengths.has_value()) return std::nullopt;
  const bool drops_axis =
      call.input_types.size() == 1 && IntAttribute(*call.node, "keepdims", 1) == 0;
  ListDims list;
  for (const int64_t length : *lengths) {
    Dims part = dims;
    part[axis] = length;
    if (drops_axis) part.erase(part.begin() + static_cast<std::ptrdiff_t>(axis));
    list.push_back(std::move(part));
  }
  return list;
}

std::optional<ListDims> SequenceConstruct(const Call& call, int64_t /*left*/) {
  ListDims list;
  for (const TensorType& type : call.input_types) list.push_back(type.dims);
  return list;
}

int64_t CostOf(const std::optional<ListDims>& list) {
  int64_t cost = 0;
  if (!list.has_value()) return cost;
  for (const Dims& part : *list) cost += PartCost(part.size());
  return cost;
}

std::optional<Dims> SequenceAt(const Call& call, const ListDims& list) {
  if (!call.has(1) || call.in(1).is_float() || Numel(call.in(1).dims) != 1) return std::nullopt;
  const size_t position = AxisOf(call.in(1).integers()[0], list.size());
  return position < list.size() ? std::optional(list[position]) : std::nullopt;
}

std::optional<Dims> ConcatFromSequence(const Call& call, const ListDims& list) {
  if (list.empty()) return std::nullopt;
  Dims dims = list[0];
  const bool stacks = IntAttribute(*call.node, "new_axis", 0) != 0;
  const size_t axis = AxisOf(IntAttribute(*call.node, "axis", 0), dims.size() + (stacks ? 1 : 0));
  if (axis >= dims.size() + (stacks ? 1 : 0)) return std::nullopt;
  if (stacks) {
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis),
                static_cast<int64_t>(list.size()));
    return dims;
  }
  dims[axis] = 0;
  for (const Dims& part : list) {
    if (part.size() != dims.size()) return std::nullopt;
    dims[axis] += part[axis];
  }
  return dims;
}

struct MakerRow {
  std::string_view op_type;
  std::optional<ListDims> (*make)(const Call&, int64_t left);
};
constexpr MakerRow kMakers[] = {
    {"SplitToSequence", SplitToSequence},
    {"SequenceConstruct", SequenceConstruct},
};

struct TakerRow {
  std::string_view op_type;
  std::optional<Dims> (*take)(const Call&, const ListDims&);
  bool reads_all = false;
};
constexpr TakerRow kTakers[] = {
    {"SequenceAt", SequenceAt},
    {"ConcatFromSequence", ConcatFromSequence, true},
};

}  // namespace

std::optional<ListDims> ListOf(const Call& call, int64_t& left) {
  for (const MakerRow& row : kMakers) {
    if (row.op_type != call.node->op_type()) continue;
    auto list = row.make(call, left);
    const int64_t cost = CostOf(list);
    if (cost > left) return std::nullopt;
    left -= cost;
    return list;
  }
  return std::nullopt;
}

std::optional<Dims> TakenFrom(const Call& call, const ListDims& list, int64_t& left) {
  for (const TakerRow& row : kTakers) {
    if (row.op_type != call.node->op_type()) continue;
    const int64_t cost = row.reads_all ? static_cast<int64_t>(list.size()) : 1;
    if (cost > left) return std::nullopt;
    left -= cost;
    return row.take(call, list);
  }
  return std::nullopt;
}

}  // namespace onnxfit
