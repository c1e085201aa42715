#include "estimator/report/json_parts.h"
#include "estimator/report/verify.h"

namespace onnxfit {
namespace {

Json ProcessJson(const GpuProcess& process) {
  Json json = {{"pid", process.pid}};
  PutIfKnown(json, "name", process.name);
  if (process.bytes) json["bytes"] = *process.bytes;
  return json;
}

Json GpuJson(const DetectedGpu& gpu) {
  Json json = {{"index", gpu.index},
               {"name", gpu.name},
               {"compute_capability", gpu.compute_capability},
               {"multiprocessors", gpu.multiprocessors},
               {"total_bytes", gpu.total_bytes},
               {"free_bytes", gpu.free_bytes}};
  PutIfKnown(json, "driver", gpu.driver);
  json["cuda_driver"] = gpu.cuda_driver;
  json["cuda_runtime"] = gpu.cuda_runtime;
  for (const GpuProcess& process : gpu.others) json["others"].push_back(ProcessJson(process));
  return json;
}

Json RowJson(const ProofRow& row) {
  return {{"what", row.what},
          {"predicted_bytes", row.predicted_bytes},
          {"measured_bytes", row.measured_bytes},
          {"holds", row.holds}};
}

Json PhaseJson(const PhaseFigures& predicted, const PhaseFigures& measured) {
  return {{"step", measured.step},
          {"phase", ToString(measured.phase)},
          {"predicted_reserved_bytes", predicted.stats.reserved_bytes},
          {"reserved_bytes", measured.stats.reserved_bytes},
          {"allocated_bytes", measured.stats.allocated_bytes},
          {"device_bytes", measured.device_bytes},
          {"peak_device_bytes", measured.peak_device_bytes}};
}

Json PhasesJson(const Verification& verification) {
  Json json = Json::array();
  const size_t phases =
      std::min(verification.predicted.phases.size(), verification.measured.phases.size());
  for (size_t i = 0; i < phases; ++i) {
    json.push_back(PhaseJson(verification.predicted.phases[i], verification.measured.phases[i]));
  }
  return json;
}

Json ProofFailureJson(const ProofFailure& fails_at) {
  Json json = FailureJson(fails_at.failure);
  json["free_bytes"] = fails_at.free_bytes;
  json["predicted"] = fails_at.was_predicted;
  return json;
}

Json ContextJson(const Verification& verification) {
  const ContextBytes& table = verification.estimate.settings.device.context;
  Json json = {{"table_bytes", table.bytes}, {"basis", ToString(table.basis)}};
  if (verification.context_bytes) json["own_bytes"] = *verification.context_bytes;
  return json;
}

}  // namespace

std::string ToJson(const Verification& verification, const JsonOptions& options) {
  const GpuReplay& measured = verification.measured;
  Json report = {{"schema", 1},
                 {"version", options.version},
                 {"proof", ToString(verification.proof)},
                 {"gpu", GpuJson(verification.gpu)},
                 {"steps", verification.limits.steps},
                 {"tolerance", verification.limits.tolerance}};
  report["terms"] = Json::array();
  for (const ProofRow& row : verification.rows) report["terms"].push_back(RowJson(row));
  if (verification.fails_at) report["fails_at"] = ProofFailureJson(*verification.fails_at);
  report["exact_phases"] = verification.exact_phases();
  report["phases"] = PhasesJson(verification);
  report["blocks"] = measured.blocks;
  report["written_bytes"] = measured.written_bytes;
  report["wrong_bytes"] = measured.wrong_bytes;
  report["retries"] = measured.retries;
  report["seconds"] = measured.seconds;
  report["context"] = ContextJson(verification);
  report["estimate"] = EstimateJson(verification.estimate, options);
  return Dumped(report) + '\n';
}

std::string ToJson(const VerifiedMaxBatch& answer, const JsonOptions& options) {
  Json report = {{"schema", 1},
                 {"version", options.version},
                 {"model", {{"path", answer.model}}},
                 {"gpu", GpuJson(answer.gpu)},
                 {"steps", answer.steps},
                 {"free_bytes", answer.free_bytes},
                 {"max_batch", answer.batch},
                 {"predicted_max_batch", answer.predicted.batch},
                 {"wrong_bytes", answer.wrong_bytes}};
  if (answer.was_stopped) report["stopped"] = true;
  report["replayed"] = Json::array();
  for (const ReplayedBatch& replayed : answer.replayed) {
    Json json = {{"batch", replayed.batch}};
    if (replayed.failure) json["fails_at"] = FailureJson(replayed.failure->failure);
    report["replayed"].push_back(std::move(json));
  }
  return Dumped(report) + '\n';
}

}  // namespace onnxfit
