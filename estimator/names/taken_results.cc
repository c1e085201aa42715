#include "estimator/names/taken_results.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

constexpr char kTaken[] = "what layers hand on";

// The statements that are turns of one loop over modules, by its line.
std::map<StatementId, std::vector<const Statement*>> TurnsOf(const Program& program,
                                                             const ModuleCall& module) {
  std::map<StatementId, std::vector<const Statement*>> turns;
  for (const Statement& statement : module.statements) {
    const bool is_shown = statement.source != kNoStatement && statement.targets.size() == 1;
    if (!is_shown || statement.in_helper || !CallsModule(program, statement)) continue;
    turns[statement.source].push_back(&statement);
  }
  return turns;
}

// Whether a module that `turn` calls reads `value`, and nothing behind that does.
bool IsLastGivenTo(const Program& program, const ValueLives& lives, const Statement& turn,
                   NameId value) {
  const int64_t read = value == kNoName ? ValueLives::kBeforeAll : lives.LastReadAt(value);
  if (read < turn.first || read > turn.last) return false;
  return program.modules.DepthOf(program.calls[Index(read)].module) > turn.level;
}

}  // namespace

void FollowTakenResults(const Program& program, const ModuleCall& module, ValueLives& lives) {
  for (const auto& [line, turns] : TurnsOf(program, module)) {
    for (size_t turn = 0; turn + 2 < turns.size(); ++turn) {
      for (int64_t i = turns[turn]->first; i < turns[turn]->last; ++i) {
        for (const NameId value : program.calls[Index(i)].outputs) {
          const bool is_handed_on = IsLastGivenTo(program, lives, *turns.back(), value);
          if (is_handed_on) lives.HoldBy(kTaken, value, module.last);
        }
      }
    }
  }
}

}  // namespace onnxfit
