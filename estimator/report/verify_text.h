// What was predicted beside what the card at hand did, as a page for people.
#pragma once

#include <string>

#include "estimator/fit/verify.h"
#include "estimator/fit/verify_max_batch.h"
#include "estimator/report/text.h"

namespace onnxfit {

// PASS, FAIL, OOM or STOPPED on the first line, then term by term.  At most 80 columns wide, every
// line with its newline.
std::string ToText(const Verification& verification, const TextOptions& options = {});
std::string ToText(const VerifiedMaxBatch& answer, const TextOptions& options = {});

}  // namespace onnxfit
