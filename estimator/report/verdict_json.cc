#include "estimator/report/verdict_json.h"

#include <cmath>

#include "estimator/report/advice_json.h"

namespace onnxfit {

Json FailureJson(const Failure& failure) {
  Json object = {{"step", failure.step}, {"phase", ToString(failure.phase)}};
  PutIfKnown(object, "node", failure.node);
  object["asked_bytes"] = failure.asked_bytes;
  object["tried_bytes"] = failure.tried_bytes;
  if (failure.short_bytes > 0) object["short_bytes"] = failure.short_bytes;
  return object;
}

Json SharesJson(const std::vector<Share>& shares) {
  Json rows = Json::array();
  for (const Share& share : shares) {
    rows.push_back({{"what", share.what},
                    {"bytes", share.bytes},
                    {"low", share.low},
                    {"high", share.high},
                    {"basis", ToString(share.basis)}});
  }
  return rows;
}

Json TargetJson(const JudgedTarget& judged) {
  const Judgement& judgement = judged.judgement;
  Json object = {{"gpu", judged.target.name},
                 {"capacity_bytes", judgement.usable_bytes},
                 {"used_bytes", judgement.used_bytes},
                 {"low", judgement.low_bytes},
                 {"high", judgement.high_bytes},
                 {"verdict", ToString(judgement.verdict)},
                 {"share", std::round(judgement.share() * 1e4) / 1e4},
                 {"retries", judgement.retries}};
  if (!judgement.reasons.empty()) object["reasons"] = judgement.reasons;
  if (judgement.guessed) {
    object["reading"] = judgement.reading;
    object["guessed"] = {{"verdict", ToString(judgement.guessed->verdict)},
                         {"used_bytes", judgement.guessed->used_bytes}};
  }
  if (judgement.fails_at) object["fails_at"] = FailureJson(*judgement.fails_at);
  if (judgement.processes) object["processes"] = *judgement.processes;
  if (judgement.copies) object["copies"] = *judgement.copies;
  if (!judged.advice.empty()) object["advice"] = AdviceJson(judged.advice);
  if (!judged.target.shares.empty()) object["shares"] = SharesJson(judged.target.shares);
  return object;
}

}  // namespace onnxfit
