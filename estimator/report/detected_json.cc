#include "estimator/report/detected_json.h"

#include "estimator/report/detected_text.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/verdict_json.h"

namespace onnxfit {
namespace {

void PutBytes(Json& object, const char* key, const std::optional<int64_t>& bytes) {
  if (bytes) object[key] = *bytes;
}

void PutTarget(Json& json, const Target& target) {
  const ContextBytes& context = target.device.context;
  json["usable_bytes"] = target.usable_bytes();
  json["context"] = {{"bytes", context.bytes},
                     {"low", context.low},
                     {"high", context.high},
                     {"basis", ToString(context.basis)}};
  if (!target.shares.empty()) json["shares"] = SharesJson(target.shares);
}

Json OthersJson(const std::vector<GpuProcess>& others) {
  Json rows = Json::array();
  for (const GpuProcess& process : others) {
    Json& row = rows.emplace_back(Json{{"pid", process.pid}});
    PutIfKnown(row, "name", process.name);
    PutBytes(row, "bytes", process.bytes);
  }
  return rows;
}

Json CardJson(const CardAtHand& card) {
  const DetectedGpu& gpu = card.gpu;
  Json json = {{"index", gpu.index}, {"name", gpu.name}};
  if (card.row != nullptr) json["alias"] = card.row->alias;
  PutIfKnown(json, "why_unusable", gpu.why_unusable);
  PutIfKnown(json, "compute_capability", CapabilityText(gpu.compute_capability));
  json["multiprocessors"] = gpu.multiprocessors;
  json["threads_per_multiprocessor"] = gpu.threads_per_multiprocessor;
  json["shares_memory"] = gpu.shares_memory;
  json["total_bytes"] = gpu.total_bytes;
  if (card.target) json["free_bytes"] = gpu.free_bytes;
  PutBytes(json, "smi_bytes", gpu.smi_bytes);
  PutBytes(json, "process_bytes", gpu.process_bytes);
  if (card.target) PutTarget(json, *card.target);
  if (!gpu.others.empty()) json["others"] = OthersJson(gpu.others);
  PutIfKnown(json, "driver", gpu.driver);
  json["cuda_driver"] = CudaVersionText(gpu.cuda_driver);
  json["cuda_runtime"] = CudaVersionText(gpu.cuda_runtime);
  json["table_row"] = TableRow(card);
  return json;
}

}  // namespace

std::string ToJson(const std::vector<CardAtHand>& cards) {
  Json rows = Json::array();
  for (const CardAtHand& card : cards) rows.push_back(CardJson(card));
  return Dumped(rows) + '\n';
}

}  // namespace onnxfit
