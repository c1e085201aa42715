#include "estimator/report/gpus_json.h"

#include <nlohmann/json.hpp>

#include "estimator/base/card_contexts.h"
#include "estimator/report/gpus_text.h"

namespace onnxfit {
namespace {

using Json = nlohmann::ordered_json;

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
  const std::string capability = CapabilityText(card);
  if (!capability.empty()) json["compute_capability"] = capability;
  json["multiprocessors"] = card.device.multiprocessors;
  json["context"] = ContextJson(card);
  return json;
}

}  // namespace

std::string ToJson(const std::vector<const Card*>& cards) {
  Json rows = Json::array();
  for (const Card* card : cards) rows.push_back(CardJson(*card));
  return rows.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace onnxfit
