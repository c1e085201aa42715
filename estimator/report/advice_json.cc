#include "estimator/report/advice_json.h"

namespace onnxfit {

Json AdviceJson(const std::vector<Advice>& advice) {
  Json rows = Json::array();
  for (const Advice& a : advice) {
    Json row = {{"change", a.change}};
    PutIfKnown(row, "flags", a.flags);
    row["effect"] = ToString(a.effect);
    if (a.max_batch) row["max_batch"] = *a.max_batch;
    if (a.accumulate > 1) row["accumulate"] = a.accumulate;
    if (a.judgement) row["verdict"] = ToString(a.judgement->verdict);
    if (a.judgement) row["used_bytes"] = a.judgement->used_bytes;
    if (a.saved_bytes > 0) row["saved_bytes"] = a.saved_bytes;
    PutIfKnown(row, "cost", a.cost);
    row["cost_class"] = ToString(a.cost_class);
    PutIfKnown(row, "why", a.why);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace onnxfit
