#include "estimator/names/held_lists.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

// "y = torch.stack([f(x) for x in xs])", whose list has no name beyond the line, or that of the
// line.
bool IsLoopInside(const SourceStatement& line) {
  return line.Mentions(" for ") && !line.text.starts_with("for ");
}

// The turns of the line of statement `first`, that one among them, as indices; {} where an earlier
// statement is of the line, too.
std::vector<size_t> TurnsOf(const Program& program, const ModuleCall& module, size_t first) {
  std::vector<size_t> turns;
  const StatementId source = module.statements[first].source;
  for (size_t i = 0; i < module.statements.size(); ++i) {
    const StatementId other = module.statements[i].source;
    if (other == kNoStatement || !program.source.AreSame(other, source)) continue;
    if (i < first) return {};
    turns.push_back(i);
  }
  return turns;
}

// How many turns have made what statements of one line read behind the next turn; the most.
size_t MostReadLater(const Program& program, const NameBindings& bindings, const ModuleCall& module,
                     const std::vector<size_t>& turns) {
  std::map<int64_t, std::set<size_t>> read;  // by line
  for (size_t turn = 0; turn + 1 < turns.size(); ++turn) {
    for (size_t i = turns[turn + 1] + 1; i < module.statements.size(); ++i) {
      const Statement& later = module.statements[i];
      if (later.source == kNoStatement) continue;
      if (!bindings.Reads(later, module.statements[turns[turn]])) continue;
      read[program.source.At(later.source).line].insert(turn);
    }
  }
  size_t most = 0;
  for (const auto& [line, made] : read) most = std::max(most, made.size());
  return most;
}

// kwargs["mask"] = f(x): no tensor has such places.
bool IsUnderName(const SourceStatement& line) {
  return line.text.starts_with(line.stores_in + "[\"") ||
         line.text.starts_with(line.stores_in + "['");
}

}  // namespace

void FollowHiddenLists(const Program& program, const NameBindings& bindings,
                       const ModuleCall& module, ValueLives& lives) {
  const bool takes_out = std::ranges::any_of(module.statements, [&](const Statement& statement) {
    return statement.source != kNoStatement &&
           program.source.At(statement.source).Mentions(".pop(");
  });
  for (size_t i = 0; i < module.statements.size() && !takes_out; ++i) {
    const Statement& first = module.statements[i];
    if (first.targets.empty() || first.source == kNoStatement) continue;
    if (IsLoopInside(program.source.At(first.source))) continue;
    const std::vector<size_t> turns = TurnsOf(program, module, i);
    if (turns.size() < 3 || MostReadLater(program, bindings, module, turns) < 2) continue;
    for (const size_t turn : turns) {
      for (const NameId value : program.calls[Index(module.statements[turn].last)].outputs) {
        if (value != kNoName) lives.HoldBy("", value, module.last);
      }
    }
  }
}

bool MakesListToTakeFrom(const Program& program, const ModuleCall& module,
                         const Statement& statement) {
  if (statement.source == kNoStatement || statement.targets.size() != 1) return false;
  const std::string& list = statement.targets[0];
  return program.source.At(statement.source).text.starts_with(list + " = [") &&
         TakesOut(program, module, list);
}

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
  // What the line makes and others read, of all its turns.
  const auto hold_leaving = [&](const std::string& list) {
    for (int64_t i = statement.first; i <= statement.last; ++i) {
      for (const NameId value : program.calls[Index(i)].outputs) {
        if (value == kNoName) continue;
        if (i == statement.last || lives.LastReadAt(value) > statement.last) hold(list, value);
      }
    }
  };
  // Of what modules make, and under a name: other lines write into tensors, and replace what lists
  // hold.
  const bool is_kept = CallsModule(program, statement) || IsUnderName(line);
  const bool stores = !line.stores_in.empty() && is_kept;
  if (stores) hold_leaving(line.stores_in);
  const bool appends = !line.appends_to.empty() && !TakesOut(program, module, line.appends_to);
  if (appends) hold_leaving(line.appends_to);
}

}  // namespace onnxfit
