// A program that was run on cards that are not there: what it took, and whether it fits them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/warnings.h"
#include "estimator/fit/verdict.h"
#include "estimator/report/formats.h"
#include "estimator/report/program_phases.h"
#include "estimator/report/serving_engine.h"
#include "estimator/snapshot/run_curve.h"

namespace onnxfit {

// What PyTorch says of one card in one process, at the most of the run.
struct TorchPeaks {
  int64_t device = 0;  // the process's number of it
  int64_t requested_bytes = 0;
  int64_t allocated_bytes = 0;
  int64_t reserved_bytes = 0;
  int64_t retries = 0;  // cached memory went back to the card first
  int64_t ooms = 0;
};

// The same at the most of one step, of the card that was current at its end.
struct StepPeaks {
  int64_t allocated_bytes = 0;
  int64_t reserved_bytes = 0;

  bool operator==(const StepPeaks&) const = default;
};

// A line of a file: "train.py:41" and what stands there, "" where nobody can say.
struct ProgramPlace {
  std::string place = {};
  std::string source = {};

  bool operator==(const ProgramPlace&) const = default;
};

// What a value is for where it is read: a print or a log, a size that was taken as the most that it
// can be, or anything else.
enum class ReadKind { kShown, kMost, kDecides };

// A value that the program read though no kernel computed it.
struct UnknownRead {
  ProgramPlace at = {};
  int64_t count = 0;
  ReadKind kind = ReadKind::kDecides;  // of several reads in one place, the last of these
};

// What lives at the peak because of one line.
struct HeldBytes {
  ProgramPlace at = {};  // without a place: no line of Python asked, as in backward
  int64_t bytes = 0;
  int64_t count = 0;
  std::vector<HeldBytes> within = {};  // of these, by lines of packages that it calls
};

// What a process had in tensors over its run, on the card of which it had most.
struct RunCurve {
  RecordedCurve curve;
  int64_t device = 0;                      // the process's number of the card
  std::vector<ProgramPlace> lines = {};    // of each layer; without a place for those of no line
  std::vector<std::string> asked_by = {};  // by point: "train.py:27", "" where no line asked
};

// A request that PyTorch could not fulfil, whether the program went on or not.
struct RefusedRequest {
  ProgramPlace at = {};  // without a place: no line of Python waited for it
  int64_t bytes = 0;
  int64_t step = 0;  // so many steps of optimizers came before

  bool operator==(const RefusedRequest&) const = default;
};

struct ProgramProcess {
  int64_t pid = 0;
  std::string rank = {};   // of torchrun, "" without
  std::string torch = {};  // its version
  std::string cuda = {};   // that it was built for, "" for none
  int64_t steps = 0;       // of optimizers
  int64_t calls = 0;       // of outermost modules, as far as they were counted
  std::vector<TorchPeaks> peaks = {};
  std::vector<StepPeaks> step_peaks = {};  // the last row is the most of all later steps, too
  int64_t step_device = 0;                 // whose peaks they are
  std::vector<ProgramPhase> phases = {};   // none where it does one thing
  std::vector<HeldBytes> held = {};        // at the peak, or when it ran out; the most bytes first
  int64_t held_bytes = 0;                  // of all of them
  int64_t held_device = 0;                 // on which card, by the process's number
  bool is_held_all = true;                 // the record reaches back to the run's peak
  std::optional<RunCurve> curve = {};      // if it was asked for, and there is a record
  std::vector<UnknownRead> unknown = {};
  std::string exception = {};  // that ended it, "" for none
  std::string message = {};    // of that exception, in its own words
  bool is_oom = false;         // it is one of memory
  std::string ended_by = {};   // "steps", "seconds", "until-same": the flag that ended it
  ProgramPlace full_at = {};   // whose request was refused last
  std::vector<RefusedRequest> refused = {};  // the first hundred
  std::vector<std::string> oom = {};         // what its message means, a sentence each
};

// What a framework other than PyTorch counts of one card in one process.
struct FrameworkPool {
  int64_t device = 0;                       // the process's number of it
  int64_t used_bytes = 0;                   // that its allocator handed out
  std::optional<int64_t> pool_bytes = {};   // that it had of the card for it
  std::optional<int64_t> limit_bytes = {};  // that it may have
  bool is_peak = true;                      // the most of the run, else what was left at its end

  bool operator==(const FrameworkPool&) const = default;
};

// A framework other than PyTorch in one process, in its own figures and words (hook/pools.py).
struct FrameworkCounts {
  int64_t pid = 0;
  std::string name = {};  // "JAX"
  std::string version = {};
  std::vector<FrameworkPool> pools = {};  // one at least
  std::string in_advance =
      {};                 // how not to have it take memory before it is needed, "" if it does not
  std::string more = {};  // how it takes more of a card, "" for nothing
  std::string exception = {};          // that ended the process, "" for none
  bool is_oom = false;                 // it is one of memory
  std::vector<std::string> open = {};  // what may be otherwise on a card, a sentence each
  std::string failed = {};  // of a result that it never read: want of memory, in its own words
};

// The most that a program's processes had of the machine's RAM at once.
struct HostPeak {
  int64_t bytes = 0;
  int64_t processes = 0;      // that ran then; 0 where nobody looked
  int64_t pinned_bytes = 0;   // at most, maybe at another time: as asked for, touched or not
  int64_t managed_bytes = 0;  // the same of cudaMallocManaged's, on a card where that has room
  int64_t spilled_bytes = 0;  // of these: what has none there, beside the most of all else
  int64_t limit_bytes = 0;    // that the machine has; 0 where nobody asked
  Verdict verdict = Verdict::kFits;  // of that, where neither a card nor the program failed first

  // What was seen, and with it what was asked for and may not have been touched.
  int64_t least_bytes() const { return std::max(bytes, pinned_bytes); }
  int64_t most_bytes() const { return bytes + pinned_bytes + spilled_bytes; }
};

// Whether so much RAM suffices: TIGHT where the most leaves less than a twentieth.
Verdict HostVerdict(const HostPeak& host);

// One run of the command.
struct ProgramRun {
  std::vector<std::string> command = {};
  int exit_code = 0;
  int waited_at = 0;  // the port of a server that waited for requests until it was ended
  int64_t waited_seconds = 0;
  bool is_assumed = false;  // nobody named the card
  bool failed = false;      // it ended early, and not for want of memory: no verdict holds
  std::vector<JudgedTarget> cards = {};
  std::vector<ProgramProcess> processes = {};    // those that used PyTorch on a card
  std::vector<FrameworkCounts> frameworks = {};  // those that used a card
  std::optional<ServingEngine> engine = {};      // that serves, if one said so
  std::string drawing = {};                      // of what was allocated over time, if asked for
  std::vector<std::string> saved = {};           // files that were not written over
  std::vector<std::string> unknown_functions = {};
  std::vector<std::string> unknown_sizes = {};  // whose scratch was taken as none
  // Without PyTorch: what lived at the peak of the process that had most, by who asked the card
  // for it: a line of Python, else a library and its function in the place of the source.
  std::vector<HeldBytes> asked = {};
  int64_t asked_bytes = 0;
  HostPeak host = {};
  int64_t unwatched = 0;                   // processes of Python that left the hooks out
  std::vector<std::string> failures = {};  // of the hooks: "saves: KeyError: 'x'"
};

// One process's file, which PyTorch's side wrote (hook/record.py).  Throws Error where it is none.
ProgramProcess ReadProgramProcess(std::string_view json);

// One framework's file (hook/pools.py).  Throws Error where it is none.
FrameworkCounts ReadFrameworkCounts(std::string_view json);

// A line for each card: "FITS on t4: 12.3 GiB of …", "FAILED on t4: until then …".
std::string HeadlinesOf(const ProgramRun& run, const TextOptions& options);

// At most 80 columns wide, every line with its newline.  With options.quiet the verdicts alone,
// with options.verbose all lines and places, and the program's own message.  Of several runs, each
// on cards of its own, the last one that fits is told in full, else the last.  REQUIRES: a run.
std::string ToText(const std::vector<ProgramRun>& runs, const TextOptions& options = {});

// Schema 1, one object.  Of one run
//   {"schema", "version", "basis": "run", "text", "command", "exit_code", "failed", "waited_at",
//    "peak": {"device_bytes", "exact_bytes", "allocated_bytes", "reserved_bytes": as estimate's; of
//      a program without PyTorch the first alone},
//    "targets": [as estimate's; without "verdict" where it failed],
//    "processes": [{"pid", "rank", "torch", "steps", "exception", "message", "out_of_memory",
//      "full_at": PLACE, "refused": [{PLACE, "bytes", "step"}], "ended_by",
//      "devices": [{"device", "requested_bytes", "allocated_bytes",
//        "reserved_bytes", "retries", "ooms"}],
//      "step_peaks": [{"allocated_bytes", "reserved_bytes"}], "phases": as PhasesJson's,
//      "held_bytes", "held_device", "held_is_of_peak", "held": [{PLACE, "bytes", "count", "within":
//      [the same]}],
//      "curve": {"device", "events", "is_cut", "peak", "full", "turns": [POINT], "asked_by":
//      [PLACE's],
//        "requested": [bytes by point], "reserved", "lines": [{PLACE, "name", "requested"}]},
//      "unknown_reads": [{PLACE, "count", "kind": "shown", "most" or "decides"}]}],
//    "frameworks": [{"pid", "name", "version", "in_advance", "exception", "out_of_memory",
//    "failed",
//      "devices": [{"device", "used_bytes", "pool_bytes", "limit_bytes", "is_peak"}]}],
//    "not_written": [PATH],
//    "unknown_functions", "unknown_sizes", "asked_bytes", "asked": [{PLACE, "bytes", "count"}],
//    "host": {"bytes", "processes", "pinned_bytes", "managed_bytes"; where RAM was asked about
//      "limit_bytes", "least_bytes", "most_bytes", "verdict"}, "unwatched_processes", "failures",
//    "engine": as ServingEngine's members}
// with "place" and "source" for a PLACE.  Of several, "targets" are those of all, and "runs" has
// what is below "command" for each; "text" is what people read.  What is not known or does not
// apply is absent.
std::string ToJson(const std::vector<ProgramRun>& runs, const JsonOptions& options);

}  // namespace onnxfit
