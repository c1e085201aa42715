// The passes from a graph to its program, in their order.
#include "estimator/recover/build_program.h"

#include <optional>

#include "estimator/base/index.h"
#include "estimator/program/loss.h"
#include "estimator/recover/lowering.h"
#include "estimator/recover/places.h"
#include "estimator/recover/put_backs.h"
#include "estimator/recover/units.h"

namespace onnxfit {
namespace {

std::optional<size_t> LossOutputOf(const BoundGraph& bound, const TrainingSettings& settings) {
  const Graph& graph = bound.graph();
  std::vector<NamedOutput> outputs;
  for (const ValueId output : graph.outputs) {
    outputs.push_back({graph.values[Index(output)].name, bound.TypeOf(output).dtype});
  }
  return FindLossOutput(graph.path, outputs, settings.loss_output);
}

template <typename T>
void Append(std::vector<T>& to, const std::vector<T>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// The calls that nodes are (rewrites.h), those of attention with the dropouts that were decided.
std::vector<Rewritten> CallsOf(const Roles& roles, const PutBacks& put_backs) {
  std::vector<Rewritten> calls = roles.rewrites;
  for (const auto& [call, drops] : put_backs.attention) calls[call].ints[0] = drops ? 1 : 0;
  return calls;
}

void LowerUnits(Recovery& recovery, const std::vector<Unit>& units, const PutBacks& put_backs,
                const Places& places) {
  PutBackWriter lost(recovery, put_backs, places, units);
  lost.WriteCopiesOfInputs();
  NodeId next = 0;  // node whose turn it is
  for (const Unit& unit : units) {
    for (; next <= unit.at; ++next) lost.WriteRotary(next);
    if (unit.kind == UnitKind::kNumbers || unit.kind == UnitKind::kPutBack) continue;
    UnitWriter writer(recovery, places.Of(unit.at));
    lost.WriteStochasticDepth(writer, unit.at);
    for (const NodeId node : unit.nodes) lost.WriteBefore(writer, node);
    if (unit.kind == UnitKind::kNode) lost.WriteShared(writer, unit.at);
    LowerUnit(writer, unit);
    recovery.values.ShowHidden();
    lost.WriteBehind(writer, unit.at);
  }
  recovery.writer.WarnOfUnknown("node");
}

}  // namespace

Program BuildProgram(const BoundGraph& bound, const Roles& roles,
                     const TrainingSettings& settings) {
  const std::optional<size_t> loss_output = LossOutputOf(bound, settings);

  // 1. What the module has: parameters, buffers, the run's inputs.
  Recovery recovery(bound, roles, settings);
  Program& program = recovery.writer.program();

  // 2. What the export has lost: before units, which it may be.
  const PutBacks put_backs = FindPutBacks(bound, roles, settings);
  recovery.outside_autocast = FindOutsideAutocast(bound);
  if (const auto& rotary = put_backs.rotary; rotary.has_value()) {
    const ModuleId module = program.modules.Enter(rotary->caller, rotary->module);
    recovery.outside_autocast.insert(program.modules.PathOf(module));
  }

  // 3. What each node belongs to, and where its calls run.
  const std::vector<Rewritten> calls = CallsOf(roles, put_backs);
  const std::vector<NodeId> of_rotary =
      put_backs.rotary.has_value() ? put_backs.rotary->nodes : std::vector<NodeId>();
  const std::vector<Unit> units = FindUnits(bound, roles, recovery.values, calls, of_rotary);
  const Places places(bound, calls, settings);
  Append(program.notes, NotesOf(bound.graph(), calls));
  Append(program.notes, put_backs.notes);
  Append(program.assumptions, put_backs.assumptions);
  Append(program.doubts, put_backs.doubts);

  // 4. The calls, unit by unit, with those that are put back around them.
  LowerUnits(recovery, units, put_backs, places);
  for (const ValueId output : bound.graph().outputs) {
    UnitWriter writer(recovery, {});
    program.outputs.push_back(writer.TensorOf(output));
  }

  // 5. The loss, and when Python's names let go.
  const NameId loss = loss_output.has_value() ? program.outputs[*loss_output] : kNoName;
  FinishProgram(recovery.writer, loss, [](const AtenCall&) { return true; });
  program.name_of = recovery.values.TakeNames();
  return recovery.writer.TakeProgram();
}

}  // namespace onnxfit
