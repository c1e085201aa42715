#include "estimator/report/oom_json.h"

#include <algorithm>

#include "estimator/fit/oom_formats.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/oom_sentences.h"

namespace onnxfit {
namespace {

Json RangeJson(int64_t bytes, int64_t error) {
  Json range = {{"bytes", bytes}};
  if (error > 0) range["low"] = std::max<int64_t>(0, bytes - error);
  if (error > 0) range["high"] = bytes + error;
  return range;
}

Json SizesJson(const OomMessage& message) {
  Json sizes = Json::object();
  for (size_t i = 0; i < kOomFields; ++i) {
    const auto& size = message.sizes[i];
    if (!size) continue;
    sizes[std::string(ToString(static_cast<OomField>(i)))] = RangeJson(size->bytes, size->error);
  }
  return sizes;
}

Json TypeJson(const TensorType& type) {
  return {{"shape", Json(type.dims)}, {"dtype", Name(type.dtype)}};
}

Json MessageJson(const OomMessage& message) {
  Json json = {{"format", message.format->name}, {"framework", ToString(message.format->family)}};
  PutIfKnown(json, "versions", message.format->versions);
  PutIfKnown(json, "process", message.process);
  json["line"] = message.line;
  if (message.gpu) json["gpu"] = *message.gpu;
  json["text"] = message.text;
  if (message.cut) json["cut"] = true;
  json["sizes"] = SizesJson(message);
  for (const DoubtedNumber& doubted : message.doubted) {
    json["doubted"].push_back({{"size", ToString(doubted.field)}, {"text", doubted.text}});
  }
  PutIfKnown(json, "told", message.told);
  if (message.length) json["length"] = *message.length;
  PutIfKnown(json, "node", message.node);
  if (message.tensor.dtype != DType::kUndefined) json["tensor"] = TypeJson(message.tensor);
  for (const OtherProcess& other : message.others) {
    json["others"].push_back({{"pid", other.pid}, {"bytes", other.bytes.bytes}});
  }
  return json;
}

Json RequestJson(const OomRequest& request) {
  Json json = {{"low_bytes", request.low_bytes}, {"high_bytes", request.high_bytes}};
  json["notes"] = request.notes;
  PutIfKnown(json, "factors", request.factors);
  json["shapes"] = Json::array();
  for (const TensorType& shape : request.shapes) json["shapes"].push_back(TypeJson(shape));
  return json;
}

Json CardJson(const OomExplanation& e) {
  Json parts = Json::array();
  for (const OomPart& part : e.card) {
    Json row = RangeJson(part.bytes, part.error);
    row["what"] = ToString(part.what);
    parts.push_back(std::move(row));
  }
  return {{"bytes", e.card_bytes}, {"parts", parts}};
}

Json ExplanationJson(const OomExplanation& e) {
  Json json = {{"verdict", VerdictName(e.judgement.verdict)}, {"summary", Json(e.summary)}};
  for (const OomVerdict other : e.judgement.may_be) json["may_be"].push_back(VerdictName(other));
  json["notes"] = e.notes;
  json["message"] = MessageJson(e.message);
  json["more_messages"] = e.more;
  const auto lack = e.facts.Short();
  if (lack && lack->bytes > 0) json["short_bytes"] = lack->rounded();
  if (e.card_bytes > 0) json["card"] = CardJson(e);
  if (e.request) json["request"] = RequestJson(*e.request);
  json["remedies"] = Json::array();
  for (const OomRemedy& remedy : e.remedies) {
    json["remedies"].push_back(
        {{"what", remedy.what}, {"helps", ToString(remedy.help)}, {"why", remedy.why}});
  }
  json["commands"] = e.commands;
  return json;
}

Json AskedJson(const Asked& asked) {
  Json json = {{"name", asked.tensor}, {"bytes", asked.bytes}};
  json.update(TypeJson(asked.type));
  json["when"] = InstantJson(asked.when);
  json["times"] = asked.times;
  json["matches_allocated"] = asked.matches;
  return json;
}

Json ReplayJson(const OomReplay& replay) {
  Json json = {{"path", replay.model}, {"batch", replay.batch}};
  json["asked"] = Json::array();
  for (const Asked& asked : replay.candidates) json["asked"].push_back(AskedJson(asked));
  if (replay.card_bytes > 0) json["usable_bytes"] = replay.card_bytes;
  PutIfKnown(json, "card", replay.card_name);
  if (replay.is_another) json["is_another_card"] = true;
  if (!replay.context_of.empty()) {
    json["assumes_context"] = true;
    json["context"] = {{"of", replay.context_of},
                       {"bytes", replay.context.bytes},
                       {"low", replay.context.low},
                       {"high", replay.context.high}};
  }
  if (replay.fails_at) {
    json["fails_at"] = InstantJson(replay.fails_at->when);
    json["fails_at"]["asked_bytes"] = replay.fails_at->bytes;
    json["fails_at"]["tried_bytes"] = replay.fails_at->tried_bytes;
    PutIfKnown(json["fails_at"], "with", replay.reading);
  }
  if (replay.largest) {
    json["max_batch"] = replay.largest->batch;
    if (replay.largest->at_most) json["max_batch_at_most"] = *replay.largest->at_most;
    if (replay.largest->by_file) json["max_batch_by_file"] = *replay.largest->by_file;
  }
  json["warnings"] = WarningsJson(replay.warnings);
  return json;
}

}  // namespace

std::string ToJson(const std::string& log, const std::vector<OomExplanation>& processes,
                   const std::optional<OomReplay>& replay, const JsonOptions& options) {
  Json report = {{"schema", 1}, {"version", options.version}, {"log", log}};
  report["processes"] = Json::array();
  for (const OomExplanation& e : processes) report["processes"].push_back(ExplanationJson(e));
  if (replay) report["model"] = ReplayJson(*replay);
  return Dumped(report) + '\n';
}

}  // namespace onnxfit
