#include "estimator/observed/skeletons.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/base/interned.h"
#include "estimator/base/module_names.h"

namespace onnxfit {
namespace {

// --- Text ---------------------------------------------------------------------------------------

std::string_view TakeUntil(char end, std::string_view& text) {
  const size_t size = std::min(text.find(end), text.size());
  const std::string_view taken = text.substr(0, size);
  text.remove_prefix(std::min(size + 1, text.size()));
  return taken;
}

[[noreturn]] void ThrowDamaged(std::string_view what, std::string_view found) {
  throw Error({.where = "what was observed of libraries",
               .text = "expected " + std::string(what) + ", found '" + std::string(found) + "'"});
}

template <typename Number>
Number ReadNumber(std::string_view text, int base = 10) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size()) ThrowDamaged("a number", text);
  return number;
}

constexpr std::pair<uint8_t, char> kRunLetters[] = {
    {kTrainRun, 't'},    {kTrainHalfRun, 'h'},    {kTrainAutocastRun, 'a'}, {kEvalRun, 'T'},
    {kEvalHalfRun, 'H'}, {kEvalAutocastRun, 'A'}, {kAsModel, 'm'}};

std::string RunsText(uint8_t runs) {
  std::string text;
  for (const auto& [run, letter] : kRunLetters) {
    if ((runs & run) != 0) text += letter;
  }
  return runs == kAllRuns ? "" : " " + text;
}

uint8_t ReadRuns(std::string_view text) {
  uint8_t runs = 0;
  for (const auto& [run, letter] : kRunLetters) {
    if (text.find(letter) != text.npos) runs |= run;
  }
  return text.empty() ? uint8_t{kAllRuns} : runs;
}

std::string InBase36(uint32_t number) {
  char text[8];
  return {text, std::to_chars(text, text + sizeof text, number, 36).ptr};
}

std::string StepText(const SkeletonStep& step) {
  std::string text = step.is_child ? ">" : "";
  text += step.key;
  if (step.is_child) text.append("=").append(step.class_name);
  if (!step.leaf.empty()) text.append("/").append(step.leaf);
  if (step.id != 0) text.append("~").append(InBase36(step.id));
  if (step.cast_to != 0) text.append("=").append(std::to_string(step.cast_to));
  if (step.in_place) text += "!";
  if (step.is_idle) text += "?";
  return step.line == 0 ? text : text.append(":").append(InBase36(step.line));
}

std::string ValueText(const SkeletonValue& value) {
  const std::string text = std::to_string(value.step) + "." + std::to_string(value.result);
  const bool is_left = value.dies_behind == SkeletonValue::kLeft;
  return is_left ? text : text + "-" + std::to_string(value.dies_behind);
}

std::string FlowText(const SkeletonFlow& flow) {
  return std::to_string(flow.step) + (flow.other < 0 ? "<" : ">") + std::to_string(flow.other) +
         "." + std::to_string(flow.result);
}

SkeletonStep ReadStep(std::string_view text) {
  SkeletonStep step;
  std::string_view name = TakeUntil(':', text);
  if (!text.empty()) step.line = ReadNumber<uint32_t>(text, 36);
  step.is_child = name.starts_with('>');
  step.in_place = name.ends_with('!');
  step.is_idle = name.ends_with('?');
  if (step.in_place || step.is_idle) name.remove_suffix(1);
  if (step.is_child) name.remove_prefix(1);
  step.key = Interned(TakeUntil('=', name));
  if (step.is_child) {
    std::string_view child = TakeUntil('~', name);
    step.class_name = Interned(TakeUntil('/', child));
    step.leaf = Interned(child);
    if (!name.empty()) step.id = ReadNumber<uint32_t>(name, 36);
  } else if (!name.empty()) {
    step.cast_to = ReadNumber<uint8_t>(name);
  }
  return Starred(step);
}

SkeletonFlow ReadFlow(std::string_view text, char sign, size_t steps) {
  SkeletonFlow flow;
  flow.step = ReadNumber<int32_t>(TakeUntil(sign, text));
  flow.other = ReadNumber<int32_t>(TakeUntil('.', text));
  flow.result = ReadNumber<int32_t>(text);
  if ((sign == '>') != (flow.other > 0)) ThrowDamaged("a flow of that direction", FlowText(flow));
  CheckFlow(flow, steps);
  return flow;
}

SkeletonValue ReadValue(std::string_view text, size_t steps) {
  SkeletonValue value;
  value.step = ReadNumber<int32_t>(TakeUntil('.', text));
  value.result = ReadNumber<int32_t>(TakeUntil('-', text));
  if (!text.empty()) value.dies_behind = ReadNumber<int32_t>(text);
  CheckValue(value, steps);
  return value;
}

// --- Turns --------------------------------------------------------------------------------------

// A loop over a list: where each turn begins, and where the last one ends.
struct Loop {
  std::string_view key;  // starred
  std::vector<size_t> begins;
  size_t end = 0;

  size_t turns() const { return begins.size(); }
};

// The first child of a list in each turn; what a turn does behind that is as long as what the first
// two turns have in between.
std::vector<Loop> FindLoops(const std::vector<SkeletonStep>& steps) {
  std::map<std::string_view, Loop> loops;
  std::map<std::string_view, std::string_view> last;  // by starred key
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].is_child || !IsNumbered(ChildOf(steps[i].key))) continue;
    const std::string_view key = StarredKey(steps[i]);
    if (last[key] == steps[i].key) continue;
    last[key] = steps[i].key;
    loops[key].begins.push_back(i);
  }
  std::vector<Loop> found;
  for (auto& [key, loop] : loops) {
    if (loop.turns() < 2) continue;
    loop.key = key;
    loop.end = std::min(loop.begins.back() + loop.begins[1] - loop.begins[0], steps.size());
    found.push_back(std::move(loop));
  }
  std::ranges::sort(found, {}, [](const Loop& loop) { return loop.begins.front(); });
  return found;
}

// Where a step is in a loop.
struct InLoop {
  size_t loop = 0;  // 0: in none
  size_t turn = 0;
  size_t offset = 0;
};

// The steps of a skeleton, of which some are left out and others stand twice.
class Turned {
 public:
  explicit Turned(const Skeleton& from) : from_(from), places_(from.steps.size()) {
    made_.class_name = from.class_name;
  }

  void Add(size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) {
      source_.push_back(i);
      turns_.emplace_back();
      made_.steps.push_back(from_.steps[i]);
    }
  }

  void BeginLoop(const Loop& loop) {
    begins_.emplace_back();
    for (size_t turn = 0; turn < loop.turns(); ++turn) {
      const size_t end = turn + 1 < loop.turns() ? loop.begins[turn + 1] : loop.end;
      for (size_t i = loop.begins[turn]; i < end; ++i) {
        places_[i] = {begins_.size(), turn, i - loop.begins[turn]};
      }
    }
  }
  void AddTurn(size_t first, size_t end) {
    begins_.back().push_back(source_.size());
    Add(first, end);
    for (size_t i = begins_.back().back(); i < turns_.size(); ++i) {
      turns_[i] = begins_.back().size() - 1;
    }
  }

  Skeleton Take() {
    for (size_t i = 0; i < source_.size(); ++i) AddValuesOf(i);
    for (size_t i = 0; i < source_.size(); ++i) AddFlowsOf(i);
    made_.runs = from_.runs;
    return std::move(made_);
  }

 private:
  void AddValuesOf(size_t at) {
    const auto step = static_cast<int32_t>(source_[at]);
    const auto first = std::ranges::lower_bound(from_.values, step, {}, &SkeletonValue::step);
    for (auto value = first; value != from_.values.end() && value->step == step; ++value) {
      SkeletonValue made = *value;
      made.step = static_cast<int32_t>(at);
      if (value->dies_behind != SkeletonValue::kLeft) {
        made.dies_behind = static_cast<int32_t>(PlaceOf(Index(value->dies_behind), at));
      }
      made_.values.push_back(made);
    }
  }

  // Of those within a turn, or outside of all.
  void AddFlowsOf(size_t at) {
    const auto step = static_cast<int32_t>(source_[at]);
    const auto first = std::ranges::lower_bound(from_.flows, step, {}, &SkeletonFlow::step);
    for (auto flow = first; flow != from_.flows.end() && flow->step == step; ++flow) {
      const int64_t other = static_cast<int64_t>(at) + flow->other;
      const bool is_there = other >= 0 && other < std::ssize(source_) &&
                            static_cast<int64_t>(source_[Index(other)]) == step + flow->other;
      if (!is_there) continue;
      SkeletonFlow made = *flow;
      made.step = static_cast<int32_t>(at);
      made_.flows.push_back(made);
    }
  }

  // Where the step behind which a value of step `at` dies stands: so many turns later, or behind
  // the loop.
  size_t PlaceOf(size_t behind, size_t at) const {
    const InLoop& birth = places_[source_[at]];
    const InLoop& death = places_[behind];
    if (death.loop == 0 || birth.loop != death.loop) {
      size_t place = at;
      while (place < source_.size() && source_[place] < behind) ++place;
      return std::min(place, source_.size() - 1);
    }
    const std::vector<size_t>& begins = begins_[birth.loop - 1];
    const size_t turn = std::min(turns_[at] + death.turn - birth.turn, begins.size() - 1);
    size_t place = begins[turn];
    while (place + 1 < source_.size() && turns_[place + 1] == turn &&
           places_[source_[place]].offset < death.offset) {
      ++place;
    }
    return std::max(place, at);
  }

  const Skeleton& from_;
  std::vector<InLoop> places_;               // by step of `from`
  std::vector<size_t> source_;               // by step of the new one
  std::vector<size_t> turns_;                // the same: the new turn
  std::vector<std::vector<size_t>> begins_;  // of the new turns, by loop
  Skeleton made_;
};

bool AreAlike(const Skeleton& a, const Skeleton& b) {
  const auto same = [](const SkeletonStep& x, const SkeletonStep& y) {
    return x.is_child == y.is_child && x.line == y.line && x.in_place == y.in_place &&
           x.is_idle == y.is_idle && x.cast_to == y.cast_to && x.id == y.id &&
           x.class_name == y.class_name && x.leaf == y.leaf && StarredKey(x) == StarredKey(y);
  };
  return std::ranges::equal(a.steps, b.steps, same) && a.values == b.values && a.flows == b.flows;
}

}  // namespace

std::string_view StarredKey(const SkeletonStep& step) {
  if (!step.starred.empty()) return step.starred;
  const bool has_number = step.key.find_first_of("0123456789") != step.key.npos;
  if (!step.is_child || !has_number) return step.key;
  std::string key;
  for (std::string_view rest = step.key; !rest.empty();) {
    const std::string_view part = TakeUntil('.', rest);
    if (!key.empty()) key += '.';
    key += IsNumbered(part) ? "*" : part;
  }
  return Interned(key);
}

SkeletonStep Starred(SkeletonStep step) {
  step.starred = StarredKey(step);
  return step;
}

void CheckValue(const SkeletonValue& value, size_t steps) {
  const auto end = static_cast<int64_t>(steps);
  const bool is_left = value.dies_behind == SkeletonValue::kLeft;
  const bool dies = value.dies_behind >= value.step && value.dies_behind < end;
  const bool is_there = value.step >= 0 && value.step < end && value.result >= 0;
  if (!is_there || !(is_left || dies))
    ThrowDamaged("a value of one of the steps", ValueText(value));
}

void CheckFlow(const SkeletonFlow& flow, size_t steps) {
  const auto is_there = [&](int64_t step) {
    return step >= 0 && step < static_cast<int64_t>(steps);
  };
  const int64_t other = int64_t{flow.step} + flow.other;
  if (flow.other == 0 || !is_there(flow.step) || !is_there(other))
    ThrowDamaged("a flow between two of the steps", FlowText(flow));
}

std::vector<LoopTurns> LoopsOf(const std::vector<SkeletonStep>& steps) {
  std::vector<LoopTurns> turns;
  for (const Loop& loop : FindLoops(steps)) turns.push_back({loop.key, loop.turns()});
  return turns;
}

Skeleton WithTurns(const Skeleton& skeleton, const std::vector<LoopTurns>& turns) {
  if (turns.empty()) return skeleton;
  Turned made(skeleton);
  size_t at = 0;
  for (const Loop& loop : FindLoops(skeleton.steps)) {
    const auto wanted = std::ranges::find(turns, loop.key, &LoopTurns::key);
    const bool is_nested = loop.begins.front() < at;
    if (wanted == turns.end() || wanted->turns == loop.turns() || wanted->turns == 0 || is_nested) {
      continue;
    }
    // All but the last one, that in the middle as often as is wanted.
    const size_t whole = loop.turns() - 1;
    const size_t middle = whole / 2;
    const auto end_of = [&](size_t turn) {
      return turn + 1 < loop.turns() ? loop.begins[turn + 1] : loop.end;
    };
    made.Add(at, loop.begins.front());
    made.BeginLoop(loop);
    for (size_t turn = 0; turn + 1 < wanted->turns; ++turn) {
      const size_t from_end = wanted->turns - 1 - turn;  // 1: the one before the last
      size_t from = turn < middle ? turn : from_end <= whole - middle ? whole - from_end : middle;
      from = std::min(from, whole == 0 ? 0 : whole - 1);
      made.AddTurn(loop.begins[from], end_of(from));
    }
    made.AddTurn(loop.begins.back(), loop.end);
    at = loop.end;
  }
  made.Add(at, skeleton.steps.size());
  return made.Take();
}

Skeleton Shortened(const Skeleton& skeleton) {
  constexpr size_t kTurns = 4;  // the first, two in the middle, the last
  std::vector<LoopTurns> whole = LoopsOf(skeleton.steps);
  std::erase_if(whole, [](const LoopTurns& loop) { return loop.turns <= kTurns; });
  Skeleton best = skeleton;
  for (const LoopTurns& loop : whole) {
    Skeleton shorter = WithTurns(best, {{loop.key, kTurns}});
    if (AreAlike(WithTurns(shorter, {loop}), best)) best = std::move(shorter);
  }
  return best;
}

uint32_t HashOf(std::string_view text) {
  uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

uint32_t HashOfLine(std::string_view text) { return (HashOf(text) & 0xFFFFFU) + 1; }

uint32_t IdOf(const Skeleton& skeleton) {
  Skeleton own = skeleton;
  own.runs = kAllRuns;
  return (HashOf(ToText(own)) & 0xFFFFFFU) + 1;  // 24 bits: forwards that look alike
}

std::string ToText(const Skeleton& skeleton) {
  std::string text = std::string(skeleton.class_name) + RunsText(skeleton.runs) + "\n";
  for (const SkeletonStep& step : skeleton.steps) text += StepText(step) + " ";
  text += "\n";
  for (const SkeletonValue& value : skeleton.values) text += ValueText(value) + " ";
  for (const SkeletonFlow& flow : skeleton.flows) text += FlowText(flow) + " ";
  return text + "\n";
}

std::vector<Skeleton> ParseSkeletons(std::string_view text) {
  std::vector<Skeleton> skeletons;
  while (!text.empty()) {
    Skeleton& made = skeletons.emplace_back();
    std::string_view title = TakeUntil('\n', text);
    made.class_name = Interned(TakeUntil(' ', title));
    made.runs = ReadRuns(title);
    std::string_view steps = TakeUntil('\n', text);
    std::string_view values = TakeUntil('\n', text);
    while (!steps.empty()) made.steps.push_back(ReadStep(TakeUntil(' ', steps)));
    while (!values.empty()) {
      const std::string_view one = TakeUntil(' ', values);
      const size_t sign = one.find_first_of("<>");
      if (sign == one.npos) {
        made.values.push_back(ReadValue(one, made.steps.size()));
      } else {
        made.flows.push_back(ReadFlow(one, one[sign], made.steps.size()));
      }
    }
  }
  return skeletons;
}

}  // namespace onnxfit
