#include "estimator/names/value_lives.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>

#include "estimator/base/index.h"
#include "estimator/locals/forward_locals.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

std::vector<NameId> Mentioned(const AtenCall& call) {
  std::vector<NameId> names;
  for (const NameId name : call.inputs) {
    if (name != kNoName) names.push_back(name);
  }
  for (const NameId name : call.outputs) {
    if (name != kNoName) names.push_back(name);
  }
  return names;
}

}  // namespace

ValueLives::ValueLives(Program& program, const ModuleRuns& runs)
    : program_(program),
      runs_(runs),
      born_(program.values.size(), kBeforeAll),
      last_(program.values.size(), kBeforeAll),
      dies_(program.values.size(), kBeforeAll) {
  program_.keepers.resize(program.values.size());
  for (const Rebinding& rebinding : program.rebindings) {
    const std::vector<std::string>& targets = program.source.At(rebinding.statement).targets;
    rebindings_.emplace(rebinding.value, Rebound{targets, rebinding.behind, EndAround(rebinding)});
  }
  for (size_t i = 0; i < program_.calls.size(); ++i) Follow(static_cast<int64_t>(i));
}

int64_t ValueLives::BornAt(NameId name) const { return born_[Index(name)]; }
int64_t ValueLives::LastReadAt(NameId name) const { return last_[Index(name)]; }

void ValueLives::Follow(int64_t i) {
  const AtenCall& call = program_.calls[Index(i)];
  for (const NameId name : call.inputs) {
    if (name == kNoName) continue;
    last_[Index(name)] = i;
    const bool is_replaced = name == call.inputs[0] && ReplacesOperand(program_, call);
    is_replaced ? Extend(name, i, {}) : ExtendToModuleThatTook(name, i);
  }
  for (const NameId name : call.outputs) {
    if (name == kNoName) continue;
    born_[Index(name)] = i;
    Extend(name, i, {});
  }
}

NameId ValueLives::HeldUntil(const std::string& target, int64_t from, int64_t to) const {
  const auto held = held_.find({target, to});
  NameId found = kNoName;
  for (const NameId name : held == held_.end() ? std::vector<NameId>() : held->second) {
    if (name == found || BornAt(name) < from) continue;
    if (found != kNoName) return kNoName;
    found = name;
  }
  return found;
}

// The outermost module call around call `i` that does not hold the birth of `name`.
void ValueLives::ExtendToModuleThatTook(NameId name, int64_t i) {
  const int64_t born = born_[Index(name)];
  const ModuleId birth = born == kBeforeAll ? kOutside : program_.calls[Index(born)].module;
  const size_t shared = program_.modules.Shared(birth, program_.calls[Index(i)].module);
  if (shared >= runs_.DepthAt(i)) return Extend(name, i, {});
  Extend(name, runs_.EndOf(i, shared), {.by = NameKeeper::By::kArgument, .level = shared});
}

bool ValueLives::IsBound(NameId name) const {
  return program_.keepers[Index(name)].by == NameKeeper::By::kStatement;
}

// Whether the innermost statement that binds what the call makes binds it to the keeper's name: the
// name lets go of what it held before the frame returns.
bool ValueLives::IsBoundAnewAt(const AtenCall& call, NameId name) const {
  if (std::ranges::find(call.outputs, name) != call.outputs.end()) return false;
  for (size_t i = call.frames.size(); i-- > 0;) {
    if (call.frames[i] == kNoStatement) continue;
    const std::vector<std::string>& targets = program_.source.At(call.frames[i]).targets;
    if (targets.empty()) continue;
    return std::ranges::find(targets, program_.keepers[Index(name)].target) != targets.end();
  }
  return false;
}

// The last call of the forward in which a statement was left out, as far as its other calls tell:
// what a forward around it calls by the same name is another.
int64_t ValueLives::EndAround(const Rebinding& rebinding) const {
  const int64_t end = std::ssize(program_.calls) - 1;  // fast paths may have left less of them
  for (const int64_t at : {rebinding.behind, rebinding.behind + 1}) {
    const int64_t call = std::clamp<int64_t>(at, 0, end);
    int32_t run = runs_.RunOf(call);
    while (run >= 0 && runs_.all()[Index(run)].module != rebinding.module) {
      run = runs_.all()[Index(run)].caller;
    }
    if (run >= 0) return runs_.all()[Index(run)].last;
  }
  return std::numeric_limits<int64_t>::max();
}

// What the keeper's name is may be bound anew before.
int64_t ValueLives::Until(NameId name, int64_t to, const NameKeeper& keeper) const {
  const auto [first, last] = rebindings_.equal_range(name);
  for (auto rebinding = first; rebinding != last; ++rebinding) {
    const auto& [targets, behind, last] = rebinding->second;
    const bool is_same = to <= last && std::ranges::find(targets, keeper.target) != targets.end();
    if (is_same && behind >= born_[Index(name)]) to = std::min(to, behind);
  }
  return to;
}

void ValueLives::Extend(NameId name, int64_t to, const NameKeeper& keeper) {
  if (keeper.by == NameKeeper::By::kStatement) to = Until(name, to, keeper);
  const bool also_bound =
      to == dies_[Index(name)] && keeper.by == NameKeeper::By::kStatement && !IsBound(name);
  if (to <= dies_[Index(name)] && !also_bound) return;
  dies_[Index(name)] = to;
  program_.keepers[Index(name)] = keeper;
}

void ValueLives::Observe(NameId name, int64_t behind) {
  if (last_[Index(name)] == kBeforeAll && born_[Index(name)] == kBeforeAll) return;
  behind = std::max(behind, LastUseAt(name));
  if (dies_[Index(name)] == behind) return;  // what else is known says which of several goes first
  dies_[Index(name)] = behind;
  program_.keepers[Index(name)] = {.by = NameKeeper::By::kObserved};
}

void ValueLives::Place(const std::vector<bool>& held) {
  for (size_t name = 0; name < last_.size(); ++name) {
    if (last_[name] == kBeforeAll) continue;
    program_.calls[Index(last_[name])].last_reads.push_back(static_cast<NameId>(name));
  }
  // In the order in which calls mention them first, but what the call was passed before
  // what a name held that its result is bound to.
  std::vector<bool> placed = held;
  for (size_t i = 0; i < program_.calls.size(); ++i) {
    for (const NameId name : Mentioned(program_.calls[i])) {
      if (placed[Index(name)]) continue;
      placed[Index(name)] = true;
      program_.calls[Index(dies_[Index(name)])].dies.push_back(name);
    }
  }
  for (AtenCall& call : program_.calls) {
    const auto bound = std::stable_partition(call.dies.begin(), call.dies.end(),
                                             [&](NameId name) { return !IsBound(name); });
    std::stable_partition(bound, call.dies.end(),
                          [&](NameId name) { return IsBoundAnewAt(call, name); });
  }
}

}  // namespace onnxfit
