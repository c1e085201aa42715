#include "cli/program_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/file_bytes.h"
#include "estimator/base/index.h"
#include "estimator/snapshot/held_lines.h"
#include "estimator/snapshot/memory_snapshot.h"
#include "estimator/snapshot/python_frames.h"
#include "estimator/snapshot/recorded_run.h"

namespace onnxfit {
namespace {

constexpr int64_t kStays = 3;  // what lives for this part of the time stays

// Bytes that live after each event.
std::vector<int64_t> LivingBytes(const RecordedRun& run, int64_t least_life) {
  std::vector<int64_t> changes(Index(run.events + 1));
  for (const RecordedBlock& block : run.blocks) {
    if (block.dies - block.born < least_life) continue;
    changes[Index(block.born + 1)] += block.bytes;
    if (block.dies < run.events) changes[Index(block.dies + 1)] -= block.bytes;
  }
  for (size_t i = 1; i < changes.size(); ++i) changes[i] += changes[i - 1];
  return changes;
}

std::string PlaceAt(const MemorySnapshot& snapshot, int64_t event, const std::string& hidden) {
  if (event < 1) return "";
  const FrameId frame = OwnFrame(snapshot, snapshot.events[Index(event - 1)].stack, hidden);
  if (frame < 0) return "";
  const SnapshotFrame& line = snapshot.frames[Index(frame)];
  return fmt::format("{}:{}", FileNameOf(line), line.line);
}

}  // namespace

TimelinePlot PlotOf(const MemorySnapshot& snapshot, const RecordedRun& run, const Turns& turns,
                    const std::string& hidden) {
  TimelinePlot plot = {.title = fmt::format("In tensors while it ran, {} events", run.events),
                       .staying = "what lives for a third of the time or more",
                       .peak_at = PlaceAt(snapshot, run.peak.event, hidden)};
  const std::vector<int64_t> all = LivingBytes(run, 0);
  const std::vector<int64_t> staying = LivingBytes(run, std::max<int64_t>(run.events / kStays, 1));
  const size_t points = std::min(kTerminalPoints, all.size());
  const auto point_of = [&](int64_t event) { return Index(event) * points / all.size(); };
  for (size_t point = 0; point < points; ++point) {
    // The first event of a point and that of the next one, as point_of has it.
    const auto from = static_cast<std::ptrdiff_t>((point * all.size() + points - 1) / points);
    const auto to = static_cast<std::ptrdiff_t>(((point + 1) * all.size() + points - 1) / points);
    const auto most = std::max_element(all.begin() + from, all.begin() + to);
    plot.bytes.push_back(*most);
    plot.staying_bytes.push_back(staying[static_cast<size_t>(most - all.begin())]);
  }
  plot.peak = point_of(run.peak.event);
  // Of a loop that runs through most of the time, not of one among others.
  const bool is_main = turns.count() > 0 && turns.begins.front() < run.events / 2;
  for (size_t turn = 0; is_main && turn < turns.begins.size(); ++turn) {
    plot.marks.push_back({point_of(turns.begins[turn]), fmt::format("turn {}", turn + 1)});
  }
  return plot;
}

std::string DrawSnapshot(const std::string& path, const std::string& hidden,
                         const TextOptions& options) {
  try {
    const FileBytes file(path, [](std::string_view) {});
    const MemorySnapshot snapshot = ReadMemorySnapshot(file.bytes());
    const RecordedRun run = FollowSnapshot(snapshot);
    if (run.events == 0) return "";
    return TimelineText(PlotOf(snapshot, run, FindTurns(snapshot, run), hidden), options);
  } catch (const Error&) {
    return "";
  }
}

}  // namespace onnxfit
