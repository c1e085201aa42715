#include "estimator/report/gpus_json.h"

#include "estimator/base/card_contexts.h"
#include "estimator/report/gpus_text.h"
#include "estimator/report/json_parts.h"

namespace onnxfit {
namespace {

Json ContextJson(const Card& card) {
  const ContextBytes& context = card.device.context;
  Json json = {{"bytes", context.bytes},
               {"low", context.low},
               {"high", context.high},
               {"basis", ToString(context.basis)}};
  if (const SeenContext* seen = FindSeenContext(card.alias)) json["evidence"] = seen->evidence;
  return json;
}

Json CardJson(const Card& card) {
  Json json = {{"alias", card.alias},
               {"name", card.device.name},
               {"family", card.family},
               {"memory_type", card.memory_type},
               {"sold_bytes", card.sold_bytes},
               {"total_bytes", card.total_bytes},
               {"total_source", ToString(card.total_source)},
               {"shares_memory", card.shares_memory}};
  PutIfKnown(json, "compute_capability", CapabilityText(card.device.compute_capability));
  json["multiprocessors"] = card.device.multiprocessors;
  json["context"] = ContextJson(card);
  return json;
}

}  // namespace

std::string ToJson(const std::vector<const Card*>& cards) {
  Json rows = Json::array();
  for (const Card* card : cards) rows.push_back(CardJson(*card));
  return Dumped(rows) + '\n';
}

}  // namespace onnxfit
