// The largest batch of a search that runs what it asks about, batch by batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimator/fit/target.h"
#include "estimator/fit/verdict.h"
#include "estimator/report/formats.h"

namespace onnxfit {

struct TriedBatch {
  int64_t batch = 0;
  Verdict verdict = Verdict::kFits;
  int64_t used_bytes = 0;
};

struct TriedBatches {
  int64_t multiple_of = 1;
  int64_t batch = 0;                         // the largest that runs; 0: not even the least
  int64_t fits_batch = 0;                    // the largest that was seen to fit, without TIGHT ones
  bool is_limited = false;                   // all ran: a larger one may, too
  std::optional<int64_t> fails = {};         // the least that was seen to fail
  std::optional<int64_t> does_not_fit = {};  // the least that was seen as TIGHT or to fail
  std::vector<TriedBatch> tried = {};        // in the order in which they were run
  int64_t fixed_bytes = 0;       // the device has about so much, by the last two that ran
  int64_t per_sample_bytes = 0;  // and so much a sample; 0 where that is not known

  // Whose run is told: the largest that runs, else the first that was tried.
  int64_t told() const { return batch > 0 ? batch : tried.at(0).batch; }
};

// "batch 96 on t4: FITS, 13.8 GiB of 14.6 GiB, 94.6%", with its newline; `judged` is of told().
std::string BatchHeadline(const TriedBatches& found, const std::string& cards,
                          const JudgedTarget& judged, const TextOptions& options);

// "8, 64, 96 (OOM)".
std::string TriedText(const TriedBatches& found);

// What there is to say of a search, a sentence each; `is_tight`: the largest that runs is.
std::vector<std::string> SearchSentences(const TriedBatches& found, bool is_tight);

// The same as a list, with what was run; `judged` is of told().
std::string TriedBullets(const TriedBatches& found, const JudgedTarget& judged);

}  // namespace onnxfit
