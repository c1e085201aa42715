// What reports of a program's run share: its layouts here, and its page (picture/).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/report/formats.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/program_run.h"
#include "estimator/report/program_search.h"

namespace onnxfit {

inline constexpr size_t kSourceColumns = 50;  // of a line of source

// A page about one run.
struct RunPage {
  const ProgramRun& run;
  const TextOptions& options;
  const Glyphs& glyphs;

  std::string Shown(std::string_view text) const { return Clean(text, options.ascii); }
  // The beginning of a line of source tells what it is.
  std::string Cut(std::string_view text, size_t columns) const;
};

// "1 step", "3 steps"
std::string Counted(size_t count, std::string_view one, std::string_view several);

// "--steps ended it after 20 steps: …"; "" of a program that no flag ended.
std::string EndedText(const ProgramRun& run);

// Why its verdicts are as they are, and how it ended: what stands right below them.  Of one among
// several without what its message means and what helps.
std::string RunReasons(const ProgramRun& run, const TextOptions& options, bool is_brief = false);

// All of a run below that.
std::string RunDetails(const ProgramRun& run, const TextOptions& options);

// "RAM of the host, at most 3.10 GiB in 5 processes; 512.0 MiB pinned"; "" of what every machine
// has.
std::string HostText(const HostPeak& host);

// Why RAM does not suffice, or hardly; "" where it does.
std::string HostReason(const ProgramRun& run, const Glyphs& glyphs);

// "2.00 GiB of managed memory …, counted on no card: …"; "" where there is none.
std::string ManagedText(const HostPeak& host);

Json HostJson(const HostPeak& host);

// What frameworks other than PyTorch counted: a table; why their memory is no question of need, or
// ran out, below the verdicts; and for JSON.
std::string PoolsTable(const ProgramRun& run);
std::vector<std::string> PoolReasons(const ProgramRun& run);
Json PoolsJson(const ProgramRun& run);

// "the run", "process 4711, cuda:1": whose pool that is.
std::string PoolName(const FrameworkCounts& counts, const FrameworkPool& pool,
                     const ProgramRun& run);

// What of them stays open, a sentence each.
std::vector<std::string> PoolSentences(const ProgramRun& run);

// Whether one of them ran out of memory, so that the program ended or had no result.
bool RanOutOfPool(const ProgramRun& run);

// {"exit_code", "failed", "peak", "targets", "processes", …}
Json RunJson(const ProgramRun& run);

// What ToJson writes.
Json RunsJson(const std::vector<ProgramRun>& runs, const JsonOptions& options);
Json SearchesJson(const std::vector<ProgramSearch>& searches, const JsonOptions& options);

// Of several, the one that is told in full: the last that fits, else the last.  REQUIRES: a run.
const ProgramRun& ToldRun(const std::vector<ProgramRun>& runs);

// Whose lines are told: of several processes, the one that allocated most.  REQUIRES: a process.
size_t LargestProcess(const ProgramRun& run);

// "rank 1", "process 2", "rank 0, cuda:1"; "the run" of the only one, or `alone`.
std::string NameOf(const ProgramRun& run, size_t place, const TorchPeaks& peaks);
std::string NameOf(const ProgramRun& run, size_t place, int64_t device, std::string_view alone);

// "At the peak of rank 1, 5.48 GiB by the lines that asked for it"
std::string HeldTitle(const ProgramProcess& process, size_t place, const ProgramRun& run);

// "train.py:27", "backward", "other lines": whose layer of a curve that is.
std::string LayerName(const RunCurve& curve, size_t layer);

// Steps in a row that read alike.
struct StepGroup {
  size_t first = 0;  // from 0
  size_t last = 0;
  StepPeaks peaks;
};
std::vector<StepGroup> GroupsOfSteps(const std::vector<StepPeaks>& steps);

// "8 steps", of the optimizer.
std::string StepsOf(const ProgramProcess& process);

// "the program ended with 1 after 3 steps: ValueError: no labels"
std::string FailedText(const ProgramRun& run);

// What stays open but for values that were read, a sentence each, with all names.
std::vector<std::string> OpenSentences(const ProgramRun& run);

// What a search left open, a sentence each.
std::vector<std::string> SearchSentences(const ProgramSearch& search);

}  // namespace onnxfit
