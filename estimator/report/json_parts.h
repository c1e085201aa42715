// What JSON reports share, and how they are read back.  Internal to the room report/.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/advise/advice.h"
#include "estimator/base/error.h"
#include "estimator/compare/compare.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/places.h"
#include "estimator/fit/verdict.h"
#include "estimator/fit/why.h"
#include "estimator/report/formats.h"
#include "estimator/report/tried_batches.h"

namespace onnxfit {

struct RuntimeInput;

using Json = nlohmann::ordered_json;  // fields stay in the order of the contract

// Nothing where `text` is empty: what is not known is absent.
void PutIfKnown(Json& object, const char* key, std::string_view text);

// {"step", "phase", "node"}
Json InstantJson(const Instant& instant);

// [{"code", "text"}]
Json WarningsJson(const Warnings& warnings);

// {"name", "basis", "written_by"}: the version of PyTorch, why it is that, and which wrote the
// file.
Json FrameworkJson(const TrainingSettings& settings);

// What `estimate --format json` prints, to stand within another answer.
Json EstimateJson(const Estimate& estimate, const JsonOptions& options);

// As all reports print it: two spaces, bad UTF-8 as U+FFFD, no newline at its end.
std::string Dumped(const Json& json);

// {"gpu", "capacity_bytes", "used_bytes", "low", "high", "verdict", "share", "retries", "reasons",
//  "fails_at", "processes", "copies"}; what does not apply is absent.
Json TargetJson(const JudgedTarget& judged);

// [{"name", "dims", "type"}], the type as ONNX counts it: a shape that sessions are to run.
Json InputsJson(const std::vector<RuntimeInput>& inputs);

// [{"what", "bytes", "low", "high", "basis"}]
Json SharesJson(const std::vector<Share>& shares);

Json FailureJson(const Failure& failure);

// Puts "max_batch", "max_batch_fits", "limited", "fails", "fixed_bytes", "per_sample_bytes" and
// "tried".
void PutSearch(const TriedBatches& found, Json& json);

// [{"change", "flags", "effect", "max_batch", "accumulate", "verdict", "used_bytes", "saved_bytes",
// "cost", "cost_class", "why"}], all of them; what is not known is absent.
Json AdviceJson(const std::vector<Advice>& advice);

// A comparison within another answer:
// {"old", "new", "increase_bytes", "kinds", "nodes", "peak_moved", "settings_changed"}
Json ComparisonJson(const Comparison& comparison);

// What `diff --format json` prints, to stand within another answer.
Json DiffJson(const Diff& diff, const JsonOptions& options);

// JSON that people compare line by line: `json` over several lines, two spaces deeper at each
// level: what holds nothing but plain values and lists of them stands on one, so that a change of
// one thing is one line of a diff.
std::string InLines(const Json& json);

// Places of a peak, short: those of one name and size but for a number go together.
// [{"name": "/layer.{0..11}/Softmax", "op": "softmax", "count": 12, "bytes": …}, …]: `bytes` of all
// together, numbers as a shell expands them.  Without `count` a name means itself.  O(places ×
// log).
Json PlacesJson(const std::vector<Place>& places);

// What follows reads JSON that people may have changed.

// The value of `text`.  Throws Error, without a file, with line and column for what is no JSON;
// marks that a merge left ("<<<<<<< HEAD") are told as such, as are numbers and depths beyond any
// report's.
Json ParseJson(std::string_view text);

// A field of `object`.  Throw Error that names it where it is missing or of another type: bytes and
// counts are integers from 0.
const Json& ReadField(const Json& object, std::string_view name);
const Json& ReadObject(const Json& object, std::string_view name);
const Json& ReadArray(const Json& object, std::string_view name);
std::string ReadText(const Json& object, std::string_view name);
int64_t ReadBytes(const Json& object, std::string_view name);
bool ReadSwitch(const Json& object, std::string_view name);

// "" where there is none.
std::string ReadTextIfKnown(const Json& object, std::string_view name);

// Places as PlacesJson writes them, each on its own, in the order of the rows.  Throws Error that
// begins with what row is wrong.
std::vector<Place> ReadPlaces(const Json& rows);

}  // namespace onnxfit
