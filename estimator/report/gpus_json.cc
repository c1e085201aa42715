#include "estimator/report/gpus_json.h"

#include "estimator/base/card_contexts.h"
#include "estimator/base/cloud_instances.h"
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

// The machines of clouds that have it.
Json MachinesJson(const Card& card) {
  Json machines = Json::array();
  for (const CloudInstances& row : AllCloudInstances()) {
    if (row.alias != card.alias) continue;
    for (const std::string_view name : NamesOf(row)) {
      machines.push_back({{"cloud", row.cloud}, {"name", name}, {"cards", row.cards}});
    }
  }
  return machines;
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
  if (Json machines = MachinesJson(card); !machines.empty()) json["machines"] = machines;
  return json;
}

}  // namespace

std::string ToJson(const std::vector<const Card*>& cards) {
  Json rows = Json::array();
  for (const Card* card : cards) rows.push_back(CardJson(*card));
  return Dumped(rows) + '\n';
}

}  // namespace onnxfit
