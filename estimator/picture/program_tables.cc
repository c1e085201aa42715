// The sections of a program's page that are tables and lists.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/picture/html.h"
#include "estimator/picture/page_parts.h"
#include "estimator/picture/program_page_parts.h"
#include "estimator/report/program_run_parts.h"

namespace onnxfit {

std::string HtmlCell(std::string_view inner, std::string_view name) {
  return name.empty() ? Element("td", {}, inner) : Element("td", {{"class", name}}, inner);
}

std::string BytesCellOf(int64_t bytes) {
  return Element("td", {{"class", "number"}, {"data-bytes", std::to_string(bytes)}},
                 FormatBytes(bytes));
}

std::string HtmlTable(std::initializer_list<std::string_view> names, std::string_view body) {
  std::string header;
  for (std::string_view name : names) {
    const bool is_number = name.starts_with('#');
    if (is_number) name.remove_prefix(1);
    header += is_number ? Element("th", {{"scope", "col"}, {"class", "number"}}, name)
                        : Element("th", {{"scope", "col"}}, name);
  }
  return Element(
      "div", {{"class", "wide"}},
      Element("table", {},
              Element("thead", {}, Element("tr", {}, header)) + Element("tbody", {}, body)));
}

std::string PlaceCells(const ProgramPlace& at, std::string_view place) {
  return HtmlCell(HtmlText(place), "place") +
         HtmlCell(at.source.empty() ? "" : Element("code", {}, HtmlText(at.source)), "source");
}

namespace {

// --- Whose lines hold it ------------------------------------------------------------------------

std::string PlaceName(const ProgramPlace& at) { return at.place.empty() ? "backward" : at.place; }

std::string BarOf(int64_t bytes, int64_t most, std::string_view name) {
  const double share = 100.0 * static_cast<double>(bytes) / static_cast<double>(most);
  return Element(
      "i", {{"class", fmt::format("bar {}", name)}, {"style", fmt::format("width:{:.1f}%", share)}},
      "");
}

std::string HeldRow(const HeldBytes& held, const ProgramProcess& process, bool is_within) {
  const std::string color = process.curve ? LayerClass(*process.curve, held.at) : "k-others";
  const int64_t most = std::max<int64_t>(process.held[0].bytes, 1);
  const std::string cells =
      BytesCellOf(held.bytes) + HtmlCell(PercentText(held.bytes, process.held_bytes), "number") +
      HtmlCell(BarOf(held.bytes, most, color), "bars") + PlaceCells(held.at, PlaceName(held.at)) +
      HtmlCell(std::to_string(held.count), "number");
  return (is_within ? Element("tr", {{"class", "within"}}, cells) : Element("tr", {}, cells)) +
         "\n";
}

std::string RestRow(size_t count, int64_t bytes, const ProgramProcess& process) {
  return Element("tr", {},
                 BytesCellOf(bytes) + HtmlCell(PercentText(bytes, process.held_bytes), "number") +
                     HtmlCell("") + HtmlCell(fmt::format("{} other lines", count)) + HtmlCell("") +
                     HtmlCell(""));
}

std::string HeldRows(const ProgramProcess& process) {
  std::string body;
  size_t shown = 0;
  int64_t rest = process.held_bytes;
  for (const HeldBytes& held : process.held) {
    if (++shown > kPageLines) break;
    rest -= held.bytes;
    body += HeldRow(held, process, false);
    for (size_t i = 0; i < std::min(kPageLines, held.within.size()); ++i) {
      body += HeldRow(held.within[i], process, true);
    }
  }
  const size_t all = process.held.size();
  return all > kPageLines ? body + RestRow(all - kPageLines, rest, process) : body;
}

// --- PyTorch's figures --------------------------------------------------------------------------

std::string PeaksRow(const ProgramRun& run, size_t place, const TorchPeaks& peaks) {
  const ProgramProcess& process = run.processes[place];
  return Element("tr", {},
                 Element("th", {{"scope", "row"}}, HtmlText(NameOf(run, place, peaks))) +
                     BytesCellOf(peaks.requested_bytes) + BytesCellOf(peaks.allocated_bytes) +
                     BytesCellOf(peaks.reserved_bytes) +
                     HtmlCell(std::to_string(peaks.retries), "number") +
                     HtmlCell(std::to_string(peaks.ooms), "number") +
                     HtmlCell(std::to_string(process.steps), "number")) +
         "\n";
}

std::string PeaksTable(const ProgramRun& run) {
  std::string body;
  for (size_t i = 0; i < run.processes.size(); ++i) {
    for (const TorchPeaks& peaks : run.processes[i].peaks) {
      if (peaks.reserved_bytes > 0) body += PeaksRow(run, i, peaks);
    }
  }
  if (body.empty()) return "";
  return HtmlTable(
      {"", "#requested", "#allocated", "#reserved", "#retries", "#out of memory", "#steps"}, body);
}

std::string StepsTable(const ProgramRun& run) {
  const size_t place = LargestProcess(run);
  const ProgramProcess& process = run.processes[place];
  int64_t most = 1;
  for (const StepPeaks& step : process.step_peaks) most = std::max(most, step.allocated_bytes);
  std::string body;
  for (const StepGroup& group : GroupsOfSteps(process.step_peaks)) {
    const std::string name = group.first == group.last
                                 ? fmt::format("{}", group.first + 1)
                                 : fmt::format("{}–{}", group.first + 1, group.last + 1);
    body +=
        Element("tr", {},
                Element("th", {{"scope", "row"}}, name) + BytesCellOf(group.peaks.allocated_bytes) +
                    BytesCellOf(group.peaks.reserved_bytes) +
                    HtmlCell(BarOf(group.peaks.allocated_bytes, most, "k-line1"), "bars")) +
        "\n";
  }
  if (body.empty()) return "";
  const std::string of = run.processes.size() > 1 ? " of " + NameOf(run, place, TorchPeaks()) : "";
  const std::string first =
      process.steps > std::ssize(process.step_peaks)
          ? fmt::format(", the first {} of {}", process.step_peaks.size(), process.steps)
          : "";
  return Element("h3", {}, HtmlText(fmt::format("By step{}{}", of, first))) +
         ScrolledTable("peaks by step", Element("table", {},
                                                "<thead><tr><th scope=\"col\">step</th>"
                                                "<th scope=\"col\" class=\"number\">allocated</th>"
                                                "<th scope=\"col\" class=\"number\">reserved</th>"
                                                "<th scope=\"col\">allocated</th></tr></thead>" +
                                                    Element("tbody", {}, body)));
}

std::string PhasesTable(const ProgramRun& run) {
  const size_t place = LargestProcess(run);
  const PhaseRows told = RowsOfPhases(run.processes[place].phases);
  if (told.rows.empty()) return "";
  std::string body;
  for (const PhaseRow& row : told.rows) {
    std::string cells = Element("th", {{"scope", "row"}}, HtmlText(PhaseName(*row.phase))) +
                        HtmlCell(std::to_string(row.phase->times), "number");
    for (const int64_t bytes : FiguresOfPhase(told, row)) cells += BytesCellOf(bytes);
    body += Element("tr", {}, cells) + "\n";
  }
  const std::vector<std::string> columns = ColumnsOfPhases(told);
  const std::string names[] = {"#" + columns[0], "#" + columns[1], "#" + columns[2]};
  const std::string name = NameOf(run, place, told.device, "");
  return Element("h3", {}, HtmlText("By phase" + (name.empty() ? "" : " of " + name))) +
         HtmlTable({"", "#times", names[0], names[1], names[2]}, body) +
         SentenceList(SentencesOfPhases(told));
}

// --- How it ended, and what stays open ----------------------------------------------------------

}  // namespace

std::string SentenceList(const std::vector<std::string>& sentences) {
  std::string items;
  for (const std::string& sentence : sentences) {
    items += Element("li", {}, HtmlText(Sentence(sentence))) + "\n";
  }
  return items.empty() ? "" : Element("ul", {}, items);
}

namespace {

std::string OomOf(const ProgramProcess& process, const std::string& whose) {
  std::string text;
  if (!process.full_at.place.empty()) {
    text += Element("p", {},
                    HtmlText(fmt::format("The request{} that did not fit: ", whose)) +
                        HtmlBreakable(process.full_at.place) + " " +
                        (process.full_at.source.empty() ? "" : HtmlCode(process.full_at.source)));
  }
  text += SentenceList(process.oom);
  if (process.message.empty()) return text;
  const std::string said = fmt::format("{}: {}", process.exception, process.message);
  return text + Element("pre", {{"class", "said"}}, HtmlText(said));
}

// One line read by several processes is told once.
std::vector<UnknownRead> ReadsOf(const ProgramRun& run) {
  std::vector<UnknownRead> reads;
  for (const ProgramProcess& process : run.processes) {
    for (const UnknownRead& read : process.unknown) {
      const auto known = std::ranges::find(reads, read.at, &UnknownRead::at);
      if (known == reads.end()) {
        reads.push_back(read);
      } else {
        known->count += read.count;
      }
    }
  }
  return reads;
}

std::string ReadsTable(const ProgramRun& run) {
  const std::vector<UnknownRead> reads = ReadsOf(run);
  if (reads.empty()) return "";
  std::string body;
  for (size_t i = 0; i < std::min(kPageLines, reads.size()); ++i) {
    body += Element("tr", {},
                    PlaceCells(reads[i].at, PlaceName(reads[i].at)) +
                        HtmlCell(std::to_string(reads[i].count), "number")) +
            "\n";
  }
  const std::string more =
      reads.size() > kPageLines
          ? Element("p", {}, fmt::format("{} more are left out.", reads.size() - kPageLines))
          : "";
  return "<h3>Values that no kernel computed were read</h3>"
         "<p>Loops, sizes and branches that depend on them may differ on a card.</p>" +
         HtmlTable({"where", "line", "#times"}, body) + more;
}

}  // namespace

std::string HeldTable(const ProgramProcess& process) {
  if (process.held.empty()) return "";
  return HtmlTable({"#bytes", "#share", "", "where", "line", "#blocks"}, HeldRows(process));
}

std::string PeaksSection(const ProgramRun& run) {
  if (run.processes.empty()) return "";
  const std::string peaks = PeaksTable(run);
  return peaks.empty()
             ? ""
             : Section("peaks", "PyTorch's peaks", peaks + PhasesTable(run) + StepsTable(run));
}

std::string EndSection(const ProgramRun& run) {
  for (size_t i = 0; i < run.processes.size(); ++i) {
    const ProgramProcess& process = run.processes[i];
    if (!process.is_oom) continue;
    const std::string whose = run.processes.size() > 1 ? " of " + NameOf(run, i, TorchPeaks()) : "";
    return Section("end", "Why it ran out of memory", OomOf(process, whose));
  }
  if (!run.failed) return "";
  return Section("end", "Why it failed",
                 Element("pre", {{"class", "said"}}, HtmlText(FailedText(run))));
}

std::string OpenSection(const ProgramRun& run) {
  return Section("open", "What stays open",
                 "<p>The program itself ran, on a card that is not there: PyTorch's allocator "
                 "said these numbers, and no kernel computed anything.</p>" +
                     SentenceList(OpenSentences(run)) + ReadsTable(run));
}

}  // namespace onnxfit
