#include "estimator/snapshot/leftovers.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/fit/call_frames.h"
#include "estimator/fit/predict.h"
#include "estimator/memory/lives.h"

namespace onnxfit {
namespace {

// As PyTorch's allocator rounds (kMinBlockSize of c10/core/CachingDeviceAllocator.h).
constexpr int64_t kMinBlock = 512;

int64_t RoundedBytes(int64_t bytes) { return RoundUp(bytes, kMinBlock); }

// --- Which moment of the prediction is most like the run's --------------------------------------

// How many of a size the two have.
struct Pair {
  int64_t run = 0;
  int64_t predicted = 0;
};

// Follows the prediction's events and keeps the instant with the least difference.
class MomentSearch {
 public:
  explicit MomentSearch(const Prediction& prediction) : trace_(prediction.trace) {}

  void AddOfRun(int64_t bytes) {
    const int64_t rounded = RoundedBytes(bytes);
    ++pairs_[rounded].run;
    apart_ = CheckedAdd(apart_, rounded);
  }

  // The event after which it is.
  int64_t Find() {
    int64_t least = apart_;
    int64_t found = -1;
    for (size_t i = 0; i < trace_.events.size(); ++i) {
      const Event& event = trace_.events[i];
      if (event.type == Event::Type::kAlloc) Take(event.id, 1);
      if (event.type == Event::Type::kFree) Take(event.id, -1);
      if (apart_ >= least) continue;
      least = apart_;
      found = static_cast<int64_t>(i);
    }
    return found;
  }

 private:
  void Take(BufferId buffer, int64_t change) {
    const int64_t rounded = RoundedBytes(trace_.buffers[Index(buffer)].bytes);
    Pair& pair = pairs_[rounded];
    const int64_t before = std::abs(pair.run - pair.predicted);
    pair.predicted += change;
    const int64_t after = std::abs(pair.run - pair.predicted);
    if (after > before) apart_ = CheckedAdd(apart_, rounded);
    if (after < before) apart_ -= rounded;
  }

  const Trace& trace_;
  std::unordered_map<int64_t, Pair> pairs_;  // by rounded bytes
  int64_t apart_ = 0;                        // bytes that one of the two has alone
};

int64_t MomentMostLike(const RunStory& story, const std::vector<size_t>& live,
                       const Prediction& prediction) {
  MomentSearch search(prediction);
  for (const size_t block : live) {
    if (!story.grows[block]) search.AddOfRun(story.run.blocks[block].bytes);
  }
  return search.Find();
}

// --- Which allocation is which ------------------------------------------------------------------

// In which phase a recorded block was asked for, as far as its lines tell.
class PhaseReader {
 public:
  explicit PhaseReader(const RunStory& story) : story_(story) {}

  Phase PhaseOf(const RecordedBlock& block) {
    const bool has_turns = story_.turns.count() > 0;
    if (block.born < 0 || (has_turns && story_.turns.TurnAt(block.born) == 0)) return Phase::kSetup;
    const auto [known, is_new] = by_stack_.emplace(block.stack, Phase::kForward);
    if (is_new) known->second = Read(story_.snapshot.stacks[Index(block.stack)]);
    return known->second;
  }

 private:
  // Autograd's thread runs no line of Python.
  Phase Read(const SnapshotStack& stack) const {
    if (stack.is_backward || stack.frames.empty()) return Phase::kBackward;
    const bool is_step = std::any_of(stack.frames.begin(), stack.frames.end(), [&](FrameId frame) {
      return story_.snapshot.frames[Index(frame)].file.find("torch/optim/") != std::string::npos;
    });
    return is_step ? Phase::kOptimizer : Phase::kForward;
  }

  const RunStory& story_;
  std::unordered_map<StackId, Phase> by_stack_;
};

// How well the lines that a model's file knows of a call fit a stack.
enum class Fit : uint8_t {
  kNot,
  kAmong,  // they are among its lines, in their order: a file does not name what calls the model
  kSame,   // and the innermost is the same, too: several calls of one statement are told apart
};

// Frames that files do not name: functions of torch.nn, and what calls a module's forward.
bool IsLeftOut(std::string_view file) {
  return file.ends_with("torch/nn/functional.py") || file.ends_with("torch/nn/modules/module.py");
}

class LineMatcher {
 public:
  LineMatcher(const RunStory& story, const Prediction& prediction) : snapshot_(story.snapshot) {
    for (const std::vector<CallFrame>& call : FramesByLabel(prediction)) {
      std::vector<int64_t>& lines = calls_.emplace_back();
      for (const CallFrame& frame : call) {
        if (frame.line > 0) lines.push_back(frame.line);
      }
    }
  }

  bool HasLines(int32_t label) const { return label >= 0 && !calls_[Index(label)].empty(); }

  Fit FitOf(int32_t label, StackId stack) {
    const auto [known, is_new] = known_.emplace(std::make_pair(label, stack), Fit::kNot);
    if (is_new) known->second = Compare(calls_[Index(label)], LinesOf(stack));
    return known->second;
  }

 private:
  std::vector<int64_t> LinesOf(StackId stack) const {
    std::vector<int64_t> lines;
    for (const FrameId id : snapshot_.stacks[Index(stack)].frames) {
      const SnapshotFrame& frame = snapshot_.frames[Index(id)];
      if (!IsLeftOut(frame.file)) lines.push_back(frame.line);
    }
    return lines;
  }

  static Fit Compare(const std::vector<int64_t>& call, const std::vector<int64_t>& lines) {
    auto at = lines.begin();
    for (const int64_t line : call) {
      at = std::find(at, lines.end(), line);
      if (at == lines.end()) return Fit::kNot;
      ++at;
    }
    return call.front() == lines.front() ? Fit::kSame : Fit::kAmong;
  }

  const MemorySnapshot& snapshot_;
  std::vector<std::vector<int64_t>> calls_;  // by label: lines, innermost first
  std::map<std::pair<int32_t, StackId>, Fit> known_;
};

struct PredictedBlock {
  BufferId buffer = 0;
  Moment born;
};

// What has one size, on both sides.
struct SizeClass {
  std::vector<size_t> run;  // the best to match last
  std::vector<PredictedBlock> predicted;
};

class Matcher {
 public:
  Matcher(const RunStory& story, const Prediction& prediction)
      : story_(story), phases_(story), lines_(story, prediction) {}

  void AddOfRun(size_t block) {
    classes_[RoundedBytes(story_.run.blocks[block].bytes)].run.push_back(block);
  }
  void AddPredicted(int64_t bytes, const PredictedBlock& predicted) {
    classes_[RoundedBytes(bytes)].predicted.push_back(predicted);
  }

  void Match() {
    for (auto& [bytes, sizes] : classes_) {
      MatchLines(sizes, Fit::kSame);
      MatchLines(sizes, Fit::kAmong);
      MatchPhases(sizes);
      MatchAny(sizes);
      kept_.insert(kept_.end(), sizes.run.begin(), sizes.run.end());
      for (const PredictedBlock& left : sizes.predicted) missing_.push_back(left.buffer);
    }
    std::sort(kept_.begin(), kept_.end());
  }

  const std::vector<size_t>& kept() const { return kept_; }
  const std::vector<BufferId>& missing() const { return missing_; }

 private:
  // Whether `a` is matched before `b`: what grows last; of what was there before the steps, and of
  // the optimizer's states, the oldest first, of a step's the youngest.
  bool IsBefore(size_t a, size_t b, Phase phase) const {
    if (story_.grows[a] != story_.grows[b]) return !story_.grows[a];
    return phase == Phase::kSetup || phase == Phase::kOptimizer ? a < b : a > b;
  }

  // The first to match is the last.
  void Sort(std::vector<size_t>& blocks, Phase phase) const {
    std::sort(blocks.begin(), blocks.end(),
              [&](size_t a, size_t b) { return IsBefore(b, a, phase); });
  }

  // Takes those away for which `pick` finds a partner: the list of which it is the last.
  template <typename Pick>
  static void TakeMatched(SizeClass& sizes, Pick pick) {
    std::vector<PredictedBlock> left;
    std::set<size_t> taken;
    for (const PredictedBlock& predicted : sizes.predicted) {
      std::vector<size_t>* partners = pick(predicted);
      if (partners == nullptr) {
        left.push_back(predicted);
        continue;
      }
      taken.insert(partners->back());
      partners->pop_back();
    }
    sizes.predicted = std::move(left);
    std::erase_if(sizes.run, [&](size_t block) { return taken.contains(block); });
  }

  void MatchLines(SizeClass& sizes, Fit wanted) {
    std::map<StackId, std::vector<size_t>> by_stack;
    for (const size_t block : sizes.run) {
      by_stack[story_.run.blocks[block].stack].push_back(block);
    }
    for (auto& [stack, blocks] : by_stack) Sort(blocks, Phase::kForward);
    TakeMatched(sizes, [&](const PredictedBlock& predicted) -> std::vector<size_t>* {
      const bool has_lines = predicted.born.phase == Phase::kForward;
      if (!has_lines || !lines_.HasLines(predicted.born.at)) return nullptr;
      std::vector<size_t>* first = nullptr;
      for (auto& [stack, blocks] : by_stack) {
        if (blocks.empty() || lines_.FitOf(predicted.born.at, stack) < wanted) continue;
        const bool is_before =
            first == nullptr || IsBefore(blocks.back(), first->back(), Phase::kForward);
        if (is_before) first = &blocks;
      }
      return first;
    });
  }

  using ByPhase = std::array<std::vector<size_t>, kPhases>;

  ByPhase SplitByPhase(const SizeClass& sizes) {
    ByPhase by_phase;
    for (const size_t block : sizes.run) {
      by_phase[static_cast<size_t>(phases_.PhaseOf(story_.run.blocks[block]))].push_back(block);
    }
    for (size_t i = 0; i < by_phase.size(); ++i) Sort(by_phase[i], static_cast<Phase>(i));
    return by_phase;
  }

  void MatchPhases(SizeClass& sizes) {
    ByPhase by_phase = SplitByPhase(sizes);
    TakeMatched(sizes, [&](const PredictedBlock& predicted) {
      std::vector<size_t>& blocks = by_phase[static_cast<size_t>(predicted.born.phase)];
      return blocks.empty() ? nullptr : &blocks;
    });
  }

  void MatchAny(SizeClass& sizes) {
    std::vector<size_t> blocks = sizes.run;
    Sort(blocks, Phase::kForward);
    TakeMatched(sizes, [&](const PredictedBlock&) { return blocks.empty() ? nullptr : &blocks; });
  }

  const RunStory& story_;
  PhaseReader phases_;
  LineMatcher lines_;
  std::map<int64_t, SizeClass> classes_;  // by rounded bytes
  std::vector<size_t> kept_;
  std::vector<BufferId> missing_;
};

std::vector<MissingGroup> GroupMissing(const Trace& trace, const Lives& lives,
                                       const std::vector<BufferId>& missing) {
  std::map<std::tuple<int32_t, Kind, int64_t>, int64_t> counts;
  for (const BufferId buffer : missing) {
    const Buffer& of = trace.buffers[Index(buffer)];
    ++counts[{of.label, lives.of_buffer[Index(buffer)].kind, of.bytes}];
  }
  std::vector<MissingGroup> groups;
  for (const auto& [key, count] : counts) {
    const auto& [label, kind, bytes] = key;
    groups.push_back(
        {.name = LabelText(trace, label), .kind = kind, .bytes = bytes, .count = count});
  }
  std::stable_sort(groups.begin(), groups.end(), [](const MissingGroup& a, const MissingGroup& b) {
    return a.total_bytes() > b.total_bytes();
  });
  return groups;
}

int64_t ExactPeak(const Trace& trace) {
  int64_t now = 0;
  int64_t peak = 0;
  for (const Event& event : trace.events) {
    if (event.type == Event::Type::kAlloc) now += trace.buffers[Index(event.id)].bytes;
    if (event.type == Event::Type::kFree) now -= trace.buffers[Index(event.id)].bytes;
    peak = std::max(peak, now);
  }
  return peak;
}

// The buffers that live behind `event`.
template <typename Visit>
void ForEachLive(const Lives& lives, int64_t event, Visit visit) {
  for (size_t i = 0; i < lives.of_buffer.size(); ++i) {
    const Life& life = lives.of_buffer[i];
    if (life.born > event || (life.dies != kNever && life.dies <= event)) continue;
    visit(static_cast<BufferId>(i), life);
  }
}

}  // namespace

Leftovers FindLeftovers(const RunStory& story, const Prediction& prediction) {
  const Trace& trace = prediction.trace;
  const Lives lives = ReadLives(trace, prediction.alloc_conf);
  const std::vector<size_t> live = story.run.LiveAt(story.run.moment.event);
  const int64_t event = MomentMostLike(story, live, prediction);
  Leftovers left = {.run_bytes = story.run.moment.requested_bytes,
                    .predicted_peak_bytes = ExactPeak(trace)};
  Matcher matcher(story, prediction);
  for (const size_t block : live) matcher.AddOfRun(block);
  if (event >= 0) {
    const Moment& moment = lives.of_event[Index(event)];
    left.moment = {.step = moment.step, .phase = moment.phase, .node = LabelText(trace, moment.at)};
    ForEachLive(lives, event, [&](BufferId buffer, const Life& life) {
      const int64_t bytes = trace.buffers[Index(buffer)].bytes;
      left.predicted_bytes += bytes;
      matcher.AddPredicted(bytes, {.buffer = buffer, .born = lives.of_event[Index(life.born)]});
    });
  }
  matcher.Match();
  left.kept = GroupByLines(story, matcher.kept());
  for (const LineGroup& group : left.kept) left.kept_bytes += group.bytes;
  left.missing = GroupMissing(trace, lives, matcher.missing());
  for (const MissingGroup& group : left.missing) left.missing_bytes += group.total_bytes();
  return left;
}

}  // namespace onnxfit
