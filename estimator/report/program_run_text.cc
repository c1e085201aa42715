#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/report/layout.h"
#include "estimator/report/program_run.h"
#include "estimator/report/program_run_parts.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

constexpr size_t kPlacesShown = 3;
constexpr int64_t kMuch = 4;     // a part of all that is worth a look inside
constexpr size_t kStepRows = 4;  // more are told by their range

using Rows = std::vector<std::vector<Cell>>;

// --- The figures --------------------------------------------------------------------------------

bool ReadAlike(const StepPeaks& a, const StepPeaks& b) {
  return FormatBytes(a.allocated_bytes) == FormatBytes(b.allocated_bytes) &&
         FormatBytes(a.reserved_bytes) == FormatBytes(b.reserved_bytes);
}

}  // namespace

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

namespace {

std::string StepsName(size_t first, size_t last, const Glyphs& glyphs) {
  if (first == last) return fmt::format("step {}", first + 1);
  return fmt::format("steps {}{}{}", first + 1, glyphs.dash, last + 1);
}

bool HasSeveralCards(const ProgramProcess& process) {
  const auto is_used = [](const TorchPeaks& peaks) { return peaks.reserved_bytes > 0; };
  return std::ranges::count_if(process.peaks, is_used) > 1;
}

std::string CardOfSteps(const ProgramProcess& process) {
  return HasSeveralCards(process) ? fmt::format(", cuda:{}", process.step_device) : "";
}

// The last row has the most of all that have none.
size_t StepsTold(const ProgramProcess& process) {
  return std::max(process.step_peaks.size(), static_cast<size_t>(process.steps));
}

std::string RangeOf(int64_t low, int64_t high, const Glyphs& glyphs) {
  if (FormatBytes(low) == FormatBytes(high)) return FormatBytes(high);
  return fmt::format("{} {} {}", FormatBytes(low), glyphs.dash, FormatBytes(high));
}

// Of many that differ: the first, and from where to where the others are.
void AddRangeOfSteps(const ProgramProcess& process, const RunPage& page, Rows& rows) {
  const std::vector<StepPeaks>& steps = process.step_peaks;
  const std::string card = CardOfSteps(process);
  const auto ends = [&](auto member) {
    const auto [low, high] =
        std::ranges::minmax_element(steps.begin() + 1, steps.end(), {}, member);
    return RangeOf((*low).*member, (*high).*member, page.glyphs);
  };
  rows.push_back({{"  step 1" + card},
                  {FormatBytes(steps[0].allocated_bytes)},
                  {FormatBytes(steps[0].reserved_bytes)}});
  rows.push_back({{"  " + StepsName(1, StepsTold(process) - 1, page.glyphs) + card},
                  {ends(&StepPeaks::allocated_bytes)},
                  {ends(&StepPeaks::reserved_bytes)}});
}

void AddSteps(const ProgramProcess& process, const RunPage& page, Rows& rows) {
  const std::vector<StepGroup> groups = GroupsOfSteps(process.step_peaks);
  if (groups.size() > kStepRows) return AddRangeOfSteps(process, page, rows);
  for (const StepGroup& group : groups) {
    const bool is_last = &group == &groups.back();
    const size_t last = is_last ? StepsTold(process) - 1 : group.last;
    rows.push_back({{"  " + StepsName(group.first, last, page.glyphs) + CardOfSteps(process)},
                    {FormatBytes(group.peaks.allocated_bytes)},
                    {FormatBytes(group.peaks.reserved_bytes)}});
  }
}

}  // namespace

std::string NameOf(const ProgramRun& run, size_t place, const TorchPeaks& peaks) {
  return NameOf(run, place, peaks.device, "the run");
}

std::string NameOf(const ProgramRun& run, size_t place, int64_t device, std::string_view alone) {
  const ProgramProcess& process = run.processes[place];
  std::string name(alone);
  if (run.processes.size() > 1) name = fmt::format("process {}", place + 1);
  if (!process.rank.empty()) name = "rank " + process.rank;
  if (!HasSeveralCards(process)) return name;
  return fmt::format("{}{}cuda:{}", name, name.empty() ? "" : ", ", device);
}

namespace {

std::string PeaksTable(const RunPage& page) {
  const std::vector<ProgramProcess>& processes = page.run.processes;
  Rows rows;
  for (size_t i = 0; i < processes.size(); ++i) {
    if (processes.size() == 1) AddSteps(processes[i], page, rows);
    for (const TorchPeaks& peaks : processes[i].peaks) {
      if (peaks.reserved_bytes == 0) continue;
      rows.push_back({{"  " + NameOf(page.run, i, peaks.device, "the run")},
                      {FormatBytes(peaks.allocated_bytes)},
                      {FormatBytes(peaks.reserved_bytes)}});
    }
  }
  if (rows.empty()) return "";
  rows.insert(rows.begin(), {{"PyTorch " + processes[0].torch}, {"allocated"}, {"reserved"}});
  return '\n' + Table(rows, "lrr", "");
}

// --- What it does in turn -----------------------------------------------------------------------

std::string PhasesText(const RunPage& page) {
  if (page.run.processes.empty()) return "";
  const size_t place = LargestProcess(page.run);
  const ProgramProcess& process = page.run.processes[place];
  const std::string name = NameOf(page.run, place, RowsOfPhases(process.phases).device, "");
  return PhasesText(process.phases, name.empty() ? "" : " of " + name);
}

// --- What holds them ----------------------------------------------------------------------------

}  // namespace

size_t LargestProcess(const ProgramRun& run) {
  const auto most = [](const ProgramProcess& process) { return process.held_bytes; };
  return static_cast<size_t>(std::ranges::max_element(run.processes, {}, most) -
                             run.processes.begin());
}

std::string HeldTitle(const ProgramProcess& process, size_t place, const ProgramRun& run) {
  std::string when = process.is_oom ? "When it ran out" : "At the peak";
  if (!process.is_held_all) when = "At the most that was recorded";
  const std::string name = NameOf(run, place, process.held_device, "");
  const std::string whose = name.empty() ? "" : " of " + name;
  return fmt::format("{}{}, {} by the lines that asked for it", when, whose,
                     FormatBytes(process.held_bytes));
}

namespace {

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

// "\nAt the peak …\n", and a row each.
std::string HeldTable(const std::string& title, const ProgramProcess& process,
                      const RunPage& page) {
  Rows rows = HeldRows(process, page);
  const std::vector<size_t> widths = ColumnWidths(rows, 3);
  const size_t room = kReportColumns - std::min(kReportColumns - 8, widths[0] + widths[1] + 6);
  for (std::vector<Cell>& row : rows) row[2].text = page.Cut(row[2].text, room);
  return fmt::format("\n{}\n", title) + Table(rows, "rll", kIndent);
}

// Of a program without PyTorch.
std::string AskedText(const RunPage& page) {
  if (page.run.asked.empty()) return "";
  const ProgramProcess process = {.held = page.run.asked, .held_bytes = page.run.asked_bytes};
  return HeldTable(fmt::format("At the peak, {} by who asked the card for it",
                               FormatBytes(page.run.asked_bytes)),
                   process, page);
}

std::string HeldText(const RunPage& page) {
  if (page.run.processes.empty()) return AskedText(page);
  const size_t place = LargestProcess(page.run);
  const ProgramProcess& process = page.run.processes[place];
  if (process.held.empty()) return "";
  return HeldTable(HeldTitle(process, place, page.run), process, page);
}

// --- Its verdicts -------------------------------------------------------------------------------

// Until a failure nothing is decided.
std::string UntilText(const JudgedTarget& judged, const Glyphs& glyphs) {
  return fmt::format("FAILED on {}: until then {}\n", judged.target.name,
                     UsedText(judged.judgement, glyphs));
}

std::string AssumedText(const JudgedTarget& judged, const ProgramRun& run,
                        const TextOptions& options) {
  std::vector<std::string> words = run.command;
  words[0] = std::filesystem::path(words[0]).filename().string();
  const std::string command = Clean(fmt::format("{}", fmt::join(words, " ")), options.ascii);
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
  const std::vector<std::string>& saved = run.saved;
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

// What the hooks could not do, or were kept from.
void AddUnwatched(const ProgramRun& run, std::vector<std::string>& sentences) {
  if (run.unwatched > 0) {
    sentences.push_back(fmt::format(
        "{} of Python ran without what onnxfit run puts into it, as python -I, -E and -S do: no "
        "lines, no peaks of PyTorch's, no values of small tensors, and files were really written",
        Counted(static_cast<size_t>(run.unwatched), "process", "processes")));
  }
  if (!run.failures.empty()) {
    const std::string more =
        run.failures.size() == 1 ? "" : fmt::format(" (and {} more)", run.failures.size() - 1);
    sentences.push_back(
        fmt::format("what onnxfit run puts into Python failed in a part of it, and the program "
                    "went on: {}{}",
                    run.failures[0], more));
  }
}

// A sentence each.
std::vector<std::string> OpenSentences(const RunPage& page) {
  const ProgramRun& run = page.run;
  std::vector<std::string> sentences = PoolSentences(run);
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
  if (const std::string managed = ManagedText(run.host); !managed.empty()) {
    sentences.push_back(managed);
  }
  AddUnwatched(run, sentences);
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

std::vector<std::string> OpenSentences(const ProgramRun& run) {
  const TextOptions options = {.verbose = true};
  const RunPage page = {run, options, kUnicodeGlyphs};
  return OpenSentences(page);
}

std::string RunDetails(const ProgramRun& run, const TextOptions& options) {
  const RunPage page = {run, options, GlyphsOf(options)};
  const std::string engine = run.engine ? EngineText(*run.engine, page) : "";
  std::string host = HostText(run.host);
  if (!host.empty()) host = "\n" + host + "\n";
  return engine + PeaksTable(page) + PhasesText(page) + PoolsTable(run) + host + HeldText(page) +
         run.drawing + OpenText(page);
}

namespace {

// Of several cards at once which one: "t4 (cuda:1)".
JudgedTarget WithCardNumber(const ProgramRun& run, size_t place) {
  JudgedTarget judged = run.cards[place];
  if (run.cards.size() > 1) judged.target.name += fmt::format(" (cuda:{})", place);
  return judged;
}

// The card has room, RAM has not.
std::string HostLine(const HostPeak& host, const JudgedTarget& judged, const TextOptions& options) {
  const std::string used = fmt::format(
      "{} of {} of RAM, {:.1f}%", FormatBytes(host.least_bytes()), FormatBytes(host.limit_bytes),
      100.0 * static_cast<double>(host.least_bytes()) / static_cast<double>(host.limit_bytes));
  const auto line = [&](std::string_view word, std::string_view name) {
    return fmt::format("{} of the host beside {}: {}", word, name, used);
  };
  const std::string word = VerdictWord(host.verdict);
  const std::string name = NameBeside(line(word, ""), judged.target.name, options);
  const std::string_view paint = options.color ? VerdictPaint(host.verdict) : "";
  return line(Painted({word, paint}), name) + "\n";
}

}  // namespace

std::string HeadlinesOf(const ProgramRun& run, const TextOptions& options) {
  std::string text;
  for (size_t place = 0; place < run.cards.size(); ++place) {
    const JudgedTarget judged = WithCardNumber(run, place);
    const bool is_question = run.is_assumed && judged.judgement.verdict != Verdict::kOom;
    text += run.failed                          ? UntilText(judged, GlyphsOf(options))
            : is_question                       ? AssumedText(judged, run, options)
            : run.host.verdict == Verdict::kOom ? HostLine(run.host, judged, options)
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

}  // namespace

const ProgramRun& ToldRun(const std::vector<ProgramRun>& runs) {
  const auto fitting = std::find_if(runs.rbegin(), runs.rend(), Fits);
  return fitting == runs.rend() ? runs.back() : *fitting;
}

std::string ToText(const std::vector<ProgramRun>& runs, const TextOptions& options) {
  std::string text;
  const ProgramRun& told = ToldRun(runs);
  for (const ProgramRun& run : runs) {
    text += HeadlinesOf(run, options);
    if (!options.quiet) text += RunReasons(run, options, &run != &told);
  }
  if (options.quiet) return text;
  if (runs.size() > 1) text += fmt::format("\nOn {}\n", told.cards[0].target.name);
  return TrimLines(text + RunDetails(told, options));
}

}  // namespace onnxfit
