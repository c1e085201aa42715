#include "estimator/onnx/inferrer.h"

#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "estimator/base/quote.h"
#include "estimator/base/warnings.h"
#include "estimator/onnx/onnx_model.h"
#include "estimator/onnx/schemas.h"
#include "estimator/onnx/validate.h"

namespace onnxfit {
namespace {

// Elements that are read and made at once, before anybody asks for them; of what comes behind them
// nothing is known.
constexpr int64_t kMaxEvaluated = 1 << 25;

constexpr std::string_view kFromFile = "the shapes that the file stores are believed";
constexpr std::string_view kFromInput = "outputs are taken to be like the first input";

const onnx::TypeProto& Innermost(const onnx::TypeProto& type) {
  if (type.has_sequence_type()) return Innermost(type.sequence_type().elem_type());
  if (type.has_optional_type()) return Innermost(type.optional_type().elem_type());
  return type;
}

bool IsSequence(const onnx::TypeProto& type) {
  return type.has_optional_type() ? IsSequence(type.optional_type().elem_type())
                                  : type.has_sequence_type();
}

bool AllDimsKnown(const onnx::TypeProto& type) {
  if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return false;
  const auto& dims = type.tensor_type().shape().dim();
  return type.tensor_type().elem_type() != onnx::TensorProto::UNDEFINED &&
         std::all_of(dims.begin(), dims.end(), [](const auto& dim) { return dim.has_dim_value(); });
}

bool HasNegative(const onnx::TypeProto& type) {
  const auto& dims = type.tensor_type().shape().dim();
  return std::any_of(dims.begin(), dims.end(), [](const auto& dim) { return dim.dim_value() < 0; });
}

// A dimension that is not known is -1; so is the only one of an unknown shape.
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

// "int64[2, ?]".
std::string UnresolvedText(const onnx::TypeProto& type) {
  if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return "unknown";
  std::vector<std::string> dims;
  for (const auto& dim : type.tensor_type().shape().dim()) {
    dims.push_back(dim.has_dim_value() ? std::to_string(dim.dim_value()) : "?");
  }
  return fmt::format("{}[{}]", Name(static_cast<DType>(type.tensor_type().elem_type())),
                     fmt::join(dims, ", "));
}

// ONNX's reason without the context below it.
std::string OneLine(std::string_view reason) {
  return std::string(reason.substr(0, reason.find('\n')));
}

bool IsOnnx(std::string_view domain) { return domain.empty() || domain == "ai.onnx"; }

int64_t OpsetOf(const Graph& graph, std::string_view domain) {
  for (const OpsetImport& opset : graph.opsets) {
    if (opset.domain == domain || (IsOnnx(opset.domain) && IsOnnx(domain))) return opset.version;
  }
  return 0;
}

// Product, or nothing where 64 bits do not hold it.
std::optional<int64_t> Product(const onnx::TypeProto& type) {
  int64_t product = 1;
  for (const auto& dim : type.tensor_type().shape().dim()) {
    if (__builtin_mul_overflow(product, dim.dim_value(), &product)) return std::nullopt;
  }
  return product;
}

bool IsTooLarge(const Operands& operands) {
  return std::ranges::any_of(operands.types, [](const std::optional<TensorType>& type) {
    int64_t product = 1;
    return type.has_value() && std::ranges::any_of(type->dims, [&](int64_t dim) {
             return __builtin_mul_overflow(product, dim, &product);
           });
  });
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
  if (IsOnnx(node.domain)) op.kinds = InputKinds(node.op_type, op.opset);
  if (op.schema == nullptr) {
    const size_t prefix = node.domain.empty() ? 0 : node.domain.size() + 1;
    op.contrib = FindContrib(node.domain, node.op_type.substr(prefix));
    return op;
  }
  op.evaluator = FindEvaluator(node.op_type);
  op.operands = FindOperandRow(node.op_type);
  return op;
}

void Inferrer::CheckOutputs(NodeId id, const Operator& op) const {
  const Node& node = NodeAt(id);
  // ONNX's inference makes a list this long.
  const auto outputs = static_cast<int64_t>(node.outputs.size());
  const int64_t parts = IntAttribute(node, "num_outputs", outputs);
  if (op.schema != nullptr && parts != outputs) {
    Refuse(id, fmt::format("num_outputs is {}, the node has {}", parts, outputs), "");
  }
}

// Not behind a guess, which may be of another kind than what the file says.
void Inferrer::CheckKinds(NodeId id, const Operator& op) const {
  if (GuessBehind(id) != kNoNode) return;
  for (size_t i = 0; i < NodeAt(id).inputs.size(); ++i) {
    if (NodeAt(id).inputs[i] == kNoValue) continue;
    std::string wrong = op.kinds.Wrong(i, TypeRead(id, i));
    if (!wrong.empty()) Refuse(id, std::move(wrong), "");
  }
}

// --- Operands -------------------------------------------------------------------

Operands Inferrer::OperandsOf(NodeId id) const {
  const Node& node = NodeAt(id);
  Operands operands;
  operands.node = &graph_.model->NodeOf(id);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const bool has = node.inputs[i] != kNoValue && AllDimsKnown(TypeRead(id, i));
    operands.types.push_back(has ? std::optional(TensorTypeFrom(TypeRead(id, i))) : std::nullopt);
    const bool is_known = node.inputs[i] != kNoValue && KnownRead(id, i).has_value();
    operands.known.push_back(is_known ? &*KnownRead(id, i) : nullptr);
    operands.from_inputs.push_back(node.inputs[i] != kNoValue && DependsOnInputs(node.inputs[i]));
  }
  operands.stored_behind = [this, &node](size_t input, int64_t size) {
    return StoredBehind(graph_, node.inputs[input], size);
  };
  return operands;
}

// Before ONNX, which lets some of it pass.
void Inferrer::CheckOperands(NodeId id, const Operator& op) {
  const Operands operands = OperandsOf(id);
  if (op.operands->reads_elements && operands.known.size() > 1 && operands.known[1] != nullptr) {
    looked_at_ += Numel(operands.known[1]->stored);
    if (looked_at_ > kMaxEvaluated) return;
  }
  const auto conflict = op.operands->find(operands);
  if (conflict.has_value()) Refuse(id, *conflict, HintOnSizes());
}

// `reason` is ONNX's, whose words are for those who ask for details.
void Inferrer::RefuseInputs(NodeId id, const Operator& op, const char* reason) const {
  const Operands operands = OperandsOf(id);
  std::optional<SizeConflict> conflict;
  if (op.operands != nullptr) conflict = op.operands->find(operands);
  if (IsTooLarge(operands)) {
    conflict = {
        .text = fmt::format("it reads more elements than 64 bits count, {}", TypesText(operands))};
  } else if (!conflict.has_value()) {
    conflict = {.text = fmt::format("its inputs and attributes do not go together: it reads {}",
                                    TypesText(operands))};
  }
  Refuse(id, *std::move(conflict), HintOnSizes(), fmt::format("ONNX says: {}", OneLine(reason)));
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
    Refuse(id, error.parts().text, HintOnSizes());
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

void Inferrer::RefuseUnresolved(NodeId id) const {
  for (const ValueId value : NodeAt(id).outputs) {
    if (value == kNoValue || Resolved(value)) continue;
    Refuse(id,
           fmt::format("the shape of its output {} depends on data, {}",
                       Quote(graph_.values[Place(value)].name), UnresolvedText(TypeAt(value))),
           "onnxsim, or an export whose shapes follow from those of the inputs");
  }
  Refuse(id, "the shapes of its outputs depend on data", "");
}

void Inferrer::CheckDims(NodeId id) const {
  for (const ValueId value : NodeAt(id).outputs) {
    const int rank =
        value == kNoValue ? 0 : Innermost(TypeAt(value)).tensor_type().shape().dim_size();
    if (rank > kMaxRank) {
      Refuse(id, fmt::format("at most {} dimensions were expected, found {}", kMaxRank, rank), "");
    }
    if (value == kNoValue || !HasNegative(Innermost(TypeAt(value)))) continue;
    Refuse(id,
           fmt::format("its output {} would have a negative dimension, {}",
                       Quote(graph_.values[Place(value)].name), ToString(TensorTypeOf(value))),
           HintOnSizes());
  }
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

void Inferrer::CheckReshape(NodeId id) const {
  const Node& node = NodeAt(id);
  if (!Resolved(node.inputs[0]) || !Resolved(node.outputs[0])) return;
  if (Product(TypeAt(node.inputs[0])) == Product(TypeAt(node.outputs[0]))) return;
  Refuse(id,
         fmt::format("{} cannot take the shape {}", ToString(TensorTypeOf(node.inputs[0])),
                     ToString(TensorTypeOf(node.outputs[0]).dims)),
         HintOnSizes());
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
  if (types.empty()) Refuse(id, "its inputs do not go together", HintOnSizes());
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
  if (!stored_.has_value()) CollectStored();
  const auto found = stored_->find(graph_.values[Place(value)].name);
  if (found == stored_->end() || !found->second->has_tensor_type()) return false;
  onnx::TypeProto type = *found->second;
  for (auto& dim : *type.mutable_tensor_type()->mutable_shape()->mutable_dim()) {
    const auto symbol = inputs_.symbols.find(dim.dim_param());
    if (!dim.has_dim_value() && symbol == inputs_.symbols.end()) return false;
    if (!dim.has_dim_value()) dim.set_dim_value(symbol->second);
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

// --- What is said ---------------------------------------------------------------

std::string Inferrer::DoubtText(std::string_view kind, const std::vector<NodeId>& nodes) const {
  const Node& first = NodeAt(nodes.front());
  const std::string others =
      nodes.size() == 1 ? "" : fmt::format(" and {} other nodes", nodes.size() - 1);
  return fmt::format("ONNX has no schema for {} of node {}{}: {}", Quote(first.op_type),
                     Quote(DisplayName(graph_, nodes.front())), others, kind);
}

Warnings Inferrer::CollectWarnings() const {
  Warnings warnings = inputs_.warnings;
  for (const auto& [kind, nodes] : doubts_) {
    warnings.push_back({warning::kStoredShape, DoubtText(kind, nodes)});
  }
  return warnings;
}

std::string Inferrer::HintOnSizes() const {
  if (inputs_.rebound.has_value()) return "an export whose batch is a free dimension";
  std::vector<std::string> sizes;
  for (const auto& [name, size] : inputs_.symbols) {
    sizes.push_back(fmt::format("{} = {}", Quote(name), size));
  }
  if (sizes.empty()) return "";
  return fmt::format("other sizes than {}", fmt::join(sizes, ", "));
}

// What contradicts a guess is the guess's fault.
void Inferrer::RefuseGuess(NodeId guess, NodeId id, const std::string& reason) const {
  const Node& node = NodeAt(guess);
  throw Error(
      {graph_.path, NodeText(graph_, guess),
       fmt::format("ONNX has no schema for {}, so its output was taken to be like its first "
                   "input; node {} that reads it says: {}",
                   node.op_type, Quote(DisplayName(graph_, id)), reason),
       "the export from before an optimizer fused operators"});
}

void Inferrer::Refuse(NodeId id, std::string text, std::string hint) const {
  Refuse(id, SizeConflict{.text = std::move(text)}, std::move(hint));
}

void Inferrer::Refuse(NodeId id, SizeConflict conflict, std::string hint,
                      std::string detail) const {
  if (GuessBehind(id) != kNoNode) RefuseGuess(GuessBehind(id), id, conflict.text);
  Error::Parts parts = {graph_.path, NodeText(graph_, id), conflict.text, std::move(hint),
                        std::move(detail)};
  throw SizeError(std::move(parts), std::move(conflict));
}

}  // namespace onnxfit
