// A run whose batches differ in length: text and JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/fit/length_series.h"
#include "estimator/report/formats.h"
#include "estimator/report/tried_batches.h"

namespace onnxfit {

// The largest batch whose steps run on a card.
struct SeriesSearch {
  TriedBatches found = {};
  LengthSeries largest = {};  // of found.told(), on that card alone
  // The verdict on found.told() with segments that grow; nullopt where it FITS without.
  std::optional<Verdict> expandable = {};
};

// At most 80 columns wide, every line with its newline.  With options.quiet the verdicts alone.
std::string ToText(const LengthSeries& series, const TextOptions& options = {});
std::string ToText(const std::vector<SeriesSearch>& searches, const TextOptions& options = {});

// Schema 1, one object:
//   {"schema", "version", "text", "model", "dim", "batch", "smallest_batch", "steps", "shortest",
//    "longest", "different", "worst_seed", "lengths": [], "batches": [], "reserved_bytes": [by
//    step], "peak_allocated_bytes": [by step], "least_reserved_bytes", "most_reserved_bytes",
//    "alike_bytes", "reading", "changes": [{"flags", "what", "reserved_bytes", "more_tokens"}],
//    "targets": [as estimate's, and "seeds_die", "first_death", "seeds_retry", "first_retry"],
//    "warnings": []}
// What there is none of is absent.  Steps are those of the worst seed, on a card that is never
// full; "batches" is absent where all are `batch`.
std::string ToJson(const LengthSeries& series, const JsonOptions& options);

// Schema 1, one object:
//   {"schema", "version", "text", "model", "dim", "targets": [{"gpu", "max_batch",
//    "max_batch_fits", "limited", "fails", "tried": [{"batch",
//    "verdict", "used_bytes"}], "expandable": a verdict, "series": the object above, without
//    "schema" to "text"}]}
std::string ToJson(const std::vector<SeriesSearch>& searches, const JsonOptions& options);

}  // namespace onnxfit
