// A verification to be pasted, and as a table for programs: a row a term.
#pragma once

#include <string>

#include "estimator/fit/verify.h"
#include "estimator/fit/verify_max_batch.h"
#include "estimator/report/text.h"

namespace onnxfit {

std::string ToMarkdown(const Verification& verification, const TextOptions& options = {});
std::string ToCsv(const Verification& verification);

// Rows are the batches that were carried out.
std::string ToMarkdown(const VerifiedMaxBatch& answer, const TextOptions& options = {});
std::string ToCsv(const VerifiedMaxBatch& answer);

}  // namespace onnxfit
