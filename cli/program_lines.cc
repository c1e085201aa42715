#include "cli/program_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <utility>
#include <vector>

#include "cli/program_timeline.h"
#include "cli/script_lines.h"
#include "estimator/base/error.h"
#include "estimator/base/file_bytes.h"
#include "estimator/base/index.h"
#include "estimator/oom/explanation.h"
#include "estimator/oom/formats.h"
#include "estimator/oom/log.h"
#include "estimator/snapshot/held_lines.h"
#include "estimator/snapshot/memory_snapshot.h"
#include "estimator/snapshot/python_frames.h"
#include "estimator/snapshot/recorded_run.h"
#include "estimator/snapshot/run_curve.h"

namespace onnxfit {
namespace {

// What a snapshot's peak may lack of PyTorch's own, which counts what is freed on streams later.
constexpr int64_t kRecordedWithin = 100;  // a hundredth
constexpr size_t kLayers = 7;             // lines that have a layer of a curve

std::string LineName(const SnapshotFrame& frame) {
  return fmt::format("{}:{}", FileNameOf(frame), frame.line);
}

ProgramPlace PlaceOf(const MemorySnapshot& snapshot, FrameId id, ScriptLines& sources) {
  const SnapshotFrame& frame = snapshot.frames[Index(id)];
  return {.place = LineName(frame), .source = sources.LineOf(frame.file, frame.line)};
}

// The machine's RAM, its disk and others run out in words that are as well known.
bool IsOfCard(const OomExplanation& explained) {
  const OomResource resource = explained.facts.resource;
  const bool is_of_host = IsHostMemory(explained.message.format->family) || IsOfHost(resource);
  return IsMemory(resource) && !is_of_host;
}

// PyTorch's own count of the snapshot's card, at the most of the run.
int64_t RequestedOn(const ProgramProcess& process, int64_t device) {
  const auto of_card = std::ranges::find(process.peaks, device, &TorchPeaks::device);
  return of_card == process.peaks.end() ? 0 : of_card->requested_bytes;
}

std::vector<HeldBytes> HeldOf(const MemorySnapshot& snapshot, const std::vector<HeldLine>& lines,
                              ScriptLines& sources) {
  std::vector<HeldBytes> all;
  for (const HeldLine& line : lines) {
    HeldBytes& held = all.emplace_back();
    held.bytes = line.bytes;
    held.count = line.count;
    if (line.frame >= 0) held.at = PlaceOf(snapshot, line.frame, sources);
    if (line.is_early) held.at.place = "before the record";
    held.within = HeldOf(snapshot, line.within, sources);
  }
  return all;
}

void AddHeld(const MemorySnapshot& snapshot, const RecordedMoment& moment,
             const std::vector<HeldLine>& lines, ProgramProcess& process) {
  ScriptLines sources;
  process.held = HeldOf(snapshot, lines, sources);
  process.held_bytes = moment.requested_bytes;
  process.held_device = snapshot.device;
  const int64_t peak = RequestedOn(process, snapshot.device);
  const bool is_end = moment.what == RecordedMoment::What::kOom;
  process.is_held_all = is_end || moment.requested_bytes >= peak - peak / kRecordedWithin;
}

void AddFull(const MemorySnapshot& snapshot, const RecordedRun& run, const std::string& hidden,
             ProgramProcess& process) {
  if (run.moment.what != RecordedMoment::What::kOom) return;
  ScriptLines sources;
  const FrameId full = OwnFrame(snapshot, run.moment.asked_by, hidden);
  process.full_at = full < 0 ? ProgramPlace{.place = "backward"} : PlaceOf(snapshot, full, sources);
}

RunCurve Named(RecordedCurve curve, const MemorySnapshot& snapshot) {
  RunCurve named = {.curve = std::move(curve), .device = snapshot.device};
  ScriptLines sources;
  for (const LineLayer& layer : named.curve.layers) {
    named.lines.push_back(layer.frame < 0 ? ProgramPlace()
                                          : PlaceOf(snapshot, layer.frame, sources));
  }
  for (const FrameId frame : named.curve.asked_by) {
    named.asked_by.push_back(frame < 0 ? "" : LineName(snapshot.frames[Index(frame)]));
  }
  return named;
}

// What the newest events have lost.
void AddPeak(const SnapshotOfProcess& from, ProgramProcess& process) {
  if (process.is_held_all || !std::filesystem::exists(from.peak_path)) return;
  const FileBytes file(from.peak_path, [](std::string_view) {});
  const MemorySnapshot snapshot = ReadMemorySnapshot(file.bytes());
  const RecordedRun run = FollowSnapshot(snapshot);
  if (run.peak.requested_bytes <= process.held_bytes) return;
  AddHeld(snapshot, run.peak, HeldByLines(snapshot, run, run.peak.event, from.hidden), process);
}

void Follow(const SnapshotOfProcess& from, size_t points, ProgramProcess& process) {
  const FileBytes file(from.path, [](std::string_view) {});
  const MemorySnapshot snapshot = ReadMemorySnapshot(file.bytes());
  const RecordedRun run = FollowSnapshot(snapshot);
  const RecordedMoment& moment = process.is_oom ? run.moment : run.peak;
  const std::vector<HeldLine> lines = HeldByLines(snapshot, run, moment.event, from.hidden);
  AddHeld(snapshot, moment, lines, process);
  AddFull(snapshot, run, from.hidden, process);
  AddPeak(from, process);
  if (points == 0 || run.events == 0) return;
  const CurveOptions options = {.points = points, .layers = kLayers, .hidden = from.hidden};
  process.curve = Named(CurveOf(snapshot, run, lines, options), snapshot);
}

}  // namespace

void AddSnapshot(const SnapshotOfProcess& from, size_t points, ProgramProcess& process) {
  try {
    Follow(from, points, process);
  } catch (const Error&) {
    process.held.clear();  // a process that was killed has none, or half of one
  }
}

void ExplainEnd(ProgramProcess& process) {
  const OomLog log = ReadOomLog(process.message);
  if (log.processes.empty()) return;
  const OomExplanation explained = ExplainOom(log.processes[0]);
  process.is_oom |= IsOfCard(explained);
  process.oom.push_back(explained.summary[0]);
  if (!explained.summary[2].empty()) process.oom.push_back(explained.summary[2]);  // why
  const auto helps = std::ranges::find(explained.remedies, Help::kYes, &OomRemedy::help);
  if (helps != explained.remedies.end()) {
    process.oom.push_back(fmt::format("it helps: {}: {}", helps->what, helps->why));
  }
}

}  // namespace onnxfit
