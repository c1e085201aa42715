// What an export has lost and its program has again: which calls, where, and what was assumed.
// Internal to the room recover/.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/exporters/bound_graph.h"
#include "estimator/lost/lost_calls.h"
#include "estimator/lost/places.h"
#include "estimator/parameters/lost_rotary.h"
#include "estimator/parameters/roles.h"
#include "estimator/recover/lowering.h"
#include "estimator/recover/units.h"

namespace onnxfit {

struct PutBacks {
  std::multimap<NodeId, LostCall> before;       // by the node that reads them
  std::multimap<NodeId, LostCall> behind;       // by the node behind which they run
  std::map<NodeId, ValueId> stochastic_depths;  // residual sum -> branch
  std::optional<LostRotary> rotary;
  std::map<size_t, bool> attention;  // index of a call -> whether it drops out
  std::vector<std::string> assumptions;
  std::vector<Doubt> doubts;       // what was guessed and no flag said
  std::vector<std::string> notes;  // for -v
};

// Calls that leave a trace (lost_calls.h), a rotary embedding, and the dropouts and
// stochastic depths that libraries have, where they are likely or `settings` tell of them.
// Throws Error where a glob of settings.placed_dropouts picks nothing.  O(nodes).
PutBacks FindPutBacks(const Findings& found, const Roles& roles, const TrainingSettings& settings);

// Writes them, while the units around them are lowered (put_back_calls.cc).
class PutBackWriter {
 public:
  // All must outlive it.
  PutBackWriter(Recovery& recovery, const PutBacks& put_backs, const Places& places,
                const std::vector<Unit>& units);

  // Copies of the model's inputs, which a cache begins with: before all else.
  void WriteCopiesOfInputs();
  // A rotary embedding, before the layer that runs at `node`.
  void WriteRotary(NodeId node);
  // What `unit` reads is hidden by what these make, until DeviceValues::ShowHidden:
  // lost calls in front of `node`,
  void WriteBefore(UnitWriter& unit, NodeId node);
  // stochastic depth in front of a residual sum,
  void WriteStochasticDepth(UnitWriter& unit, NodeId node);
  // and calls that TorchScript's exporter merged with equal ones of another layer, integers
  void WriteShared(UnitWriter& unit, NodeId node);
  // or activations.
  void WriteMerged(UnitWriter& unit, NodeId node);
  // Lost calls behind `node`.
  void WriteBehind(UnitWriter& unit, NodeId node);

 private:
  NameId MakeOnce(UnitWriter& unit, const LostCall& lost);
  NameId Write(UnitWriter& unit, const LostCall& lost);
  NameId Repeat(UnitWriter& unit, const LostCall& lost);
  void ReadTensorsOf(UnitWriter& unit, const std::string& module, AtenCall& call) const;
  CallPlace PlaceOf(const UnitWriter& unit, const LostCall& lost) const;
  static CallPlace PlaceInLine(const UnitWriter& unit, const LostCall& lost);
  CallPlace PlaceOfCast(const UnitWriter& unit) const;
  CallPlace PlaceOfCastBack(const UnitWriter& unit, const LostCall& lost) const;
  CallPlace PlaceBehindMaker(const UnitWriter& unit, const LostCall& lost) const;
  CallPlace PlaceOfModule(const UnitWriter& unit, const LostCall& lost) const;
  bool IsInLine(const UnitWriter& unit, const LostCall& lost, StatementId line, size_t level) const;
  ModuleId MergedMakerOf(const UnitWriter& unit, ValueId value, ModuleId reader) const;
  ModuleId TwinThatMakes(const UnitWriter& unit, ValueId value, NodeId reader) const;
  NameId RepeatIn(UnitWriter& unit, ValueId value, ModuleId twin, std::map<ValueId, NameId>& made);

  Recovery& recovery_;
  const PutBacks& put_backs_;
  const Places& places_;
  std::vector<const Unit*> unit_at_;    // by node: the one that runs there
  std::map<std::string, NameId> made_;  // by the name of the lost call
  std::map<std::pair<ValueId, ModuleId>, NameId>
      in_module_;  // merged calls, by the reader's module
};

// A rotary embedding, which `rotary`'s caller runs (rotary_calls.cc).
void WriteRotaryCalls(Recovery& recovery, const LostRotary& rotary);

}  // namespace onnxfit
