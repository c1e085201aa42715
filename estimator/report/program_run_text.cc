#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/report/layout.h"
#include "estimator/report/program_run.h"
#include "estimator/report/program_run_parts.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

constexpr size_t kSourceColumns = 50;  // of a line of source
constexpr size_t kPlacesShown = 3;
constexpr int64_t kMuch = 4;     // a part of all that is worth a look inside
constexpr size_t kStepRows = 4;  // more are told by their range

// A page about one run.
struct RunPage {
  const ProgramRun& run;
  const TextOptions& options;
  const Glyphs& glyphs;

  std::string Shown(std::string_view text) const { return Clean(text, options.ascii); }
  std::string Cut(std::string_view text, size_t columns) const {
    const std::string shown = Shown(text);
    if (Columns(shown) <= columns) return shown;
    return CutEnd(shown, columns);
  }

 private:
  // The beginning of a line of source tells what it is.
  std::string CutEnd(const std::string& text, size_t columns) const {
    size_t bytes = 0;
    const size_t room = columns - Columns(glyphs.ellipsis);
    for (size_t end = 1; end <= text.size() && Columns(text.substr(0, end)) <= room; ++end) {
      const bool is_letters_end =
          end == text.size() || (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
      if (is_letters_end) bytes = end;
    }
    return text.substr(0, bytes) + std::string(glyphs.ellipsis);
  }
};

using Rows = std::vector<std::vector<Cell>>;

std::string Counted(size_t count, std::string_view one, std::string_view several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

// --- The figures --------------------------------------------------------------------------------

// Steps in a row that read alike.
struct StepGroup {
  size_t first = 0;
  size_t last = 0;
  StepPeaks peaks;
};

bool ReadAlike(const StepPeaks& a, const StepPeaks& b) {
  return FormatBytes(a.allocated_bytes) == FormatBytes(b.allocated_bytes) &&
         FormatBytes(a.reserved_bytes) == FormatBytes(b.reserved_bytes);
}

std::vector<StepGroup> GroupsOfSteps(const std::vector<StepPeaks>& steps) {
  std::vector<StepGroup> groups;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (groups.empty() || !ReadAlike(groups.back().peaks, steps[i])) {
      groups.push_back({i, i, steps[i]});
    }
    groups.back().last = i;
  }
  return groups;
}

std::string StepsName(size_t first, size_t last, const Glyphs& glyphs) {
  if (first == last) return fmt::format("step {}", first + 1);
  return fmt::format("steps {}{}{}", first + 1, glyphs.dash, last + 1);
}

std::string RangeOf(int64_t low, int64_t high, const Glyphs& glyphs) {
  if (FormatBytes(low) == FormatBytes(high)) return FormatBytes(high);
  return fmt::format("{} {} {}", FormatBytes(low), glyphs.dash, FormatBytes(high));
}

// Of many that differ: the first, and from where to where the others are.
void AddRangeOfSteps(const std::vector<StepPeaks>& steps, const RunPage& page, Rows& rows) {
  const auto ends = [&](auto member) {
    const auto [low, high] =
        std::ranges::minmax_element(steps.begin() + 1, steps.end(), {}, member);
    return RangeOf((*low).*member, (*high).*member, page.glyphs);
  };
  rows.push_back({{"  step 1"},
                  {FormatBytes(steps[0].allocated_bytes)},
                  {FormatBytes(steps[0].reserved_bytes)}});
  rows.push_back({{"  " + StepsName(1, steps.size() - 1, page.glyphs)},
                  {ends(&StepPeaks::allocated_bytes)},
                  {ends(&StepPeaks::reserved_bytes)}});
}

void AddSteps(const ProgramProcess& process, const RunPage& page, Rows& rows) {
  const std::vector<StepGroup> groups = GroupsOfSteps(process.step_peaks);
  if (groups.size() > kStepRows) return AddRangeOfSteps(process.step_peaks, page, rows);
  for (const StepGroup& group : groups) {
    rows.push_back({{"  " + StepsName(group.first, group.last, page.glyphs)},
                    {FormatBytes(group.peaks.allocated_bytes)},
                    {FormatBytes(group.peaks.reserved_bytes)}});
  }
}

// "rank 1", "process 2", "rank 0, cuda:1"; "the run" of the only one.
std::string NameOf(const ProgramRun& run, size_t place, const TorchPeaks& peaks) {
  const ProgramProcess& process = run.processes[place];
  std::string name = "the run";
  if (run.processes.size() > 1) name = fmt::format("process {}", place + 1);
  if (!process.rank.empty()) name = "rank " + process.rank;
  const auto is_used = [](const TorchPeaks& p) { return p.reserved_bytes > 0; };
  const bool is_one_of_many = std::ranges::count_if(process.peaks, is_used) > 1;
  return is_one_of_many ? fmt::format("{}, cuda:{}", name, peaks.device) : name;
}

std::string PeaksTable(const RunPage& page) {
  const std::vector<ProgramProcess>& processes = page.run.processes;
  Rows rows;
  for (size_t i = 0; i < processes.size(); ++i) {
    if (processes.size() == 1) AddSteps(processes[i], page, rows);
    for (const TorchPeaks& peaks : processes[i].peaks) {
      if (peaks.reserved_bytes == 0) continue;
      rows.push_back({{"  " + NameOf(page.run, i, peaks)},
                      {FormatBytes(peaks.allocated_bytes)},
                      {FormatBytes(peaks.reserved_bytes)}});
    }
  }
  if (rows.empty()) return "";
  rows.insert(rows.begin(), {{"PyTorch " + processes[0].torch}, {"allocated"}, {"reserved"}});
  return '\n' + Table(rows, "lrr", "");
}

// --- What holds them ----------------------------------------------------------------------------

// Whose lines are told: of several, the one that allocated most.
size_t LargestProcess(const ProgramRun& run) {
  const auto most = [](const ProgramProcess& process) { return process.held_bytes; };
  return static_cast<size_t>(std::ranges::max_element(run.processes, {}, most) -
                             run.processes.begin());
}

std::string HeldTitle(const ProgramProcess& process, size_t place, const ProgramRun& run) {
  std::string when = process.is_oom ? "When it ran out" : "At the peak";
  if (!process.is_held_all) when = "At the most that was recorded";
  const std::string whose =
      run.processes.size() == 1 ? "" : fmt::format(" of {}", NameOf(run, place, {}));
  return fmt::format("{}{}, {} by the lines that asked for it", when, whose,
                     FormatBytes(process.held_bytes));
}

void AddHeld(const HeldBytes& held, std::string_view indent, const RunPage& page, Rows& rows) {
  const std::string place = held.at.place.empty() ? "backward" : held.at.place;
  rows.push_back({{FormatBytes(held.bytes)},
                  {fmt::format("{}{}", indent, page.Cut(place, kSourceColumns))},
                  {fmt::format("{}{}", indent, held.at.source)}});
}

// What packages do below a line that holds much: who calls a trainer asks for more than "train()".
void AddWithin(const HeldBytes& held, const ProgramProcess& process, const RunPage& page,
               Rows& rows) {
  const bool is_much = held.bytes >= process.held_bytes / kMuch;
  const size_t most = page.options.verbose ? held.within.size() : kPlacesShown;
  for (size_t i = 0; is_much && i < std::min(most, held.within.size()); ++i) {
    AddHeld(held.within[i], "  ", page, rows);
  }
}

Rows HeldRows(const ProgramProcess& process, const RunPage& page) {
  const size_t shown =
      page.options.verbose ? process.held.size() : std::min(process.held.size(), page.options.rows);
  Rows rows;
  int64_t rest = process.held_bytes;
  for (size_t i = 0; i < shown; ++i) {
    rest -= process.held[i].bytes;
    AddHeld(process.held[i], "", page, rows);
    AddWithin(process.held[i], process, page, rows);
  }
  if (shown < process.held.size()) {
    const std::string others = Counted(process.held.size() - shown, "other line", "other lines");
    rows.push_back({{FormatBytes(rest)}, {others}, {""}});
  }
  return rows;
}

std::string HeldText(const RunPage& page) {
  if (page.run.processes.empty()) return "";
  const size_t place = LargestProcess(page.run);
  const ProgramProcess& process = page.run.processes[place];
  if (process.held.empty()) return "";
  Rows rows = HeldRows(process, page);
  const std::vector<size_t> widths = ColumnWidths(rows, 3);
  const size_t room = kReportColumns - std::min(kReportColumns - 8, widths[0] + widths[1] + 6);
  for (std::vector<Cell>& row : rows) row[2].text = page.Cut(row[2].text, room);
  return fmt::format("\n{}\n", HeldTitle(process, place, page.run)) + Table(rows, "rll", kIndent);
}

// --- How it ended -------------------------------------------------------------------------------

std::string PlaceText(const ProgramPlace& at, const RunPage& page) {
  if (at.source.empty()) return at.place;
  return fmt::format("{} ({})", at.place, page.Cut(at.source, kSourceColumns));
}

// "full at train.py:41 (loss = model(x)); CAPACITY: 64.00 MiB asked …"
std::string FullText(const ProgramProcess& process, const RunPage& page) {
  const std::string place =
      process.full_at.place.empty() ? "" : "full at " + PlaceText(process.full_at, page);
  if (process.oom.empty()) return place;
  return place.empty() ? process.oom[0] : fmt::format("{}; {}", place, process.oom[0]);
}

// The first process that ran out of memory tells why.
std::string OomText(const RunPage& page) {
  for (const ProgramProcess& process : page.run.processes) {
    const std::string full = FullText(process, page);
    if (full.empty()) continue;
    std::string text = Wrap("  - ", page.Shown(full));
    for (size_t i = 1; i < process.oom.size(); ++i) {
      text += Wrap("  - ", page.Shown(process.oom[i]));
    }
    if (page.options.verbose) text += Wrap("    ", page.Shown(process.message));
    return text;
  }
  return "";
}

std::string StepsOf(const ProgramProcess& process) {
  return Counted(static_cast<size_t>(process.steps), "step", "steps");
}

// "it ended with 1 after 3 steps: ValueError: no labels"
std::string FailedText(const ProgramRun& run) {
  const std::string text = fmt::format("the program ended with {}", run.exit_code);
  if (run.processes.empty()) return text;
  const auto failed = std::ranges::find_if(
      run.processes, [](const ProgramProcess& process) { return !process.exception.empty(); });
  const ProgramProcess& process = failed == run.processes.end() ? run.processes[0] : *failed;
  const std::string after = process.steps == 0 ? "" : " after " + StepsOf(process);
  return process.exception.empty()
             ? text + after
             : fmt::format("{}{}: {}: {}", text, after, process.exception, process.message);
}

// Until a failure nothing is decided.
std::string UntilText(const JudgedTarget& judged, const Glyphs& glyphs) {
  return fmt::format("FAILED on {}: until then {}\n", judged.target.name,
                     UsedText(judged.judgement, glyphs));
}

std::string AssumedText(const JudgedTarget& judged, const ProgramRun& run,
                        const TextOptions& options) {
  const std::string command = Clean(fmt::format("{}", fmt::join(run.command, " ")), options.ascii);
  return fmt::format("{}: {} on the device\n",
                     CutMiddle(command, kSourceColumns, GlyphsOf(options).ellipsis),
                     FormatBytes(judged.judgement.used_bytes));
}

// --- What stays open ----------------------------------------------------------------------------

// The same place read by several processes is told once.
std::vector<ProgramPlace> PlacesRead(const ProgramRun& run, ReadKind kind) {
  std::vector<ProgramPlace> places;
  for (const ProgramProcess& process : run.processes) {
    for (const UnknownRead& read : process.unknown) {
      const bool is_known = std::ranges::find(places, read.at) != places.end();
      if (read.kind == kind && !is_known) places.push_back(read.at);
    }
  }
  return places;
}

std::string PlacesText(std::string_view title, const std::vector<ProgramPlace>& places,
                       const RunPage& page) {
  if (places.empty()) return "";
  std::string text = Wrap("  - ", title);
  const size_t shown = page.options.verbose ? places.size() : std::min(places.size(), kPlacesShown);
  for (size_t i = 0; i < shown; ++i) {
    const std::string place = page.Cut(places[i].place, kSourceColumns / 2);
    text += fmt::format("      {}  {}\n", place, page.Cut(places[i].source, kSourceColumns - 4));
  }
  if (shown < places.size()) {
    text += fmt::format("      and at {}\n",
                        Counted(places.size() - shown, "other line", "other lines"));
  }
  return text;
}

// What decides first.
std::string ReadsText(const RunPage& page) {
  const std::vector<ProgramPlace> shown = PlacesRead(page.run, ReadKind::kShown);
  std::string text =
      PlacesText(
          "values that no kernel computed were read; loops, sizes and branches that depend on "
          "them may differ on a card:",
          PlacesRead(page.run, ReadKind::kDecides), page) +
      PlacesText(
          "sizes that no kernel computed are the most that they can be, and take less on a "
          "card:",
          PlacesRead(page.run, ReadKind::kMost), page);
  if (!shown.empty()) {
    text +=
        Wrap("  - ", fmt::format("values that no kernel computed are only printed or logged, at {}",
                                 Counted(shown.size(), "line", "lines")));
  }
  return text;
}

std::string SavedText(const ProgramRun& run) {
  std::vector<std::string> saved;
  for (const ProgramProcess& process : run.processes) {
    saved.insert(saved.end(), process.saved.begin(), process.saved.end());
  }
  if (saved.empty()) return "";
  const std::string more =
      saved.size() == 1 ? "" : fmt::format(" and {}", Counted(saved.size() - 1, "other", "others"));
  return fmt::format("kept apart from your files, and gone: {}{}", saved[0], more);
}

std::string NamesText(const std::vector<std::string>& names, const RunPage& page,
                      size_t most = kPlacesShown) {
  const size_t shown = page.options.verbose ? names.size() : std::min(names.size(), most);
  std::string text = fmt::format(
      "{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

// Of a program that a flag ended.
std::string EndedText(const ProgramRun& run) {
  for (const ProgramProcess& process : run.processes) {
    if (process.ended_by != "steps" && process.ended_by != "seconds") continue;
    return fmt::format("--{} ended it after {}: what it does later is not seen", process.ended_by,
                       StepsOf(process));
  }
  return "";
}

// A sentence each.
std::vector<std::string> OpenSentences(const RunPage& page) {
  const ProgramRun& run = page.run;
  std::vector<std::string> sentences;
  if (const std::string ended = EndedText(run); !ended.empty()) sentences.push_back(ended);
  if (const std::string saved = SavedText(run); !saved.empty()) sentences.push_back(saved);
  if (!run.unknown_functions.empty()) {
    sentences.push_back("functions that this card does not have, told so to the program: " +
                        NamesText(run.unknown_functions, page));
  }
  if (!run.unknown_sizes.empty()) {
    sentences.push_back("scratch memory of unknown size, counted as none: " +
                        NamesText(run.unknown_sizes, page, 1));
  }
  if (run.is_assumed) {
    sentences.push_back(
        fmt::format("no card was named, so that it ran as on {}: -g NAME for a "
                    "verdict",
                    run.cards[0].target.name));
  }
  return sentences;
}

std::string OpenText(const RunPage& page) {
  std::string text = ReadsText(page);
  for (const std::string& sentence : OpenSentences(page)) {
    text += Wrap("  - ", page.Shown(sentence));
  }
  return text.empty() ? "" : "\nWhat stays open\n" + text;
}

}  // namespace

std::string RunDetails(const ProgramRun& run, const TextOptions& options) {
  const RunPage page = {run, options, GlyphsOf(options)};
  std::string text;
  if (run.failed) text += Wrap("  - ", page.Shown(FailedText(run)));
  for (const JudgedTarget& judged : run.cards) text += VerdictDetails(judged, options);
  return text + OomText(page) + PeaksTable(page) + HeldText(page) + run.drawing + OpenText(page);
}

std::string HeadlinesOf(const ProgramRun& run, const TextOptions& options) {
  std::string text;
  for (const JudgedTarget& judged : run.cards) {
    const bool is_question = run.is_assumed && judged.judgement.verdict != Verdict::kOom;
    text += run.failed    ? UntilText(judged, GlyphsOf(options))
            : is_question ? AssumedText(judged, run, options)
                          : VerdictLine(judged, options);
  }
  return text;
}

namespace {

bool Fits(const ProgramRun& run) {
  const auto fits = [](const JudgedTarget& judged) {
    return judged.judgement.verdict == Verdict::kFits;
  };
  return !run.failed && std::ranges::all_of(run.cards, fits);
}

// The last that fits, else the last.
const ProgramRun& ToldRun(const std::vector<ProgramRun>& runs) {
  const auto fitting = std::find_if(runs.rbegin(), runs.rend(), Fits);
  return fitting == runs.rend() ? runs.back() : *fitting;
}

}  // namespace

std::string ToText(const std::vector<ProgramRun>& runs, const TextOptions& options) {
  std::string text;
  for (const ProgramRun& run : runs) text += HeadlinesOf(run, options);
  if (options.quiet) return text;
  const ProgramRun& told = ToldRun(runs);
  if (runs.size() > 1) text += fmt::format("\nOn {}\n", told.cards[0].target.name);
  return TrimLines(text + RunDetails(told, options));
}

}  // namespace onnxfit
