// The largest batch that a program runs on cards that are not there, and what was run to find it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/report/formats.h"
#include "estimator/report/program_run.h"
#include "estimator/report/tried_batches.h"

namespace onnxfit {

struct ProgramSearch {
  std::vector<std::string> command = {};  // as typed, with {} for the batch
  int64_t steps = 0;                      // of each run, at most
  TriedBatches found = {};
  ProgramRun largest = {};  // the run of found.told()
  bool is_of_ram = false;   // found.fails has no room in RAM, and has on its cards
};

// At most 80 columns wide, every line with its newline: the batch and its verdict, a card each;
// of one card also what was run, and how that batch's run was.
std::string ToText(const std::vector<ProgramSearch>& searches, const TextOptions& options = {});

// Schema 1, one object:
//   {"schema", "version", "basis": "run", "text", "command",
//    "targets": [{"gpu", "max_batch", "max_batch_fits", "limited", "steps", "fails",
//    "fails_for_ram",
//      "fixed_bytes", "per_sample_bytes", "tried": [{"batch", "verdict", "used_bytes"}],
//      "run": what ToJson of one run has below "command"}]}
// What is not known is absent.
std::string ToJson(const std::vector<ProgramSearch>& searches, const JsonOptions& options);

}  // namespace onnxfit
