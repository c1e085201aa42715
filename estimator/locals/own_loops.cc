#include "estimator/locals/own_loops.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

constexpr size_t kFewestTurns = 3;
constexpr size_t kFewestSteps = 3;  // of a turn
constexpr size_t kMostSteps = 64;

// Steps `first` to before `first` + `turns` × `size`.
struct OwnLoop {
  size_t first = 0;
  size_t size = 0;
  size_t turns = 0;
};

class OwnLoopFinder {
 public:
  // All must outlive it.
  OwnLoopFinder(const std::vector<AtenCall>& calls, const std::vector<ForwardStep>& steps)
      : calls_(calls), steps_(steps) {}

  // What loops read in each turn, and what the last turn hands on as those before it did.
  std::set<NameId> Find() const {
    const std::vector<OwnLoop> loops = Loops();
    std::set<NameId> found;
    for (const OwnLoop& loop : loops) {
      const auto is_same = [&](const OwnLoop& other) {
        return other.first != loop.first && AreAlike(loop.first, other.first, loop.size);
      };
      if (std::ranges::none_of(loops, is_same)) found.merge(NamedBy(loop));
    }
    return found;
  }

 private:
  std::vector<OwnLoop> Loops() const {
    std::vector<OwnLoop> loops;
    for (size_t i = 0; i < steps_.size();) {
      const OwnLoop loop = LoopAt(i);
      if (loop.turns > 0) loops.push_back(loop);
      i += std::max<size_t>(1, loop.turns * loop.size);
    }
    return loops;
  }

  // The loop of the shortest turn that begins at step `first`; of no turns where none does.
  OwnLoop LoopAt(size_t first) const {
    for (size_t size = kFewestSteps; size <= kMostSteps; ++size) {
      size_t turns = 1;
      while (AreAlike(first, first + turns * size, size)) ++turns;
      if (turns >= kFewestTurns) return {first, size, turns};
    }
    return {first};
  }

  // Whether the `size` steps from `a` on and those from `b` on are the forward's own, and the same.
  bool AreAlike(size_t a, size_t b, size_t size) const {
    if (b + size > steps_.size()) return false;
    for (size_t i = 0; i < size; ++i) {
      const ForwardStep& step = steps_[a + i];
      if (step.is_child || steps_[b + i].is_child || step.key != steps_[b + i].key) return false;
    }
    return true;
  }

  const AtenCall& At(const OwnLoop& loop, size_t turn, size_t place) const {
    return calls_[Index(steps_[loop.first + turn * loop.size + place].last)];
  }

  using Makers = std::map<NameId, std::pair<size_t, size_t>>;  // by value: the turn, its place

  Makers MakersIn(const OwnLoop& loop) const {
    Makers makers;
    for (size_t turn = 0; turn < loop.turns; ++turn) {
      for (size_t place = 0; place < loop.size; ++place) {
        for (const NameId value : At(loop, turn, place).outputs) makers[value] = {turn, place};
      }
    }
    return makers;
  }

  std::set<NameId> ReadIn(const OwnLoop& loop, size_t turn) const {
    std::set<NameId> read;
    for (size_t place = 0; place < loop.size; ++place) {
      const std::vector<NameId>& inputs = At(loop, turn, place).inputs;
      read.insert(inputs.begin(), inputs.end());
    }
    read.erase(kNoName);
    return read;
  }

  std::set<NameId> NamedBy(const OwnLoop& loop) const {
    const Makers makers = MakersIn(loop);
    std::map<NameId, size_t> readers;  // of what the loop does not make: turns
    std::set<NameId> named;
    for (size_t turn = 0; turn < loop.turns; ++turn) {
      for (const NameId value : ReadIn(loop, turn)) {
        const auto maker = makers.find(value);
        if (maker == makers.end() && ++readers[value] == loop.turns) named.insert(value);
        if (maker == makers.end() || maker->second.first == turn) continue;
        const AtenCall& last = At(loop, loop.turns - 1, maker->second.second);
        named.insert(last.outputs.begin(), last.outputs.end());
      }
    }
    named.erase(kNoName);
    return named;
  }

  const std::vector<AtenCall>& calls_;
  const std::vector<ForwardStep>& steps_;
};

}  // namespace

void FindOwnLoops(const std::vector<AtenCall>& calls, const ForwardRun& forward,
                  const std::vector<ForwardStep>& steps, size_t known,
                  std::vector<KnownName>& names) {
  for (const NameId value : OwnLoopFinder(calls, steps).Find()) {
    if (!HoldsSince(names, known, value))
      names.push_back({value, forward.last, "what a loop reads"});
  }
}

}  // namespace onnxfit
