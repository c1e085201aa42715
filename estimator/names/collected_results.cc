#include "estimator/names/collected_results.h"

#include <algorithm>
#include <string>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

class CollectedFinder {
 public:
  CollectedFinder(const Program& program, const ModuleRuns& runs,
                  const std::vector<ModuleCall>& modules)
      : program_(program), runs_(runs), modules_(modules) {}

  CollectedResults Find() {
    for (size_t run = 0; run < modules_.size(); ++run) {
      for (const Statement& statement : modules_[run].statements) {
        if (statement.source == kNoStatement) continue;
        for (const CollectedLine& row : CollectedLines()) {
          if (program_.source.At(statement.source).Mentions(row.text)) {
            Collect(row, static_cast<int32_t>(run), statement);
          }
        }
      }
    }
    return std::move(found_);
  }

 private:
  // What the modules make that the statement calls; without any, what it makes itself in each turn.
  void Collect(const CollectedLine& row, int32_t run, const Statement& statement) {
    bool calls_module = false;
    for (int64_t i = statement.first; i <= statement.last; ++i) {
      if (runs_.DepthAt(i) <= statement.level) continue;
      calls_module = true;
      const ModuleId module = program_.calls[Index(i)].module;
      i = runs_.EndOf(i, statement.level);
      const std::string& name = program_.modules.NameAt(module, statement.level);
      if (ChildOf(name).starts_with(row.child)) Add(row, run, i);
    }
    if (calls_module) return;
    for (const Turn& turn : TurnsIn(program_, statement)) Add(row, run, turn.last);
  }

  void Add(const CollectedLine& row, int32_t run, int64_t call) {
    const std::vector<NameId>& results = program_.calls[Index(call)].outputs;
    if (results.empty() || results[0] == kNoName) return;
    found_.made.push_back({results[0], modules_[Index(run)].last, "what forward returns"});
    Return(row, results[0], run, call);
  }

  // To the callers of `run`.
  void Return(const CollectedLine& row, NameId value, int32_t run, int64_t call) {
    std::string before;
    for (run = runs_.all()[Index(run)].caller; run >= 0; run = runs_.all()[Index(run)].caller) {
      const std::vector<Statement>& statements = modules_[Index(run)].statements;
      const Statement* at = StatementAt(modules_[Index(run)], call);
      if (at == nullptr) return;
      const std::string name = at->targets.empty() ? "" : at->targets[0];
      if (!before.empty() && name != before) return;
      if (!name.empty()) {
        found_.returned.push_back({value, Index(run), static_cast<size_t>(at - statements.data())});
      }
      if (row.ends_with_caller && !name.empty()) return;
      const bool passes_on = PassesOn(at, statements);
      before = passes_on ? "" : name;
      if (!passes_on && name.empty()) return;
    }
  }

  // Whether the forward returns what `statement` has been given: nothing follows, or what is known
  // to add to it.
  bool PassesOn(const Statement* statement, const std::vector<Statement>& statements) const {
    const auto is_known = [&](const Statement& later) {
      return later.source != kNoStatement && PassesListOn(program_.source.At(later.source).text);
    };
    const Statement* end = statements.data() + statements.size();
    return statement + 1 == end || std::any_of(statement, end, is_known);
  }

  const Program& program_;
  const ModuleRuns& runs_;
  const std::vector<ModuleCall>& modules_;
  CollectedResults found_;
};

}  // namespace

CollectedResults FindCollected(const Program& program, const ModuleRuns& runs,
                               const std::vector<ModuleCall>& modules) {
  return CollectedFinder(program, runs, modules).Find();
}

}  // namespace onnxfit
