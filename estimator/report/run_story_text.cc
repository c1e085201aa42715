#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/report/estimate_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/markup.h"
#include "estimator/report/run_story.h"
#include "estimator/snapshot/python_frames.h"

namespace onnxfit {
namespace {

using What = RecordedMoment::What;

constexpr char kHowToRecord[] =
    "this snapshot has no history, so that nothing is known of its peak, nor of what grows: call "
    "torch.cuda.memory._record_memory_history(max_entries=100000) when the program begins, and "
    "torch.cuda.memory._dump_snapshot(\"snapshot.pickle\") after a few steps";

const SnapshotFrame& FrameOf(const RunStory& story, FrameId frame) {
  return story.snapshot.frames[Index(frame)];
}

// "net.py:12 (forward)"
std::string FrameText(const SnapshotFrame& frame) {
  return fmt::format("{}:{} ({})", FileNameOf(frame), frame.line, frame.function);
}

// "1.0 MiB asked by net.py:36 (forward)"
std::string AskedText(const RunStory& story) {
  const RecordedMoment& moment = story.run.moment;
  return fmt::format("{} asked by {}", FormatBytes(moment.asked_bytes),
                     AskerText(story, moment.asked_by));
}

std::string StoryHeadline(const RunStory& story) {
  const RecordedMoment& moment = story.run.moment;
  const std::string held =
      fmt::format("{} in tensors, {} reserved", FormatBytes(moment.requested_bytes),
                  FormatBytes(moment.reserved_bytes));
  if (moment.what == What::kOom) return fmt::format("OOM: {}; {}", AskedText(story), held);
  return fmt::format("{}{}", moment.what == What::kPeak ? "peak: " : "", held);
}

std::string LeftoversHeadline(const Leftovers& left) {
  if (left.kept_bytes == 0) {
    return fmt::format("kept what is predicted: {} in tensors", FormatBytes(left.run_bytes));
  }
  return fmt::format("kept {} that is not predicted, of {} in tensors",
                     FormatBytes(left.kept_bytes), FormatBytes(left.run_bytes));
}

std::string MomentText(const StoryAnswer& answer) {
  const RunStory& story = answer.story;
  const RecordedMoment& moment = story.run.moment;
  constexpr std::string_view kMoments[] = {"when the card was full", "at its peak",
                                           "when it was taken"};
  const std::string text =
      fmt::format("{} {}", answer.path, kMoments[static_cast<size_t>(moment.what)]);
  if (moment.what == What::kTaken) return text;
  const int64_t turn = story.turns.TurnAt(moment.event - 1);
  if (turn == 0) return text + fmt::format(", event {} of {}", moment.event, story.run.events);
  return text + fmt::format(", in turn {} of {} of the loop at {}", turn, story.turns.count(),
                            FrameText(FrameOf(story, story.turns.loop)));
}

std::string PredictedText(const StoryAnswer& answer, const Leftovers& left) {
  const std::string peak =
      left.predicted_bytes == left.predicted_peak_bytes
          ? ", its peak"
          : fmt::format("; its peak is {}", FormatBytes(left.predicted_peak_bytes));
  return fmt::format("{} is most like it in {}: {}{}", answer.model, InstantText(left.moment),
                     FormatBytes(left.predicted_bytes), peak);
}

std::string GrowthText(const RunStory& story) {
  const int64_t turns = story.turns.count() - 1;
  std::string text =
      fmt::format("grows by {} a turn: {} turns leave {} behind",
                  FormatBytes(story.growth_bytes / turns), turns, FormatBytes(story.growth_bytes));
  if (story.growth_line < 0) return text;
  const bool is_all = story.growth_line_bytes == story.growth_bytes;
  return text + fmt::format(", {} asked for in {}",
                            is_all ? "all" : FormatBytes(story.growth_line_bytes) + " of it",
                            FrameText(FrameOf(story, story.growth_line)));
}

// A leak adds to a run, and takes nothing from it.
bool IsAnotherRun(const Leftovers& left) { return left.missing_bytes > left.predicted_bytes / 10; }

// What PyTorch had of the card, and could not hand out.
std::string UnusedText(const RecordedMoment& moment) {
  return fmt::format("{} of what is reserved holds no tensor: rounding, and pieces too small",
                     FormatBytes(moment.reserved_bytes - moment.requested_bytes));
}

}  // namespace

std::string HeadlineOf(const StoryAnswer& answer) {
  if (!answer.is_diff || !answer.leftovers) return StoryHeadline(answer.story);
  const std::string allowed =
      answer.kept_too_much ? fmt::format(", {} allowed", answer.allowed) : "";
  return LeftoversHeadline(*answer.leftovers) + allowed;
}

std::vector<std::string> StorySentences(const StoryAnswer& answer) {
  std::vector<std::string> sentences = {MomentText(answer)};
  const RecordedMoment& moment = answer.story.run.moment;
  if (moment.what == What::kOom && moment.reserved_bytes > moment.requested_bytes) {
    sentences.push_back(UnusedText(moment));
  }
  if (answer.leftovers) sentences.push_back(PredictedText(answer, *answer.leftovers));
  if (answer.leftovers && !answer.is_diff) {
    sentences.push_back(LeftoversHeadline(*answer.leftovers));
  }
  if (answer.story.growth_bytes > 0) sentences.push_back(GrowthText(answer.story));
  return sentences;
}

std::vector<std::string> StoryNotes(const StoryAnswer& answer) {
  const RunStory& story = answer.story;
  std::vector<std::string> notes;
  if (story.snapshot.events.empty()) notes.emplace_back(kHowToRecord);
  if (!story.snapshot.events.empty() && story.turns.count() == 0) {
    notes.emplace_back(
        "no loop of three turns is in the history, so that what grows cannot be told");
  }
  if (!story.snapshot.events.empty() && story.snapshot.frames.empty()) {
    notes.emplace_back(
        "the history has no lines of Python: record it with context=\"all\", which is the default");
  }
  if (answer.leftovers && IsAnotherRun(*answer.leftovers)) {
    notes.push_back(fmt::format(
        "{} of what is predicted is not in the run: is it of this batch, precision and optimizer?",
        FormatBytes(answer.leftovers->missing_bytes)));
  }
  if (story.run.contradictions > 0) {
    notes.push_back(
        fmt::format("{} events contradict others, and were passed over", story.run.contradictions));
  }
  if (story.snapshot.devices > 1) {
    notes.push_back(fmt::format("of {} cards this is number {}, which holds most",
                                story.snapshot.devices, story.snapshot.device));
  }
  if (story.growth_bytes > 0) {
    notes.emplace_back(
        "a list that every turn adds to keeps its tensors on the card, with the graph that made "
        "them: add loss.item(), or out.detach().cpu()");
  }
  return notes;
}

std::string AskerText(const RunStory& story, StackId stack) {
  const std::vector<FrameId> frames = FramesInLoop(story, stack);
  if (story.snapshot.frames.empty()) return "not recorded";
  if (frames.empty()) {
    return story.snapshot.stacks[Index(stack)].is_backward ? "backward"
                                                           : "no line of Python (backward?)";
  }
  std::string text = FrameText(FrameOf(story, frames[0]));
  for (size_t i = 1; i < frames.size(); ++i) {
    const SnapshotFrame& caller = FrameOf(story, frames[i]);
    const bool is_other = caller.file != FrameOf(story, frames[i - 1]).file;
    text += fmt::format(" < {}:{}", is_other ? FileNameOf(caller) : "", caller.line);
  }
  return text;
}

std::string AskerText(const RunStory& story, const LineGroup& group) {
  const bool is_early = group.is_early && !story.snapshot.events.empty();
  return is_early ? "before the history" : AskerText(story, group.stack);
}

std::string GrowingText(const RunStory& story, const LineGroup& group) {
  if (group.growing_turns == 0) return "";
  return fmt::format("in {} of {} turns", group.growing_turns, story.turns.count());
}

// What follows writes text.
namespace {

constexpr size_t kAskerColumns = 44;
constexpr size_t kTensorColumns = 40;

using Rows = std::vector<std::vector<Cell>>;

struct StoryPage {
  const StoryAnswer& answer;
  const TextOptions& options;
  const Glyphs& glyphs;

  std::string Shown(std::string_view text) const { return Clean(text, options.ascii); }
  std::string Cut(std::string_view text, size_t columns) const {
    return CutMiddle(Shown(text), columns, glyphs.ellipsis);
  }
};

std::string MoreRows(size_t all, const StoryPage& page) {
  if (all <= page.options.rows) return "";
  return fmt::format("and {} more (-n {} shows all)\n", all - page.options.rows, all);
}

// Each caller of what a table has, a line each.
std::string Callers(const std::vector<LineGroup>& groups, const StoryPage& page) {
  if (!page.options.verbose) return "";
  std::string text;
  for (size_t i = 0; i < std::min(groups.size(), page.options.rows); ++i) {
    const std::vector<FrameId> frames = UserFrames(page.answer.story.snapshot, groups[i].stack);
    for (size_t j = 0; j < frames.size(); ++j) {
      const SnapshotFrame& frame = page.answer.story.snapshot.frames[Index(frames[j])];
      const std::string line = fmt::format("{}:{} in {}", frame.file, frame.line, frame.function);
      text += fmt::format("  {}{}\n", j == 0 ? "" : "  ", page.Cut(line, kReportColumns - 4));
    }
  }
  return text;
}

std::string GroupTable(std::string_view title, const std::vector<LineGroup>& groups,
                       const StoryPage& page) {
  if (groups.empty()) return "";
  Rows rows = {{{std::string(title)}, {"count"}, {"bytes"}, {"grows"}}};
  for (size_t i = 0; i < std::min(groups.size(), page.options.rows); ++i) {
    const LineGroup& group = groups[i];
    const std::string asker = AskerText(page.answer.story, group);
    rows.push_back({{page.Cut(asker, kAskerColumns)},
                    {fmt::format("{}", group.count)},
                    {FormatBytes(group.bytes)},
                    {GrowingText(page.answer.story, group), page.options.color ? kRed : ""}});
  }
  return '\n' + Table(rows, "lrrl", "") + MoreRows(groups.size(), page) + Callers(groups, page);
}

// Whether the first rows of the main list say what grows, but for a tenth of it: then it needs no
// list of its own.
bool IsGrowthShown(const StoryPage& page) {
  const StoryAnswer& answer = page.answer;
  const std::vector<LineGroup>& groups =
      answer.leftovers ? answer.leftovers->kept : answer.story.live;
  int64_t bytes = 0;
  for (size_t i = 0; i < std::min(groups.size(), page.options.rows); ++i) {
    bytes += groups[i].growing_bytes;
  }
  return bytes >= answer.story.growth_bytes - answer.story.growth_bytes / 10;
}

std::string MissingTable(const Leftovers& left, const StoryPage& page) {
  if (left.missing.empty()) return "";
  Rows rows = {{{"predicted, and not kept"}, {"count"}, {"bytes"}, {"kind"}}};
  for (size_t i = 0; i < std::min(left.missing.size(), page.options.rows); ++i) {
    const MissingGroup& group = left.missing[i];
    rows.push_back({{page.Cut(group.name, kTensorColumns)},
                    {fmt::format("{}", group.count)},
                    {FormatBytes(group.total_bytes())},
                    {WithSpaces(ToString(group.kind))}});
  }
  return '\n' + Table(rows, "lrrl", "") + MoreRows(left.missing.size(), page);
}

std::string NotesText(const StoryPage& page) {
  std::string text;
  for (const std::string& note : StoryNotes(page.answer)) text += Wrap("", page.Shown(note));
  for (const Warning& warning : page.answer.warnings) {
    text += Wrap(warning.code + " ", page.Shown(warning.text));
  }
  return text.empty() ? "" : '\n' + text;
}

}  // namespace

std::string ToText(const StoryAnswer& answer, const TextOptions& options) {
  const StoryPage page = {answer, options, GlyphsOf(options)};
  const std::string word = answer.kept_too_much ? "FAIL: " : "";
  const std::string head = page.Shown(HeadlineOf(answer));
  if (options.quiet) return word + head + '\n';
  std::string text = Wrap(word, head);
  for (const std::string& said : StorySentences(answer)) text += Wrap("", page.Shown(said));
  if (!IsGrowthShown(page)) {
    text += GroupTable("left behind, turn by turn", answer.story.growth, page);
  }
  if (answer.leftovers) {
    text += GroupTable("kept, and not predicted", answer.leftovers->kept, page);
    text += MissingTable(*answer.leftovers, page);
  } else {
    text += GroupTable("in tensors", answer.story.live, page);
  }
  return TrimLines(text + NotesText(page));
}

// What follows writes Markdown.
namespace {

std::string GroupSection(std::string_view title, const std::vector<LineGroup>& groups,
                         const StoryPage& page) {
  if (groups.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < std::min(groups.size(), page.options.rows); ++i) {
    const LineGroup& group = groups[i];
    rows.push_back({MarkdownCode(page.Shown(AskerText(page.answer.story, group))),
                    fmt::format("{}", group.count), FormatBytes(group.bytes),
                    GrowingText(page.answer.story, group)});
  }
  return '\n' + MarkdownTable({std::string(title), "count", "bytes", "grows"}, "lrrl", rows);
}

std::string MissingSection(const Leftovers& left, const StoryPage& page) {
  if (left.missing.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < std::min(left.missing.size(), page.options.rows); ++i) {
    const MissingGroup& group = left.missing[i];
    rows.push_back({MarkdownCode(page.Shown(group.name)), fmt::format("{}", group.count),
                    FormatBytes(group.total_bytes()), WithSpaces(ToString(group.kind))});
  }
  return '\n' + MarkdownTable({"predicted, and not kept", "count", "bytes", "kind"}, "lrrl", rows);
}

std::string NotesList(const StoryPage& page) {
  std::vector<std::string> items = StorySentences(page.answer);
  for (const std::string& note : StoryNotes(page.answer)) items.push_back(note);
  for (const Warning& warning : page.answer.warnings) {
    items.push_back(fmt::format("{} {}", warning.code, warning.text));
  }
  for (std::string& item : items) item = MarkdownText(page.Shown(item));
  return '\n' + MarkdownList(items);
}

}  // namespace

std::string ToMarkdown(const StoryAnswer& answer, const TextOptions& options) {
  const StoryPage page = {answer, options, GlyphsOf(options)};
  std::string text = fmt::format("**{}{}**\n", answer.kept_too_much ? "FAIL: " : "",
                                 MarkdownText(page.Shown(HeadlineOf(answer))));
  if (options.quiet) return text;
  text += NotesList(page);
  if (!IsGrowthShown(page)) {
    text += GroupSection("left behind, turn by turn", answer.story.growth, page);
  }
  if (!answer.leftovers) return text + GroupSection("in tensors", answer.story.live, page);
  return text + GroupSection("kept, and not predicted", answer.leftovers->kept, page) +
         MissingSection(*answer.leftovers, page);
}

}  // namespace onnxfit
