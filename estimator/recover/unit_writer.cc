#include "estimator/recover/unit_writer.h"

#include <fmt/format.h>

#include "estimator/base/index.h"
#include "estimator/base/warnings.h"

namespace onnxfit {

Recovery::Recovery(const BoundGraph& bound_graph, const Roles& roles_of_tensors,
                   const TrainingSettings& settings)
    : bound(bound_graph),
      roles(roles_of_tensors),
      writer(settings, bound_graph.graph().path),
      values(bound_graph, roles_of_tensors, writer) {
  writer.program().modules = bound.metadata().modules;
  writer.program().source = bound.metadata().source;
  for (const FoldedBatchNorm& norm : roles.folded) folded[norm.convolution] = &norm;
}

CallPlace UnitWriter::Beside(const std::string& name) const {
  CallPlace beside = place_;
  ModuleTree& modules = program().modules;
  const bool is_named = place_.module != kOutside && !modules.NameOf(place_.module).empty();
  if (is_named) beside.module = modules.Enter(modules.CallerOf(place_.module), name);
  return beside;
}

std::string_view UnitWriter::TargetOf(const Node& node) const {
  return bound().metadata().TargetOf(bound().IdOf(node));
}

const FoldedBatchNorm* UnitWriter::FoldedInto(const Node& node) const {
  const auto found = recovery_->folded.find(bound().IdOf(node));
  return found == recovery_->folded.end() ? nullptr : found->second;
}

// With p = 0 it returns its input (aten/src/ATen/native/Dropout.cpp, pytorch v2.6.0).
bool UnitWriter::DropsOut(const Node& node) const {
  return trains() && (node.inputs.size() < 2 || values().KnownNumber(node.inputs[1]) != 0.0);
}

NameId UnitWriter::TensorOf(ValueId value) {
  if (value == kNoValue) return kNoName;
  if (const NameId name = values().NameOf(value); name != kNoName) return name;
  WarnOfFurtherResult(value);
  const NameId viewed = values().ViewedBy(value);
  if (viewed == kNoName) return MakeConstant(*this, value);
  const NameId made = NewResult(value);
  const size_t rank = program().values[Index(viewed)].type.dims.size();
  Emit(rank == TypeOf(value).dims.size() ? "slice" : "view", {viewed}, {made});
  return made;
}

// A further result of an operator (a mask, indices), of which its row knows nothing.
void UnitWriter::WarnOfFurtherResult(ValueId value) {
  const NodeId producer = graph().values[Index(value)].producer;
  if (values().IsHost(value) || producer == kNoNode) return;
  const std::string_view op = bound().At(producer).op_type;
  if (op == "Constant" || !recovery_->further_results.emplace(op).second) return;
  program().warnings.push_back(
      {warning::kUnknownOperator,
       fmt::format("a further result of {} is read: it is taken as a {}", op,
                   trains() ? "tensor without a history" : "new tensor")});
}

NameId UnitWriter::NewResult(ValueId value) {
  if (value == kNoValue) return kNoName;
  const NameId name =
      NewName(std::string(graph().values[Index(value)].name), WithPrecision(TypeOf(value)));
  values().Bind(value, name);
  return name;
}

void UnitWriter::Alias(ValueId result, ValueId value) {
  if (result == kNoValue) return;
  if (values().IsNumber(value)) return values().TakeAsNumber(result);
  values().Alias(result, value, TensorOf(value));
}

CallPlace UnitWriter::WithAutocast() const {
  CallPlace place = place_;
  place.leaves_autocast =
      recovery_->outside_autocast.contains(program().modules.PathOf(place.module));
  return place;
}

void UnitWriter::Emit(std::string_view op, std::vector<NameId> inputs, std::vector<NameId> outputs,
                      std::vector<int64_t> ints) {
  ProgramWriter& writer = recovery_->writer;
  if (recovery_->outside_autocast.empty()) {
    return writer.Emit(place_, op, std::move(inputs), std::move(outputs), std::move(ints));
  }
  writer.Emit(WithAutocast(), op, std::move(inputs), std::move(outputs), std::move(ints));
}

NameId UnitWriter::Make(std::string_view op, std::vector<NameId> inputs, std::string name,
                        const TensorType& type, std::vector<int64_t> ints) {
  const NameId made = NewName(std::move(name), type);
  Emit(op, std::move(inputs), {made}, std::move(ints));
  return made;
}

void UnitWriter::LowerUnknown(const Node& node) {
  std::vector<NameId> inputs;
  for (const ValueId value : node.inputs) {
    if (value != kNoValue && !values().IsHost(value)) inputs.push_back(TensorOf(value));
  }
  std::vector<NameId> outputs;
  for (const ValueId value : node.outputs) {
    if (value != kNoValue) outputs.push_back(NewResult(value));
  }
  recovery_->writer.EmitUnknown(WithAutocast(), node.op_type, std::move(inputs),
                                std::move(outputs));
}

}  // namespace onnxfit
