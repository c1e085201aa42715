// Writes calls that an export has lost (put_backs.h), while the units around them are lowered.
// Internal to the room recover/.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "estimator/recover/places.h"
#include "estimator/recover/put_backs.h"
#include "estimator/recover/unit_writer.h"
#include "estimator/recover/units.h"

namespace onnxfit {

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
  // and calls that TorchScript's exporter merged with equal ones of another layer.
  void WriteShared(UnitWriter& unit, NodeId node);
  // Lost calls behind `node`.
  void WriteBehind(UnitWriter& unit, NodeId node);

 private:
  NameId Write(UnitWriter& unit, const LostCall& lost);
  NameId Repeat(UnitWriter& unit, const LostCall& lost);
  void ReadTensorsOf(UnitWriter& unit, const std::string& module, AtenCall& call) const;
  CallPlace PlaceOf(const UnitWriter& unit, const LostCall& lost) const;
  CallPlace PlaceOfCast(const UnitWriter& unit) const;
  CallPlace PlaceOfCastBack(const UnitWriter& unit, const LostCall& lost) const;
  CallPlace PlaceBehindMaker(const UnitWriter& unit, const LostCall& lost) const;
  CallPlace PlaceOfModule(const UnitWriter& unit, const LostCall& lost) const;
  bool IsInLine(const UnitWriter& unit, const LostCall& lost, StatementId line, size_t level) const;
  NameId RepeatIn(UnitWriter& unit, ValueId value, ModuleId twin);

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
