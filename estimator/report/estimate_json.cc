#include <algorithm>

#include "estimator/base/calibration.h"
#include "estimator/base/index.h"
#include "estimator/report/estimate.h"
#include "estimator/report/json_parts.h"

namespace onnxfit {
namespace {

Json ModelJson(const ModelSummary& model) {
  Json object = {{"path", model.path},
                 {"opset", model.opset},
                 {"nodes", model.nodes},
                 {"parameters", model.parameters},
                 {"parameter_bytes", model.parameter_bytes},
                 {"buffer_bytes", model.buffer_bytes}};
  PutIfKnown(object, "digest", model.digest);
  return object;
}

void PutLora(Json& object, const LoraSettings& lora) {
  if (lora.rank == 0) return;
  Json& json = object["lora"];
  json["rank"] = lora.rank;
  if (!lora.targets.empty()) json["targets"] = lora.targets;
  if (lora.dropout > 0) json["dropout"] = lora.dropout;
  if (lora.dora) json["dora"] = true;
}

void PutGaLore(Json& object, const TrainingSettings& settings) {
  if (settings.optimizer != Optimizer::kGaLore) return;
  Json& json = object["galore"];
  json["rank"] = settings.galore.rank;
  if (!settings.galore.targets.empty()) json["targets"] = settings.galore.targets;
}

void PutQuantize(Json& object, const QuantizeSettings& quantize) {
  if (quantize.kind == Quantization::kNone) return;
  Json& json = object["quantize"];
  json["kind"] = ToString(quantize.kind);
  if (!quantize.targets.empty()) json["targets"] = quantize.targets;
}

// What is not the default.
void PutLoop(Json& object, const TrainingSettings& settings) {
  const LoopSettings& loop = settings.loop;
  const LoopSettings standard;
  if (loop.library != standard.library) object["loop"] = ToString(loop.library);
  if (loop.zero_grad != standard.zero_grad) object["zero_grad"] = ToString(loop.zero_grad);
  if (loop.hold_outputs) object["hold_outputs"] = true;
  if (loop.drop_batch) object["drop_batch"] = true;
  if (loop.same_batch) object["same_batch"] = true;
  if (loop.prefetch != standard.prefetch) object["prefetch"] = loop.prefetch;
  if (loop.accumulate != standard.accumulate) object["accumulate"] = loop.accumulate;
  if (settings.evaluation.batch > 0) object["eval_batch"] = settings.evaluation.batch;
  if (settings.evaluation.keep > 0) object["eval_keep"] = settings.evaluation.keep;
  if (!settings.freeze.empty()) object["freeze"] = settings.freeze;
  if (!settings.checkpoint.empty()) object["checkpoint"] = settings.checkpoint;
  if (settings.checkpoint_reentrant) object["checkpoint_reentrant"] = true;
  if (settings.compile != Compiling::kNone) object["compile"] = ToString(settings.compile);
  if (settings.cuda_graphs) object["cuda_graphs"] = true;
  PutIfKnown(object, "cublas_conf", settings.cublas.text);
  PutLora(object, settings.lora);
  PutQuantize(object, settings.quantize);
}

// What of the way a file is read is not the default.
void PutReading(Json& object, const TrainingSettings& settings) {
  if (settings.label_smoothing) object["label_smoothing"] = true;
  PutIfKnown(object, "loss_output", settings.loss_output);
  PutIfKnown(object, "labels", settings.labels);
  if (settings.batch_norm != BatchNormUse::kAuto)
    object["batch_norm"] = ToString(settings.batch_norm);
  if (settings.dropout.has_value()) object["dropout"] = *settings.dropout;
  if (settings.channels_last) object["channels_last"] = true;
  if (settings.cudnn_benchmark) object["cudnn_benchmark"] = true;
  if (settings.attention != AttentionUse::kSdpa) object["attention"] = "eager";
  for (const PlacedDropout& placed : settings.placed_dropouts) {
    object["dropout_at"].push_back({{"glob", placed.glob}, {"p", placed.p}});
  }
  if (settings.in_place != InPlaceUse::kAuto) object["in_place"] = ToString(settings.in_place);
  if (!settings.out_of_place.empty()) object["out_of_place"] = settings.out_of_place;
  Json assumed = Json::array();
  if (settings.assumed.conv_bias) assumed.push_back("conv-bias");
  if (settings.assumed.in_place_dropout) assumed.push_back("in-place-dropout");
  if (!settings.assumed.tied_head.value_or(true)) assumed.push_back("tied-head=no");
  if (!assumed.empty()) object["assume"] = assumed;
}

// Where figures come from that were measured.
void PutCalibration(Json& object, const SharedCalibration& calibration) {
  if (calibration == nullptr) return;
  Json& json = object["calibration"];
  PutIfKnown(json, "file", calibration->file);
  PutIfKnown(json, "card", calibration->card);
  json["basis"] = ToString(calibration->basis);
  PutIfKnown(json, "driver", calibration->driver);
  PutIfKnown(json, "cuda", calibration->cuda);
  PutIfKnown(json, "cublas", calibration->cublas);
  PutIfKnown(json, "cudnn", calibration->cudnn);
}

void PutRanks(Json& json, const RankSettings& ranks) {
  if (ranks.tensor_parallel > 1) json["tensor_parallel"] = ranks.tensor_parallel;
  if (ranks.tensor_parallel > 1 && ranks.shares_head) json["tensor_parallel_head"] = true;
  if (ranks.tensor_parallel > 1 && ranks.shares_tokens) json["sequence_parallel"] = true;
  if (ranks.strategy == Strategy::kNone) return;
  json["strategy"] = ToString(ranks.strategy);
  json["world"] = ranks.world;
  if (ranks.strategy == Strategy::kFsdpHybrid) json["shard_world"] = ranks.shard_world;
  if (ranks.gradients_as_views) json["ddp_views"] = true;
  if (ranks.static_graph) json["ddp_static_graph"] = true;
  if (ranks.no_sync) json["no_sync"] = true;
  if (IsOfDeepSpeed(ranks.strategy)) json["reduce_bucket"] = ranks.reduce_bucket;
  if (ranks.strategy == Strategy::kZero3) {
    json["prefetch_bucket"] = ranks.prefetch_bucket;
    json["persistence_threshold"] = ranks.persistence_threshold;
  }
  if (ranks.overlap_comm) json["overlap_comm"] = true;
  if (ranks.zero_offload) json["zero_offload"] = true;
  if (ranks.strategy == Strategy::kPipeline) {
    json["schedule"] = ToString(ranks.pipeline.schedule);
    if (ranks.pipeline.stage.has_value()) json["stage"] = *ranks.pipeline.stage;
    if (!ranks.pipeline.begins.empty()) json["split_at"] = ranks.pipeline.begins;
    if (ranks.pipeline.drops_outputs) json["drop_outputs"] = true;
  }
  if (!IsFullySharded(ranks.strategy)) return;
  if (!ranks.fsdp_modules.empty()) json["fsdp_modules"] = ranks.fsdp_modules;
  if (ranks.fsdp_keep) json["fsdp_keep"] = true;
  if (ranks.fsdp_reshard > 0) json["fsdp_reshard"] = ranks.fsdp_reshard;
  if (ranks.fsdp_offload) json["fsdp_offload"] = true;
  if (ranks.fsdp_policy) json["fsdp_policy"] = "bf16";
}

// `batch` is absent where nobody has said it.
Json SettingsJson(const TrainingSettings& settings, std::optional<int64_t> batch,
                  const std::map<std::string, int64_t>& dims, const std::string& alloc_conf) {
  Json json = Json::object();
  if (batch) json["batch"] = *batch;
  json["dims"] = Json(dims);
  json["precision"] = ToString(settings.precision);
  json["optimizer"] = ToString(settings.optimizer);
  json["mode"] = ToString(settings.mode);
  json["loss"] = ToString(settings.loss);
  json["framework"] = settings.framework.name;
  PutLoop(json, settings);
  PutReading(json, settings);
  PutIfKnown(json, "alloc_conf", alloc_conf);
  if (settings.device.name != DefaultDevice().name) json["gpu"] = settings.device.name;
  PutCalibration(json, settings.device.calibration);
  if (settings.optimizer_impl) json["optimizer_impl"] = ToString(*settings.optimizer_impl);
  if (settings.optimizer_args != 0) {
    json["optimizer_args"] = OptimizerArgsText(settings.optimizer_args);
  }
  PutGaLore(json, settings);
  if (settings.mixup) json["mixup"] = true;
  if (settings.param_groups != ParamGroups::kOfLoop) {
    json["param_groups"] = ToString(settings.param_groups);
  }
  if (settings.clip_grad) json["clip_grad"] = true;
  if (settings.ema) json["ema"] = true;
  if (settings.optimizer_in_backward) json["optimizer_in_backward"] = true;
  PutRanks(json, settings.ranks);
  return json;
}

Json PeakJson(const Estimate& estimate) {
  Json peak = {{"exact_bytes", estimate.peak.exact_bytes},
               {"allocated_bytes", estimate.peak.allocated_bytes},
               {"reserved_bytes", estimate.peak.reserved_bytes},
               {"device_bytes", estimate.device_bytes},
               {"step", estimate.peak_step}};
  PutIfKnown(peak, "phase", estimate.peak_phase);
  PutIfKnown(peak, "node", estimate.peak_node);
  return peak;
}

Json EndJson(const DeviceRange::End& end) {
  return {{"device_bytes", end.device_bytes}, {"flags", end.flags}};
}

Json BreakdownJson(const std::vector<BreakdownRow>& breakdown) {
  Json rows = Json::array();
  for (const BreakdownRow& row : breakdown) {
    Json object = {{"kind", row.kind}, {"bytes", row.bytes}};
    if (row.low) object["low"] = *row.low;
    if (row.high) object["high"] = *row.high;
    object["basis"] = ToString(row.basis);
    rows.push_back(std::move(object));
  }
  return rows;
}

// `after_*` are allocated bytes.  In eval nothing follows the forward pass.
Json StepsJson(const Estimate& estimate) {
  Json rows = Json::array();
  for (const StepFigures& step : estimate.steps) {
    Json row = Json::object();
    if (estimate.settings.mode == Mode::kTrain) {
      row["after_forward"] = step.after_forward.allocated_bytes;
      row["after_backward"] = step.after_backward.allocated_bytes;
      row["after_step"] = step.after_step.allocated_bytes;
    }
    row["peak_exact"] = step.peak.exact_bytes;
    row["peak_allocated"] = step.peak.allocated_bytes;
    row["peak_reserved"] = step.peak.reserved_bytes;
    rows.push_back(std::move(row));
  }
  return rows;
}

Json LargestJson(const std::vector<LargeTensor>& largest, size_t count) {
  Json rows = Json::array();
  for (size_t i = 0; i < std::min(count, largest.size()); ++i) {
    const LargeTensor& tensor = largest[i];
    Json row = {{"name", tensor.name},
                {"shape", Json(tensor.type.dims)},
                {"dtype", Name(tensor.type.dtype)},
                {"bytes", tensor.bytes}};
    PutIfKnown(row, "born", tensor.born);
    PutIfKnown(row, "dies", tensor.dies);
    rows.push_back(std::move(row));
  }
  return rows;
}

Json HeldByJson(const HeldBy& held) {
  Json object = {{"by", ToString(held.by)}};
  PutIfKnown(object, "name", held.name);
  PutIfKnown(object, "op", held.op);
  PutIfKnown(object, "node", held.node);
  PutIfKnown(object, "as", held.as);
  if (held.until) object["until"] = InstantJson(*held.until);
  return object;
}

Json SharesJson(const TensorStory& story) {
  Json object = {{"how", ToString(story.shares)}, {"name", story.storage}};
  PutIfKnown(object, "op", story.op);
  PutIfKnown(object, "node", story.node);
  return object;
}

Json StoryJson(const TensorStory& story) {
  Json object = {
      {"name", story.name},   {"shape", Json(story.type.dims)},   {"dtype", Name(story.type.dtype)},
      {"bytes", story.bytes}, {"block_bytes", story.block_bytes}, {"kind", ToString(story.kind)}};
  if (story.shares != Shares::kNothing) object["storage"] = SharesJson(story);
  object["born"] = InstantJson(story.born);
  if (story.dies) object["dies"] = InstantJson(*story.dies);
  object["held_by"] = Json::array();
  for (const HeldBy& held : story.held_by) object["held_by"].push_back(HeldByJson(held));
  object["at_peak"] = story.at_peak;
  if (!story.at_peak) object["operators_from_peak"] = story.operators_from_peak;
  return object;
}

Json WhyJson(const WhyAnswer& why, size_t count) {
  Json object = {{"name", why.asked}, {"allocated_at_peak", why.allocated_at_peak}};
  PutIfKnown(object, "absent", why.absent);
  object["tensors"] = Json::array();
  for (size_t i = 0; i < std::min(count, why.tensors.size()); ++i) {
    object["tensors"].push_back(StoryJson(why.tensors[i]));
  }
  return object;
}

// A column each, of as many entries as there are points: numbers of a picture, not records.
Json CurveJson(const NamedCurve& named) {
  Json json = {{"step", named.curve.step}, {"peak", named.curve.peak}};
  for (const size_t start : named.curve.PhaseStarts()) {
    json["phases"].push_back(
        {{"phase", ToString(named.curve.points[start].phase)}, {"from", start}});
  }
  json["nodes"] = named.nodes;
  Json& kinds = json["kinds"];
  for (int kind = 0; kind < kKinds; ++kind) {
    const auto bytes = [&](const CurvePoint& point) { return point.bytes[Index(kind)]; };
    if (std::ranges::none_of(named.curve.points, bytes)) continue;
    for (const CurvePoint& point : named.curve.points) {
      kinds[ToString(static_cast<Kind>(kind))].push_back(bytes(point));
    }
  }
  for (const CurvePoint& point : named.curve.points) {
    json["allocated"].push_back(point.allocated_bytes);
    json["reserved"].push_back(point.reserved_bytes);
  }
  return json;
}

Json ModulesJson(const std::vector<ModuleSum>& modules) {
  Json rows = Json::array();
  for (const ModuleSum& sum : modules) {
    rows.push_back({{"path", sum.path},
                    {"parameters", sum.parameters},
                    {"weight_bytes", sum.weight_bytes},
                    {"training_bytes", sum.training_bytes},
                    {"activation_bytes", sum.activation_bytes},
                    {"other_bytes", sum.other_bytes}});
  }
  return rows;
}

// A combination without an answer: what was asked, and why there is none.
Json RefusedJson(const SweepAnswer& answer, const SweepRow& row, const JsonOptions& options) {
  const EstimateRequest& request = row.request;
  return {{"schema", 1},
          {"version", options.version},
          {"model", {{"path", answer.model}}},
          {"settings", SettingsJson(request.settings, request.binding.batch, request.binding.dims,
                                    request.alloc_conf.text)},
          {"error", row.error}};
}

}  // namespace

Json EstimateJson(const Estimate& estimate, const JsonOptions& options) {
  Json report = {{"schema", 1},
                 {"version", options.version},
                 {"model", ModelJson(estimate.model)},
                 {"settings", SettingsJson(estimate.settings, estimate.batch, estimate.dims,
                                           estimate.alloc_conf)},
                 {"peak", PeakJson(estimate)},
                 {"optimizer_state_bytes", estimate.optimizer_state_bytes},
                 {"breakdown", BreakdownJson(estimate.breakdown)},
                 {"steps", StepsJson(estimate)},
                 {"largest", LargestJson(estimate.largest, options.rows)}};
  if (!estimate.places.empty()) report["places"] = PlacesJson(estimate.places);
  report["framework"] = FrameworkJson(estimate.settings);
  report["assumptions"] = Json(estimate.assumptions);
  report["warnings"] = WarningsJson(estimate.warnings);
  if (estimate.range) {
    report["range"] = {{"low", EndJson(estimate.range->low)},
                       {"high", EndJson(estimate.range->high)}};
  }
  if (const auto& trials = estimate.trials) {
    report["cudnn_trials"] = {{"calls", trials->calls.all},
                              {"known", trials->calls.known},
                              {"allocated_bytes", trials->allocated_bytes},
                              {"reserved_bytes", trials->reserved_bytes}};
  }
  for (const JudgedTarget& judged : estimate.targets) {
    report["targets"].push_back(TargetJson(judged));
  }
  for (const WorldOutcome& outcome : estimate.worlds) {
    report["worlds"].push_back({{"world", outcome.world},
                                {"verdict", ToString(outcome.judgement.verdict)},
                                {"used_bytes", outcome.judgement.used_bytes}});
  }
  if (estimate.why) report["why"] = WhyJson(*estimate.why, options.rows);
  if (estimate.curve) report["curve"] = CurveJson(*estimate.curve);
  if (!estimate.modules.empty()) report["modules"] = ModulesJson(estimate.modules);
  return report;
}

std::string ToJson(const Estimate& estimate, const JsonOptions& options) {
  return Dumped(EstimateJson(estimate, options)) + '\n';
}

// Row by row: of thousands, the whole as one value would be many times its text.
std::string ToJson(const SweepAnswer& answer, const JsonOptions& options) {
  std::string text = "[";
  for (const SweepRow& row : answer.rows) {
    text += text.size() == 1 ? "\n" : ",\n";
    text += Dumped(row.estimate ? EstimateJson(*row.estimate, options)
                                : RefusedJson(answer, row, options));
  }
  return text + "\n]\n";
}

}  // namespace onnxfit
