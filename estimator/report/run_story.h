// What a memory snapshot tells, alone and beside a prediction, in all formats.
#pragma once

#include <optional>
#include <string>

#include "estimator/base/error.h"
#include "estimator/report/formats.h"
#include "estimator/snapshot/leftovers.h"
#include "estimator/snapshot/story.h"

namespace onnxfit {

struct StoryAnswer {
  std::string path;  // of the snapshot
  RunStory story;
  std::string model = {};                   // its path, "" where none was named
  std::optional<Leftovers> leftovers = {};  // beside it
  Warnings warnings = {};                   // of the prediction
  bool is_diff = false;                     // what was kept is told before what happened
  std::string allowed = {};                 // of --fail-above, as written
  bool kept_too_much = false;               // more than that
};

// As a page for people: what happened, then what grows, what the prediction does not have, or,
// without a model, what lives, by lines of the user's.  Of each list options.rows rows; with
// options.verbose who called each of them.  At most 80 columns wide, every line with its newline.
std::string ToText(const StoryAnswer& answer, const TextOptions& options = {});

std::string ToMarkdown(const StoryAnswer& answer, const TextOptions& options = {});

// list,where,count,bytes,growing_bytes,growing_turns,kind: all rows of the lists "growth", "live",
// "kept" and "missing", in exact bytes; `where` is who asked, innermost first, or the name of the
// tensor.
std::string ToCsv(const StoryAnswer& answer, bool ascii = false);

// For programs, schema 1.  One object with a newline at its end:
//   {"schema", "version",
//    "snapshot": {"path", "device", "devices", "events", "peak_bytes", "loop": {"file", "line",
//      "function", "turns"}, "moment": "oom" | "peak" | "taken", "event", "turn",
//      "requested_bytes", "reserved_bytes", "asked_bytes", "asked_by": […]},
//    "growth_bytes", "growth_line": {"file", "line", "function", "bytes"},
//    "growth": [GROUP…], "live": [GROUP…],
//    "model": {"path", "predicted_bytes", "predicted_peak_bytes", "step", "phase", "node",
//      "kept_bytes", "kept": [GROUP…], "missing_bytes",
//      "missing": [{"name", "kind", "bytes", "count"}], "warnings": [{"code", "text"}]},
//    "kept_too_much", "notes": […]}
// A GROUP is {"bytes", "count", "sizes": [{"bytes", "count"}], "growing_bytes", "growing_turns",
// "backward", "before_history", "frames": [{"file", "line", "function"}]}: `bytes` of all, frames
// of Python, innermost first, PyTorch's own among them.  Lists are whole; what is not known or does
// not apply is absent.
std::string ToJson(const StoryAnswer& answer, const JsonOptions& options);

// What follows are parts of them.  Internal to the room report/.

// "kept 39.2 MiB that is not predicted, of 104.7 MiB in tensors", "full: 1.0 MiB asked …".
std::string HeadlineOf(const StoryAnswer& answer);
// Sentences below it: of which moment this is, what of the prediction is like it, what grows; ""
// where there is nothing to say.
std::vector<std::string> StorySentences(const StoryAnswer& answer);
// What keeps the answer from saying more, a sentence each.
std::vector<std::string> StoryNotes(const StoryAnswer& answer);
// "net.py:36 (forward) < :50 < train.py:93": who asked and who called that, in the loop;
// "backward", "no line of Python (backward?)".
std::string AskerText(const RunStory& story, StackId stack);
// The same, or "before the history".
std::string AskerText(const RunStory& story, const LineGroup& group);
// "in 3 of 4 turns"; "" of what does not grow.
std::string GrowingText(const RunStory& story, const LineGroup& group);

}  // namespace onnxfit
