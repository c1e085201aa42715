#include "estimator/onnx/inferrer.h"

#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "estimator/base/quote.h"
#include "estimator/onnx/named_sizes.h"
#include "estimator/onnx/onnx_model.h"
#include "estimator/onnx/schemas.h"

namespace onnxfit {
namespace {

constexpr std::string_view kFromFile = "the shapes that the file stores are believed";
constexpr std::string_view kFromInput = "outputs are taken to be like the first input";

// Operators that run nowhere where PyTorch's allocator counts.
struct OtherRow {
  std::string_view domain;
  std::string_view reason;
  std::string_view instead;
};
constexpr OtherRow kOthers[] = {
    {"ai.onnx.ml",
     "an operator of a neural network was expected, found one of classical machine learning, which "
     "runs on the CPU and takes no memory of a GPU",
     "a network of PyTorch's, as ONNX or .pt2"},
    {"com.microsoft.nchwc",
     "ONNX Runtime's optimizer has laid its tensors out for the CPU at hand, which a GPU does not "
     "run",
     "the file from before, or one that GraphOptimizationLevel.ORT_ENABLE_EXTENDED has made"},
};

bool IsSequence(const onnx::TypeProto& type) {
  return type.has_optional_type() ? IsSequence(type.optional_type().elem_type())
                                  : type.has_sequence_type();
}

int64_t OpsetOf(const Graph& graph, std::string_view domain) {
  for (const OpsetImport& opset : graph.opsets) {
    if (opset.domain == domain || (IsOnnxDomain(opset.domain) && IsOnnxDomain(domain)))
      return opset.version;
  }
  return 0;
}

// Where inference asks for a dimension that is not there, protobuf prints and throws; what
// is thrown is told as an Error, so that nothing need be printed.
void SilenceProtobuf() {
  static google::protobuf::LogHandler* const silenced = google::protobuf::SetLogHandler(nullptr);
  static_cast<void>(silenced);
}

}  // namespace

Inferrer::Inferrer(const Graph& graph, const DimBinding& binding)
    : Inferrer(graph, BindInputs(graph, binding)) {}

Inferrer::Inferrer(const Graph& graph, BoundInputs inputs)
    : graph_(graph),
      inputs_(std::move(inputs)),
      types_(graph.values.size()),
      known_(graph.values.size()),
      from_inputs_(graph.values.size()),
      guessed_(graph.values.size(), kNoNode),
      make_scope_([this]() -> const OuterScope& { return Scope(); }) {
  for (onnx::TypeProto*& type : types_) {
    type = google::protobuf::Arena::CreateMessage<onnx::TypeProto>(&arena_);
  }
  SilenceProtobuf();
  AddInputs();
  AddInitializers();
  for (const auto& [key, name] : graph_.metadata) {
    if (key == kSizeOfData) used_names_.emplace(name);
  }
}

void Inferrer::AddInputs() {
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    TypeAt(graph_.inputs[i]) = inputs_.types[i];
    from_inputs_[Place(graph_.inputs[i])] = true;
  }
}

void Inferrer::AddInitializers() {
  for (const Initializer& initializer : graph_.initializers) {
    TypeAt(initializer.value) = ProtoFrom(initializer.type.dtype, initializer.type.dims);
    const onnx::TensorProto* contents = graph_.model->ContentsOf(initializer.value);
    if (contents != nullptr) known_[Place(initializer.value)] = FromProto(*contents, graph_.model);
  }
}

void Inferrer::Infer(NodeId id) {
  const Node& node = NodeAt(id);
  const Operator& op = OperatorOf(node);
  CheckOutputs(id, op);
  CheckKinds(id, op);
  const auto depends = [&](ValueId v) { return v != kNoValue && from_inputs_[Place(v)]; };
  const bool from_inputs = std::any_of(node.inputs.begin(), node.inputs.end(), depends);
  for (const ValueId output : node.outputs) {
    if (output == kNoValue) continue;
    from_inputs_[Place(output)] = from_inputs;
    guessed_[Place(output)] = GuessBehind(id);
  }
  const bool is_reshape = op.schema != nullptr && node.op_type == "Reshape";
  if (op.operands != nullptr && op.operands->is_silent) CheckOperands(id, op);
  InferTypes(id, op);
  if (is_reshape) CheckReshape(id);
  FollowLists(id, op);
  CheckDims(id);
  Evaluate(id, op);
  if (!OutputsResolved(id) && InputsResolved(id)) TakeBounds(id);
}

const Inferrer::Operator& Inferrer::OperatorOf(const Node& node) {
  const auto [found, is_new] = operators_.try_emplace({node.domain, node.op_type});
  if (is_new) found->second = FindOperator(node);
  return found->second;
}

Inferrer::Operator Inferrer::FindOperator(const Node& node) const {
  Operator op;
  op.opset = OpsetOf(graph_, node.domain);
  op.schema = FindSchema(node.domain, node.op_type, op.opset);
  if (IsOnnxDomain(node.domain)) op.kinds = InputKinds(node.op_type, op.opset);
  if (op.schema == nullptr) {
    const size_t prefix = node.domain.empty() ? 0 : node.domain.size() + 1;
    op.contrib = FindContrib(node.domain, node.op_type.substr(prefix));
    return op;
  }
  op.evaluator = FindEvaluator(node.op_type);
  op.operands = FindOperandRow(node.op_type);
  return op;
}

// --- Types ----------------------------------------------------------------------

std::vector<NodeContext::Input> Inferrer::ContextInputs(NodeId id) const {
  const Node& node = NodeAt(id);
  std::vector<NodeContext::Input> inputs;
  inputs.reserve(node.inputs.size());
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) {
      inputs.emplace_back();
    } else {
      inputs.push_back({&TypeRead(id, i), &KnownRead(id, i)});
    }
  }
  return inputs;
}

void Inferrer::Put(NodeId id, const Substitutes& substitutes) {
  for (size_t i = 0; i < NodeAt(id).inputs.size(); ++i) put_.erase({id, i});
  for (const auto& [input, put] : substitutes) {
    put_[{id, input}] = {ProtoFrom(put.type.dtype, put.type.dims), put.known};
  }
  for (const ValueId value : NodeAt(id).outputs) {
    if (value == kNoValue) continue;
    TypeAt(value).Clear();
    known_[Place(value)].reset();
    lists_.erase(value);
  }
}

void Inferrer::Assume(ValueId value, onnx::TypeProto type, std::optional<HostTensor> known) {
  TypeAt(value) = std::move(type);
  known_[Place(value)] = std::move(known);
}

const onnx::TypeProto& Inferrer::TypeRead(NodeId id, size_t i) const {
  const auto put = put_.find({id, i});
  return put == put_.end() ? TypeAt(NodeAt(id).inputs[i]) : put->second.first;
}

const std::optional<HostTensor>& Inferrer::KnownRead(NodeId id, size_t i) const {
  const auto put = put_.find({id, i});
  return put == put_.end() ? known_[Place(NodeAt(id).inputs[i])] : put->second.second;
}

void Inferrer::InferTypes(NodeId id, const Operator& op) {
  const Node& node = NodeAt(id);
  left_out_.assign(node.outputs.size(), onnx::TypeProto());
  std::vector<onnx::TypeProto*> outputs;
  outputs.reserve(node.outputs.size());
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId value = node.outputs[i];
    outputs.push_back(value == kNoValue ? &left_out_[i] : &TypeAt(value));
  }
  const onnx::NodeProto& proto = graph_.model->NodeOf(id);
  NodeContext context(proto, ContextInputs(id), std::move(outputs), make_scope_);
  try {
    if (InferContrib(id, op.contrib)) return;
    if (op.schema == nullptr || !InferOutputs(*op.schema, proto, op.opset, context)) Believe(id);
  } catch (const Error& error) {
    if (!error.parts().where.empty()) throw;
    Refuse(id, error.parts().text, HintOnSizes(id));
  } catch (const std::bad_alloc&) {
    Refuse(id, "its shapes need more memory than there is", "");
  } catch (const google::protobuf::FatalException&) {
    Refuse(id, "its attributes do not fit its inputs", "");  // an axis out of range
  } catch (const std::exception& reason) {
    RefuseInputs(id, op, reason.what());
  }
}

bool Inferrer::Resolved(ValueId value) const {
  const onnx::TypeProto& type = TypeAt(value);
  if (IsSequence(type)) return Innermost(type).has_tensor_type();
  return AllDimsKnown(Innermost(type));
}

bool Inferrer::InputsResolved(NodeId id) const {
  const auto& inputs = NodeAt(id).inputs;
  return std::all_of(inputs.begin(), inputs.end(),
                     [&](ValueId v) { return v == kNoValue || Resolved(v); });
}

bool Inferrer::OutputsResolved(NodeId id) const {
  const auto& outputs = NodeAt(id).outputs;
  return std::all_of(outputs.begin(), outputs.end(),
                     [&](ValueId v) { return v == kNoValue || Resolved(v); });
}

TensorType Inferrer::TensorTypeOf(ValueId value) const {
  return TensorTypeFrom(Innermost(TypeAt(value)));
}

ValueType Inferrer::TypeOf(ValueId value) const {
  const onnx::TypeProto& type = TypeAt(value);
  ValueType found{TensorTypeOf(value), IsSequence(type)};
  if (!AllDimsKnown(Innermost(type))) found.tensor.dims.clear();  // a sequence of many shapes
  return found;
}

void Inferrer::FollowLists(NodeId id, const Operator& op) {
  const Node& node = NodeAt(id);
  if (op.schema == nullptr || node.inputs.empty() || node.outputs.empty()) return;
  const ValueId in = node.inputs[0];
  const ValueId out = node.outputs[0];
  if (in == kNoValue || out == kNoValue) return;
  if (TypeAt(out).has_sequence_type()) {
    if (auto list = ListOf(CallOf(id, op), list_sizes_left_)) lists_.emplace(out, *std::move(list));
  } else if (const auto list = lists_.find(in); list != lists_.end()) {
    const auto dims = TakenFrom(CallOf(id, op), list->second, list_sizes_left_);
    if (dims.has_value()) TypeAt(out) = ProtoFrom(TensorTypeOf(in).dtype, *dims);
  }
}

const OuterScope& Inferrer::Scope() {
  scope_.emplace();
  for (const OpsetImport& opset : graph_.opsets) {
    scope_->opsets[std::string(opset.domain)] = static_cast<int>(opset.version);
  }
  for (size_t i = 0; i < graph_.values.size(); ++i) {
    if (types_[i]->value_case() == onnx::TypeProto::VALUE_NOT_SET) continue;
    scope_->types_by_name.emplace(graph_.values[i].name, types_[i]);
  }
  return *scope_;
}

// --- Elements -------------------------------------------------------------------

bool Inferrer::HasWhatItNeeds(NodeId id, const EvaluatorRow& row) const {
  const Node& node = NodeAt(id);
  if (!row.needs_values) return Resolved(node.inputs[0]);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] != kNoValue && !KnownRead(id, i).has_value()) return false;
  }
  return true;
}

Call Inferrer::CallOf(NodeId id, const Operator& op) const {
  const Node& node = NodeAt(id);
  Call call{&graph_.model->NodeOf(id), op.opset, {}, {}, {}, graph_.model};
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const bool left_out = node.inputs[i] == kNoValue;
    call.inputs.push_back(left_out ? std::nullopt : KnownRead(id, i));
    call.input_types.push_back(left_out ? TensorType()
                                        : TensorTypeFrom(Innermost(TypeRead(id, i))));
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId value = node.outputs[i];
    call.output_types.push_back(value == kNoValue ? TensorTypeFrom(left_out_[i])
                                                  : TensorTypeOf(value));
  }
  return call;
}

void Inferrer::Evaluate(NodeId id, const Operator& op) {
  const Node& node = NodeAt(id);
  if (op.evaluator == nullptr || node.outputs.empty()) return;
  if (!HasWhatItNeeds(id, *op.evaluator)) return;
  Call call = CallOf(id, op);
  evaluated_ += WorkOf(*op.evaluator, call);
  if (evaluated_ > kMaxEvaluated) return;
  std::vector<HostTensor> outputs;
  try {
    outputs = onnxfit::Evaluate(*op.evaluator, std::move(call));
  } catch (const Error& error) {
    Refuse(id, error.parts().text, "");  // too many elements
  }
  for (size_t i = 0; i < outputs.size() && i < node.outputs.size(); ++i) {
    if (node.outputs[i] != kNoValue) Keep(id, node.outputs[i], std::move(outputs[i]));
  }
}

// The elements may say what the schema could not (NonZero); they never say otherwise.
void Inferrer::Keep(NodeId id, ValueId value, HostTensor tensor) {
  const TensorType evaluated{tensor.dtype, tensor.dims};
  if (!Resolved(value)) TypeAt(value) = ProtoFrom(evaluated.dtype, evaluated.dims);
  if (TensorTypeOf(value) != evaluated) {
    Refuse(id,
           fmt::format("its output {} is {} by its elements, {} by its inputs",
                       Quote(graph_.values[Place(value)].name), ToString(evaluated),
                       ToString(TensorTypeOf(value))),
           "");
  }
  known_[Place(value)] = std::move(tensor);
}

// --- Operators that ONNX does not know ------------------------------------------

// False where there is no row, or not every input is known.
bool Inferrer::InferContrib(NodeId id, const ContribRow* row) {
  const Node& node = NodeAt(id);
  if (row == nullptr) return false;
  for (size_t i = 0; i < row->required; ++i) {
    if (i < node.inputs.size() && node.inputs[i] != kNoValue) continue;
    Refuse(id, fmt::format("expected {} inputs at least, input {} is missing", row->required, i),
           "");
  }
  ContribCall call{&graph_.model->NodeOf(id), {}};
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const bool left_out = node.inputs[i] == kNoValue;
    if (!left_out && !AllDimsKnown(TypeRead(id, i))) return false;
    call.inputs.push_back(left_out ? std::nullopt : std::optional(TensorTypeFrom(TypeRead(id, i))));
  }
  const ContribTypes types = row->types(call);
  if (types.empty()) Refuse(id, "its inputs do not go together", HintOnSizes(id));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    const TensorType& type = types[std::min(i, types.size() - 1)];
    TypeAt(node.outputs[i]) = ProtoFrom(type.dtype, type.dims);
  }
  return true;
}

// The node in front of `id` whose outputs were taken to be like its first input.
NodeId Inferrer::GuessBehind(NodeId id) const {
  for (const ValueId value : NodeAt(id).inputs) {
    if (value != kNoValue && guessed_[Place(value)] != kNoNode) return guessed_[Place(value)];
  }
  return kNoNode;
}

void Inferrer::Believe(NodeId id) {
  const Node& node = NodeAt(id);
  for (const OtherRow& other : kOthers) {
    if (node.domain == other.domain) {
      Refuse(id, std::string(other.reason), std::string(other.instead));
    }
  }
  bool stored = true;
  for (const ValueId value : node.outputs) {
    if (value == kNoValue || BelieveStored(value)) continue;
    stored = false;
    guessed_[Place(value)] = id;
    if (node.inputs.empty() || node.inputs[0] == kNoValue) continue;
    TypeAt(value) = TypeAt(node.inputs[0]);
  }
  doubts_[std::string(stored ? kFromFile : kFromInput)].push_back(id);
}

// Named dimensions of the type that the file stores are those of the inputs.
bool Inferrer::BelieveStored(ValueId value) {
  const onnx::TypeProto* stored = StoredTypeOf(value);
  if (stored == nullptr) return false;
  onnx::TypeProto type = *stored;
  for (auto& dim : *type.mutable_tensor_type()->mutable_shape()->mutable_dim()) {
    if (dim.has_dim_value()) continue;
    const std::optional<int64_t> size = SizeUnder(dim.dim_param(), inputs_.symbols);
    if (!size) return false;
    dim.set_dim_value(*size);
  }
  TypeAt(value) = std::move(type);
  return true;
}

void Inferrer::CollectStored() {
  stored_.emplace();
  const onnx::GraphProto& graph = graph_.model->proto.graph();
  for (const auto& info : graph.value_info()) stored_->emplace(info.name(), &info.type());
  for (const auto& info : graph.output()) stored_->emplace(info.name(), &info.type());
}

}  // namespace onnxfit
