#include "estimator/fit/sweep.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "estimator/base/error.h"
#include "estimator/base/parallel.h"

namespace onnxfit {
namespace {

// Each of `requests` once for each of `values`, which change fastest.
template <typename Value, typename Set>
std::vector<EstimateRequest> Vary(const std::vector<EstimateRequest>& requests,
                                  const std::vector<Value>& values, Set set) {
  if (values.empty()) return requests;
  std::vector<EstimateRequest> varied;
  varied.reserve(requests.size() * values.size());
  for (const EstimateRequest& request : requests) {
    for (const Value& value : values) set(varied.emplace_back(request), value);
  }
  return varied;
}

SweepRow AnswerRow(const Study& study, const EstimateRequest& request, size_t largest) {
  SweepRow row = {.request = request};
  try {
    row.estimate = MakeEstimate(study, request);
    if (row.estimate->largest.size() > largest) row.estimate->largest.resize(largest);
    row.estimate->largest.shrink_to_fit();
    row.estimate->places = {};
  } catch (const Error& error) {
    row.error = error.what();
  }
  return row;
}

}  // namespace

std::optional<int64_t> CountCombinations(const Sweep& sweep) {
  std::vector<size_t> sizes = {sweep.batches.size(), sweep.precisions.size(),
                               sweep.optimizers.size()};
  for (const SweptDim& dim : sweep.dims) sizes.push_back(dim.sizes.size());
  int64_t count = 1;
  for (const size_t size : sizes) {
    const auto values = std::max<int64_t>(1, static_cast<int64_t>(size));
    if (count > std::numeric_limits<int64_t>::max() / values) return std::nullopt;
    count *= values;
  }
  return count;
}

std::vector<EstimateRequest> Combinations(const EstimateRequest& request, const Sweep& sweep) {
  std::vector<EstimateRequest> all = {request};
  all[0].details = false;
  all[0].why.clear();
  all =
      Vary(all, sweep.batches, [](EstimateRequest& r, int64_t batch) { r.binding.batch = batch; });
  for (const SweptDim& dim : sweep.dims) {
    all = Vary(all, dim.sizes,
               [&dim](EstimateRequest& r, int64_t size) { r.binding.dims[dim.name] = size; });
  }
  all = Vary(all, sweep.precisions,
             [](EstimateRequest& r, Precision p) { TakePrecision(r.settings, p); });
  return Vary(all, sweep.optimizers,
              [](EstimateRequest& r, Optimizer o) { r.settings.optimizer = o; });
}

SweepAnswer RunSweep(const Study& study, const EstimateRequest& request, const Sweep& sweep,
                     size_t largest, const std::function<void(size_t)>& answered) {
  const std::vector<EstimateRequest> requests = Combinations(request, sweep);
  SweepAnswer answer = {.model = study.file().path, .sweep = sweep, .rows = {}};
  answer.rows.resize(requests.size());
  std::atomic<size_t> count = 0;
  ForEachIndex(requests.size(), [&](size_t i) {
    answer.rows[i] = AnswerRow(study, requests[i], largest);
    const size_t done = ++count;
    if (answered) answered(done);
  });
  const bool has_answer = std::any_of(answer.rows.begin(), answer.rows.end(),
                                      [](const SweepRow& row) { return row.estimate.has_value(); });
  if (!has_answer) MakeEstimate(study, requests[0]);  // throws what it threw before
  return answer;
}

SweepSummary Summarize(const SweepAnswer& answer) {
  SweepSummary summary;
  for (const SweepRow& row : answer.rows) {
    if (!row.estimate) continue;
    const int64_t bytes = row.estimate->device_bytes;
    const bool is_first = summary.answered++ == 0;
    summary.low_bytes = is_first ? bytes : std::min(summary.low_bytes, bytes);
    summary.high_bytes = std::max(summary.high_bytes, bytes);
    for (const JudgedTarget& judged : row.estimate->targets) {
      ++summary.verdicts[static_cast<size_t>(judged.judgement.verdict)];
    }
  }
  return summary;
}

}  // namespace onnxfit
