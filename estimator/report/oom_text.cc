#include "estimator/report/oom_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "estimator/base/bytes.h"
#include "estimator/fit/oom_formats.h"
#include "estimator/report/layout.h"
#include "estimator/report/oom_sentences.h"

namespace onnxfit {
namespace {

constexpr size_t kBarColumns = 60;

using Rows = std::vector<std::vector<Cell>>;

struct OomPage {
  const TextOptions& options;
  const Glyphs& glyphs;

  std::string Shown(std::string_view text) const { return Clean(text, options.ascii); }
  std::string_view Paint(std::string_view color) const { return options.color ? color : ""; }
  std::string Cut(std::string_view text, size_t columns) const {
    return CutMiddle(Shown(text), columns, glyphs.ellipsis);
  }
};

struct Mark {
  std::string_view unicode;
  std::string_view ascii;
};

// By OomPart::What: what of the card is whose, at a glance.
constexpr Mark kMarks[] = {{"█", "#"}, {"▒", "+"}, {"█", "#"}, {"▞", "%"},
                           {"▚", "x"}, {"▚", "x"}, {"·", "."}, {"?", "?"}};

std::string_view MarkOf(const OomPage& page, OomPart::What what) {
  const Mark& mark = kMarks[static_cast<size_t>(what)];
  return page.options.ascii ? mark.ascii : mark.unicode;
}

std::string Repeat(std::string_view mark, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += mark;
  return text;
}

// --- Sections -------------------------------------------------------------------------------

std::string Sentences(const std::vector<std::string>& sentences, const OomPage& page) {
  std::string text;
  for (const std::string& sentence : sentences) text += Wrap(kIndent, page.Shown(sentence));
  return text;
}

std::string Quote(const OomExplanation& e, const OomPage& page) {
  return fmt::format("\nThe message ({})\n", page.Cut(WhereText(e), kReportColumns - 14)) +
         Wrap("  ", page.Shown(e.message.text));
}

// One bar for the card, and a row for each part of it.
std::string Card(const OomExplanation& e, const OomPage& page) {
  if (e.card.empty()) return "";
  int64_t sum = 0;
  for (const OomPart& part : e.card) sum += part.bytes;
  const double scale = static_cast<double>(std::max<int64_t>({sum, e.card_bytes, 1}));
  std::string bar;
  size_t drawn = 0;
  double reached = 0;
  Rows rows;
  for (const OomPart& part : e.card) {
    reached += static_cast<double>(part.bytes);
    auto end = static_cast<size_t>(std::lround(reached / scale * kBarColumns));
    end = std::min(end, kBarColumns);
    const std::string_view mark = MarkOf(page, part.what);
    bar += Repeat(mark, end - std::min(drawn, end));
    drawn = std::max(drawn, end);
    rows.push_back({{std::string(mark)},
                    {std::string(ToString(part.what))},
                    {SizeOf(part)},
                    {ErrorText(part, page.options.ascii)}});
  }
  return fmt::format("\nThe card: {}\n  {}\n", e.card_text, Painted({bar, page.Paint(kCyan)})) +
         Table(rows, "llrl", kIndent);
}

std::string Request(const OomExplanation& e, const OomPage& page) {
  return e.request ? "\nWhat asked\n" + Sentences(RequestSentences(*e.request), page) : "";
}

std::string Remedies(const OomExplanation& e, const OomPage& page) {
  std::string text = "\nWhat helps\n";
  std::string_view group;
  for (const OomRemedy& remedy : e.remedies) {
    const std::string_view help = ToString(remedy.help);
    const std::string lead = fmt::format("  {:<6} ", help == group ? "" : help);
    group = help;
    text += Wrap(lead, page.Shown(remedy.what + ": " + remedy.why));
  }
  return e.remedies.empty() ? "" : text;
}

std::string Commands(const OomExplanation& e, const OomPage& page) {
  if (e.commands.empty()) return "";
  const bool is_option = e.judgement.verdict == OomVerdict::kFragmented;
  std::string text = is_option ? "\nType one of (bash, PowerShell, Python before import torch)\n"
                               : "\nLook with\n";
  for (const std::string& command : e.commands) text += "  " + page.Shown(command) + "\n";
  return text;
}

// "CAPACITY: …", the verdict painted after the line is wrapped: colours have no columns.
std::string FirstLine(const OomExplanation& e, const OomPage& page, const std::string& who = "") {
  const std::string verdict(ToString(e.judgement.verdict));
  std::string line = Wrap("", who + page.Shown(e.summary[0]));
  const size_t place = line.find(verdict + ':');
  if (place == std::string::npos) return line;
  return line.replace(place, verdict.size(), Painted({verdict, page.Paint(kYellow)}));
}

std::string Full(const OomExplanation& e, const OomPage& page) {
  std::string text = FirstLine(e, page);
  for (size_t i = 1; i < e.summary.size(); ++i) text += Wrap("", page.Shown(e.summary[i]));
  for (const std::string& note : e.notes) text += Wrap("Note: ", page.Shown(note));
  return text + Card(e, page) + Request(e, page) + Remedies(e, page) + Commands(e, page) +
         Quote(e, page);
}

// --- The model ------------------------------------------------------------------------------

std::string Model(const OomReplay& replay, const OomPage& page) {
  std::string text =
      Wrap("", fmt::format("The model: {}, batch {}", page.Cut(replay.model, 50), replay.batch));
  const ReplaySentences said = SentencesOf(replay);
  text += Sentences({said.asked}, page);
  for (const std::string& candidate : said.candidates) text += Wrap("    ", page.Shown(candidate));
  text += Sentences(said.on_card, page);
  for (const Warning& warning : replay.warnings) {
    text += Wrap(fmt::format("  {}  ", page.Cut(warning.code, 8)), page.Shown(warning.text));
  }
  return "\n" + text;
}

// "rank1, line 210: CAPACITY: …"
std::string ShortLine(const OomExplanation& e, const OomPage& page) {
  const OomMessage& m = e.message;
  std::string who = m.process;
  if (who.empty()) who = m.gpu ? fmt::format("GPU {}", *m.gpu) : "";
  if (!who.empty()) who = page.Cut(who, 30) + ": ";
  return FirstLine(e, page, who);
}

}  // namespace

std::string ToText(const std::vector<OomExplanation>& processes,
                   const std::optional<OomReplay>& replay, const TextOptions& options) {
  const OomPage page = {options, options.ascii ? kAsciiGlyphs : kUnicodeGlyphs};
  const bool has_one = processes.size() == 1;
  std::string text;
  if (options.quiet) {
    for (const OomExplanation& e : processes) {
      text += has_one ? FirstLine(e, page) : ShortLine(e, page);
    }
    return TrimLines(text);
  }
  text = Full(processes[0], page);
  if (replay) text += Model(*replay, page);
  if (has_one) return TrimLines(text);
  if (!options.verbose) text += "\nThe other processes (-v for all of each)\n";
  for (size_t i = 1; i < processes.size(); ++i) {
    if (options.verbose) text += "\n";
    text += options.verbose ? Full(processes[i], page) : ShortLine(processes[i], page);
  }
  return TrimLines(text);
}

}  // namespace onnxfit
