#include "estimator/snapshot/story.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/snapshot/python_frames.h"

namespace onnxfit {
namespace {

// Who asked, as far as it is told: frames; by autograd, whose thread has none; before the history.
using Asker = std::tuple<std::vector<FrameId>, bool, bool>;

struct Gathered {
  LineGroup group;
  int64_t largest = -1;
  std::map<int64_t, int64_t> sizes;  // counts by bytes
  std::set<int64_t> turns;           // that leave some behind
};

void Gather(const RunStory& story, size_t index, Gathered& into) {
  const RecordedBlock& block = story.run.blocks[index];
  if (block.bytes > into.largest) {
    into.largest = block.bytes;
    into.group.stack = block.stack;
  }
  into.group.bytes = CheckedAdd(into.group.bytes, block.bytes);
  ++into.group.count;
  ++into.sizes[block.bytes];
  if (!story.grows[index]) return;
  into.group.growing_bytes += block.bytes;
  into.turns.insert(story.turns.TurnAt(block.born));
}

LineGroup Finished(Gathered gathered) {
  LineGroup& group = gathered.group;
  for (const auto& [bytes, count] : gathered.sizes) group.sizes.push_back({bytes, count});
  std::stable_sort(
      group.sizes.begin(), group.sizes.end(),
      [](const SizeCount& a, const SizeCount& b) { return a.bytes * a.count > b.bytes * b.count; });
  group.growing_turns = static_cast<int64_t>(gathered.turns.size());
  return std::move(group);
}

}  // namespace

std::vector<FrameId> FramesInLoop(const RunStory& story, StackId stack) {
  std::vector<FrameId> frames = UserFrames(story.snapshot, stack);
  if (story.turns.loop < 0) return frames;
  const auto at = [&](FrameId frame) { return story.snapshot.frames[Index(frame)]; };
  const SnapshotFrame loop = at(story.turns.loop);
  const auto outermost = std::find_if(frames.rbegin(), frames.rend(), [&](FrameId frame) {
    return at(frame).function == loop.function && at(frame).file == loop.file;
  });
  if (outermost != frames.rend()) frames.erase(outermost.base(), frames.end());
  return frames;
}

std::vector<LineGroup> GroupByLines(const RunStory& story, std::span<const size_t> blocks) {
  std::map<std::pair<StackId, bool>, Asker> askers;
  std::map<Asker, Gathered> gathered;
  for (const size_t index : blocks) {
    const RecordedBlock& block = story.run.blocks[index];
    const bool is_early = block.born < 0 && block.stack == 0;
    const auto [asker, is_new] = askers.try_emplace({block.stack, is_early});
    if (is_new) {
      asker->second = {UserFrames(story.snapshot, block.stack),
                       story.snapshot.stacks[Index(block.stack)].is_backward, is_early};
    }
    Gather(story, index, gathered[asker->second]);
  }
  std::vector<LineGroup> groups;
  for (auto& [asker, group] : gathered) {
    group.group.is_early = std::get<2>(asker);
    groups.push_back(Finished(std::move(group)));
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const LineGroup& a, const LineGroup& b) { return a.bytes > b.bytes; });
  return groups;
}

// What follows tells the whole.
namespace {

void FindGrowthLine(const std::vector<size_t>& growing, RunStory& story) {
  std::map<FrameId, int64_t> by_line;
  for (const size_t index : growing) {
    const RecordedBlock& block = story.run.blocks[index];
    const std::vector<FrameId> frames = FramesInLoop(story, block.stack);
    if (!frames.empty()) by_line[frames.back()] += block.bytes;
  }
  for (const auto& [line, bytes] : by_line) {
    if (bytes <= story.growth_line_bytes) continue;
    story.growth_line = line;
    story.growth_line_bytes = bytes;
  }
}

}  // namespace

RunStory TellStory(MemorySnapshot snapshot) {
  RunStory story;
  story.snapshot = std::move(snapshot);
  story.run = FollowSnapshot(story.snapshot);
  story.turns = FindTurns(story.snapshot, story.run);
  const std::vector<size_t> growing = FindGrowth(story.run, story.turns);
  story.grows.resize(story.run.blocks.size());
  for (const size_t index : growing) {
    story.grows[index] = true;
    story.growth_bytes = CheckedAdd(story.growth_bytes, story.run.blocks[index].bytes);
  }
  story.growth = GroupByLines(story, growing);
  FindGrowthLine(growing, story);
  story.live = GroupByLines(story, story.run.LiveAt(story.run.moment.event));
  return story;
}

}  // namespace onnxfit
