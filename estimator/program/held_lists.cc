#include "estimator/program/held_lists.h"

#include <algorithm>
#include <string>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

// "x = hs.pop()"
bool TakesOut(const Program& program, const ModuleCall& module, const std::string& list) {
  return std::ranges::any_of(module.statements, [&](const Statement& statement) {
    return statement.source != kNoStatement &&
           program.source.At(statement.source).Mentions(list + ".pop(");
  });
}

}  // namespace

void FollowLists(const Program& program, const NameBindings& bindings, const ModuleCall& module,
                 size_t index, ValueLives& lives) {
  const Statement& statement = module.statements[index];
  if (statement.source == kNoStatement) return;
  const SourceStatement& line = program.source.At(statement.source);
  const auto hold = [&](const std::string& list, NameId value) {
    if (value == kNoName) return;
    lives.HoldBy(list, value, bindings.NameBoundUntil(module, index, list));
  };
  if (!line.joins.empty() && std::ranges::find(line.targets, line.joins) == line.targets.end()) {
    for (int64_t i = statement.first; i <= statement.last; ++i) {
      const AtenCall& call = program.calls[Index(i)];
      if (call.op != "cat" && call.op != "stack") continue;
      for (const NameId part : call.inputs) hold(line.joins, part);
    }
  }
  if (line.appends_to.empty() || TakesOut(program, module, line.appends_to)) return;
  for (const NameId value : program.calls[Index(statement.last)].outputs) {
    hold(line.appends_to, value);
  }
}

}  // namespace onnxfit
