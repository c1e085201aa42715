#include "estimator/names/observed_lifetimes.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/names/held_names.h"
#include "estimator/names/value_lives.h"
#include "estimator/program/repeated_modules.h"

namespace onnxfit {
namespace {

std::unordered_map<std::string_view, int64_t> LastCalls(const Program& program) {
  std::unordered_map<std::string_view, int64_t> last;
  for (size_t i = 0; i < program.calls.size(); ++i) {
    last[program.calls[i].where] = static_cast<int64_t>(i);
  }
  return last;
}

// A module may put another tensor in its place.
bool IsBuffer(const Program& program, NameId value) {
  return std::ranges::find(program.buffers, value) != program.buffers.end();
}

struct Death {
  NameId value = kNoName;
  int64_t behind = 0;
};

// Behind which call each value that was seen to die does: not before all have read it.
std::vector<Death> DeathsOf(const Program& program, const ValueLives& lives,
                            const std::vector<ObservedDeaths>& observed) {
  const auto calls = LastCalls(program);
  std::vector<Death> deaths;
  int64_t at = ValueLives::kBeforeAll;
  for (const ObservedDeaths& behind : observed) {
    if (const auto call = calls.find(behind.where); call != calls.end()) {
      at = std::max(at, call->second);
    }
    const auto is_made = [&](NameId value) {  // some fast paths do not
      return lives.BornAt(value) != ValueLives::kBeforeAll || IsBuffer(program, value);
    };
    for (const NameId value : behind.values) {
      if (is_made(value)) deaths.push_back({value, std::max(at, lives.LastUseAt(value))});
    }
    for (const NameId value : behind.of_step_before) {  // else the call that makes it lets go of it
      if (at >= 0 && at < lives.BornAt(value)) deaths.push_back({value, at});
    }
  }
  return deaths;
}

// Behind the call at which each gradient was seen to go, or the last one before that is there.
void PlaceDrops(Program& program, const std::vector<ObservedDeaths>& observed) {
  const auto calls = LastCalls(program);
  std::vector<std::pair<int64_t, NameId>> drops;
  int64_t at = 0;
  for (const ObservedDeaths& behind : observed) {
    if (const auto call = calls.find(behind.where); call != calls.end()) {
      at = std::max(at, call->second);
    }
    for (const NameId parameter : behind.drops) drops.emplace_back(at, parameter);
  }
  for (const auto& [call, parameter] : drops) program.calls[Index(call)].drops.push_back(parameter);
}

}  // namespace

void PlaceObservedDeaths(Program& program, const TrainingSettings& settings,
                         const ObservedLives& observed) {
  if (program.calls.empty()) return;
  MarkRepeatedModules(program);
  MarkNumberedModules(program);
  const ModuleRuns runs(program);
  ValueLives lives(program, runs);
  for (const NameId name : program.outputs) {
    lives.Extend(name, std::ssize(program.calls) - 1, {.by = NameKeeper::By::kOutput});
  }
  std::vector<bool> held = HeldNames(program, settings);
  std::vector<Death> found = DeathsOf(program, lives, observed.deaths);
  const auto is_output = [&](NameId value) {
    return std::ranges::find(program.outputs, value) != program.outputs.end();
  };
  std::erase_if(found, [&](const Death& death) {
    const bool is_held = held[Index(death.value)] && !IsBuffer(program, death.value);
    return is_held || is_output(death.value);
  });
  for (const Death& death : found) held[Index(death.value)] = true;
  for (const NameId value : observed.kept) {
    if (!is_output(value)) held[Index(value)] = true;
  }
  lives.Place(held);
  for (const auto& [value, behind] : found) {
    program.calls[Index(behind)].dies.push_back(value);
    program.keepers[Index(value)] = {.by = NameKeeper::By::kObserved};
  }
  if (IsWholeStep(program)) PlaceDrops(program, observed.deaths);
}

}  // namespace onnxfit
