// Explained out-of-memory messages, in all formats.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/oom/explanation.h"
#include "estimator/oom/replay.h"
#include "estimator/report/formats.h"

namespace onnxfit {

// The sentences about an out-of-memory message, whatever page they stand on.  Internal to the room
// report/.  "other_process" of "OTHER PROCESS": for programs.
std::string VerdictName(OomVerdict verdict);

// "rank0, line 12, PyTorch 1.4 to 1.9"
std::string WhereText(const OomExplanation& e);

// "The card", "The RAM": whose parts are told.
std::string_view MemoryName(const OomExplanation& e);

// "±5.00 MiB", "" where a message counts bytes.
std::string ErrorText(const OomPart& part, bool ascii);

std::vector<std::string> RequestSentences(const OomRequest& request);

// What a model says.
struct ReplaySentences {
  std::string asked;                         // who asked, or the beginning of a list of them
  std::vector<std::string> candidates = {};  // that list
  std::vector<std::string> on_card = {};     // how it runs there, and the largest batch that does
};
ReplaySentences SentencesOf(const OomReplay& replay);

// Puts what a model says of the message's card behind the verdict, in the place of what the message
// says, which becomes a note.  Nothing where the card is not known.
void TellFirst(const OomReplay& replay, OomExplanation& e);

// An explained out-of-memory message as a page for people.  The first process in full, the others
// with a line each; with options.verbose all in full, with options.quiet the first line of each
// alone.  At most 80 columns wide, every line with its newline.  `replay` is what a model says to
// the first process, where one was named.
std::string ToText(const std::vector<OomExplanation>& processes,
                   const std::optional<OomReplay>& replay, const TextOptions& options = {});

// An explained out-of-memory message as Markdown.  What the text says, with the message and the
// commands as code.  With options.quiet the first line of each process alone; with options.verbose
// all processes in full.
std::string ToMarkdown(const std::vector<OomExplanation>& processes,
                       const std::optional<OomReplay>& replay, const TextOptions& options = {});

// Explained out-of-memory messages as comma-separated values.  A header, then a record for each
// process: where the message stands and what it means, the sizes that it gives in bytes, what it
// lacks, and what a model says to the first process.  The columns are always the same; what is not
// known is empty.
std::string ToCsv(const std::string& log, const std::vector<OomExplanation>& processes,
                  const std::optional<OomReplay>& replay, bool ascii = false);

// An explained out-of-memory message as JSON for programs, schema 1.  One object; `log` is the path
// of what was read.  Sizes are integers with the range that their rounding leaves ("bytes", "low",
// "high"); what a message does not say is absent.
std::string ToJson(const std::string& log, const std::vector<OomExplanation>& processes,
                   const std::optional<OomReplay>& replay, const JsonOptions& options);

}  // namespace onnxfit
