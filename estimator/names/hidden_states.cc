#include "estimator/names/hidden_states.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

constexpr char kName[] = "what models return";

class HiddenStates {
 public:
  HiddenStates(const Program& program, const ModuleRuns& runs, const NameBindings& bindings,
               const std::vector<ModuleCall>& modules, ValueLives& lives)
      : program_(program),
        runs_(runs),
        bindings_(bindings),
        modules_(modules),
        lives_(lives),
        readers_(program.values.size()) {
    for (size_t i = 0; i < program.calls.size(); ++i) {
      for (const NameId name : program.calls[i].inputs) {
        if (name != kNoName) readers_[Index(name)].push_back(static_cast<int64_t>(i));
      }
    }
  }

  void FollowLayers() {
    std::map<std::pair<int32_t, std::string_view>, std::vector<size_t>> loops;  // by forward, list
    for (size_t i = 0; i < runs_.all().size(); ++i) {
      const ModuleRun& run = runs_.all()[i];
      const std::string& name = program_.modules.NameAt(run.module, run.level);
      if (run.caller >= 0 && IsListed(name)) loops[{run.caller, ParentOf(name)}].push_back(i);
    }
    for (const auto& [loop, layers] : loops) {
      if (Collects(loop.first, loop.second, layers)) FollowLoop(loop.first, layers);
    }
  }

  void FollowFields() {
    for (size_t run = 0; run < modules_.size(); ++run) {
      for (const Statement& statement : modules_[run].statements) {
        const bool is_beside = statement.last < modules_[run].last || IsUnread(statement);
        if (IsField(statement) && is_beside && IsLastOf(modules_[run], statement)) {
          FollowField(static_cast<int32_t>(run), statement);
        }
        if (ReturnsTowers(statement)) FollowTowers(run, statement);
      }
    }
  }

 private:
  // A library that collects: by the line that calls a layer, or, without lines, by the list's name.
  bool Collects(int32_t loop, std::string_view list, const std::vector<size_t>& layers) const {
    if (layers.size() < 2 || !IsListOfCollected(list) || !AreChain(layers)) return false;
    const Statement* call = StatementAt(modules_[Index(loop)], runs_.all()[layers[0]].first);
    if (call == nullptr) return false;
    return call->source == kNoStatement || CollectsStates(program_.source.At(call->source).file);
  }

  // Whether each layer reads what the one before it has made, and nothing else of that.
  bool AreChain(const std::vector<size_t>& layers) const {
    for (size_t i = 1; i < layers.size(); ++i) {
      const NameId state = ResultOf(runs_.all()[layers[i - 1]]);
      const ModuleRun& next = runs_.all()[layers[i]];
      const auto reads = [&](int64_t call) { return next.first <= call && call <= next.last; };
      if (state == kNoName || std::ranges::none_of(readers_[Index(state)], reads)) return false;
      if (ReturnsMore(runs_.all()[layers[i - 1]])) return false;
    }
    return true;
  }

  bool ReturnsMore(const ModuleRun& layer) const {
    for (int64_t i = layer.first; i < layer.last; ++i) {
      for (const NameId name : program_.calls[Index(i)].outputs) {
        if (name != kNoName && lives_.LastReadAt(name) > layer.last) return true;
      }
    }
    return false;
  }

  // Where a forward around that of the loop reads the state of a layer that it does not return.
  void FollowLoop(int32_t loop, const std::vector<size_t>& layers) {
    std::vector<NameId> states = {GivenTo(runs_.all()[layers[0]])};
    for (const size_t layer : layers) states.push_back(ResultOf(runs_.all()[layer]));
    const ModuleRun& around = runs_.all()[Index(loop)];
    const bool goes_on = runs_.all()[layers.back()].last < around.last;
    const size_t inner = states.size() - (goes_on ? 0 : 1);  // else it returns the last one
    int64_t read = ReadBehind(around, std::span(states).first(inner));
    if (read == ValueLives::kBeforeAll) read = ReadBesideNorm(loop, states.back());
    if (read == ValueLives::kBeforeAll) return;
    const int64_t until = HeldUntil(loop, read);
    for (const NameId state : states) {
      if (state != kNoName) lives_.HoldBy(kName, state, until);
    }
  }

  // The first call behind the loop's forward that reads a state which that made.
  int64_t ReadBehind(const ModuleRun& loop, std::span<const NameId> states) const {
    int64_t first = ValueLives::kBeforeAll;
    for (const NameId state : states) {
      if (state == kNoName || lives_.BornAt(state) < loop.first) continue;
      const std::vector<int64_t>& reads = readers_[Index(state)];
      const auto read = std::ranges::upper_bound(reads, loop.last);
      if (read == reads.end()) continue;
      if (first == ValueLives::kBeforeAll || *read < first) first = *read;
    }
    return first;
  }

  // The first call that reads the last state behind a forward that returns the norm of it: it is
  // not that forward's last_hidden_state, but the last of its hidden_states.
  int64_t ReadBesideNorm(int32_t loop, NameId state) const {
    if (state == kNoName) return ValueLives::kBeforeAll;
    int32_t run = loop;
    while (run >= 0 && ResultOf(runs_.all()[Index(run)]) == state) {
      run = runs_.all()[Index(run)].caller;
    }
    const bool is_normed =
        run >= 0 && std::ranges::any_of(readers_[Index(state)], [&](int64_t i) {
          return i <= runs_.all()[Index(run)].last && program_.calls[Index(i)].op == "layer_norm";
        });
    return is_normed ? ReadBehind(runs_.all()[Index(run)], {&state, 1}) : ValueLives::kBeforeAll;
  }

  NameId ResultOf(const ModuleRun& run) const {
    const std::vector<NameId>& made = program_.calls[Index(run.last)].outputs;
    return made.empty() ? kNoName : made[0];
  }

  NameId GivenTo(const ModuleRun& run) const {
    const std::vector<NameId>& read = program_.calls[Index(run.first)].inputs;
    const bool is_made =
        !read.empty() && read[0] != kNoName && lives_.BornAt(read[0]) != ValueLives::kBeforeAll;
    return is_made ? read[0] : kNoName;
  }

  // Of the innermost forward that both runs the loop and reads behind it: what its name holds.
  int64_t HeldUntil(int32_t loop, int64_t read) const {
    int32_t run = runs_.all()[Index(loop)].caller;
    while (run >= 0 && runs_.all()[Index(run)].last < read) run = runs_.all()[Index(run)].caller;
    if (run < 0) return read;
    return std::max(read, NameUntil(run, runs_.all()[Index(loop)].first));
  }

  // Until when the name lives that the line of `run` around call `call` binds; the end of the line
  // where it takes a part of what it is given, or binds none.
  int64_t NameUntil(int32_t run, int64_t call) const {
    const ModuleCall& module = modules_[Index(run)];
    const Statement* statement = StatementAt(module, call);
    if (statement == nullptr || statement->source == kNoStatement) return module.last;
    if (statement->targets.empty() || !BindsWhole(*statement)) return statement->last;
    const auto index = static_cast<size_t>(statement - module.statements.data());
    return bindings_.BoundUntil(module, index, PlaceOfOutputs(*statement));
  }

  // 2 of "embeds, features, outputs = self.embedder(".
  static size_t PlaceOfOutputs(const Statement& statement) {
    const auto found = std::ranges::find_if(
        statement.targets, [](const std::string& name) { return name.ends_with("outputs"); });
    const bool is_any = found == statement.targets.end();
    return is_any ? 0 : static_cast<size_t>(found - statement.targets.begin());
  }

  // Not "x = self.model(x).pooler_output" nor "x = self.model(x)[1]", nor of a backbone, which
  // returns the states that it was asked for.
  bool BindsWhole(const Statement& statement) const {
    const SourceStatement& line = program_.source.At(statement.source);
    const std::string& text = line.text;
    if (CallsBackbone(text) || (CallsForFeatures(text) && MayTakeField(line))) return false;
    return text.ends_with(')') || text.ends_with('(') || text.ends_with(',');
  }

  // "features = self.get_image_features(" goes on mostly with ").pooler_output".
  static bool MayTakeField(const SourceStatement& line) {
    if (line.targets.empty() || !line.is_open) return false;
    const std::string& name = line.targets[0];
    return !line.text.starts_with(name + ": ") && !name.ends_with("outputs");
  }

  // What has the name of a field, or is numbers that a module makes and nothing reads: it is there
  // to be returned.
  bool IsField(const Statement& statement) const {
    const bool binds_one = statement.source != kNoStatement && statement.targets.size() == 1;
    if (!binds_one || !CollectsStates(program_.source.At(statement.source).file)) return false;
    return IsReturnedField(statement.targets[0]) || IsUnread(statement) ||
           BindsReturned(program_.source.At(statement.source).text);
  }

  bool IsUnread(const Statement& statement) const {
    const std::vector<NameId>& made = program_.calls[Index(statement.last)].outputs;
    const bool is_one = CallsModule(program_, statement) && made.size() == 1 && made[0] != kNoName;
    return is_one && lives_.LastReadAt(made[0]) == ValueLives::kBeforeAll &&
           IsFloat(program_.values[Index(made[0])].type.dtype);
  }

  // Whether no statement behind it binds its name anew, as turns of a loop do.
  static bool IsLastOf(const ModuleCall& module, const Statement& statement) {
    return std::none_of(&statement + 1, module.statements.data() + module.statements.size(),
                        [&](const Statement& later) { return later.targets == statement.targets; });
  }

  // "features = self.get_image_features(images)": what the towers that it calls return.
  bool ReturnsTowers(const Statement& statement) const {
    if (statement.source == kNoStatement || statement.targets.size() != 1) return false;
    return CallsForFeatures(program_.source.At(statement.source).text) && BindsWhole(statement);
  }

  void FollowTowers(size_t run, const Statement& statement) {
    const int64_t until = NameUntil(static_cast<int32_t>(run), statement.last);
    for (int64_t i = statement.first; i <= statement.last; ++i) {
      if (runs_.DepthAt(i) <= statement.level) continue;
      const int64_t first = i;
      i = runs_.EndOf(i, statement.level);
      const bool is_leaf =
          runs_.DepthAt(first) == statement.level + 1 && runs_.DepthAt(i) == runs_.DepthAt(first);
      const std::vector<NameId>& made = program_.calls[Index(i)].outputs;
      if (is_leaf || made.size() != 1 || made[0] == kNoName) continue;
      lives_.HoldBy(statement.targets[0], made[0], until);
    }
  }

  // Held by the name that the caller binds to what it is given, and, of a tower, by that of its
  // caller where it returns all of that in its turn.
  void FollowField(int32_t run, const Statement& statement) {
    const std::vector<NameId>& made = program_.calls[Index(statement.last)].outputs;
    if (made.size() != 1 || made[0] == kNoName) return;
    lives_.HoldBy(statement.targets[0], made[0], modules_[Index(run)].last);
    const bool is_towers = !BindsReturned(program_.source.At(statement.source).text);
    int32_t caller = runs_.all()[Index(run)].caller;
    for (bool goes_on = true; goes_on && caller >= 0; caller = runs_.all()[Index(caller)].caller) {
      lives_.HoldBy(kName, made[0], NameUntil(caller, statement.last));
      goes_on = is_towers && ReturnsWhole(caller, statement.last);
    }
  }

  // "text_outputs: Output = self.text_model(", of which "return Output(…)" makes a field.
  bool ReturnsWhole(int32_t run, int64_t call) const {
    const Statement* statement = StatementAt(modules_[Index(run)], call);
    if (statement == nullptr || statement->source == kNoStatement) return false;
    const SourceStatement& line = program_.source.At(statement->source);
    return CollectsStates(line.file) && ReturnsAllOf(line.text) && BindsWhole(*statement);
  }

  const Program& program_;
  const ModuleRuns& runs_;
  const NameBindings& bindings_;
  const std::vector<ModuleCall>& modules_;
  ValueLives& lives_;
  std::vector<std::vector<int64_t>> readers_;  // by name: the calls, in order
};

}  // namespace

void FollowHiddenStates(const Program& program, const ModuleRuns& runs,
                        const NameBindings& bindings, const std::vector<ModuleCall>& modules,
                        ValueLives& lives) {
  HiddenStates states(program, runs, bindings, modules, lives);
  states.FollowLayers();
  states.FollowFields();
}

}  // namespace onnxfit
