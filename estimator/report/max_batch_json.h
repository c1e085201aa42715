// The largest batch as JSON for programs, schema 1.
#pragma once

#include <string>

#include "estimator/fit/max_batch.h"
#include "estimator/report/json.h"

namespace onnxfit {

// One object with a target each; `next`, `luckier`, `estimate` and `advice` are absent where they
// were not asked for.  Indented by two spaces, with a newline at its end.
std::string ToJson(const MaxBatchAnswer& answer, const JsonOptions& options);

}  // namespace onnxfit
