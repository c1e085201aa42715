#include "estimator/report/oom_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "estimator/base/bytes.h"
#include "estimator/fit/oom_formats.h"
#include "estimator/report/layout.h"

namespace onnxfit {
namespace {

constexpr std::string_view kIndent = "  ";
constexpr size_t kBarColumns = 60;
constexpr size_t kCandidates = 6;

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

// "rank0, line 12, PyTorch 1.4 to 1.9"
std::string WhereText(const OomExplanation& e, const OomPage& page) {
  const OomMessage& m = e.message;
  std::string text = m.process.empty() ? "" : page.Cut(m.process, 30) + ", ";
  text += fmt::format("line {}, {}", m.line, ToString(m.format->family));
  if (!m.format->versions.empty()) text += fmt::format(" {}", m.format->versions);
  if (m.gpu) text += fmt::format(", GPU {}", *m.gpu);
  if (e.more > 0) text += fmt::format("; {} more of this process", e.more);
  return text;
}

// --- Sections -------------------------------------------------------------------------------

std::string Quote(const OomExplanation& e, const OomPage& page) {
  return fmt::format("\nThe message ({})\n", WhereText(e, page)) +
         Wrap("  ", page.Shown(e.message.text));
}

std::string ErrorText(const OomPart& part, const OomPage& page) {
  if (part.error == 0) return "";
  return (page.options.ascii ? "+-" : "±") + FormatBytes(part.error);
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
                    {FormatBytes(part.bytes)},
                    {ErrorText(part, page)}});
  }
  return fmt::format("\nThe card: {}\n  {}\n", FormatBytes(e.card_bytes),
                     Painted({bar, page.Paint(kCyan)})) +
         Table(rows, "llrl", kIndent);
}

std::string SizeRange(const OomRequest& request) {
  const std::string low = FormatBytes(request.low_bytes);
  const std::string high = FormatBytes(request.high_bytes);
  return low == high ? high : low + " to " + high;
}

std::string Request(const OomExplanation& e, const OomPage& page) {
  if (!e.request) return "";
  const OomRequest& request = *e.request;
  std::string text = "\nWhat asked\n";
  text += Wrap("  ", fmt::format("A tensor of {}.", SizeRange(request)));
  for (const std::string& note : request.notes) text += Wrap("  ", page.Shown(note));
  if (!request.factors.empty()) {
    text += Wrap("  ", fmt::format("{} = {} bytes.", request.high_bytes, request.factors));
  }
  std::string shapes;
  for (const TensorType& shape : request.shapes) {
    shapes += (shapes.empty() ? "" : ", ") + ToString(shape);
  }
  if (!shapes.empty()) text += Wrap("  ", "Shapes of that size (a guess): " + shapes + ".");
  return text;
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

std::string InstantText(const Instant& instant, const OomPage& page) {
  std::string text = instant.step == 0
                         ? std::string(ToString(instant.phase))
                         : fmt::format("step {}, {}", instant.step, ToString(instant.phase));
  if (!instant.node.empty()) text += ", at " + page.Shown(instant.node);
  return text;
}

std::string CandidateLines(const OomReplay& replay, const OomPage& page) {
  if (replay.candidates.empty()) {
    return Wrap("  ",
                "No allocation of this model asks for that many bytes: another batch, other "
                "flags, or another model.");
  }
  // Where some match, the others are not who asked.
  const auto matching =
      static_cast<size_t>(std::count_if(replay.candidates.begin(), replay.candidates.end(),
                                        [](const Asked& asked) { return asked.matches; }));
  const size_t count = matching > 0 ? matching : replay.candidates.size();
  std::string text = matching > 0 ? "  Who asks for that size, with as much allocated:\n"
                                  : "  Who asks for that size:\n";
  for (size_t i = 0; i < std::min(kCandidates, count); ++i) {
    const Asked& asked = replay.candidates[i];
    text +=
        Wrap("    ", fmt::format("{}, {}, {}", page.Shown(asked.tensor),
                                 page.Shown(ToString(asked.type)), InstantText(asked.when, page)));
  }
  if (count > kCandidates) text += fmt::format("    and {} more\n", count - kCandidates);
  return text;
}

std::string OnCard(const OomReplay& replay, const OomPage& page) {
  if (replay.card_bytes == 0) {
    return Wrap("  ",
                "The message does not say how large the card is: estimate says what the "
                "model needs.");
  }
  const std::string card =
      fmt::format("On {} for its tensors and cache{}, batch {} ", FormatBytes(replay.card_bytes),
                  replay.assumes_context ? " (an A100's context taken off)" : "", replay.batch);
  if (!replay.fails_at) {
    return Wrap("  ", card +
                          "runs ten steps here: your run differs in batch, precision, "
                          "optimizer or another flag.");
  }
  return Wrap("  ", card + fmt::format("fails in {}, asking for {}.",
                                       InstantText(replay.fails_at->when, page),
                                       FormatBytes(replay.fails_at->bytes)));
}

std::string Largest(const OomReplay& replay) {
  if (!replay.largest) return "";
  const LargestBatch& largest = *replay.largest;
  if (largest.batch == 0 && !largest.at_most) {
    return Wrap("  ", "Not even a batch of 1 fits.");
  }
  const std::string more =
      largest.at_most ? fmt::format(" ({} if the message rounded in your favour)", *largest.at_most)
                      : "";
  return Wrap("  ", fmt::format("The largest batch that fits: {}{}.", largest.batch, more));
}

std::string Model(const OomReplay& replay, const OomPage& page) {
  std::string text =
      Wrap("", fmt::format("The model: {}, batch {}", page.Cut(replay.model, 50), replay.batch));
  text += CandidateLines(replay, page) + OnCard(replay, page) + Largest(replay);
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
