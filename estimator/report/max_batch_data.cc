// The largest batch for programs: comma-separated values and JSON.
#include "estimator/report/json_parts.h"
#include "estimator/report/markup.h"
#include "estimator/report/max_batch.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

Json NextJson(const BatchOutcome& next) {
  Json object = {{"batch", next.batch}, {"verdict", ToString(next.judgement.verdict)}};
  if (!next.judgement.fails_at) return object;
  object["short_bytes"] = next.judgement.fails_at->short_bytes;
  object["fails_at"] = FailureJson(*next.judgement.fails_at);
  return object;
}

// The largest batch that FITS; 0 where none does.
Json FittingJson(const BatchOutcome& fitting) {
  Json object = {{"batch", fitting.batch}};
  if (fitting.batch > 0) object["used_bytes"] = fitting.judgement.used_bytes;
  return object;
}

// Of several rows, what tells them apart.
Json SettingsJson(const MaxBatchRow& row) {
  Json settings = {{"dims", Json(row.dims)},
                   {"precision", ToString(row.settings.precision)},
                   {"optimizer", ToString(row.settings.optimizer)},
                   {"mode", ToString(row.settings.mode)}};
  const RankSettings& ranks = row.settings.ranks;
  if (ranks.tensor_parallel > 1) settings["tensor_parallel"] = ranks.tensor_parallel;
  if (ranks.tensor_parallel > 1 && ranks.shares_head) settings["tensor_parallel_head"] = true;
  if (ranks.tensor_parallel > 1 && ranks.shares_tokens) settings["sequence_parallel"] = true;
  if (ranks.strategy == Strategy::kNone) return settings;
  settings["strategy"] = ToString(ranks.strategy);
  settings["world"] = ranks.world;
  return settings;
}

Json RowJson(const MaxBatchRow& row, const JsonOptions& options) {
  const MaxBatch& answer = row.found;
  Json object = {{"gpu", answer.target.name},
                 {"memory_bytes", answer.target.total_bytes},
                 {"max_batch", answer.batch},
                 {"settings", SettingsJson(row)},
                 {"target", TargetJson({.target = answer.target, .judgement = answer.judgement})}};
  object["fitting"] = FittingJson(FittingOf(answer));
  if (answer.guessed_batch) {
    object["guessed"] = {{"max_batch", *answer.guessed_batch}, {"reading", answer.reading}};
  }
  if (answer.is_limited) object["limited"] = true;
  if (!answer.luckier.empty()) object["luckier"] = answer.luckier;
  if (answer.per_sample_bytes > 0) {
    object["fixed_bytes"] = answer.fixed_bytes;
    object["per_sample_bytes"] = answer.per_sample_bytes;
  }
  if (row.estimate) object["estimate"] = EstimateJson(*row.estimate, options);
  if (!row.remarks.assumptions.empty()) object["assumptions"] = Json(row.remarks.assumptions);
  if (!row.remarks.warnings.empty()) object["warnings"] = WarningsJson(row.remarks.warnings);
  if (!row.advice.empty()) object["advice"] = AdviceJson(row.advice);
  if (!row.recipe.empty()) object["recipe"] = row.recipe;
  if (answer.next) object["next"] = NextJson(*answer.next);
  return object;
}

// What all of the cards have room for.
Json RanksJson(const MaxBatchAnswer& answer) {
  const BatchesOfAll least = LeastOf(answer.rows);
  return {{"max_batch", least.runs}, {"fitting", least.fits}};
}

}  // namespace

std::string ToJson(const MaxBatchAnswer& answer, const JsonOptions& options) {
  Json report = {{"schema", 1}, {"version", options.version}, {"model", {{"path", answer.model}}}};
  if (!answer.rows.empty()) report["framework"] = FrameworkJson(answer.rows[0].settings);
  report["targets"] = Json::array();
  for (const MaxBatchRow& row : answer.rows) report["targets"].push_back(RowJson(row, options));
  if (answer.is_of_ranks) report["all_ranks"] = RanksJson(answer);
  if (!answer.warnings.empty()) report["warnings"] = WarningsJson(answer.warnings);
  return Dumped(report) + '\n';
}

std::string ToCsv(const MaxBatchAnswer& answer) {
  std::string text =
      CsvLine({"model", "run", "precision", "optimizer", "mode", "gpu", "memory_bytes", "max_batch",
               "used_bytes", "verdict", "fitting_batch", "fitting_used_bytes"});
  for (const MaxBatchRow& row : answer.rows) {
    const TrainingSettings& settings = row.settings;
    const BatchOutcome fitting = FittingOf(row.found);
    text += CsvLine(
        {answer.model, RunText(row.settings, row.dims), std::string(ToString(settings.precision)),
         std::string(ToString(settings.optimizer)), std::string(ToString(settings.mode)),
         row.found.target.name, std::to_string(row.found.target.total_bytes),
         std::to_string(row.found.batch), std::to_string(row.found.judgement.used_bytes),
         std::string(ToString(row.found.judgement.verdict)), std::to_string(fitting.batch),
         fitting.batch > 0 ? std::to_string(fitting.judgement.used_bytes) : ""});
  }
  return text;
}

}  // namespace onnxfit
