// What JSON reports share.  Internal to the room report/.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "estimator/base/error.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/why.h"
#include "estimator/report/json.h"

namespace onnxfit {

using Json = nlohmann::ordered_json;  // fields stay in the order of the contract

// Nothing where `text` is empty: what is not known is absent.
void PutIfKnown(Json& object, const char* key, std::string_view text);

// {"step", "phase", "node"}
Json InstantJson(const Instant& instant);

// [{"code", "text"}]
Json WarningsJson(const Warnings& warnings);

// What `estimate --format json` prints, to stand within another answer.
Json EstimateJson(const Estimate& estimate, const JsonOptions& options);

// As all reports print it: two spaces, bad UTF-8 as U+FFFD, no newline at its end.
std::string Dumped(const Json& json);

}  // namespace onnxfit
