// The sentences about an out-of-memory message, and the page for people that they make.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "estimator/base/bytes.h"
#include "estimator/oom/formats.h"
#include "estimator/report/estimate_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/oom.h"

namespace onnxfit {
namespace {

constexpr size_t kCandidates = 6;

std::string SizeRange(const OomRequest& request) {
  const std::string low = FormatBytes(request.low_bytes);
  const std::string high = FormatBytes(request.high_bytes);
  return low == high ? high : low + " to " + high;
}

void AddCandidates(const OomReplay& replay, ReplaySentences& said) {
  if (!replay.asks) {
    said.asked = "The message does not say how much was asked for.";
    return;
  }
  if (replay.candidates.empty()) {
    said.asked =
        "No allocation of this model asks for that many bytes: another batch, other flags, or "
        "another model.";
    return;
  }
  // Where some match, the others are not who asked.
  const auto matching =
      static_cast<size_t>(std::count_if(replay.candidates.begin(), replay.candidates.end(),
                                        [](const Asked& asked) { return asked.matches; }));
  const size_t count = matching > 0 ? matching : replay.candidates.size();
  said.asked =
      matching > 0 ? "Who asks for that size, with as much allocated:" : "Who asks for that size:";
  for (size_t i = 0; i < std::min(kCandidates, count); ++i) {
    const Asked& asked = replay.candidates[i];
    said.candidates.push_back(
        fmt::format("{}, {}, {}", asked.tensor, ToString(asked.type), InstantText(asked.when)));
  }
  if (count > kCandidates)
    said.candidates.push_back(fmt::format("and {} more", count - kCandidates));
}

std::string ContextText(const OomReplay& replay) {
  if (replay.context_of.empty()) return "";
  const ContextBytes& context = replay.context;
  const std::string range =
      context.low == context.high
          ? FormatBytes(context.bytes)
          : fmt::format("{} to {}", FormatBytes(context.low), FormatBytes(context.high));
  const bool is_its = replay.context_of == replay.card_name;
  return fmt::format(" ({}, {}, taken off)",
                     is_its ? "its context" : "the context of " + replay.context_of, range);
}

// "the Tesla T4 with ", "" where the card is the message's.
std::string CardText(const OomReplay& replay) {
  if (replay.card_name.empty()) return "";
  return fmt::format("{}the {} with ", replay.is_another ? "another card, " : "", replay.card_name);
}

std::string OnCard(const OomReplay& replay) {
  if (replay.card_bytes == 0) {
    return "The message does not say how large the card is: name it with --gpu.";
  }
  const std::string card =
      fmt::format("On {}{} for its tensors and cache{}, batch {} ", CardText(replay),
                  FormatBytes(replay.card_bytes), ContextText(replay), replay.batch);
  if (!replay.fails_at) {
    const std::string dropouts =
        replay.may_have_lost_dropouts
            ? ", or has more dropouts than this file shows: an export in eval mode loses them "
              "(--dropout)"
            : "";
    return card +
           "runs ten steps here: your run differs in batch, precision, optimizer or another flag" +
           dropouts + ".";
  }
  const std::string reading =
      replay.reading.empty()
          ? ""
          : fmt::format("runs ten steps here as guessed; with {}, which the file leaves open, it ",
                        replay.reading);
  return card + reading +
         fmt::format("fails in {}, asking for {}.", InstantText(replay.fails_at->when),
                     PyTorchBytes(replay.fails_at->tried_bytes));
}

// The batch that the log shows failing is one more.
std::string BelowFailureText(const LargestBatch& largest) {
  const std::string why = fmt::format("your log shows {} failing; by this file alone: {}.",
                                      largest.batch + 1, *largest.by_file);
  return largest.batch == 0
             ? "No smaller batch to try: " + why
             : fmt::format("The largest batch to try: {}, as {}", largest.batch, why);
}

std::string LargestText(const LargestBatch& largest, bool assumes_context) {
  if (largest.by_file) return BelowFailureText(largest);
  if (largest.batch == 0 && !largest.at_most) return "Not even a batch of 1 runs.";
  const std::string more = largest.at_most
                               ? fmt::format(" ({} if {})", *largest.at_most,
                                             assumes_context ? "the card gives all that it may"
                                                             : "the message rounded in your favour")
                               : "";
  return fmt::format("The largest batch that runs: {}{}.", largest.batch, more);
}

}  // namespace

std::string VerdictName(OomVerdict verdict) {
  std::string name(ToString(verdict));
  for (char& c : name) c = c == ' ' ? '_' : static_cast<char>(std::tolower(c));
  return name;
}

std::string WhereText(const OomExplanation& e) {
  const OomMessage& m = e.message;
  std::string text = m.process.empty() ? "" : m.process + ", ";
  text += fmt::format("line {}, {}", m.line, ProgramOf(*m.format));
  if (!m.format->versions.empty()) text += fmt::format(" {}", m.format->versions);
  if (!m.app.empty()) text += fmt::format(", in {}", m.app);
  if (m.gpu) text += fmt::format(", GPU {}", *m.gpu);
  if (e.more > 0) text += fmt::format("; {} more of this process", e.more);
  return text;
}

std::string_view MemoryName(const OomExplanation& e) {
  return IsHostMemory(e.message.format->family) ? "The RAM" : "The card";
}

std::string ErrorText(const OomPart& part, bool ascii) {
  return part.error == 0 ? "" : (ascii ? "+-" : "±") + FormatBytes(part.error);
}

std::vector<std::string> RequestSentences(const OomRequest& request) {
  std::vector<std::string> sentences = {fmt::format("A tensor of {}.", SizeRange(request))};
  sentences.insert(sentences.end(), request.notes.begin(), request.notes.end());
  if (!request.factors.empty()) {
    sentences.push_back(fmt::format("{} = {} bytes.", request.high_bytes, request.factors));
  }
  std::string shapes;
  for (const TensorType& shape : request.shapes) {
    shapes += (shapes.empty() ? "" : ", ") + ToString(shape);
  }
  if (!shapes.empty()) {
    sentences.push_back(fmt::format("Shapes of that size (a guess): {}.", shapes));
  }
  return sentences;
}

ReplaySentences SentencesOf(const OomReplay& replay) {
  ReplaySentences said;
  AddCandidates(replay, said);
  said.on_card.push_back(OnCard(replay));
  if (replay.largest) {
    said.on_card.push_back(LargestText(*replay.largest, !replay.context_of.empty()));
  }
  return said;
}

namespace {

// "the largest that runs is 453691"
std::string LargestInShort(const LargestBatch& largest) {
  if (largest.batch == 0) return "not even a batch of 1 runs";
  return fmt::format("the largest {} is {}", largest.by_file ? "to try" : "that runs",
                     largest.batch);
}

// "batch 64 fails in step 1, forward, at fc1: the largest that runs is 48"
std::string ReplayHeadline(const OomReplay& replay) {
  const std::string where = replay.is_another ? " on the " + replay.card_name : "";
  std::string text = fmt::format("batch {}{} ", replay.batch, where);
  if (!replay.fails_at) {
    text += "of this model runs there: the log's run differs in a flag or size";
    return text;
  }
  const bool has_one =
      !replay.candidates.empty() && (replay.candidates.size() == 1 || replay.candidates[0].matches);
  text += has_one ? fmt::format("has no room for {}, {}", replay.candidates[0].tensor,
                                ToString(replay.candidates[0].type))
                  : fmt::format("fails in {}, asking for {}", InstantText(replay.fails_at->when),
                                PyTorchBytes(replay.fails_at->tried_bytes));
  if (!replay.reading.empty()) text += " with " + replay.reading;
  return replay.largest ? text + ": " + LargestInShort(*replay.largest) : text;
}

}  // namespace

void TellFirst(const OomReplay& replay, OomExplanation& e) {
  if (replay.card_bytes == 0) return;
  const std::string verdict = fmt::format("{}: ", ToString(e.judgement.verdict));
  const std::string said = e.summary[0].substr(std::min(verdict.size(), e.summary[0].size()));
  e.summary[0] = verdict + ReplayHeadline(replay);
  e.notes.insert(e.notes.begin(), fmt::format("The message says: {}.", said));
}

// What follows lays the page out.
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
  return fmt::format("\n{}: {}\n  {}\n", MemoryName(e), e.card_text,
                     Painted({bar, page.Paint(kCyan)})) +
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
