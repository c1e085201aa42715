#include "estimator/names/lifetimes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "estimator/locals/forward_locals.h"
#include "estimator/locals/helper_frames.h"
#include "estimator/names/bound_aliases.h"
#include "estimator/names/bound_until.h"
#include "estimator/names/evicted_results.h"
#include "estimator/names/held_attributes.h"
#include "estimator/names/held_lists.h"
#include "estimator/names/held_names.h"
#include "estimator/names/hidden_states.h"
#include "estimator/names/passed_results.h"
#include "estimator/names/returned_tuples.h"
#include "estimator/names/returned_weights.h"
#include "estimator/names/shared_states.h"
#include "estimator/names/taken_results.h"
#include "estimator/names/value_lives.h"
#include "estimator/observed/observed_casts.h"
#include "estimator/observed/observed_deaths.h"
#include "estimator/program/modules.h"
#include "estimator/program/repeated_modules.h"
#include "estimator/program/statements.h"

namespace onnxfit {
namespace {

class Lifetimes {
 public:
  explicit Lifetimes(Program& program)
      : program_(program),
        runs_(program),
        lives_(program, runs_),
        bindings_(program, runs_, lives_),
        attributes_(program, runs_) {
    FollowCaches();
  }

  // `held` live on; so does what functions' caches hold, until a call of the next step.
  void Place(std::vector<bool> held) {
    const std::vector<CachedResult> cached = FollowEvictedResults(program_, lives_);
    for (const CachedResult& result : cached) held[Index(result.value)] = true;
    lives_.Place(held);
    for (const CachedResult& result : cached) {
      program_.calls[Index(result.until)].dies.push_back(result.value);
    }
  }

  // What statements bind to names lives as long as the names hold it.
  void FollowStatements() {
    const std::vector<ModuleCall> modules = FindModuleCalls(program_, runs_);
    for (const ModuleCall& module : modules) {
      for (size_t i = 0; i < module.statements.size(); ++i) {
        const bool is_known = FollowHelper(module, i);
        FollowStatement(module, i, is_known);
        FollowLists(program_, bindings_, module, i, lives_);
        FollowMaskKeywords(module, i);
      }
      FollowHiddenLists(program_, bindings_, module, lives_);
      FollowAliases(program_, bindings_, module, lives_);
      FollowPassedResults(program_, runs_, module, lives_);
      FollowTakenResults(program_, module, lives_);
    }
    FollowWeights(modules);
    FollowHiddenStates(program_, runs_, bindings_, modules, lives_);
    FollowSharedStates(program_, runs_, modules, lives_);
    FollowTuples(modules);
    for (size_t m = 0; m < modules.size(); ++m) {
      for (const Statement& statement : modules[m].statements) {
        for (const NameId value : program_.calls[Index(statement.last)].outputs) {
          if (!statement.targets.empty()) attributes_.Note(value, m, statement, 0);
        }
      }
    }
  }

  // Returns what modules' attributes hold beyond the step, until the next one binds them anew.
  std::vector<NameId> FollowAttributes() { return attributes_.Follow(lives_); }

  // What is known to be bound though no line says so.
  void FollowKnownNames() {
    int64_t last = ValueLives::kBeforeAll;  // the model's; the loss is behind it
    for (const NameId output : program_.outputs) last = std::max(last, lives_.BornAt(output));
    for (const KnownName& known : FindKnownNames(program_, runs_, last)) {
      lives_.HoldBy(known.name, known.value, known.until);
      const bool is_attribute = known.name.starts_with("self.");
      if (is_attribute) attributes_.Note(known.value, lives_.BornAt(known.value), known.name);
    }
    for (size_t i = 0; i < program_.calls.size(); ++i) {
      for (const HeldValue& held : program_.calls[i].held) {
        const auto call = static_cast<int64_t>(i);
        const bool is_call = held.level >= runs_.DepthAt(call);
        lives_.HoldBy("", held.value, is_call ? call : runs_.EndOf(call, held.level));
      }
    }
  }

  // What modules of the same classes were seen to do goes before all that lines and habits say, but
  // for what a dict holds for other layers: which of them read it is the file's own.
  void FollowObserved(WantedRuns wanted) {
    wanted.taken = kAllRuns;  // names end where they do in any precision
    wanted.counts_lines = true;
    const ForwardMatches matches(program_, runs_, SkeletonsOfLibraries(), wanted);
    const KnownDeaths known = FindKnownDeaths(program_, runs_, matches);
    for (size_t name = 0; name < known.behind.size(); ++name) {
      if (!known.behind[name]) continue;
      const auto value = static_cast<NameId>(name);
      const std::optional<int64_t>& until = known.is_known_until[name];
      if ((until && lives_.DiesAt(value) > *until) || IsStored(value)) continue;
      lives_.Observe(value, *known.behind[name]);
    }
    if (!known.unwatched.empty()) {
      program_.warnings.push_back(
          WarnOfUnwatched(known, std::string(SkeletonsOfLibraries().releases())));
    }
  }

  bool IsStored(NameId value) const {
    return std::ranges::any_of(program_.stored, [&](const StoredItem& item) {
      return std::ranges::find(item.values, value) != item.values.end();
    });
  }

  void ExtendToEnd(NameId name) {
    lives_.Extend(name, static_cast<int64_t>(program_.calls.size()) - 1,
                  {.by = NameKeeper::By::kOutput});
  }

 private:
  // What a cache holds, which the outermost forward makes, until something takes its place.
  void FollowCaches() {
    std::set<NameId> replaced;
    for (size_t i = program_.calls.size(); i-- > 0;) {
      const AtenCall& call = program_.calls[i];
      const auto at = static_cast<int64_t>(i);
      if (!ReplacesOperand(program_, call) || runs_.DepthAt(at) == 0) continue;
      if (!replaced.contains(call.outputs[0])) {
        lives_.HoldBy("", call.outputs[0], runs_.EndOf(at, 0));
      }
      replaced.insert(call.inputs[0]);
    }
  }

  // The value of the statement is taken to be bound to its first target, and all else that it
  // made and later ones read to the second, if there is one; of "q, k = rotate(q, k)", which calls
  // no module, the second to the second.
  // `is_known` where the text of the function that it calls is.
  void FollowStatement(const ModuleCall& module, size_t index, bool is_known) {
    const Statement& statement = module.statements[index];
    if (statement.targets.empty() || MakesListToTakeFrom(program_, module, statement)) return;
    if (bindings_.ReturnsArgument(module, index)) return;
    const bool is_function = statement.in_helper || !CallsModule(program_, statement);
    if (is_function && FollowPairs(module, index)) {
      if (!is_known && CallsOneFunction(statement)) HoldLocals(statement);
      return;
    }
    const int64_t returned = CallOfResult(statement);
    // A method returns lists, where more leaves it than the line has names: "a, b =
    // self.pyramid(x), self.pyramid(y)".
    const bool may_be_local =
        statement.in_helper && LeavingOf(statement).size() <= statement.targets.size();
    for (int64_t i = statement.first; i <= statement.last; ++i) {
      for (const NameId name : program_.calls[Index(i)].outputs) {
        if (name == kNoName) continue;
        const bool is_local = may_be_local || lives_.LastReadAt(name) <= statement.last;
        if (i != returned && is_local) {
          if (!is_known) HoldInHelper(statement, i, name);
          continue;
        }
        const size_t target = i != returned && statement.targets.size() > 1 ? 1 : 0;
        lives_.HoldBy(statement.targets[target], name, bindings_.BoundUntil(module, index, target));
      }
    }
    const NameId other = OtherResult(statement);
    if (other == kNoName) return;
    lives_.HoldBy(statement.targets[0], other, bindings_.BoundUntil(module, index, 0));
  }

  // The call that makes what the statement binds: its last one, but of a method that checks what it
  // returns behind it, "mask = self.get_placeholder_mask(ids)", the only one that is read later.
  int64_t CallOfResult(const Statement& statement) const {
    if (!statement.in_helper || statement.targets.size() != 1) return statement.last;
    int64_t found = ValueLives::kBeforeAll;
    for (int64_t i = statement.first; i <= statement.last; ++i) {
      for (const NameId name : program_.calls[Index(i)].outputs) {
        if (name == kNoName || lives_.LastReadAt(name) <= statement.last) continue;
        if (found != ValueLives::kBeforeAll) return statement.last;
        found = i;
      }
    }
    return found == ValueLives::kBeforeAll ? statement.last : found;
  }

  void FollowWeights(const std::vector<ModuleCall>& modules) {
    for (const HeldWeights& held : FindHeldWeights(program_, runs_, modules)) {
      const ModuleCall& module = modules[held.module];
      const Statement& statement = module.statements[held.statement];
      lives_.HoldBy(statement.targets[held.place], held.weights,
                    bindings_.BoundUntil(module, held.statement, held.place));
      attributes_.Note(held.weights, held.module, statement, held.place);
    }
  }

  void FollowTuples(const std::vector<ModuleCall>& modules) {
    for (const ReturnedValue& held : FindReturnedTuples(program_, runs_, modules)) {
      const ModuleCall& module = modules[held.module];
      lives_.HoldBy(module.statements[held.statement].targets[held.place], held.value,
                    bindings_.BoundUntil(module, held.statement, held.place));
    }
  }

  // The names of a function whose text is known, and those of its caller for what it returns.
  // Whether it is.
  bool FollowHelper(const ModuleCall& module, size_t index) {
    const Statement& statement = module.statements[index];
    const HelperNames names = FindHelperNames(program_, runs_, statement);
    for (const KnownName& local : names.locals) {
      lives_.HoldBy(local.name, local.value, local.until);
    }
    for (size_t i = 0; i < std::min(names.returned.size(), statement.targets.size()); ++i) {
      const int64_t until = bindings_.BoundUntil(module, index, i);
      for (const NameId value : names.returned[i]) {
        lives_.HoldBy(statement.targets[i], value, until);
      }
    }
    return !names.locals.empty();
  }

  // "mask = make_mask(**mask_kwargs)", whose dict holds the embeddings that a module has made
  // before, as the name holds them that they were bound to.
  void FollowMaskKeywords(const ModuleCall& module, size_t index) {
    const std::vector<Statement>& statements = module.statements;
    const StatementId source = statements[index].source;
    if (index == 0 || source == kNoStatement || !PassesEmbeddings(program_.source.At(source).text))
      return;
    size_t embeds = index;
    while (embeds > 0 && !CallsModule(program_, statements[--embeds])) {
    }
    if (statements[embeds].targets.empty()) return;
    size_t last = index - 1;
    while (last > embeds && statements[last].targets != statements[embeds].targets) --last;
    for (const NameId name : program_.calls[Index(statements[last].last)].outputs) {
      lives_.HoldBy("mask_kwargs", name, bindings_.NameBoundUntil(module, index, "mask_kwargs"));
    }
  }

  // Not "q, k = self.phi(q), self.phi(k)".
  bool CallsOneFunction(const Statement& statement) const {
    return statement.source != kNoStatement &&
           !program_.source.At(statement.source).function.empty();
  }

  // What the names of a function hold that its caller has nothing of.
  void HoldLocals(const Statement& statement) {
    for (int64_t i = statement.first; i < statement.last; ++i) {
      for (const NameId name : program_.calls[Index(i)].outputs) {
        const bool is_local = name != kNoName && lives_.LastReadAt(name) <= statement.last;
        if (is_local) HoldInHelper(statement, i, name);
      }
    }
  }

  void HoldInHelper(const Statement& statement, int64_t maker, NameId name) {
    const int64_t held = HeldInHelper(program_, runs_, statement, maker, name);
    if (held > maker) lives_.HoldBy("", name, held);
  }

  // What the statement makes and later ones read.
  std::vector<NameId> LeavingOf(const Statement& statement) const {
    std::vector<NameId> leaving;
    for (int64_t i = statement.first; i <= statement.last; ++i) {
      for (const NameId name : program_.calls[Index(i)].outputs) {
        if (name != kNoName && lives_.LastReadAt(name) > statement.last) leaving.push_back(name);
      }
    }
    return leaving;
  }

  // Where as many values leave a statement as it has targets, each is bound to its own.
  bool FollowPairs(const ModuleCall& module, size_t index) {
    const Statement& statement = module.statements[index];
    if (statement.targets.size() < 2) return false;
    const std::vector<NameId> leaving = LeavingOf(statement);
    if (leaving.size() != statement.targets.size()) return false;
    for (size_t i = 0; i < leaving.size(); ++i) {
      lives_.HoldBy(statement.targets[i], leaving[i], bindings_.BoundUntil(module, index, i));
    }
    return true;
  }

  // A model of transformers returns its last hidden state beside what it pooled, the row that it
  // selected of it along dimension 1, "outputs = self.bert(x)"; or the encoder's beside the
  // decoder's.
  NameId OtherResult(const Statement& statement) const {
    if (!statement.targets[0].ends_with("outputs")) return kNoName;
    for (int64_t i = statement.last; i >= statement.first; --i) {
      const AtenCall& call = program_.calls[Index(i)];
      const bool is_row = call.op == "select" && (call.ints.empty() || call.ints[0] == 1);
      if (!is_row) continue;
      const int32_t run = runs_.RunOf(i);  // of a tower that another model follows, it is not
      if (run < 0 || runs_.all()[Index(run)].last < statement.last) break;
      return lives_.BornAt(call.inputs[0]) >= statement.first ? call.inputs[0] : kNoName;
    }
    return LastOfEncoder(statement);
  }

  // What a module "encoder" has made beside a "decoder" that runs behind it, both in the one that
  // the statement calls; kNoName without them.
  NameId LastOfEncoder(const Statement& statement) const {
    for (int64_t i = statement.last; i > statement.first; --i) {
      const ModuleTree& modules = program_.modules;
      const ModuleId module = program_.calls[Index(i)].module;
      const ModuleId before = program_.calls[Index(i - 1)].module;
      const size_t shared = modules.Shared(module, before);
      const bool goes_on = shared < modules.DepthOf(module) && shared < modules.DepthOf(before) &&
                           ChildOf(modules.NameAt(module, shared)) == "decoder" &&
                           ChildOf(modules.NameAt(before, shared)) == "encoder";
      if (goes_on) return program_.calls[Index(i - 1)].outputs[0];
    }
    return kNoName;
  }

  Program& program_;
  const ModuleRuns runs_;
  ValueLives lives_;
  const NameBindings bindings_;
  HeldAttributes attributes_;
};

}  // namespace

void PlaceDeaths(Program& program, const TrainingSettings& settings, bool is_as_written) {
  if (program.calls.empty()) return;
  MarkRepeatedModules(program);
  MarkNumberedModules(program);
  PlaceObservedCasts(program, settings, SkeletonsOfLibraries(), is_as_written);
  Lifetimes lifetimes(program);
  lifetimes.FollowStatements();
  lifetimes.FollowKnownNames();
  const std::vector<NameId> of_attributes = lifetimes.FollowAttributes();
  lifetimes.FollowObserved(RunsLike(settings, is_as_written));
  for (const NameId name : program.outputs) lifetimes.ExtendToEnd(name);
  std::vector<bool> held = HeldNames(program, settings);
  for (const NameId name : of_attributes) held[Index(name)] = true;
  lifetimes.Place(std::move(held));
}

}  // namespace onnxfit
