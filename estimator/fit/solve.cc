#include "estimator/fit/solve.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/fit/doubts.h"
#include "estimator/fit/max_batch.h"
#include "estimator/fit/predict.h"
#include "estimator/fit/solved_size.h"

namespace onnxfit {
namespace {

constexpr int64_t kMostLeast = 1 << 12;  // units: no model's least size is larger

EstimateRequest AtSize(EstimateRequest request, const SolvedSize& size, int64_t units) {
  request.details = false;
  request.why.clear();
  request.wants_range = false;
  size.set(request, units);
  return request;
}

bool IsTaken(const Study& study, const EstimateRequest& request, const SolvedSize& size,
             int64_t units) {
  try {
    study.Prepared(AtSize(request, size, units));
    return true;
  } catch (const Error&) {
    return false;
  }
}

// The least that the model takes.  Throws Error of a single unit where it takes none.
int64_t LeastTaken(const Study& study, const EstimateRequest& request, const SolvedSize& size) {
  int64_t taken = 1;
  while (taken <= kMostLeast && !IsTaken(study, request, size, taken)) taken *= 2;
  if (taken > kMostLeast) {
    study.Prepared(AtSize(request, size, 1));  // throws what it threw before
  }
  int64_t refused = taken / 2;
  while (taken - refused > 1) {
    const int64_t middle = refused + (taken - refused) / 2;
    (IsTaken(study, request, size, middle) ? taken : refused) = middle;
  }
  return taken;
}

void CheckLimit(const SolveOptions& options, const SolvedSize& size) {
  const int64_t least = size.least * size.unit;
  if (options.most.value_or(least) >= least) return;
  throw Error({.where = "--max",
               .text = fmt::format("expected at least {}, the least {} that is tried, found {}",
                                   least, size.name, *options.most),
               .hint = fmt::format("--max {}", least)});
}

BatchLimits LimitsOf(const SolveOptions& options, const SolvedSize& size) {
  BatchLimits limits;
  if (options.most) limits.most = *options.most / size.unit;
  limits.is_strict = options.is_strict;
  limits.reads_off = true;
  limits.progress = options.progress;
  return limits;
}

SolvedOutcome InSizes(const BatchOutcome& outcome, const SolvedSize& size) {
  return {outcome.batch * size.unit, outcome.judgement};
}

Solved SolvedRowOf(const MaxBatch& found, const SolvedSize& size) {
  Solved row;
  row.target = found.target;
  row.fits = InSizes(FittingOf(found), size);
  row.runs = InSizes({found.batch, found.judgement}, size);
  row.judged = found.judged_batch * size.unit;
  if (found.next) row.next = InSizes(*found.next, size);
  row.is_limited = found.is_limited;
  row.end = found.end;
  if (found.guessed_batch) row.guessed = *found.guessed_batch * size.unit;
  row.reading = found.reading;
  row.last_bytes = found.last_sample_bytes / size.unit;
  row.half_bytes = found.half_sample_bytes / size.unit;
  return row;
}

// What an estimate says at the answer, by the reading of its verdict.
void ExplainSolved(const Study& study, const EstimateRequest& request, const SolvedSize& size,
                   Solved& row) {
  const int64_t told = row.answer().size > 0 ? row.answer().size : row.judged;
  EstimateRequest own = AtSize(request, size, told / size.unit);
  own.settings.device = row.target.device;
  own.targets.clear();
  row.settings = own.settings;
  const bool is_worse = !row.answer().judgement.reading.empty();
  if (is_worse) own = ReadingsOf(own, DoubtsAt(study, own)).front().request;
  Estimate estimate = MakeEstimate(study, own);
  row.batch = estimate.batch;
  row.allocated_bytes = estimate.peak.allocated_bytes;
  row.reserved_bytes = estimate.peak.reserved_bytes;
  row.device_bytes = estimate.device_bytes;
  row.assumptions = std::move(estimate.assumptions);
  row.warnings = std::move(estimate.warnings);
}

// Where some sizes between two are not taken, a multiple of something may be.
Error WithMultiple(const Error& error, const SolvedSize& size) {
  Error::Parts parts = error.parts();
  if (!parts.hint.empty() && !parts.hint.starts_with("--dim ")) return error;
  parts.hint = fmt::format("--multiple-of {}", size.unit == 1 ? 32 : 2 * size.unit);
  return Error(std::move(parts));
}

std::vector<MaxBatch> FindAllOf(const Study& study, const EstimateRequest& request,
                                const SolveOptions& options, const SolvedSize& size) {
  try {
    return FindLargest(study, request, request.targets, LimitsOf(options, size), size);
  } catch (const Error& error) {
    throw WithMultiple(error, size);
  }
}

void AddSolvedRows(const Study& study, const EstimateRequest& request, const SolveOptions& options,
                   SolveAnswer& answer) {
  SolvedSize size = SizeNamed(options.name, options.multiple_of, study, request);
  size.least = LeastTaken(study, request, size);
  CheckLimit(options, size);
  answer.multiple_of = size.unit;
  for (const MaxBatch& found : FindAllOf(study, request, options, size)) {
    Solved& row = answer.rows.emplace_back(SolvedRowOf(found, size));
    ExplainSolved(study, request, size, row);
    row.dims = WithoutMissing(study.file(), request.binding).dims;
  }
}

}  // namespace

bool Solved::grows_faster() const {
  constexpr int64_t kEven = 16;  // one part in so many is no growth
  return last_bytes - half_bytes > half_bytes / kEven;
}

SolveAnswer SolveSize(const Study& study, std::span<const EstimateRequest> requests,
                      const SolveOptions& options) {
  SolveAnswer answer = {.model = study.file().path,
                        .name = options.name,
                        .alloc_conf = requests[0].alloc_conf.text,
                        .is_strict = options.is_strict};
  for (const EstimateRequest& request : requests) AddSolvedRows(study, request, options, answer);
  return answer;
}

}  // namespace onnxfit
