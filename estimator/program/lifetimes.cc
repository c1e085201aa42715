#include "estimator/program/lifetimes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/program/forward_locals.h"
#include "estimator/program/helper_frames.h"
#include "estimator/program/modules.h"
#include "estimator/program/repeated_modules.h"
#include "estimator/program/returned_weights.h"
#include "estimator/program/statements.h"

namespace onnxfit {
namespace {

constexpr int64_t kBeforeAll = -1;

// "x" of "y = block(x, size)" and "y = self.blocks[i](x)"; "" of others.
std::string_view FirstArgument(std::string_view line) {
  const size_t open = line.find('(', line.find(" = "));
  if (open == line.npos) return "";
  const std::string_view rest = line.substr(open + 1);
  const size_t end = rest.find_first_of(",)");
  return end == rest.npos ? rest : rest.substr(0, end);
}

// "xs = [f(x) for x in ys]": the list holds what all turns make.
bool IsComprehension(std::string_view line) {
  const size_t loop = line.find(" for ");
  const size_t list = line.find(" = [");
  return list != line.npos && loop != line.npos && list < loop;
}

class Lifetimes {
 public:
  explicit Lifetimes(Program& program)
      : program_(program),
        runs_(program),
        born_(program.values.size(), kBeforeAll),
        last_(program.values.size(), kBeforeAll),
        dies_(program.values.size(), kBeforeAll) {
    program_.keepers.resize(program.values.size());
    for (const Rebinding& rebinding : program.rebindings) {
      rebindings_.emplace(rebinding.value, &rebinding);
    }
    for (size_t i = 0; i < program_.calls.size(); ++i) Follow(static_cast<int64_t>(i));
    FollowCaches();
  }

  void Place(const std::vector<bool>& held) {
    for (size_t name = 0; name < last_.size(); ++name) {
      if (last_[name] == kBeforeAll) continue;
      program_.calls[Index(last_[name])].last_reads.push_back(static_cast<NameId>(name));
    }
    // In the order in which calls mention them first, but what the call was passed before
    // what a name held that its result is bound to.
    std::vector<bool> placed = held;
    for (size_t i = 0; i < program_.calls.size(); ++i) {
      for (const NameId name : Mentioned(program_.calls[i])) {
        if (placed[Index(name)]) continue;
        placed[Index(name)] = true;
        program_.calls[Index(dies_[Index(name)])].dies.push_back(name);
      }
    }
    for (AtenCall& call : program_.calls) {
      std::stable_partition(call.dies.begin(), call.dies.end(),
                            [&](NameId name) { return !IsBound(name); });
    }
  }

  // What statements bind to names lives as long as the names hold it.
  void FollowStatements() {
    const std::vector<ModuleCall> modules = FindModuleCalls(program_, runs_);
    for (const ModuleCall& module : modules) {
      for (size_t i = 0; i < module.statements.size(); ++i) {
        FollowStatement(module, i);
        FollowList(module, i);
        FollowHelper(module.statements[i]);
      }
      FollowAliases(module);
    }
    for (const HeldWeights& held : FindHeldWeights(program_, runs_, modules)) {
      const ModuleCall& module = modules[held.module];
      Extend(held.weights, BoundUntil(module, held.statement, held.place),
             {.by = NameKeeper::By::kStatement,
              .target = module.statements[held.statement].targets[held.place]});
      NoteAttribute(held.weights, held.module, module.statements[held.statement], held.place);
    }
    for (size_t m = 0; m < modules.size(); ++m) {
      for (const Statement& statement : modules[m].statements) {
        for (const NameId value : program_.calls[Index(statement.last)].outputs) {
          if (!statement.targets.empty()) NoteAttribute(value, m, statement, 0);
        }
      }
    }
    FollowAttributes();
  }

  // What modules' attributes hold beyond the step, until the next one binds them anew.
  const std::vector<NameId>& of_attributes() const { return of_attributes_; }

  // What is known to be bound though no line says so.
  void FollowKnownNames() {
    int64_t last = kBeforeAll;  // the model's; the loss is behind it
    for (const NameId output : program_.outputs) last = std::max(last, born_[Index(output)]);
    for (const KnownName& known : FindKnownNames(program_, runs_, last)) {
      Extend(known.value, known.until, {.by = NameKeeper::By::kStatement, .target = known.name});
    }
    for (size_t i = 0; i < program_.calls.size(); ++i) {
      for (const HeldValue& held : program_.calls[i].held) {
        const auto call = static_cast<int64_t>(i);
        const bool is_call = held.level >= runs_.DepthAt(call);
        Extend(held.value, is_call ? call : runs_.EndOf(call, held.level),
               {.by = NameKeeper::By::kStatement});
      }
    }
  }

  void ExtendToEnd(NameId name) {
    Extend(name, static_cast<int64_t>(program_.calls.size()) - 1, {.by = NameKeeper::By::kOutput});
  }

 private:
  static std::vector<NameId> Mentioned(const AtenCall& call) {
    std::vector<NameId> names;
    for (const NameId name : call.inputs) {
      if (name != kNoName) names.push_back(name);
    }
    for (const NameId name : call.outputs) {
      if (name != kNoName) names.push_back(name);
    }
    return names;
  }

  void Follow(int64_t i) {
    const AtenCall& call = program_.calls[Index(i)];
    for (const NameId name : call.inputs) {
      if (name == kNoName) continue;
      last_[Index(name)] = i;
      const bool is_replaced = name == call.inputs[0] && ReplacesOperand(program_, call);
      is_replaced ? Extend(name, i, {}) : ExtendToModuleThatTook(name, i);
    }
    for (const NameId name : call.outputs) {
      if (name == kNoName) continue;
      born_[Index(name)] = i;
      Extend(name, i, {});
    }
  }

  // What a cache holds, which the outermost forward makes, until something takes its place.
  void FollowCaches() {
    std::set<NameId> replaced;
    for (size_t i = program_.calls.size(); i-- > 0;) {
      const AtenCall& call = program_.calls[i];
      const auto at = static_cast<int64_t>(i);
      if (!ReplacesOperand(program_, call) || runs_.DepthAt(at) == 0) continue;
      if (!replaced.contains(call.outputs[0])) {
        Extend(call.outputs[0], runs_.EndOf(at, 0), {.by = NameKeeper::By::kStatement});
      }
      replaced.insert(call.inputs[0]);
    }
  }

  // The value of the statement is taken to be bound to its first target, and all else that it
  // made and later ones read to the second, if there is one; of "q, k = rotate(q, k)", which calls
  // no module, the second to the second.
  void FollowStatement(const ModuleCall& module, size_t index) {
    const Statement& statement = module.statements[index];
    if (statement.targets.empty()) return;
    if (!CallsModule(statement) && FollowPairs(module, index)) return;
    const int64_t until = BoundUntil(module, index, 0);
    for (int64_t i = statement.first; i <= statement.last; ++i) {
      for (const NameId name : program_.calls[Index(i)].outputs) {
        if (name == kNoName) continue;
        const bool is_local = statement.in_helper || last_[Index(name)] <= statement.last;
        if (i != statement.last && is_local) {
          HoldInHelper(statement, i, name);
          continue;
        }
        const bool is_further = i != statement.last && statement.targets.size() > 1;
        const size_t target = is_further ? 1 : 0;
        Extend(name, is_further ? BoundUntil(module, index, target) : until,
               {.by = NameKeeper::By::kStatement, .target = statement.targets[target]});
      }
    }
    const NameId other = OtherResult(statement);
    if (other == kNoName) return;
    Extend(other, until, {.by = NameKeeper::By::kStatement, .target = statement.targets[0]});
  }

  // "self.attn = f(x)"
  void NoteAttribute(NameId value, size_t module, const Statement& statement, size_t place) {
    const std::string& target = statement.targets[place];
    if (value == kNoName || !target.starts_with("self.")) return;
    const std::string path = program_.modules.PathOf(runs_.all()[module].module);
    attributes_[path.substr(0, path.find('@')) + target][statement.last] = value;
  }

  // One value takes the place of the one before.
  void FollowAttributes() {
    for (const auto& [attribute, values] : attributes_) {
      for (auto value = values.begin(); value != values.end(); ++value) {
        const auto next = std::next(value);
        if (next == values.end()) {
          of_attributes_.push_back(value->second);
          continue;
        }
        Extend(value->second, next->first, {.by = NameKeeper::By::kStatement, .target = attribute});
      }
    }
  }

  // The names of a function whose text is known.
  void FollowHelper(const Statement& statement) {
    for (const KnownName& local : FindHelperNames(program_, statement)) {
      Extend(local.value, local.until, {.by = NameKeeper::By::kStatement, .target = local.name});
    }
  }

  void HoldInHelper(const Statement& statement, int64_t maker, NameId name) {
    const int64_t held = HeldInHelper(program_, runs_, statement, maker, name);
    if (held > maker) Extend(name, held, {.by = NameKeeper::By::kStatement});
  }

  // A list that a name holds, holds what is in it: what torch.cat is given by that name, and what
  // a statement appends that nothing takes out again.
  void FollowList(const ModuleCall& module, size_t index) {
    const Statement& statement = module.statements[index];
    if (statement.source == kNoStatement) return;
    const SourceStatement& line = program_.source.At(statement.source);
    if (!line.joins.empty() && std::ranges::find(line.targets, line.joins) == line.targets.end()) {
      for (int64_t i = statement.first; i <= statement.last; ++i) {
        const AtenCall& call = program_.calls[Index(i)];
        if (call.op != "cat" && call.op != "stack") continue;
        for (const NameId part : call.inputs) HoldInList(module, index, line.joins, part);
      }
    }
    if (line.appends_to.empty() || TakesOut(module, line.appends_to)) return;
    for (const NameId value : program_.calls[Index(statement.last)].outputs) {
      HoldInList(module, index, line.appends_to, value);
    }
  }

  void HoldInList(const ModuleCall& module, size_t index, const std::string& list, NameId value) {
    if (value == kNoName) return;
    Extend(value, NameBoundUntil(module, index, list),
           {.by = NameKeeper::By::kStatement, .target = list});
  }

  // "x = hs.pop()"
  bool TakesOut(const ModuleCall& module, const std::string& list) const {
    return std::ranges::any_of(module.statements, [&](const Statement& statement) {
      return statement.source != kNoStatement &&
             program_.source.At(statement.source).Mentions(list + ".pop(");
    });
  }

  // The end of the next statement that binds `name` anew or returns; or of the module call.
  int64_t NameBoundUntil(const ModuleCall& module, size_t index, const std::string& name) const {
    for (size_t i = index + 1; i < module.statements.size(); ++i) {
      const Statement& next = module.statements[i];
      const bool rebinds = std::ranges::find(next.targets, name) != next.targets.end();
      if (rebinds || Returns(next)) return next.last;
    }
    return module.last;
  }

  bool CallsModule(const Statement& statement) const {
    for (int64_t i = statement.first; i <= statement.last; ++i) {
      if (runs_.DepthAt(i) > statement.level) return true;
    }
    return false;
  }

  // Where as many values leave a statement as it has targets, each is bound to its own.
  bool FollowPairs(const ModuleCall& module, size_t index) {
    const Statement& statement = module.statements[index];
    if (statement.targets.size() < 2) return false;
    std::vector<NameId> leaving;
    for (int64_t i = statement.first; i <= statement.last; ++i) {
      for (const NameId name : program_.calls[Index(i)].outputs) {
        if (name != kNoName && last_[Index(name)] > statement.last) leaving.push_back(name);
      }
    }
    if (leaving.size() != statement.targets.size()) return false;
    for (size_t i = 0; i < leaving.size(); ++i) {
      Extend(leaving[i], BoundUntil(module, index, i),
             {.by = NameKeeper::By::kStatement, .target = statement.targets[i]});
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
      return born_[Index(call.inputs[0])] >= statement.first ? call.inputs[0] : kNoName;
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

  // "residual" of "x = residual + x", where another name was bound to what it reads: there is
  // no call in "residual = x".  It holds the value until what is read by that name next has
  // been made, or forward returns.
  void FollowAliases(const ModuleCall& module) {
    std::map<std::string, NameId> bound;
    for (const Statement& statement : module.statements) {
      if (statement.source == kNoStatement) continue;
      const AtenCall& call = program_.calls[Index(statement.last)];
      const auto& [left, right] = program_.source.At(statement.source).operands;
      if (statement.first != statement.last || call.inputs.size() != 2 || left.empty()) continue;
      FollowAlias(module, left, call.inputs[0], bound);
      FollowAlias(module, right, call.inputs[1], bound);
    }
    for (const auto& [target, name] : bound) {
      Extend(name, module.last, {.by = NameKeeper::By::kStatement, .target = target});
    }
  }

  void FollowAlias(const ModuleCall& module, const std::string& target, NameId name,
                   std::map<std::string, NameId>& bound) {
    const Statement* maker = MakerOf(module, name);
    if (maker == nullptr || maker->targets.empty()) return;
    const auto before = bound.find(target);
    if (before != bound.end() && before->second != name) {
      Extend(before->second, maker->last, {.by = NameKeeper::By::kStatement, .target = target});
      bound.erase(before);
    }
    if (std::ranges::find(maker->targets, target) == maker->targets.end()) bound[target] = name;
  }

  const Statement* MakerOf(const ModuleCall& module, NameId name) const {
    const int64_t born = name == kNoName ? kBeforeAll : born_[Index(name)];
    for (const Statement& statement : module.statements) {
      if (statement.first <= born && born <= statement.last) return &statement;
    }
    return nullptr;
  }

  // Whether a call of `later` reads the value of `statement`.
  bool Reads(const Statement& later, const Statement& statement) const {
    const std::vector<NameId>& values = program_.calls[Index(statement.last)].outputs;
    return std::ranges::any_of(values, [&](NameId value) {
      return value != kNoName && last_[Index(value)] >= later.first && ReadsOf(value, later);
    });
  }

  bool ReadsOf(NameId value, const Statement& statement) const {
    for (int64_t i = statement.first; i <= statement.last; ++i) {
      const std::vector<NameId>& inputs = program_.calls[Index(i)].inputs;
      if (std::ranges::find(inputs, value) != inputs.end()) return true;
    }
    return false;
  }

  // The end of the next statement that binds the same name or returns, or may, its line being
  // hidden and the value read there; or of the module call.  A further turn of a loop passes on
  // what a further name holds: "x, bias = layer(x, bias)".
  int64_t BoundUntil(const ModuleCall& module, size_t index, size_t place) const {
    const Statement& statement = module.statements[index];
    const std::string& target = statement.targets[place];
    for (size_t i = index + 1; i < module.statements.size(); ++i) {
      const Statement& next = module.statements[i];
      if (statement.source != kNoStatement &&
          program_.source.AreSame(next.source, statement.source) &&
          GoesOn(program_.source.At(statement.source), target, place)) {
        continue;
      }
      const bool rebinds =
          std::find(next.targets.begin(), next.targets.end(), target) != next.targets.end();
      const bool may_rebind = next.is_hidden && next.targets.empty() && Reads(next, statement);
      if (rebinds || Returns(next) || may_rebind) return next.last;
      if (place == 0 && PassesOther(module, next, target)) return next.first - 1;
    }
    return module.last;
  }

  // Whether what a turn of a loop has bound to `target` is not dropped by the next one.
  static bool GoesOn(const SourceStatement& line, const std::string& target, size_t place) {
    return place > 0 ? line.MayPassOn(target) : IsComprehension(line.text);
  }

  // Whether `next`, a further turn of a loop, passes by the name `target` what the turn before has
  // made: "x = outputs[0]", which makes no call, stands behind "outputs = block(x)".
  bool PassesOther(const ModuleCall& module, const Statement& next,
                   const std::string& target) const {
    const AtenCall& call = program_.calls[Index(next.first)];
    if (next.source == kNoStatement || runs_.DepthAt(next.first) <= next.level) return false;
    if (FirstArgument(program_.source.At(next.source).text) != target) return false;
    const Statement* maker = call.inputs.empty() ? nullptr : MakerOf(module, call.inputs[0]);
    return maker != nullptr && maker->first < next.first &&
           program_.source.AreSame(maker->source, next.source);
  }

  bool Returns(const Statement& statement) const {
    return statement.source != kNoStatement && program_.source.At(statement.source).returns;
  }

  bool IsBound(NameId name) const {
    return program_.keepers[Index(name)].by == NameKeeper::By::kStatement;
  }

  // A statement that was left out may bind the keeper's name anew before.
  int64_t Until(NameId name, int64_t to, const NameKeeper& keeper) const {
    const auto [first, last] = rebindings_.equal_range(name);
    for (auto rebinding = first; rebinding != last; ++rebinding) {
      const auto& [_, behind, statement] = *rebinding->second;
      const std::vector<std::string>& targets = program_.source.At(statement).targets;
      const bool is_same = std::ranges::find(targets, keeper.target) != targets.end();
      if (is_same && behind >= born_[Index(name)]) to = std::min(to, behind);
    }
    return to;
  }

  void Extend(NameId name, int64_t to, const NameKeeper& keeper) {
    if (keeper.by == NameKeeper::By::kStatement) to = Until(name, to, keeper);
    const bool also_bound =
        to == dies_[Index(name)] && keeper.by == NameKeeper::By::kStatement && !IsBound(name);
    if (to <= dies_[Index(name)] && !also_bound) return;
    dies_[Index(name)] = to;
    program_.keepers[Index(name)] = keeper;
  }

  // The outermost module call around call `i` that does not hold the birth of `name`.
  void ExtendToModuleThatTook(NameId name, int64_t i) {
    const int64_t born = born_[Index(name)];
    const ModuleId birth = born == kBeforeAll ? kOutside : program_.calls[Index(born)].module;
    const size_t shared = program_.modules.Shared(birth, program_.calls[Index(i)].module);
    if (shared >= runs_.DepthAt(i)) return Extend(name, i, {});
    Extend(name, runs_.EndOf(i, shared), {.by = NameKeeper::By::kArgument, .level = shared});
  }

  Program& program_;
  ModuleRuns runs_;
  std::vector<int64_t> born_;  // by name: the call that makes it
  std::vector<int64_t> last_;  // by name: the last call that reads it
  std::vector<int64_t> dies_;  // by name: the call after which it is dropped
  std::multimap<NameId, const Rebinding*> rebindings_;  // by value
  // By module and name: by the call behind which it is bound.
  std::map<std::string, std::map<int64_t, NameId>> attributes_;
  std::vector<NameId> of_attributes_;
};

// What is made in the first step alone and read by what every step makes.
std::vector<NameId> NamesOfResultsMadeOnce(const Program& program) {
  std::vector<bool> made_once(program.values.size());
  std::vector<NameId> read;
  for (const AtenCall& call : program.calls) {
    if (!call.made_once) {
      std::ranges::copy_if(call.inputs, std::back_inserter(read),
                           [&](NameId name) { return name != kNoName && made_once[Index(name)]; });
      continue;
    }
    for (const NameId name : call.outputs) made_once[Index(name)] = true;
  }
  return read;
}

// The module's own tensors and what the loop keeps.
std::vector<bool> HeldNames(const Program& program, bool hold_outputs) {
  std::vector<bool> held(program.values.size());
  const auto hold = [&](const std::vector<NameId>& names) {
    for (const NameId name : names) held[Index(name)] = true;
  };
  hold(program.parameters);
  hold(program.frozen);
  hold(program.buffers);
  if (hold_outputs) hold(program.outputs);
  hold(NamesOfResultsMadeOnce(program));
  if (program.loss != kNoName) held[Index(program.loss)] = true;
  return held;
}

}  // namespace

void PlaceDeaths(Program& program, bool hold_outputs) {
  if (program.calls.empty()) return;
  MarkRepeatedModules(program);
  MarkNumberedModules(program);
  Lifetimes lifetimes(program);
  lifetimes.FollowStatements();
  lifetimes.FollowKnownNames();
  for (const NameId name : program.outputs) lifetimes.ExtendToEnd(name);
  std::vector<bool> held = HeldNames(program, hold_outputs);
  for (const NameId name : lifetimes.of_attributes()) held[Index(name)] = true;
  lifetimes.Place(held);
}

}  // namespace onnxfit
