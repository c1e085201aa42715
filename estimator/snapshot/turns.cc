#include "estimator/snapshot/turns.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/snapshot/python_frames.h"

namespace onnxfit {
namespace {

// A return to an earlier line: how many functions are around it, and the line.
using Return = std::pair<size_t, FrameId>;

// How much of what is asked for between two events goes again.
class Freed {
 public:
  explicit Freed(const RecordedRun& run)
      : asked_(Index(run.events) + 1), freed_(Index(run.events) + 1) {
    for (const RecordedBlock& block : run.blocks) {
      if (block.born < 0) continue;
      asked_[Index(block.born) + 1] += static_cast<double>(block.bytes);
      if (block.dies < run.events)
        freed_[Index(block.born) + 1] += static_cast<double>(block.bytes);
    }
    std::partial_sum(asked_.begin(), asked_.end(), asked_.begin());
    std::partial_sum(freed_.begin(), freed_.end(), freed_.begin());
  }

  // 0 to 1; 0 where nothing is asked for.
  double ShareBetween(int64_t from, int64_t to) const {
    const double asked = asked_[Index(to)] - asked_[Index(from)];
    return asked > 0 ? (freed_[Index(to)] - freed_[Index(from)]) / asked : 0;
  }

 private:
  std::vector<double> asked_;  // by event: bytes before it
  std::vector<double> freed_;
};

// A step frees its activations, even where it keeps the graph of one: what its backward pass makes
// goes.  A loop that makes a model, or loads one, frees next to nothing.
constexpr double kLeastFreed = 0.25;

class TurnFinder {
 public:
  TurnFinder(const MemorySnapshot& snapshot, const RecordedRun& run)
      : snapshot_(snapshot), freed_(run) {
    ChooseMain();
  }

  Turns Find() {
    StackId before = 0;
    for (size_t i = 0; i < snapshot_.events.size(); ++i) {
      const SnapshotEvent& event = snapshot_.events[i];
      if (event.action != SnapshotEvent::Action::kAlloc || !IsOfMain(event.stack)) continue;
      if (event.stack == before) continue;
      if (before != 0) NoteReturn(before, event.stack, static_cast<int64_t>(i));
      before = event.stack;
    }
    return Choose();
  }

 private:
  // Frames from the outermost in.
  FrameId FrameAt(StackId stack, size_t depth) const {
    const std::vector<FrameId>& frames = snapshot_.stacks[Index(stack)].frames;
    return frames[frames.size() - 1 - depth];
  }
  size_t DepthOf(StackId stack) const { return snapshot_.stacks[Index(stack)].frames.size(); }
  const SnapshotFrame& At(FrameId frame) const { return snapshot_.frames[Index(frame)]; }

  bool AreOneFunction(FrameId a, FrameId b) const {
    return At(a).function == At(b).function && At(a).file == At(b).file;
  }

  // The thread that asks most often: others, such as autograd's, run beside it.
  void ChooseMain() {
    std::map<std::pair<std::string_view, std::string_view>, int64_t> asked;
    int64_t most = 0;
    for (const SnapshotEvent& event : snapshot_.events) {
      if (event.action != SnapshotEvent::Action::kAlloc || DepthOf(event.stack) == 0) continue;
      const FrameId outermost = FrameAt(event.stack, 0);
      const int64_t times = ++asked[{At(outermost).file, At(outermost).function}];
      if (times <= most) continue;
      most = times;
      main_ = outermost;
    }
  }

  bool IsOfMain(StackId stack) const {
    return DepthOf(stack) > 0 && AreOneFunction(FrameAt(stack, 0), main_);
  }

  void NoteReturn(StackId before, StackId now, int64_t event) {
    const size_t depths = std::min(DepthOf(before), DepthOf(now));
    size_t depth = 0;
    while (depth < depths && FrameAt(before, depth) == FrameAt(now, depth)) ++depth;
    if (depth == depths) return;
    const FrameId from = FrameAt(before, depth);
    const FrameId to = FrameAt(now, depth);
    const bool is_return = AreOneFunction(from, to) && At(to).line < At(from).line;
    if (is_return && MayBeLoop(now, depth)) returns_[{depth, to}].push_back(event);
  }

  // Not in a module's call, whose loops are over layers, nor in PyTorch itself.
  bool MayBeLoop(StackId stack, size_t depth) const {
    if (IsOfPyTorch(At(FrameAt(stack, depth)).file)) return false;
    for (size_t i = 0; i < depth; ++i) {
      if (At(FrameAt(stack, i)).file.ends_with("torch/nn/modules/module.py")) return false;
    }
    return true;
  }

  // The outermost loop of three turns that are steps, its line with the most of them.
  Turns Choose() const {
    const std::vector<int64_t>* most = nullptr;
    Return chosen;
    for (const auto& [where, events] : returns_) {
      if (events.size() < 2 || !AreSteps(events)) continue;
      if (most != nullptr && (where.first > chosen.first || events.size() <= most->size()))
        continue;
      most = &events;
      chosen = where;
    }
    if (most == nullptr) return {};
    Turns turns = {.loop = chosen.second, .begins = *most};
    turns.begins.insert(turns.begins.begin(), FirstAt(chosen));
    return turns;
  }

  // Of the turns that are whole.
  bool AreSteps(const std::vector<int64_t>& begins) const {
    return freed_.ShareBetween(begins.front(), begins.back()) >= kLeastFreed;
  }

  // The first turn returns from nowhere.
  int64_t FirstAt(const Return& where) const {
    const auto& [depth, line] = where;
    for (size_t i = 0; i < snapshot_.events.size(); ++i) {
      const SnapshotEvent& event = snapshot_.events[i];
      const bool asks = event.action == SnapshotEvent::Action::kAlloc && IsOfMain(event.stack);
      if (asks && depth < DepthOf(event.stack) && FrameAt(event.stack, depth) == line) {
        return static_cast<int64_t>(i);
      }
    }
    return 0;  // not reached: a return is such an event
  }

  const MemorySnapshot& snapshot_;
  const Freed freed_;
  FrameId main_ = -1;
  std::map<Return, std::vector<int64_t>> returns_;  // the events that begin them
};

}  // namespace

int64_t Turns::TurnAt(int64_t event) const {
  return std::upper_bound(begins.begin(), begins.end(), event) - begins.begin();
}

Turns FindTurns(const MemorySnapshot& snapshot, const RecordedRun& run) {
  return TurnFinder(snapshot, run).Find();
}

std::vector<size_t> FindGrowth(const RecordedRun& run, const Turns& turns) {
  // By stack and bytes of one: those of each turn.
  std::map<std::pair<StackId, int64_t>, std::map<int64_t, std::vector<size_t>>> kept;
  for (size_t i = 0; i < run.blocks.size(); ++i) {
    const RecordedBlock& block = run.blocks[i];
    if (block.born < 0 || block.dies < run.events) continue;
    const int64_t turn = turns.TurnAt(block.born);
    if (turn >= 1 && turn < turns.count()) kept[{block.stack, block.bytes}][turn].push_back(i);
  }
  const int64_t early = std::max<int64_t>(1, turns.count() / 3);  // later, it is a queue's
  std::vector<size_t> growing;
  for (const auto& [group, by_turn] : kept) {
    if (by_turn.size() < 2 || by_turn.begin()->first > early) continue;
    for (const auto& [turn, blocks] : by_turn) {
      growing.insert(growing.end(), blocks.begin(), blocks.end());
    }
  }
  std::sort(growing.begin(), growing.end());
  return growing;
}

}  // namespace onnxfit
