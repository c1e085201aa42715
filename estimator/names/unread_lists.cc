#include "estimator/names/unread_lists.h"

#include <cstddef>
#include <cstdint>
#include <map>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

constexpr char kReturnedList[] = "what models return";

class UnreadLists {
 public:
  UnreadLists(const Program& program, const ModuleRuns& runs, const NameBindings& bindings,
              ValueLives& lives)
      : program_(program), runs_(runs), bindings_(bindings), lives_(lives) {}

  void Follow(const ModuleCall& module) {
    std::map<StatementId, std::vector<size_t>> turns;  // by line: statements that nothing reads
    std::map<StatementId, size_t> times;
    for (size_t i = 0; i < module.statements.size(); ++i) {
      const Statement& statement = module.statements[i];
      if (statement.source == kNoStatement) continue;
      ++times[statement.source];
      const bool calls_module = runs_.DepthAt(statement.first) > statement.level;
      const bool is_read = bindings_.MakesReadBehind(statement, statement.last);
      if (i > 0 && calls_module && !is_read) turns[statement.source].push_back(i);
    }
    for (const auto& [line, statements] : turns) {
      if (statements.size() < 2 || statements.size() != times[line]) continue;
      for (const size_t i : statements) {
        Hold(module.statements[i]);
        Hold(module.statements[i - 1]);
      }
    }
  }

 private:
  NameId ResultOf(const Statement& statement) const {
    const std::vector<NameId>& made = program_.calls[Index(statement.last)].outputs;
    return made.size() == 1 ? made[0] : kNoName;
  }

  void Hold(const Statement& statement) {
    lives_.HoldBy(kReturnedList, ResultOf(statement), runs_.EndOf(statement.last, 0));
  }

  const Program& program_;
  const ModuleRuns& runs_;
  const NameBindings& bindings_;
  ValueLives& lives_;
};

}  // namespace

void FollowUnreadLists(const Program& program, const ModuleRuns& runs, const NameBindings& bindings,
                       const std::vector<ModuleCall>& modules, ValueLives& lives) {
  UnreadLists lists(program, runs, bindings, lives);
  for (const ModuleCall& module : modules) lists.Follow(module);
}

}  // namespace onnxfit
