// When each value of a program is made, read last and dropped.  Internal to the room names/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"

namespace onnxfit {

class ValueLives {
 public:
  static constexpr int64_t kBeforeAll = -1;

  // Without names of Python's: until the last call that reads it has returned, and every module
  // call that it was passed into.  Both must outlive it.  O(calls × depth of modules).
  ValueLives(Program& program, const ModuleRuns& runs);

  // The call that makes `name`, the last one that reads it: kBeforeAll where none does.
  int64_t BornAt(NameId name) const;
  int64_t LastReadAt(NameId name) const;
  // The last call that makes or reads it.
  int64_t LastUseAt(NameId name) const { return std::max(BornAt(name), LastReadAt(name)); }

  // The call behind which it dies, as far as is known.
  int64_t DiesAt(NameId name) const { return dies_[static_cast<size_t>(name)]; }

  // `keeper` holds it until call `to` has returned, or a statement that was left out binds the
  // keeper's name anew before.
  void Extend(NameId name, int64_t to, const NameKeeper& keeper);
  // The same of a name of Python's.
  void HoldBy(const std::string& target, NameId name, int64_t to) {
    if (name != kNoName && !target.empty()) held_[{target, to}].push_back(name);
    Extend(name, to, {.by = NameKeeper::By::kStatement, .target = target});
  }
  // What the name `target` holds until call `to`, of what was made since call `from`, where that is
  // one value; else kNoName.
  NameId HeldUntil(const std::string& target, int64_t from, int64_t to) const;

  // It was seen to die behind call `behind`, be it read until later.
  void Observe(NameId name, int64_t behind);

  // Fills AtenCall::last_reads and AtenCall::dies, but for what is `held` longer than the step.
  void Place(const std::vector<bool>& held);

 private:
  struct Rebound {
    std::vector<std::string> targets;
    int64_t behind = 0;
    int64_t last = 0;  // call of the forward whose names they are
  };

  void Follow(int64_t i);
  void ExtendToModuleThatTook(NameId name, int64_t i);
  bool IsBound(NameId name) const;
  bool IsBoundAnewAt(const AtenCall& call, NameId name) const;
  int64_t Until(NameId name, int64_t to, const NameKeeper& keeper) const;
  int64_t EndAround(const Rebinding& rebinding) const;

  Program& program_;
  const ModuleRuns& runs_;
  std::vector<int64_t> born_;  // by name
  std::vector<int64_t> last_;
  std::vector<int64_t> dies_;
  std::multimap<NameId, Rebound> rebindings_;                            // by value
  std::map<std::pair<std::string, int64_t>, std::vector<NameId>> held_;  // by name and last call
};

}  // namespace onnxfit
