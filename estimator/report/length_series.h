// A run whose batches differ in length: text and JSON.
#pragma once

#include <string>

#include "estimator/fit/length_series.h"
#include "estimator/report/formats.h"

namespace onnxfit {

// At most 80 columns wide, every line with its newline.  With options.quiet the verdicts alone.
std::string ToText(const LengthSeries& series, const TextOptions& options = {});

// Schema 1, one object:
//   {"schema", "version", "text", "model", "dim", "batch", "steps", "shortest", "longest",
//    "different", "worst_seed", "lengths": [], "reserved_bytes": [by step], "peak_allocated_bytes":
//    [by step], "least_reserved_bytes", "most_reserved_bytes", "alike_bytes", "reading",
//    "changes": [{"flags", "what", "reserved_bytes", "more_tokens"}],
//    "targets": [as estimate's, and "seeds_die", "first_death", "seeds_retry", "first_retry"],
//    "warnings": []}
// What there is none of is absent.  Steps are those of the worst seed, on a card that is never
// full.
std::string ToJson(const LengthSeries& series, const JsonOptions& options);

}  // namespace onnxfit
