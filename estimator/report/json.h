// An estimate as JSON for programs, schema 1.
#pragma once

#include <cstddef>
#include <string>

#include "estimator/fit/estimate.h"
#include "estimator/fit/sweep.h"

namespace onnxfit {

struct JsonOptions {
  std::string version;  // of onnxfit
  size_t rows = 8;      // of the largest tensors, and of those of --why
};

// One object, indented by two spaces, with a newline at its end.  Bytes are integers.
// What is not known is absent: `born` of a tensor made in setup, `dies` of one that stays,
// `node` of a peak outside of operators, `why` where no tensor was asked for.  Bad UTF-8 in names
// becomes U+FFFD.
std::string ToJson(const Estimate& estimate, const JsonOptions& options);

// An array of them, in the order of the rows.  A combination without an answer has schema,
// version, the model's path, settings, and `error`.
std::string ToJson(const SweepAnswer& answer, const JsonOptions& options);

}  // namespace onnxfit
