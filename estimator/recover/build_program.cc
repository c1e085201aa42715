// The passes from a graph to its program, in their order: what no setting has a say in, then, for
// each way to read the file, the rest.
#include "estimator/recover/build_program.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/lost/places.h"
#include "estimator/names/lifetimes.h"
#include "estimator/patterns/masks.h"
#include "estimator/recover/dead_turns.h"
#include "estimator/recover/lowering.h"
#include "estimator/recover/merged_runs.h"
#include "estimator/recover/put_backs.h"
#include "estimator/recover/units.h"
#include "estimator/recover/unread_run_calls.h"
#include "estimator/writer/loss.h"

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
std::vector<Rewritten> CallsOf(const Findings& found, const PutBacks& put_backs) {
  std::vector<Rewritten> calls = found.rewrites;
  for (const auto& [call, drops] : put_backs.attention) calls[call].ints[0] = drops ? 1 : 0;
  return calls;
}

void LowerUnits(Recovery& recovery, const std::vector<Unit>& units, const PutBacks& put_backs,
                const Places& places) {
  PutBackWriter lost(recovery, put_backs, places, units);
  UnreadRunWriter unread(recovery, places);
  lost.WriteCopiesOfInputs();
  NodeId next = 0;  // node whose turn it is
  for (const Unit& unit : units) {
    for (; next <= unit.at; ++next) lost.WriteRotary(next);
    for (const NodeId node : unit.nodes) unread.WriteBefore(node);
    if (unit.kind == UnitKind::kNumbers || unit.kind == UnitKind::kPutBack) continue;
    CallPlace place = places.Of(unit.at);
    if (unit.call != nullptr) place.module = unit.call->module.value_or(place.module);
    UnitWriter writer(recovery, std::move(place));
    lost.WriteStochasticDepth(writer, unit.at);
    for (const NodeId node : unit.nodes) lost.WriteBefore(writer, node);
    if (unit.kind == UnitKind::kNode) lost.WriteShared(writer, unit.at);
    for (const NodeId node : unit.nodes) lost.WriteMerged(writer, node);
    LowerUnit(writer, unit);
    recovery.values.ShowHidden();
    lost.WriteBehind(writer, unit.at);
    for (const NodeId node : unit.nodes) unread.WriteBehind(node);
  }
  recovery.writer.WarnOfUnknown("node");
  for (const NameId made : PutBackDeadTurns(recovery.writer.program())) {
    recovery.unread.insert(made);
  }
}

LibraryModel ModelOf(const ExporterMetadata& metadata) {
  LibraryModel model;
  for (const std::vector<std::string>& classes : metadata.classes) {
    model.LookIn(std::vector<std::string_view>(classes.begin(), classes.end()));
  }
  return model;
}

// What Shape nodes read, in order.
std::vector<NameId> NamesOfSized(const Recovery& recovery) {
  std::vector<NameId> sized;
  for (const Node& node : recovery.bound.graph().nodes) {
    if (node.op_type != "Shape" || node.inputs[0] == kNoValue) continue;
    const NameId name = recovery.values.NameOf(node.inputs[0]);
    if (name != kNoName) sized.push_back(name);
  }
  std::ranges::sort(sized);
  return sized;
}

// Names of what runs although nobody reads it.
std::set<NameId> RunAllTheSame(const Recovery& recovery) {
  std::set<NameId> names = recovery.unread;
  for (const ValueId value : FindArgumentsOfMasks(recovery.bound)) {
    names.insert(recovery.values.NameOf(value));
  }
  names.erase(kNoName);
  return names;
}

}  // namespace

// --- Whatever the settings ------------------------------------------------------------------

Findings::Findings(const Graph& graph, const ExporterMetadata& metadata, const Shapes& shapes)
    : bound(graph, metadata, shapes) {
  // 1. Nodes that are one call of PyTorch's: before tensors, of which some are inside of them.
  rewrites = FindRewrites(bound);

  // 2. The module's tensors, as they are used and named.
  tensors.uses = FindUses(bound, rewrites);
  tensors.first_names = FindFirstNames(graph, metadata);
  tensors.folded_parameters = FindFoldedParameters(bound, tensors.uses);
  tensors.folded_table = FindFoldedTable(graph, metadata);
  if (metadata.signature.empty()) {
    tensors.float_buffers = FindFloatBuffers(graph);
    tensors.folded_weights = FindFoldedWeights(graph, metadata);
  }
  tensors.rotary = FindLostRotary(bound);

  // 3. What the export has lost, or may have.
  operands = FindLostOperands(graph, metadata);
  casts = FindLostCasts(bound);
  dropouts = FindLostDropouts(bound, rewrites);
  likely_drops_out = LikelyDropsOut(bound, rewrites);
  stochastic_depths = FindLostStochasticDepths(bound, rewrites);

  // 4. Where calls run, and which work in place.
  in_place = FindInPlace(bound, rewrites);
  bodies = FindGeneratedBodies(bound);
}

// --- By the settings ------------------------------------------------------------------------

Program BuildProgram(const Findings& found, const Roles& roles, const TrainingSettings& settings) {
  const BoundGraph& bound = found.bound;
  const std::optional<size_t> loss_output = LossOutputOf(bound, settings);

  // 5. What the module has: parameters, buffers (roles.cc), the run's inputs.
  Recovery recovery(found, roles, settings);
  Program& program = recovery.writer.program();

  // 6. What of the lost is put back: before units, which it may be.
  const PutBacks put_backs = FindPutBacks(found, roles, settings);
  if (const auto& rotary = put_backs.rotary; rotary.has_value()) {
    const ModuleId module = program.modules.Enter(rotary->caller, rotary->module);
    recovery.outside_autocast.insert(program.modules.PathOf(module));
  }

  // 7. What each node belongs to, and where its calls run.
  const std::vector<Rewritten> calls = CallsOf(found, put_backs);
  const std::vector<NodeId> of_rotary =
      put_backs.rotary.has_value() ? put_backs.rotary->nodes : std::vector<NodeId>();
  const std::vector<Unit> units = FindUnits(bound, roles, recovery.values, calls, of_rotary);
  const Places places(bound, found.bodies, found.in_place, settings);
  Append(program.notes, NotesOf(bound.graph(), calls));
  Append(program.notes, put_backs.notes);
  Append(program.assumptions, put_backs.assumptions);
  Append(program.doubts, put_backs.doubts);

  // 8. The calls, unit by unit, with those that are put back around them.
  LowerUnits(recovery, units, put_backs, places);
  program.sized = NamesOfSized(recovery);
  if (bound.metadata().groups.empty()) RepeatMergedRuns(program);
  for (const ValueId output : bound.graph().outputs) {
    UnitWriter writer(recovery, {});
    program.outputs.push_back(writer.TensorOf(output));
  }

  // 9. The loss, and when Python's names let go.
  const NameId loss = loss_output.has_value() ? program.outputs[*loss_output] : kNoName;
  const LibraryModel model = ModelOf(bound.metadata());
  FinishProgram(
      recovery.writer, loss, model, [kept = RunAllTheSame(recovery)](const AtenCall& call) {
        return std::ranges::none_of(call.outputs, [&](NameId name) { return kept.contains(name); });
      });
  PlaceDeaths(program, settings);
  program.name_of = recovery.values.TakeNames();
  return recovery.writer.TakeProgram();
}

}  // namespace onnxfit
