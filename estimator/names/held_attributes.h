// What modules' attributes hold: "self.attn = f(x)".  Internal to the room names/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "estimator/names/value_lives.h"
#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"
#include "estimator/program/statements.h"

namespace onnxfit {

class HeldAttributes {
 public:
  // Both must outlive it.
  HeldAttributes(const Program& program, const ModuleRuns& runs) : program_(program), runs_(runs) {}

  // Target `place` of a statement of run `module`, which is bound to `value`, if it is an
  // attribute.
  void Note(NameId value, size_t module, const Statement& statement, size_t place);

  // The same of what call `maker` makes in the forward of its module, where no line shows it.
  void Note(NameId value, int64_t maker, const std::string& target);

  // One value takes the place of the one before.  Returns those that are held beyond the step.
  std::vector<NameId> Follow(ValueLives& lives) const;

 private:
  // Of the module that runs, before its attributes' names.
  std::string PathOf(int32_t run) const;

  const Program& program_;
  const ModuleRuns& runs_;
  // By module and name: by the call behind which it is bound.
  std::map<std::string, std::map<int64_t, NameId>> values_;
};

}  // namespace onnxfit
