#include "estimator/names/same_names.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"

namespace onnxfit {
namespace {

class SameNames {
 public:
  SameNames(const Program& program, const ModuleRuns& runs, const NameBindings& bindings,
            const std::vector<ModuleCall>& modules, const std::vector<HeldWeights>& weights,
            ValueLives& lives)
      : program_(program),
        runs_(runs),
        bindings_(bindings),
        modules_(modules),
        weights_(weights),
        lives_(lives) {}

  void Follow() {
    std::map<std::pair<int32_t, std::string>, int64_t> next;  // by caller and name
    for (size_t run = modules_.size(); run-- > 0;) {
      const int32_t caller = runs_.all()[run].caller;
      if (caller < 0) continue;
      const ModuleCall& around = modules_[Index(caller)];
      const auto at = std::ranges::find_if(around.statements, [&](const Statement& statement) {
        return statement.first <= modules_[run].first && modules_[run].last <= statement.last;
      });
      if (at == around.statements.end()) continue;
      const bool is_all = at->first == modules_[run].first && at->last == modules_[run].last;
      if (!is_all) {
        FollowUnread(modules_[run], around, *at);
        continue;
      }
      for (size_t i = 1; i < at->targets.size(); ++i) {
        const auto index = static_cast<size_t>(at - around.statements.begin());
        const int64_t until = bindings_.BoundUntil(around, index, i);
        if (HoldsWeights(Index(caller), index, i)) continue;
        NameId value = at->targets[i] == "_"
                           ? OnlyUnread(modules_[run])
                           : lives_.HeldUntil(OwnNameOf(at->targets[i], modules_[run]),
                                              modules_[run].first, modules_[run].last);
        const bool is_wanted = at->targets[i] != "_" && at->targets.size() == 2;
        if (value == kNoName && is_wanted) value = OnlyOther(modules_[run]);
        if (value == kNoName || LetsGoOfWeights(modules_[run], value)) continue;
        const auto [bound, _] = next.try_emplace({caller, at->targets[i]}, around.last);
        lives_.HoldBy(at->targets[i], value, std::min(until, bound->second));
        bound->second = at->last;
      }
    }
  }

 private:
  bool HoldsWeights(size_t module, size_t statement, size_t place) const {
    return std::ranges::any_of(weights_, [&](const HeldWeights& held) {
      return held.module == module && held.statement == statement && held.place == place;
    });
  }

  // "return attn_output, attn_weights_reshaped" of a forward that has "attn_weights", and None for
  // its caller's.
  bool LetsGoOfWeights(const ModuleCall& module, NameId value) const {
    const int64_t born = lives_.BornAt(value);
    if (born < module.first || program_.calls[Index(born)].op != "softmax") return false;
    return std::ranges::any_of(module.statements, [&](const Statement& statement) {
      return statement.source != kNoStatement &&
             KeepsWeightsUnlessAsked(program_.source.At(statement.source).text);
    });
  }

  // "loss, codes = self.encode(x)": of a method that calls the forward, what that binds to a name
  // of the line's and nothing reads.
  void FollowUnread(const ModuleCall& module, const ModuleCall& around,
                    const Statement& statement) {
    for (size_t i = 0; i < statement.targets.size() && statement.in_helper; ++i) {
      const NameId value = LastBoundTo(statement.targets[i], module);
      if (value == kNoName || lives_.LastReadAt(value) != ValueLives::kBeforeAll) continue;
      const auto index = static_cast<size_t>(&statement - around.statements.data());
      lives_.HoldBy(statement.targets[i], value, bindings_.BoundUntil(around, index, i));
    }
  }

  // What the last line makes that binds that name alone; kNoName without one.
  NameId LastBoundTo(const std::string& name, const ModuleCall& module) const {
    const auto line = std::find_if(
        module.statements.rbegin(), module.statements.rend(), [&](const Statement& statement) {
          return statement.targets.size() == 1 && statement.targets[0] == name;
        });
    if (line == module.statements.rend()) return kNoName;
    const std::vector<NameId>& made = program_.calls[Index(line->last)].outputs;
    return made.size() == 1 ? made[0] : kNoName;
  }

  // "image_embeds" of a forward that has no "embeds", and one such name; else `target`.
  static std::string OwnNameOf(const std::string& target, const ModuleCall& module) {
    std::set<std::string> longer;
    for (const Statement& statement : module.statements) {
      for (const std::string& name : statement.targets) {
        if (name == target) return target;
        if (name.ends_with("_" + target)) longer.insert(name);
      }
    }
    return longer.size() == 1 ? *longer.begin() : target;
  }

  // What a forward's only name beside that of its result holds at its end, where each line binds
  // one name to what it makes, and no caller reads it.
  NameId OnlyOther(const ModuleCall& module) const {
    std::map<std::string, NameId> names;
    for (const Statement& statement : module.statements) {
      const std::vector<NameId>& made = program_.calls[Index(statement.last)].outputs;
      const bool is_plain = statement.source != kNoStatement && statement.targets.size() == 1;
      if (!is_plain || made.size() != 1 || made[0] == kNoName) return kNoName;
      names[statement.targets[0]] = made[0];
    }
    if (names.size() != 2) return kNoName;
    const Statement& last = module.statements.back();
    names.erase(last.targets[0]);
    const NameId other = names.begin()->second;
    return lives_.LastReadAt(other) <= module.last ? other : kNoName;
  }

  // What a forward binds to a name and no call reads, where that is one value: it is there to be
  // returned.
  NameId OnlyUnread(const ModuleCall& module) const {
    NameId found = kNoName;
    for (const Statement& statement : module.statements) {
      const std::vector<NameId>& made = program_.calls[Index(statement.last)].outputs;
      const bool is_bound = statement.source != kNoStatement && statement.targets.size() == 1;
      if (!is_bound || made.size() != 1 || made[0] == kNoName) continue;
      if (lives_.LastReadAt(made[0]) != ValueLives::kBeforeAll) continue;
      if (found != kNoName) return kNoName;
      found = made[0];
    }
    return found;
  }

  const Program& program_;
  const ModuleRuns& runs_;
  const NameBindings& bindings_;
  const std::vector<ModuleCall>& modules_;
  const std::vector<HeldWeights>& weights_;
  ValueLives& lives_;
};

}  // namespace

void FollowSameNames(const Program& program, const ModuleRuns& runs, const NameBindings& bindings,
                     const std::vector<ModuleCall>& modules,
                     const std::vector<HeldWeights>& weights, ValueLives& lives) {
  SameNames(program, runs, bindings, modules, weights, lives).Follow();
}

}  // namespace onnxfit
