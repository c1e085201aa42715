#include "estimator/fit/max_batch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "estimator/base/parallel.h"
#include "estimator/base/warnings.h"
#include "estimator/fit/advice.h"
#include "estimator/fit/batch_loops.h"
#include "estimator/fit/batch_search.h"
#include "estimator/fit/card_kinds.h"

namespace onnxfit {
namespace {

// The first failing batch above the answer, and those beyond that run all the same.
void FindNeighbours(BatchSearch& search, BatchLoops& loops, MaxBatch& answer) {
  const int64_t failing = search.FirstFailureAbove(answer.batch);
  answer.next = {failing, Judge(loops.At(failing), answer.target)};
  answer.luckier = search.RunningAbove(failing);
}

void FindLine(BatchLoops& loops, MaxBatch& answer) {
  const int64_t high = std::max<int64_t>(answer.batch, 2);
  const int64_t low = high / 2;
  const int64_t high_bytes = PeakBytes(loops.Unmeasured(high));
  const int64_t low_bytes = PeakBytes(loops.Unmeasured(low));
  answer.per_sample_bytes = (high_bytes - low_bytes) / (high - low);
  answer.fixed_bytes = high_bytes - answer.per_sample_bytes * high;
}

constexpr double kNearlyFull = 0.9;  // of a card

std::string WhyNotTake(const MaxBatch& found) {
  if (found.is_limited || found.judgement.share() < kNearlyFull) return "";
  return WhyNotLargest(found.target);
}

MaxBatch FindMaxBatch(BatchLoops& loops, const Target& target, const BatchLimits& limits) {
  MaxBatch answer;
  answer.target = target;
  BatchSearch search(loops, target, limits.is_strict);
  answer.batch = search.Largest(limits);
  const int64_t larger = answer.batch + limits.multiple_of;
  answer.is_limited = limits.most && answer.batch > 0 && larger > *limits.most &&
                      !search.FirstFailureAround(larger);
  answer.judged_batch = answer.batch > 0 ? answer.batch : *search.FirstFailureAround(larger);
  answer.judgement = Judge(loops.At(answer.judged_batch), target);
  if (limits.is_brief) return answer;
  if (!answer.is_limited) FindNeighbours(search, loops, answer);
  FindLine(loops, answer);
  return answer;
}

// One sentence for all cards of which the same is to be said.
void WarnOf(const char* code, std::string_view what, const std::vector<std::string>& names,
            Warnings& warnings) {
  if (names.empty()) return;
  warnings.push_back({code, fmt::format("{}: {}", what, fmt::join(names, ", "))});
}

Warnings CardWarnings(const std::vector<MaxBatchRow>& rows, const FrameworkProfile& framework) {
  std::vector<std::string> unsupported;
  std::vector<std::string> unseen;
  std::vector<std::string> shared;
  for (const MaxBatchRow& row : rows) {
    const Target& target = row.found.target;
    if (!WhyUnsupported(framework, target.device).empty()) unsupported.push_back(target.name);
    for (const Warning& warning : target.warnings) {
      if (warning.code == warning::kUnseenTotal) unseen.push_back(target.name);
      if (warning.code == warning::kSharedMemory) shared.push_back(target.name);
    }
  }
  Warnings warnings;
  WarnOf(warning::kUnsupportedCard, fmt::format("{} has no kernels for", framework.name),
         unsupported, warnings);
  WarnOf(warning::kUnseenTotal, "their size under Linux was not seen", unseen, warnings);
  WarnOf(warning::kSharedMemory, "they share their memory with the CPU", shared, warnings);
  return warnings;
}

}  // namespace

std::vector<MaxBatch> FindMaxBatches(const Graph& file, const EstimateRequest& request,
                                     std::span<const Target> targets, const BatchLimits& limits) {
  std::vector<MaxBatch> answers(targets.size());
  std::vector<std::unique_ptr<BatchLoops>> loops;
  std::vector<BatchLoops*> loops_of(targets.size());
  BatchPrograms programs(file, request);
  for (const std::vector<size_t>& group : GroupTargets(programs, request.settings, targets)) {
    EstimateRequest own = request;
    own.settings.device = targets[group[0]].device;
    loops.push_back(std::make_unique<BatchLoops>(programs, own));
    for (const size_t i : group) loops_of[i] = loops.back().get();
  }
  ForEachIndex(targets.size(),
               [&](size_t i) { answers[i] = FindMaxBatch(*loops_of[i], targets[i], limits); });
  return answers;
}

MaxBatchAnswer AnswerMaxBatch(const Graph& file, std::span<const EstimateRequest> requests,
                              const BatchLimits& limits) {
  MaxBatchAnswer answer;
  answer.model = file.path;
  answer.alloc_conf = requests[0].alloc_conf.text;
  BatchLimits own = limits;
  own.is_brief = limits.is_brief || requests.size() > 1 || requests[0].targets.size() > 1;
  for (const EstimateRequest& request : requests) {
    for (MaxBatch& found : FindMaxBatches(file, request, request.targets, own)) {
      answer.rows.push_back({request.settings, request.binding.dims, std::move(found)});
    }
  }
  if (answer.rows.size() > 1) {
    answer.warnings = CardWarnings(answer.rows, requests[0].settings.framework);
    return answer;
  }
  const int64_t batch = std::max<int64_t>(answer.rows[0].found.batch, 1);
  EstimateRequest at_batch = BatchPrograms(file, requests[0]).RequestAt(batch);
  at_batch.details = requests[0].details;
  at_batch.why = requests[0].why;
  answer.rows[0].estimate = MakeEstimate(file, at_batch);
  answer.rows[0].why_not_largest = WhyNotTake(answer.rows[0].found);
  if (limits.wants_advice) {
    answer.rows[0].advice = AdviseMaxBatch(file, requests[0], answer.rows[0].found, limits);
  }
  return answer;
}

}  // namespace onnxfit
