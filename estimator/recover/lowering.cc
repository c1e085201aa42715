#include "estimator/recover/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/base/warnings.h"
#include "estimator/program/like.h"
#include "estimator/recover/device_integers.h"
#include "estimator/recover/habits.h"
#include "estimator/recover/parameter_floats.h"
#include "estimator/recover/scopes.h"
#include "estimator/recover/source_text.h"

namespace onnxfit {

Lowering::Lowering(const Graph& graph, const ExporterMetadata& metadata, const Shapes& shapes,
                   const Roles& roles, const TrainingSettings& settings)
    : ProgramWriter(settings, graph.path),
      graph_(graph),
      metadata_(metadata),
      shapes_(shapes),
      names_(graph.values.size(), kNoName),
      is_parameter_(graph.values.size()),
      follows_parameter_(graph.values.size()),
      is_scalar_constant_(graph.values.size()) {
  for (const Node& node : graph.nodes) {
    for (const ValueId value : node.inputs) readers_.emplace(value, &node);
  }
  AddModuleTensors(roles);
  follows_parameter_ = FloatsFedBy(graph, shapes, is_parameter_);
  AddInputs();
  runs_on_device_ = FindDeviceIntegers(graph, shapes, roles);
  PlanRewrites(roles);
  PlanLostRotary();
  PlanLostCalls(roles);
}

void Lowering::AddModuleTensors(const Roles& roles) {
  AddParameters(roles);
  for (const ModuleTensor& buffer : roles.buffers) program_.buffers.push_back(AddTensor(buffer));
  for (const FoldedBatchNorm& folded : roles.folded) {
    folded_[&graph_.nodes[Index(folded.convolution)]] = &folded;
  }
  for (const AffineBatchNorm& affine : roles.affine) {
    affine_[&graph_.nodes[Index(affine.scale)]] = &affine;
    if (affine.shift != kNoNode) affine_[&graph_.nodes[Index(affine.shift)]] = &affine;
  }
  for (const auto& [copy, tensor] : roles.ties) {
    names_[Index(copy)] = names_[Index(tensor)];
    is_parameter_[Index(copy)] = is_parameter_[Index(tensor)];
  }
  for (size_t i = 0; i < graph_.initializers.size(); ++i) {
    const Initializer& initializer = graph_.initializers[i];
    is_scalar_constant_[Index(initializer.value)] =
        roles.of_initializer[i] == Role::kConstant && Numel(initializer.type.dims) <= 1;
  }
  for (const auto& [value, buffer] : roles.views) views_[value] = LostTensor(buffer);
  table_rows_ = roles.table_rows;
  PlaceModule();
}

NameId Lowering::AddTensor(const ModuleTensor& tensor) {
  const NameId name = NewName(tensor.name, WithPrecision(tensor.type));
  if (tensor.value == kNoValue) {
    lost_[tensor.name] = name;
  } else {
    names_[Index(tensor.value)] = name;
  }
  return name;
}

void Lowering::AddParameters(const Roles& roles) {
  std::vector<NameId> names;
  for (const ModuleTensor& parameter : roles.parameters) {
    names.push_back(AddTensor(parameter));
    if (parameter.value != kNoValue) is_parameter_[Index(parameter.value)] = true;
  }
  ListParameters(names);
}

void Lowering::AddInputs() {
  for (const ValueId input : graph_.inputs) program_.inputs.push_back(NewResult(input));
}

void Lowering::PlanRewrites(const Roles& roles) {
  rewrites_ = roles.rewrites;
  rewrite_of_.assign(graph_.nodes.size(), -1);
  consumed_.assign(graph_.nodes.size(), false);
  for (size_t i = 0; i < rewrites_.size(); ++i) {
    for (const NodeId node : rewrites_[i].nodes) consumed_[Index(node)] = true;
    rewrite_of_[Index(rewrites_[i].last)] = static_cast<int32_t>(i);
  }
  NoteRewrites();
}

void Lowering::NoteRewrites() {
  std::map<std::string, std::pair<int, NodeId>> places;  // how many, the first
  for (const Rewritten& rewritten : rewrites_) {
    std::vector<std::string_view> ops;
    for (const NodeId node : rewritten.nodes) ops.push_back(graph_.nodes[Index(node)].op_type);
    const std::string what = fmt::format("{} run as {}", fmt::join(ops, " + "), rewritten.aten);
    ++places.emplace(what, std::pair(0, rewritten.last)).first->second.first;
  }
  for (const auto& [what, place] : places) {
    program_.notes.push_back(fmt::format("{} x {}, the first at {}", place.first, what,
                                         DisplayName(graph_, place.second)));
  }
}

void Lowering::LowerNodes() {
  outside_autocast_ = FindOutsideAutocast();
  const std::set<NodeId> out_of_place = FindOutOfPlace();
  const std::map<NodeId, bool> known_in_place = FindKnownInPlace(graph_);
  const std::set<NodeId> in_place = FindInPlaceSums(graph_);
  const bool has_attention = HasAttention(graph_, rewrites_);
  PutCopiesOfInputs();
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    PutRotaryBack(static_cast<NodeId>(i));
    if ((RunsOnHost(node) && !runs_on_device_[i]) || (consumed_[i] && rewrite_of_[i] < 0)) continue;
    const auto id = static_cast<NodeId>(i);
    SetPlace(DisplayName(graph_, id), ScopeFor(id));
    node_frames_ = FramesOf(node);
    frames_ = node_frames_;
    const bool has_line = !frames_.empty() && frames_.back() != kNoStatement;
    if (has_line) written_in_place_ = WrittenInPlace(program_.source.At(frames_.back()).text);
    if (const auto known = known_in_place.find(id); known != known_in_place.end()) {
      written_in_place_ = written_in_place_.value_or(known->second);
    }
    const bool is_known = written_in_place_.has_value() || !IsFloat(TypeOfResult(node));
    if (out_of_place.contains(id) || (has_attention && !is_known)) written_in_place_ = false;
    if (in_place.contains(id)) written_in_place_ = true;
    PutStochasticDepthBack(id);
    if (rewrite_of_[i] < 0) {
      PutCallsBack(id);
      RepeatShared(id);
      LowerNode(node);
    } else {
      LowerRewritten(rewrites_[Index(rewrite_of_[i])]);
    }
    ShowHidden();
    PutCallsBehind(id);
  }
  WarnOfUnknown("node");
}

bool Lowering::RunsOnHost(const Node& node) const {
  return std::all_of(node.outputs.begin(), node.outputs.end(),
                     [&](ValueId value) { return value == kNoValue || IsKnown(value); });
}

// Its elements, or the one float that it is, follow from shapes and constants.
bool Lowering::IsKnown(ValueId value) const {
  if (Known(value) != nullptr) return true;
  return KnownNumber(value).has_value() && Numel(TypeOf(value).dims) <= 1 &&
         !follows_parameter_[Index(value)];
}

void Lowering::LowerNode(const Node& node) {
  if (node.op_type == "Constant") {
    const ValueId value = node.outputs[0];
    is_scalar_constant_[Index(value)] = Numel(TypeOf(value).dims) <= 1;
    return;
  }
  if (LowerAffine(node)) return;
  const LoweringRow* row = FindLowering(node.op_type);
  if (row == nullptr) row = FindFusedLowering(node.op_type);
  if (row == nullptr || !FitsRow(node, *row)) return LowerUnknown(node);
  row->lower(*this, node, NamedBy(TargetOf(node), row->aten));
}

// The product becomes the batch norm, and the sum is its result.
bool Lowering::LowerAffine(const Node& node) {
  const auto found = affine_.find(&node);
  if (found == affine_.end()) return false;
  const AffineBatchNorm& affine = *found->second;
  const ValueId product = At(affine.scale).outputs[0];
  if (&node != &At(affine.scale)) {
    Alias(node.outputs[0], product);
    return true;
  }
  const auto tensor = [&](const char* name) { return LostTensor(affine.module + name); };
  Emit(trains() ? "batch_norm" : "batch_norm_inference",
       {TensorOf(affine.input), tensor(".weight"), tensor(".bias"), tensor(".running_mean"),
        tensor(".running_var")},
       {NewResult(product)});
  return true;
}

bool Lowering::FitsRow(const Node& node, const LoweringRow& row) const {
  for (size_t i = 0; i < row.ranks.size(); ++i) {
    if (row.ranks[i] == kOptional) continue;
    const ValueId input = InputOf(node, i);
    const bool has_rank = input != kNoValue && (row.ranks[i] == kAnyRank ||
                                                TypeOf(input).dims.size() == Index(row.ranks[i]));
    if (!has_rank || TypeOfResult(node) == DType::kUndefined) return false;
  }
  return true;
}

void Lowering::LowerRewritten(const Rewritten& rewritten) {
  for (const NodeId node : rewritten.nodes) PutCallsBack(node);
  const ValueId output = At(rewritten.last).outputs[0];
  if (rewritten.only_in_training && !trains()) return Alias(output, rewritten.inputs[0]);
  std::vector<NameId> inputs;
  const std::vector<NameId> hidden = EmitHidden(rewritten);
  for (size_t i = 0; i < rewritten.inputs.size(); ++i) {
    const auto takes_place = [&](const HiddenCall& call) {
      return call.takes_place_of == static_cast<int>(i);
    };
    const auto& before = rewritten.before;
    const auto call = std::find_if(before.begin(), before.end(), takes_place);
    inputs.push_back(call == before.end() ? OperandOf(rewritten.inputs[i])
                                          : hidden[Index(call - before.begin())]);
  }
  std::vector<int64_t> ints = rewritten.ints;
  if (rewritten.dropout != kNoNode) ints[0] = DropsOut(At(rewritten.dropout)) ? 1 : 0;
  std::vector<NameId> results;
  for (const ValueId result : rewritten.results) results.push_back(NewResult(result));
  if (results.empty()) results.push_back(NewResult(output));
  if (rewritten.in_compute_type) {
    program_.values[Index(results[0])].type.dtype = ComputeType(settings_.precision);
  }
  const bool is_other = !trains() && !rewritten.aten_in_eval.empty();
  Emit(is_other ? rewritten.aten_in_eval : rewritten.aten, std::move(inputs), std::move(results),
       std::move(ints));
}

// A number is no tensor: x[a:b] = 2.  A list of one is, as an index: x[:, [2]].
NameId Lowering::OperandOf(ValueId value) {
  const bool is_number = IsHost(value) && TypeOf(value).dims.empty();
  return is_number ? kNoName : TensorOf(value);
}

// The calls in front of a rewritten one; their results.
std::vector<NameId> Lowering::EmitHidden(const Rewritten& rewritten) {
  const ValueId first =
      rewritten.results.empty() ? At(rewritten.last).outputs[0] : rewritten.results[0];
  const std::string_view result = graph_.values[Index(first)].name;
  std::vector<NameId> results;
  for (const HiddenCall& call : rewritten.before) {
    std::vector<NameId> inputs;
    for (const HiddenCall::Operand& operand : call.inputs) {
      inputs.push_back(operand.hidden < 0 ? TensorOf(operand.value)
                                          : results[Index(operand.hidden)]);
    }
    const TensorType type = call.as_written ? call.type : WithPrecision(call.type);
    results.push_back(NewName(fmt::format("{}.{}", result, call.aten), type));
    Emit(call.aten, std::move(inputs), {results.back()}, call.ints);
  }
  return results;
}

void Lowering::LowerUnknown(const Node& node) {
  std::vector<NameId> inputs;
  for (const ValueId value : node.inputs) {
    if (value != kNoValue && !IsHost(value)) inputs.push_back(TensorOf(value));
  }
  std::vector<NameId> outputs;
  for (const ValueId value : node.outputs) {
    if (value != kNoValue) outputs.push_back(NewResult(value));
  }
  EmitUnknown(node.op_type, std::move(inputs), std::move(outputs));
}

DType Lowering::TypeOfResult(const Node& node) const {
  const ValueId result = node.outputs.empty() ? kNoValue : node.outputs[0];
  return result == kNoValue ? DType::kUndefined : TypeOf(result).dtype;
}

const TensorType& Lowering::TypeOf(ValueId value) const {
  return shapes_.types[Index(value)].tensor;
}

bool Lowering::IsHost(ValueId value) const {
  if (value == kNoValue || names_[Index(value)] != kNoName) return false;
  return IsKnown(value) || is_scalar_constant_[Index(value)];
}

bool Lowering::IsParameter(ValueId value) const {
  return value != kNoValue && is_parameter_[Index(value)];
}

bool Lowering::IsMadeOfNumbers(ValueId value) const {
  if (names_[Index(value)] != kNoName) return false;
  const Value& stored = graph_.values[Index(value)];
  return stored.initializer >= 0 ||
         (stored.producer != kNoNode && At(stored.producer).op_type == "Constant");
}

const FoldedBatchNorm* Lowering::FoldedInto(const Node& node) const {
  const auto found = folded_.find(&node);
  return found == folded_.end() ? nullptr : found->second;
}

// Its statement is lost: it bound the name that the batch norm's passes on.
void Lowering::EnterConvolutionOf(const FoldedBatchNorm& folded) {
  if (scope_.empty() || scope_.back() != folded.module) return;
  EnterSibling(folded.convolution_module);
  if (frames_.size() < 2) return;
  StatementId& statement = frames_[frames_.size() - 2];
  if (statement == kNoStatement) return;
  const std::string argument = program_.source.At(statement).ArgumentTo(folded.module);
  if (!argument.empty()) statement = Beside(statement, {argument});  // else both are in one line
}

void Lowering::EnterSibling(const std::string& name) {
  frames_ = node_frames_;
  if (!scope_.empty() && !scope_.back().empty()) scope_.back() = name;
}

void Lowering::EnterReaderOf(ValueId value) {
  const std::vector<const Node*> readers = ReadersOf(value);
  if (readers.empty()) return;
  scope_ = ScopeFor(static_cast<NodeId>(readers[0] - graph_.nodes.data()));
  frames_.clear();
}

const KnownTensor* Lowering::Known(ValueId value) const {
  if (value == kNoValue) return nullptr;
  const auto& known = shapes_.known[Index(value)];
  return known.has_value() ? &*known : nullptr;
}

std::optional<double> Lowering::KnownNumber(ValueId value) const {
  return value == kNoValue ? std::nullopt : shapes_.known_scalar[Index(value)];
}

// With p = 0 it returns its input (aten/src/ATen/native/Dropout.cpp, pytorch v2.6.0).
bool Lowering::DropsOut(const Node& node) const {
  return trains() && (node.inputs.size() < 2 || KnownNumber(node.inputs[1]) != 0.0);
}

// A further result of an operator (a mask, indices), of which its row knows nothing.
void Lowering::NoteIfComputed(ValueId value) {
  const NodeId producer = graph_.values[Index(value)].producer;
  if (IsHost(value) || producer == kNoNode) return;
  const Node& node = graph_.nodes[Index(producer)];
  if (node.op_type == "Constant" || !further_results_.insert(std::string(node.op_type)).second) {
    return;
  }
  program_.warnings.push_back(
      {warning::kUnknownOperator,
       fmt::format("a further result of {} is read: it is taken as a {}", node.op_type,
                   trains() ? "tensor without a history" : "new tensor")});
}

std::string_view Lowering::TargetOf(const Node& node) const {
  const FxNode* call = metadata_.CallOf(static_cast<NodeId>(&node - graph_.nodes.data()));
  return call == nullptr ? std::string_view() : call->target;
}

std::vector<const Node*> Lowering::ReadersOf(ValueId value) const {
  std::vector<const Node*> nodes;
  const auto [begin, end] = readers_.equal_range(value);
  for (auto reader = begin; reader != end; ++reader) nodes.push_back(reader->second);
  return nodes;
}

NameId Lowering::TensorOf(ValueId value) {
  if (value == kNoValue) return kNoName;
  const NameId name = names_[Index(value)];
  if (name != kNoName) return name;
  NoteIfComputed(value);
  const auto view = views_.find(value);
  if (view == views_.end()) return MakeConstant(value);
  const NameId made = NewResult(value);
  const TensorType& whole = program_.values[Index(view->second)].type;
  const bool is_part = whole.dims.size() == TypeOf(value).dims.size();
  Emit(is_part ? "slice" : "view", {view->second}, {made});
  return made;
}

NameId Lowering::NewResult(ValueId value) {
  if (value == kNoValue) return kNoName;
  const NameId name =
      NewName(std::string(graph_.values[Index(value)].name), WithPrecision(TypeOf(value)));
  names_[Index(value)] = name;
  return name;
}

void Lowering::Bind(ValueId value, NameId name) {
  if (value != kNoValue) names_[Index(value)] = name;
}

void Lowering::Alias(ValueId result, ValueId value) {
  if (result == kNoValue) return;
  if (IsHost(value) && Numel(TypeOf(value).dims) <= 1) {
    is_scalar_constant_[Index(result)] = true;
    return;
  }
  names_[Index(result)] = TensorOf(value);
  is_parameter_[Index(result)] = is_parameter_[Index(value)];
}

Program Lowering::TakeProgram() {
  program_.name_of = std::move(names_);
  return std::move(program_);
}

void Lowering::SetPlace(std::string place, std::vector<std::string> scope) {
  ProgramWriter::SetPlace(std::move(place), std::move(scope));
  node_frames_.clear();
}

}  // namespace onnxfit
