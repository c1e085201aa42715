#include "estimator/report/estimate_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "estimator/report/csv.h"
#include "estimator/report/layout.h"

namespace onnxfit {
namespace {

using Fields = std::vector<std::string>;

// One run: what was asked, and the answer or the reason that there is none.
struct Run {
  std::string model;
  std::optional<int64_t> batch = {};
  std::map<std::string, int64_t> dims = {};
  const TrainingSettings* settings = nullptr;
  const Estimate* estimate = nullptr;  // null where there is none
  std::string error = {};
};

Run RunOf(const Estimate& estimate) {
  return {.model = estimate.model.path,
          .batch = estimate.batch,
          .dims = estimate.dims,
          .settings = &estimate.settings,
          .estimate = &estimate};
}

Run RunOf(const SweepAnswer& answer, const SweepRow& row) {
  if (row.estimate) return RunOf(*row.estimate);
  const EstimateRequest& request = row.request;
  return {.model = answer.model,
          .batch = request.binding.batch,
          .dims = request.binding.dims,
          .settings = &request.settings,
          .error = row.error};
}

// `like` has the dimensions, kinds and targets of all runs.
Fields Header(const Estimate& like) {
  Fields fields = {"model", "batch"};
  for (const auto& [name, size] : like.dims) fields.push_back("dim_" + name);
  for (const char* name : {"precision", "optimizer", "mode", "exact_bytes", "allocated_bytes",
                           "reserved_bytes", "device_bytes"}) {
    fields.emplace_back(name);
  }
  for (const BreakdownRow& row : like.breakdown) fields.push_back(row.kind + "_bytes");
  for (const JudgedTarget& judged : like.targets) {
    fields.push_back(judged.target.name + "_verdict");
    fields.push_back(judged.target.name + "_used_bytes");
  }
  fields.emplace_back("error");
  return fields;
}

// The figures of `estimate`, or as many empty fields.
void AddFigures(const Estimate& like, const Estimate* estimate, Fields& fields) {
  const size_t count = 4 + like.breakdown.size() + 2 * like.targets.size();
  if (estimate == nullptr) {
    fields.resize(fields.size() + count);
    return;
  }
  const Peak& peak = estimate->peak;
  for (const int64_t bytes :
       {peak.exact_bytes, peak.allocated_bytes, peak.reserved_bytes, estimate->device_bytes}) {
    fields.push_back(std::to_string(bytes));
  }
  for (const BreakdownRow& row : estimate->breakdown) fields.push_back(std::to_string(row.bytes));
  for (const JudgedTarget& judged : estimate->targets) {
    fields.emplace_back(ToString(judged.judgement.verdict));
    fields.push_back(std::to_string(judged.judgement.used_bytes));
  }
}

Fields Record(const Estimate& like, const Run& run) {
  Fields fields = {run.model, run.batch ? std::to_string(*run.batch) : ""};
  for (const auto& [name, size] : run.dims) fields.push_back(std::to_string(size));
  fields.emplace_back(ToString(run.settings->precision));
  fields.emplace_back(ToString(run.settings->optimizer));
  fields.emplace_back(ToString(run.settings->mode));
  AddFigures(like, run.estimate, fields);
  fields.push_back(run.error);
  return fields;
}

std::string Line(Fields fields, const CsvOptions& options) {
  for (std::string& field : fields) field = Clean(field, options.ascii);
  return CsvLine(fields);
}

// Step, phase and node.
void AddInstant(const std::optional<Instant>& instant, Fields& fields) {
  fields.push_back(instant ? std::to_string(instant->step) : "");
  fields.emplace_back(instant ? ToString(instant->phase) : "");
  fields.push_back(instant ? instant->node : "");
}

std::string WhyCsv(const WhyAnswer& why, const CsvOptions& options) {
  std::string text =
      CsvLine({"name", "dtype", "shape", "bytes", "block_bytes", "kind", "storage", "born_step",
               "born_phase", "born_node", "dies_step", "dies_phase", "dies_node", "at_peak"});
  for (size_t i = 0; i < std::min(options.rows, why.tensors.size()); ++i) {
    const TensorStory& story = why.tensors[i];
    Fields fields = {story.name,
                     std::string(Name(story.type.dtype)),
                     fmt::format("{}", fmt::join(story.type.dims, "x")),
                     std::to_string(story.bytes),
                     std::to_string(story.block_bytes),
                     std::string(ToString(story.kind)),
                     story.storage};
    AddInstant(story.born, fields);
    AddInstant(story.dies, fields);
    fields.emplace_back(story.at_peak ? "yes" : "no");
    text += Line(fields, options);
  }
  return text;
}

}  // namespace

std::string ToCsv(const Estimate& estimate, const CsvOptions& options) {
  if (estimate.why) return WhyCsv(*estimate.why, options);
  return Line(Header(estimate), options) + Line(Record(estimate, RunOf(estimate)), options);
}

std::string ToCsv(const SweepAnswer& answer, const CsvOptions& options) {
  const auto answered = std::find_if(answer.rows.begin(), answer.rows.end(),
                                     [](const SweepRow& row) { return row.estimate.has_value(); });
  const Estimate& like = *answered->estimate;
  std::string text = Line(Header(like), options);
  for (const SweepRow& row : answer.rows) text += Line(Record(like, RunOf(answer, row)), options);
  return text;
}

}  // namespace onnxfit
