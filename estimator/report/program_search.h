// The largest batch that a program runs on cards that are not there, and what was run to find it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimator/report/formats.h"
#include "estimator/report/program_run.h"

namespace onnxfit {

struct TriedBatch {
  int64_t batch = 0;
  Verdict verdict = Verdict::kFits;
  int64_t used_bytes = 0;
};

struct ProgramSearch {
  std::vector<std::string> command = {};  // as typed, with {} for the batch
  int64_t steps = 0;                      // of each run, at most
  int64_t multiple_of = 1;
  int64_t batch = 0;                         // the largest that runs; 0: not even the least
  int64_t fits_batch = 0;                    // the largest that was seen to fit, without TIGHT ones
  bool is_limited = false;                   // all ran: a larger one may, too
  std::optional<int64_t> fails = {};         // the least that was seen to fail
  std::optional<int64_t> does_not_fit = {};  // the least that was seen as TIGHT or to fail
  ProgramRun largest = {};                   // the run of that batch; of the first where none runs
  std::vector<TriedBatch> tried = {};        // in the order in which they were run
  int64_t fixed_bytes = 0;       // the device has about so much, by the last two that ran
  int64_t per_sample_bytes = 0;  // and so much a sample; 0 where that is not known
};

// At most 80 columns wide, every line with its newline: the batch and its verdict, a card each;
// of one card also what was run, and how that batch's run was.
std::string ToText(const std::vector<ProgramSearch>& searches, const TextOptions& options = {});

// Schema 1, one object:
//   {"schema", "version", "basis": "run", "text", "command",
//    "targets": [{"gpu", "max_batch", "max_batch_fits", "limited", "steps", "fails", "fixed_bytes",
//      "per_sample_bytes", "tried": [{"batch", "verdict", "used_bytes"}],
//      "run": what ToJson of one run has below "command"}]}
// What is not known is absent.
std::string ToJson(const std::vector<ProgramSearch>& searches, const JsonOptions& options);

}  // namespace onnxfit
