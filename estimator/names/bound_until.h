// Until when a name of Python's holds what a statement has bound to it.  Internal to the room
// names/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "estimator/names/value_lives.h"
#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"
#include "estimator/program/statements.h"

namespace onnxfit {

class NameBindings {
 public:
  // All must outlive it.
  NameBindings(const Program& program, const ModuleRuns& runs, const ValueLives& lives)
      : program_(program), runs_(runs), lives_(lives) {}

  // Target `place` of statement `index`: the end of the next statement that binds the same name or
  // returns, or may, its line being hidden and the value read there; or of the module call.  A
  // further turn of a loop passes on what a further name holds: "x, bias = layer(x, bias)".
  int64_t BoundUntil(const ModuleCall& module, size_t index, size_t place) const;

  // The end of the next statement behind `index` that binds `name` anew or returns; or of the
  // module call.
  int64_t NameBoundUntil(const ModuleCall& module, size_t index, const std::string& name) const;

  // Whether statement `index` is "x = self.extend(x)" of a forward that returns what it was given:
  // nothing that the line makes is read behind it, but what x was before.
  bool ReturnsArgument(const ModuleCall& module, size_t index) const;

  // The statement in which a value was made; null where it was none of the module call's.
  const Statement* MakerOf(const ModuleCall& module, NameId name) const;

  // Whether what `statement` makes is read behind call `last`.
  bool MakesReadBehind(const Statement& statement, int64_t last) const;

  // Whether a call of `later` reads the value of `statement`.
  bool Reads(const Statement& later, const Statement& statement) const;

 private:
  bool Returns(const Statement& statement) const;
  bool RebindsUnknown(const Statement& next, const Statement& statement,
                      const std::string& target) const;
  bool TakesFirstResult(const Statement& next, const std::string& target) const;
  int64_t EndOfReturn(const ModuleCall& module, const Statement& returning) const;
  int64_t EndOfTurns(const ModuleCall& module, size_t index) const;
  bool ReturnsSame(const Statement& later, const Statement& statement) const;
  bool ReadsValue(const Statement& statement, NameId value) const;
  std::string FirstArgumentOf(const Statement& statement) const;
  bool PassesOther(const ModuleCall& module, const Statement& next,
                   const std::string& target) const;

  const Program& program_;
  const ModuleRuns& runs_;
  const ValueLives& lives_;
};

}  // namespace onnxfit
