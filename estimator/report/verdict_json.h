// Verdicts in JSON.  Internal to the room report/.
#pragma once

#include "estimator/fit/judged_target.h"
#include "estimator/report/json_parts.h"

namespace onnxfit {

// {"gpu", "capacity_bytes", "used_bytes", "low", "high", "verdict", "share", "retries", "reasons",
//  "fails_at", "processes", "copies"}; what does not apply is absent.
Json TargetJson(const JudgedTarget& judged);

// [{"what", "bytes", "low", "high", "basis"}]
Json SharesJson(const std::vector<Share>& shares);

Json FailureJson(const Failure& failure);

}  // namespace onnxfit
