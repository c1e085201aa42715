#include "estimator/picture/program_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/picture/curve_layers.h"
#include "estimator/picture/html.h"
#include "estimator/picture/page_parts.h"
#include "estimator/picture/program_page_parts.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/program_run_parts.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

constexpr size_t kTitleColumns = 120;  // a program may be a word of its command

std::string Command(const std::vector<std::string>& words) {
  const std::string text = Clean(fmt::format("{}", fmt::join(words, " ")), false);
  return CutMiddle(text, kTitleColumns, kUnicodeGlyphs.ellipsis);
}

std::string CardNames(const ProgramRun& run) {
  std::vector<std::string> names;
  for (const JudgedTarget& judged : run.cards) names.push_back(judged.target.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// ", PyTorch 2.11.0, 8 steps"
std::string AboutTorch(const ProgramRun& run) {
  if (run.processes.empty()) return "";
  const ProgramProcess& process = run.processes[LargestProcess(run)];
  return fmt::format(", PyTorch {}, {}", process.torch, StepsOf(process));
}

// --- What is said first -------------------------------------------------------------------------

// Until a failure nothing is decided, and without a card that was named nothing is asked.
std::string CardOf(const ProgramRun& run, const JudgedTarget& judged) {
  if (!run.failed && !run.is_assumed) return VerdictCard(judged);
  const std::string used =
      run.failed ? fmt::format(" on {}: until then {}", judged.target.name,
                               UsedText(judged.judgement, kUnicodeGlyphs))
                 : fmt::format("{} on the device", FormatBytes(judged.judgement.used_bytes));
  const std::string word = run.failed ? Element("strong", {}, "FAILED") : "";
  return Element("div", {{"class", run.failed ? "verdict oom" : "verdict"}},
                 Element("p", {}, word + HtmlText(used))) +
         "\n";
}

std::string PeakSentence(const ProgramRun& run) {
  int64_t allocated = 0;
  int64_t reserved = 0;
  for (const ProgramProcess& process : run.processes) {
    for (const TorchPeaks& peaks : process.peaks) {
      allocated = std::max(allocated, peaks.allocated_bytes);
      reserved = std::max(reserved, peaks.reserved_bytes);
    }
  }
  if (reserved == 0) return "";
  return fmt::format("PyTorch's peaks{}: {} allocated, {} reserved.",
                     run.processes.size() > 1 ? " of one process" : "", FormatBytes(allocated),
                     FormatBytes(reserved));
}

std::string HeldSentence(const ProgramRun& run) {
  if (run.processes.empty()) return "";
  const ProgramProcess& process = run.processes[LargestProcess(run)];
  if (process.held.empty()) return "";
  const HeldBytes& most = process.held[0];
  const std::string where = most.at.place.empty() ? "backward" : most.at.place;
  return fmt::format("Most is held by {}: {} of {}.", where, FormatBytes(most.bytes),
                     FormatBytes(process.held_bytes));
}

std::string AssumedSentence(const ProgramRun& run) {
  if (!run.is_assumed) return "";
  return fmt::format("No card was named, so that it ran as on {}: --gpu NAME says whether it fits.",
                     run.cards[0].target.name);
}

std::string HeadOf(const std::vector<std::string>& command, const std::string& about,
                   const std::string& cards, std::vector<std::string> told) {
  std::string items;
  std::erase(told, "");
  for (const std::string& sentence : told) items += Element("li", {}, HtmlText(sentence));
  return Element("header", {},
                 Element("h1", {}, HtmlBreakable(Command(command))) +
                     Element("p", {{"class", "run"}}, HtmlText(about)) + cards +
                     Element("ul", {{"class", "told"}}, items)) +
         "\n";
}

std::vector<std::string> Told(const ProgramRun& run) {
  const bool is_of_ram = run.host.verdict == Verdict::kOom;
  return {is_of_ram ? HostReason(run, kUnicodeGlyphs) : "", PeakSentence(run), HeldSentence(run),
          AssumedSentence(run)};
}

// --- One run ------------------------------------------------------------------------------------

std::string CurveSectionOf(const ShownRun& shown) {
  if (shown.run.processes.empty()) return "";
  const size_t largest = LargestProcess(shown.run);
  const ProgramProcess& process = shown.run.processes[largest];
  const std::string curve = ProgramCurve(shown, largest);
  const std::string held = HeldTable(process);
  std::string text = curve.empty() ? "" : Section("time", "Memory over the run", curve);
  if (held.empty()) return text;
  return text + Section("lines", HeldTitle(process, largest, shown.run), held);
}

// What is told of the largest process, of each of the others, to be opened.
std::string OthersSection(const ShownRun& shown) {
  std::string text;
  for (size_t i = 0; i < shown.run.processes.size(); ++i) {
    const ProgramProcess& process = shown.run.processes[i];
    if (i == LargestProcess(shown.run) || process.held.empty()) continue;
    const std::string title = HeldTitle(process, i, shown.run);
    text += Element("details", {},
                    Element("summary", {}, HtmlText(title)) + ProgramCurve(shown, i) +
                        HeldTable(process)) +
            "\n";
  }
  return text.empty() ? "" : Section("others", "Other processes", text);
}

std::string Details(const ShownRun& shown) {
  return EndSection(shown.run) + EngineSection(shown.run) + CurveSectionOf(shown) +
         PeaksSection(shown.run) + FrameworksSection(shown.run) + OthersSection(shown) +
         HostSection(shown.run) + OpenSection(shown.run);
}

std::string VerdictCellOf(const ProgramRun& run, const JudgedTarget& judged) {
  const Verdict verdict = judged.judgement.verdict;
  if (run.failed) return HtmlCell("FAILED", "verdict oom");
  return HtmlCell(VerdictWord(verdict), fmt::format("verdict {}", ToString(verdict)));
}

std::string CardRow(const ProgramRun& run, const JudgedTarget& judged) {
  const Judgement& judgement = judged.judgement;
  int64_t steps = 0;
  for (const ProgramProcess& process : run.processes) steps = std::max(steps, process.steps);
  return Element("tr", {},
                 Element("th", {{"scope", "row"}}, HtmlText(judged.target.name)) +
                     VerdictCellOf(run, judged) + BytesCellOf(judgement.used_bytes) +
                     BytesCellOf(judgement.usable_bytes) +
                     HtmlCell(fmt::format("{:.1f}%", 100 * judgement.share()), "number") +
                     HtmlCell(std::to_string(steps), "number")) +
         "\n";
}

std::string CardsSection(const std::vector<ProgramRun>& runs) {
  if (runs.size() < 2) return "";
  std::string body;
  for (const ProgramRun& run : runs) {
    for (const JudgedTarget& judged : run.cards) body += CardRow(run, judged);
  }
  const std::string told =
      fmt::format("What follows is of the run on {}.", CardNames(ToldRun(runs)));
  return Section("cards", "A run a card",
                 HtmlTable({"card", "", "#on the device", "#of", "#share", "#steps"}, body) +
                     Element("p", {}, HtmlText(told)));
}

// --- Searches -----------------------------------------------------------------------------------

std::vector<BatchPoint> PointsOf(const ProgramSearch& search) {
  std::vector<BatchPoint> points;
  for (const TriedBatch& row : search.found.tried) {
    points.push_back({row.batch, row.used_bytes, row.verdict == Verdict::kOom});
  }
  std::ranges::sort(points, {}, &BatchPoint::batch);
  return points;
}

std::string TriedTable(const ProgramSearch& search) {
  std::vector<TriedBatch> tried = search.found.tried;
  std::ranges::sort(tried, {}, &TriedBatch::batch);
  const int64_t usable = search.largest.cards[0].judgement.usable_bytes;
  std::string body;
  for (const TriedBatch& row : tried) {
    const double share = static_cast<double>(row.used_bytes) / static_cast<double>(usable);
    const std::string cells =
        Element("th", {{"scope", "row"}}, std::to_string(row.batch)) +
        HtmlCell(VerdictWord(row.verdict), fmt::format("verdict {}", ToString(row.verdict))) +
        BytesCellOf(row.used_bytes) + HtmlCell(fmt::format("{:.1f}%", 100 * share), "number");
    body += (row.batch == search.found.batch ? Element("tr", {{"class", "total"}}, cells)
                                             : Element("tr", {}, cells)) +
            "\n";
  }
  return HtmlTable({"batch", "", "#on the device", "#share"}, body);
}

std::string SearchSection(const ProgramSearch& search, size_t place) {
  const JudgedTarget& judged = search.largest.cards[0];
  const std::vector<CardLine> lines = {{judged.target.name, judged.judgement.usable_bytes}};
  const std::vector<BatchPoint> points = PointsOf(search);
  const int64_t most = std::ranges::max(points, {}, &BatchPoint::bytes).bytes;
  std::string figure;
  if (points.size() > 1) {
    Plot plot = BatchPlot(points, search.found.batch, TopOf(lines, most), lines);
    plot.id = fmt::format("batches-{}", place + 1);
    figure = PlotFigure(plot, HtmlText(fmt::format("{} Each is a run of at most {} steps.",
                                                   plot.label, search.steps)));
  }
  return Section(fmt::format("batch-{}", place + 1), "By batch on " + CardNames(search.largest),
                 figure + TriedTable(search));
}

std::string SearchHead(const std::vector<ProgramSearch>& searches) {
  std::string cards;
  std::vector<std::string> told;
  for (const ProgramSearch& search : searches) {
    for (const JudgedTarget& judged : search.largest.cards) cards += CardOf(search.largest, judged);
    const std::string on = CardNames(search.largest);
    told.push_back(
        search.found.batch == 0
            ? fmt::format("No batch runs on {}: {} does not.", on, search.found.tried[0].batch)
            : fmt::format("The largest batch that runs on {}: {}.", on, search.found.batch));
    for (const std::string& sentence : SearchSentences(search)) {
      told.push_back(searches.size() > 1 ? fmt::format("On {}, {}.", on, sentence)
                                         : Sentence(sentence));
    }
  }
  const ProgramRun& run = searches[0].largest;
  if (searches.size() == 1) {
    for (std::string& sentence : Told(run)) told.push_back(std::move(sentence));
  }
  return HeadOf(searches[0].command, "the largest batch, found by running it" + AboutTorch(run),
                cards, told);
}

// The last whose batch runs, else the last.
size_t ToldSearch(const std::vector<ProgramSearch>& searches) {
  const auto runs = [](const ProgramSearch& search) { return search.found.batch > 0; };
  const auto found = std::find_if(searches.rbegin(), searches.rend(), runs);
  return static_cast<size_t>(found == searches.rend() ? std::ssize(searches) - 1
                                                      : searches.rend() - found - 1);
}

std::string PageOf(std::string title, std::string body, const Json& data,
                   const std::string& version) {
  return WholePage({.title = std::move(title),
                    .body = std::move(body),
                    .footer = fmt::format("onnxfit {}: run on a card that is not there", version),
                    .data = data.dump(-1, ' ', false, Json::error_handler_t::replace)});
}

// The others' curves are not shown.
void KeepCurves(ProgramRun& run, bool is_told) {
  for (ProgramProcess& process : run.processes) {
    if (!is_told) process.curve.reset();
  }
}

}  // namespace

std::string ProgramPage(const std::vector<ProgramRun>& runs, const std::string& version) {
  const ProgramRun& told = ToldRun(runs);
  const auto place = static_cast<size_t>(&told - runs.data());
  const ShownRun shown = {told, runs.size() == 1 ? "" : fmt::format("runs.{}.", place)};
  std::string cards;
  for (const ProgramRun& run : runs) {
    for (const JudgedTarget& judged : run.cards) cards += CardOf(run, judged);
  }
  std::vector<ProgramRun> kept = runs;
  for (size_t i = 0; i < kept.size(); ++i) KeepCurves(kept[i], i == place);
  const std::string head =
      HeadOf(told.command, "run on " + CardNames(told) + AboutTorch(told), cards, Told(told));
  return PageOf(Command(told.command) + ": memory of its run",
                head + Element("main", {}, "\n" + CardsSection(runs) + Details(shown)),
                RunsJson(kept, {.version = version}), version);
}

std::string ProgramPage(const std::vector<ProgramSearch>& searches, const std::string& version) {
  const size_t place = ToldSearch(searches);
  const ShownRun shown = {searches[place].largest, fmt::format("targets.{}.run.", place)};
  std::string main = "\n";
  std::vector<ProgramSearch> kept = searches;
  for (size_t i = 0; i < kept.size(); ++i) {
    main += SearchSection(searches[i], i);
    KeepCurves(kept[i].largest, i == place);
  }
  return PageOf(Command(searches[0].command) + ": its largest batch",
                SearchHead(searches) + Element("main", {}, main + Details(shown)),
                SearchesJson(kept, {.version = version}), version);
}

}  // namespace onnxfit
