#include "estimator/locals/turn_names.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/base/numbered_names.h"

namespace onnxfit {
namespace {

constexpr size_t kFarthestReader = 64;  // from what makes a value to what reads it last

class TurnNameFinder {
 public:
  // All must outlive it.
  TurnNameFinder(const Program& program, const ForwardRun& forward,
                 const std::vector<ForwardStep>& steps)
      : program_(program), forward_(forward), steps_(steps) {
    for (size_t i = 0; i < steps_.size(); ++i) {
      keys_.push_back(NumberPattern(steps_[i].key));
      std::set<NameId> read;
      for (int64_t call = steps_[i].first; call <= steps_[i].last; ++call) {
        const std::vector<NameId>& inputs = program_.calls[Index(call)].inputs;
        read.insert(inputs.begin(), inputs.end());
      }
      for (const NameId value : read) readers_[value].push_back(i);
    }
    for (const LoopOfLayers& loop : LoopsOf(steps_)) turns_ = std::max(turns_, loop.turns.size());
  }

  std::vector<KnownName> Find() const {
    std::vector<KnownName> found;
    for (size_t i = 0; i < steps_.size() && turns_ > 1; ++i) {
      if (steps_[i].is_child) continue;
      for (const NameId value : MadeBy(steps_[i])) {
        const auto readers = readers_.find(value);
        if (value == kNoName || readers == readers_.end() || readers->second.size() < 2) continue;
        const size_t last = readers->second.back();
        if (last - i > kFarthestReader || MayTakeName(last, value)) continue;
        const std::vector<size_t> places = PlacesOf(i, last + 1 - i);
        if (places.size() == turns_)
          found.push_back({value, EndAt(places, i), "what a turn binds"});
      }
    }
    return found;
  }

 private:
  const std::vector<NameId>& MadeBy(const ForwardStep& step) const {
    return program_.calls[Index(step.last)].outputs;
  }

  bool MayTakeName(size_t reader, NameId value) const {
    constexpr std::string_view kViews[] = {"view", "permute", "einsum_operand", "expand"};
    const ForwardStep& step = steps_[reader];
    if (step.is_child || std::ranges::find(kViews, step.key) != std::end(kViews)) return false;
    const auto numel = [&](NameId name) { return Numel(program_.values[Index(name)].type.dims); };
    const std::vector<NameId>& made = MadeBy(step);
    return made.size() != 1 || made[0] == kNoName || numel(made[0]) == numel(value);
  }

  // Where the forward does what it does in `size` steps from step `first` on.
  std::vector<size_t> PlacesOf(size_t first, size_t size) const {
    std::vector<size_t> places;
    const auto begin = keys_.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + static_cast<std::ptrdiff_t>(size);
    for (size_t i = 0; i + size <= keys_.size(); ++i) {
      if (std::equal(begin, end, keys_.begin() + static_cast<std::ptrdiff_t>(i)))
        places.push_back(i);
    }
    return places;
  }

  // Until the next turn has made its own.
  int64_t EndAt(const std::vector<size_t>& places, size_t first) const {
    const auto next = std::ranges::upper_bound(places, first);
    return next == places.end() ? forward_.last : steps_[*next].last;
  }

  const Program& program_;
  const ForwardRun& forward_;
  const std::vector<ForwardStep>& steps_;
  std::vector<std::string> keys_;                  // of the steps, without numbers
  std::map<NameId, std::vector<size_t>> readers_;  // by value: the steps that read it, in order
  size_t turns_ = 0;
};

}  // namespace

void FindTurnNames(const Program& program, const ModuleRuns& runs, const ForwardRun& forward,
                   const std::vector<ForwardStep>& steps, size_t known,
                   std::vector<KnownName>& names) {
  if (forward.level > 0 || CallsMethods(program, runs, forward)) return;
  for (KnownName& name : TurnNameFinder(program, forward, steps).Find()) {
    if (!HoldsSince(names, known, name.value)) names.push_back(std::move(name));
  }
}

}  // namespace onnxfit
