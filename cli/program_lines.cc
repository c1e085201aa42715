#include "cli/program_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <map>
#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/file_bytes.h"
#include "estimator/base/index.h"
#include "estimator/oom/explanation.h"
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

// Lines of source files, each file read once.
class Sources {
 public:
  std::string LineOf(const std::string& file, int64_t line) {
    const auto [at, is_new] = files_.try_emplace(file);
    if (is_new) at->second = LinesOf(file);
    const std::vector<std::string>& lines = at->second;
    if (line < 1 || Index(line) > lines.size()) return "";
    const std::string& text = lines[Index(line - 1)];
    const size_t first = text.find_first_not_of(" \t");
    const size_t last = text.find_last_not_of(" \t\r");
    return first == text.npos ? "" : text.substr(first, last + 1 - first);
  }

 private:
  static std::vector<std::string> LinesOf(const std::string& file) {
    std::vector<std::string> lines;
    std::ifstream source(file);
    for (std::string line; std::getline(source, line);) lines.push_back(line);
    return lines;
  }

  std::map<std::string, std::vector<std::string>> files_;
};

std::string LineName(const SnapshotFrame& frame) {
  return fmt::format("{}:{}", FileNameOf(frame), frame.line);
}

ProgramPlace PlaceOf(const MemorySnapshot& snapshot, FrameId id, Sources& sources) {
  const SnapshotFrame& frame = snapshot.frames[Index(id)];
  return {.place = LineName(frame), .source = sources.LineOf(frame.file, frame.line)};
}

// PyTorch's own count of the snapshot's card, at the most of the run.
int64_t RequestedOn(const ProgramProcess& process, int64_t device) {
  const auto of_card = std::ranges::find(process.peaks, device, &TorchPeaks::device);
  return of_card == process.peaks.end() ? 0 : of_card->requested_bytes;
}

std::vector<HeldBytes> HeldOf(const MemorySnapshot& snapshot, const std::vector<HeldLine>& lines,
                              Sources& sources) {
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

void AddHeld(const MemorySnapshot& snapshot, const RecordedRun& run, const RecordedMoment& moment,
             const std::vector<HeldLine>& lines, const std::string& hidden,
             ProgramProcess& process) {
  Sources sources;
  process.held = HeldOf(snapshot, lines, sources);
  process.held_bytes = moment.requested_bytes;
  const int64_t peak = RequestedOn(process, snapshot.device);
  const bool is_end = moment.what == RecordedMoment::What::kOom;
  process.is_held_all = is_end || moment.requested_bytes >= peak - peak / kRecordedWithin;
  if (run.moment.what != RecordedMoment::What::kOom) return;
  const FrameId full = OwnFrame(snapshot, run.moment.asked_by, hidden);
  process.full_at = full < 0 ? ProgramPlace{.place = "backward"} : PlaceOf(snapshot, full, sources);
}

RunCurve Named(RecordedCurve curve, const MemorySnapshot& snapshot) {
  RunCurve named = {.curve = std::move(curve), .device = snapshot.device};
  Sources sources;
  for (const LineLayer& layer : named.curve.layers) {
    named.lines.push_back(layer.frame < 0 ? ProgramPlace()
                                          : PlaceOf(snapshot, layer.frame, sources));
  }
  for (const FrameId frame : named.curve.asked_by) {
    named.asked_by.push_back(frame < 0 ? "" : LineName(snapshot.frames[Index(frame)]));
  }
  return named;
}

}  // namespace

void AddSnapshot(const std::string& path, const std::string& hidden, size_t points,
                 ProgramProcess& process) {
  try {
    const FileBytes file(path, [](std::string_view) {});
    const MemorySnapshot snapshot = ReadMemorySnapshot(file.bytes());
    const RecordedRun run = FollowSnapshot(snapshot);
    const RecordedMoment& moment = process.is_oom ? run.moment : run.peak;
    const std::vector<HeldLine> lines = HeldByLines(snapshot, run, moment.event, hidden);
    AddHeld(snapshot, run, moment, lines, hidden, process);
    if (points == 0 || run.events == 0) return;
    const CurveOptions options = {.points = points, .layers = kLayers, .hidden = hidden};
    process.curve = Named(CurveOf(snapshot, run, lines, options), snapshot);
  } catch (const Error&) {
    process.held.clear();  // a process that was killed has none, or half of one
  }
}

void ExplainEnd(ProgramProcess& process) {
  const OomLog log = ReadOomLog(process.message);
  if (log.processes.empty()) return;
  process.is_oom = true;
  const OomExplanation explained = ExplainOom(log.processes[0]);
  process.oom.push_back(explained.summary[0]);
  if (!explained.summary[2].empty()) process.oom.push_back(explained.summary[2]);  // why
  const auto helps = std::ranges::find(explained.remedies, Help::kYes, &OomRemedy::help);
  if (helps != explained.remedies.end()) {
    process.oom.push_back(fmt::format("it helps: {}: {}", helps->what, helps->why));
  }
}

}  // namespace onnxfit
