// The sentences about an out-of-memory message, whatever page they stand on.  Internal to the
// room report/.
#pragma once

#include <string>
#include <vector>

#include "estimator/fit/oom_explanation.h"
#include "estimator/fit/oom_replay.h"

namespace onnxfit {

// "other_process" of "OTHER PROCESS": for programs.
std::string VerdictName(OomVerdict verdict);

// "rank0, line 12, PyTorch 1.4 to 1.9"
std::string WhereText(const OomExplanation& e);

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

}  // namespace onnxfit
