#include "cli/program_trial.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <utility>

#include "cli/host_watch.h"
#include "cli/process.h"
#include "cli/program_asks.h"
#include "cli/program_folder.h"
#include "cli/program_records.h"
#include "cli/program_requests.h"
#include "cli/program_timeline.h"
#include "cli/unused_card.h"
#include "estimator/absent/run_folder.h"
#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/nccl.h"
#include "estimator/report/program_run_parts.h"

namespace onnxfit {
namespace {

constexpr size_t kLinesShown = 20;  // of what a program said that failed

// --- What became of it --------------------------------------------------------------------------

// Whether want of a card's memory is what ended it, as far as anything tells.  The machine's may
// run out, too, in the same words.
bool RanOut(const ProgramRun& run, const DeviceRecords& records) {
  if (RanOutOfPool(run)) return true;
  if (run.exit_code == 0) return false;
  if (run.engine && run.engine->is_refused()) return true;
  bool is_told = false;
  for (const ProgramProcess& process : run.processes) {
    const bool is_limited =
        std::ranges::any_of(process.peaks, [](const TorchPeaks& peaks) { return peaks.ooms > 0; });
    const bool is_full = is_limited || records.is_any_full();
    if (is_full && (process.is_oom || (is_limited && process.exception.empty()))) return true;
    is_told |= !process.exception.empty();
  }
  return !is_told && records.is_any_full();
}

// torch.compile's helpers see the card, and take nothing of it.
bool IsOfInterest(const ProgramProcess& process) {
  const auto is_used = [](const TorchPeaks& peaks) {
    return peaks.reserved_bytes > 0 || peaks.ooms > 0;
  };
  return std::ranges::any_of(process.peaks, is_used) ||
         (!process.peaks.empty() && !process.exception.empty());
}

int64_t SumOf(const ProgramRun& run, int64_t TorchPeaks::*figure) {
  int64_t sum = 0;
  for (const ProgramProcess& process : run.processes) {
    for (const TorchPeaks& peaks : process.peaks) sum += peaks.*figure;
  }
  return sum;
}

std::string Times(int64_t count) { return count == 1 ? "once" : fmt::format("{} times", count); }

// Of a program that went on though a card was full.
std::string FullText(const ProgramRun& run, const std::vector<int64_t>& refused) {
  const int64_t ooms = SumOf(run, &TorchPeaks::ooms);
  const int64_t retries = SumOf(run, &TorchPeaks::retries);
  const std::string asked = fmt::format("{} asked at most", FormatBytes(refused.front()));
  if (ooms > 0) {
    const bool is_told = std::ranges::any_of(  // line by line, below
        run.processes, [](const ProgramProcess& process) { return !process.refused.empty(); });
    return fmt::format(
        "PyTorch ran out of memory {}, and the program, or cuDNN with less workspace, went on{}",
        Times(ooms), is_told ? "" : "; " + asked);
  }
  if (retries > 0) {
    return fmt::format(
        "the card was full {}: PyTorch gave cached memory back, which takes time; {}",
        Times(retries), asked);
  }
  return fmt::format("the card was full {} and the program went on; {}",
                     Times(static_cast<int64_t>(refused.size())), asked);
}

JudgedTarget Judged(const Target& target, const CardRecord& card, bool ran_out,
                    const ProgramRun& run) {
  JudgedTarget judged = {.target = target, .judgement = {}};
  Judgement& judgement = judged.judgement;
  const ContextBytes& context = target.device.context;
  const int64_t contexts = card.contexts;
  judgement.usable_bytes = target.usable_bytes();
  judgement.used_bytes = card.peak_bytes;
  judgement.low_bytes = card.peak_bytes - contexts * (context.bytes - context.low);
  judgement.high_bytes = card.peak_bytes + contexts * (context.high - context.bytes) +
                         card.communicators * (NcclMuchBytes() - NcclLeastBytes());
  judgement.retries = static_cast<int64_t>(card.refused.size());
  const bool is_full = !card.refused.empty();
  const bool is_high = judgement.high_bytes > judgement.usable_bytes;
  judgement.verdict = ran_out              ? Verdict::kOom
                      : is_full || is_high ? Verdict::kTight
                                           : Verdict::kFits;
  const bool is_told = std::ranges::any_of(
      run.processes, [](const ProgramProcess& process) { return !process.oom.empty(); });
  if (ran_out && is_full && !is_told) {
    judgement.reasons.push_back(
        fmt::format("full: {} asked, and refused", FormatBytes(card.refused.front())));
  }
  if (ran_out || run.failed) return judged;
  if (is_full) judgement.reasons.push_back(FullText(run, card.refused));
  if (is_high) {
    judgement.reasons.push_back(
        fmt::format("{} at the high end of what was seen takes {} more than there is",
                    card.communicators > 0 ? "a context and NCCL's buffers" : "a context",
                    FormatBytes(judgement.high_bytes - judgement.usable_bytes)));
  }
  return judged;
}

// What of managed memory has no room on the cards beside the most of all else: a card takes it back
// from there as it needs the room, so that nothing is refused for its sake.
void JudgeManaged(ProgramRun& run) {
  int64_t room = 0;
  for (const JudgedTarget& judged : run.cards) {
    room += judged.judgement.usable_bytes - judged.judgement.used_bytes;
  }
  run.host.spilled_bytes =
      std::max<int64_t>(0, run.host.managed_bytes - std::max<int64_t>(0, room));
  if (run.host.spilled_bytes == 0) return;
  for (JudgedTarget& judged : run.cards) {
    judged.judgement.verdict = std::max(judged.judgement.verdict, Verdict::kTight);
  }
  run.cards[0].judgement.reasons.push_back(fmt::format(
      "{} of {} of managed memory have no room beside the rest: they move between RAM and the card "
      "as kernels touch them, which takes time",
      FormatBytes(run.host.spilled_bytes), FormatBytes(run.host.managed_bytes)));
}

// RAM that does not suffice is no card's fault, and no card helps.
void JudgeHost(ProgramRun& run) {
  run.host.verdict = HostVerdict(run.host);
  for (JudgedTarget& judged : run.cards) {
    judged.judgement.verdict = std::max(judged.judgement.verdict, run.host.verdict);
  }
}

void JudgeCards(const std::vector<Target>& cards, const DeviceRecords& records, ProgramRun& run) {
  const bool ran_out = RanOut(run, records);
  run.failed = run.exit_code != 0 && !ran_out;
  for (size_t i = 0; i < cards.size(); ++i) {
    // A limit of the program's own may be full where no card is.
    const bool is_here = !records.cards[i].refused.empty() || !records.is_any_full();
    run.cards.push_back(Judged(cards[i], records.cards[i], ran_out && is_here, run));
  }
  if (ran_out || run.failed) return;
  JudgeManaged(run);
  JudgeHost(run);
}

// --- What keeps it from an answer ---------------------------------------------------------------

void CheckCuda(const ProgramFolder& folder, const DeviceRecords& records,
               const std::vector<ProgramProcess>& processes, const ProgramEnd& end,
               const ProgramTrial& trial) {
  if (records.touched) return;
  UnusedCard card = {.program = trial.command.front(),
                     .our_flag = OurFlag(trial.command),
                     .end = end,
                     .own_runtime = OwnRuntime(folder.path()),
                     .visible = VisibleDevices()};
  for (const ProgramProcess& process : processes) {
    card.torch = process.torch;
    card.is_cpu_build |= process.cuda.empty();
  }
  throw WhyUnused(card);
}

// What a program leaves running would run on without a card.
void TellLeft(const ProgramEnd& end, std::ostream& err) {
  if (end.left.empty()) return;
  const bool is_one = end.left.size() == 1;
  err << fmt::format("{} process{} that the program left running {} ended: {}\n", end.left.size(),
                     is_one ? "" : "es", is_one ? "was" : "were", fmt::join(end.left, ", "));
}

// --- Running it ---------------------------------------------------------------------------------

std::vector<std::string> VariablesOf(const ProgramFolder& folder, const ProgramTrial& trial) {
  std::vector<std::string> variables = folder.variables();
  if (trial.most_steps > 0) {
    variables.push_back(fmt::format("ONNXFIT_RUN_STEPS={}", trial.most_steps));
  }
  if (trial.until_same) variables.emplace_back("ONNXFIT_RUN_UNTIL_SAME=1");
  if (trial.most_seconds > 0) {
    variables.push_back(fmt::format("ONNXFIT_RUN_SECONDS={}", trial.most_seconds));
  }
  return variables;
}

// The end of what it said, where a failure is in it.
void ShowEnd(const std::string& path, std::ostream& err) {
  std::deque<std::string> last;
  std::ifstream said(path);
  for (std::string line; std::getline(said, line);) {
    last.push_back(line);
    if (last.size() > kLinesShown) last.pop_front();
  }
  for (const std::string& line : last) err << line << '\n';
}

// As long as it runs, what it asks of its cards' convolutions is answered.
ProgramEnd RunAnswered(const ProgramTrial& trial, const ProgramFolder& folder,
                       const ProgramOutput& output, HostPeak& host) {
  std::vector<DeviceProfile> cards;
  for (const Target& target : trial.cards) cards.push_back(target.device);
  const ProgramAsks asks(folder.path(), std::move(cards));
  const HostWatch watch;
  ProgramEnd end = RunAtTerminal(
      trial.command, VariablesOf(folder, trial), output,
      {.seconds = trial.idle_seconds, .file = folder.path() + "/" + absent::kEndsFile});
  host = watch.Peak();
  return end;
}

// The snapshot of the process that had most, of those that have one; "" where none has.
std::string LargestSnapshot(const std::string& folder, const ProgramRun& run) {
  std::string largest;
  int64_t most = -1;
  for (const ProgramProcess& process : run.processes) {
    const std::string path = SnapshotPath(folder, process);
    if (!std::filesystem::exists(path)) continue;
    for (const TorchPeaks& peaks : process.peaks) {
      if (peaks.reserved_bytes <= most) continue;
      most = peaks.reserved_bytes;
      largest = path;
    }
  }
  return largest;
}

void KeepSnapshot(const std::string& snapshot, const std::string& path, std::ostream& err) {
  if (snapshot.empty()) {
    err << "warning: --snapshot: no process of the program has one: PyTorch writes it" << std::endl;
    return;
  }
  std::error_code error;
  std::filesystem::copy_file(snapshot, path, std::filesystem::copy_options::overwrite_existing,
                             error);
  if (error) err << "warning: " << path << ": " << error.message() << std::endl;
}

size_t PointsOf(const ProgramTrial& trial) {
  return trial.curve_points == 0 && trial.timeline ? kTerminalPoints : trial.curve_points;
}

// Of the process that is told; "" where it has no record.
std::string DrawingOf(const ProgramRun& run, const TextOptions& options) {
  if (run.processes.empty()) return "";
  const std::optional<RunCurve>& curve = run.processes[LargestProcess(run)].curve;
  return curve ? TimelineText(PlotOf(*curve), options) : "";
}

}  // namespace

ProgramRun RunTrial(const ProgramTrial& trial, std::ostream& err) {
  const ProgramFolder folder(trial.cards);
  const std::string said = folder.path() + "/said";
  const ProgramOutput output = {.file = trial.is_silent ? said : "", .to_stderr = trial.to_stderr};
  HostPeak host;
  const ProgramEnd end = RunAnswered(trial, folder, output, host);
  TellLeft(end, err);
  const DeviceRecords records = ReadDeviceRecords(folder.path(), trial.cards.size());
  ProgramRun run = {.command = trial.command, .exit_code = end.exit_code};
  if (end.waited_at != 0) {
    run.exit_code = 0;  // however it took that we ended it
    run.waited_at = end.waited_at;
    run.waited_seconds = trial.idle_seconds;
  }
  const std::vector<ProgramProcess> processes = ReadProcesses(folder.path(), PointsOf(trial));
  std::ranges::copy_if(processes, std::back_inserter(run.processes), IsOfInterest);
  run.host = host;
  run.host.pinned_bytes = records.pinned_peak_bytes;
  run.host.managed_bytes = records.managed_peak_bytes;
  run.host.limit_bytes = trial.ram_bytes;
  run.frameworks = ReadFrameworks(folder.path());
  run.engine = ReadEngine(folder.path());
  run.saved = ReadSaved(folder.path());
  run.unknown_functions = records.unknown_functions;
  run.unknown_sizes = records.unknown_sizes;
  run.unwatched = records.unwatched;
  run.failures = records.failures;
  if (trial.is_silent && (end.exit_code != 0 && !RanOut(run, records))) ShowEnd(said, err);
  CheckCuda(folder, records, processes, end, trial);
  JudgeCards(trial.cards, records, run);
  const std::string snapshot = LargestSnapshot(folder.path(), run);
  if (!trial.snapshot.empty()) KeepSnapshot(snapshot, trial.snapshot, err);
  if (trial.timeline) run.drawing = DrawingOf(run, *trial.timeline);
  if (run.processes.empty()) AddRequests(folder.path(), run);
  return run;
}

}  // namespace onnxfit
