#include "estimator/names/shared_states.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"

namespace onnxfit {
namespace {

bool Stores(const Program& program, const ModuleCall& module, const StoredNames& row) {
  return std::ranges::any_of(module.statements, [&](const Statement& statement) {
    if (statement.source == kNoStatement) return false;
    const SourceStatement& line = program.source.At(statement.source);
    return line.text == row.line && line.file.find(row.file) != std::string::npos;
  });
}

// What the attention of a layer reads that was made before the layer began.
std::set<NameId> ReadBefore(const Program& program, const ModuleCall& attention, int64_t layer,
                            const ValueLives& lives) {
  std::set<NameId> read;
  for (int64_t i = attention.first; i <= attention.last; ++i) {
    for (const NameId name : program.calls[Index(i)].inputs) {
      const int64_t born = name == kNoName ? ValueLives::kBeforeAll : lives.BornAt(name);
      if (born != ValueLives::kBeforeAll && born < layer) read.insert(name);
    }
  }
  return read;
}

}  // namespace

void FollowSharedStates(Program& program, const ModuleRuns& runs,
                        const std::vector<ModuleCall>& modules, ValueLives& lives) {
  const StoredNames& row = NamesStoredByKind();
  std::map<std::set<NameId>, size_t> last;  // by what tells kinds apart: the run of an attention
  for (size_t run = 0; run < modules.size(); ++run) {
    const int32_t layer = runs.all()[run].caller;
    if (layer < 0 || !Stores(program, modules[run], row)) continue;
    last[ReadBefore(program, modules[run], modules[Index(layer)].first, lives)] = run;
  }
  for (const auto& [kind, run] : last) {
    const int32_t model = runs.all()[Index(runs.all()[run].caller)].caller;
    if (model < 0) continue;
    const ModuleCall& attention = modules[run];
    StoredItem item = {.values = {}, .owner = runs.all()[Index(model)].module};
    for (const std::string_view name : row.names) {
      const NameId value = lives.HeldUntil(std::string(name), attention.first, attention.last);
      if (value == kNoName) continue;
      lives.HoldBy(std::string(row.dict), value, modules[Index(model)].last);
      item.values.push_back(value);
    }
    if (!item.values.empty()) program.stored.push_back(std::move(item));
  }
}

}  // namespace onnxfit
