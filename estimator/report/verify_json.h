// A verification for programs: all figures in bytes.
#pragma once

#include <string>

#include "estimator/fit/verify.h"
#include "estimator/fit/verify_max_batch.h"
#include "estimator/report/json.h"

namespace onnxfit {

std::string ToJson(const Verification& verification, const JsonOptions& options);
std::string ToJson(const VerifiedMaxBatch& answer, const JsonOptions& options);

}  // namespace onnxfit
