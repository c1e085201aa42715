#include "estimator/fit/batch_programs.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/fit/predict.h"
#include "estimator/graph/shapes.h"
#include "estimator/program/between_batches.h"

namespace onnxfit {
namespace {

constexpr int kMostRecoveryFailures = 4;  // then every batch is recovered

constexpr int64_t kFarBatch = 512;
constexpr int64_t kFarTimes = 4;

}  // namespace

void SetBatch(const Graph& file, int64_t from, int64_t to, EstimateRequest& request) {
  request.binding.batch = to;
  if (request.binding.inputs.empty()) return;
  const auto axis = static_cast<size_t>(BatchAxis(file));
  for (auto& [name, dims] : request.binding.inputs) {
    if (dims.size() <= axis || dims[axis] != from) continue;
    const bool is_first = !file.inputs.empty() && file.values[Index(file.inputs[0])].name == name;
    if (from != 1 || is_first) dims[axis] = to;
  }
}

BatchPrograms::BatchPrograms(const Graph& file, const EstimateRequest& request)
    : file_(file), request_(request) {
  request_.details = false;
  request_.why.clear();
  const DimBinding& binding = request_.binding;
  asked_batch_ = binding.batch.value_or(1);
  if (!binding.batch && !binding.inputs.empty()) {  // the only ones who care
    asked_batch_ = PrepareRun(file_, request_).shapes.batch;
  }
}

EstimateRequest BatchPrograms::RequestAt(int64_t batch) const {
  EstimateRequest request = request_;
  SetBatch(file_, asked_batch_, batch, request);
  return request;
}

Program BatchPrograms::At(int64_t batch) {
  const std::lock_guard lock(mutex_);
  if (recovered_.contains(batch)) return recovered_.at(batch);
  const Span* span = FindSpan(batch);
  if (span == nullptr) RecoverBeyond(batch);
  if (span == nullptr) span = TrySpan(batch);
  if (span == nullptr) return Recovered(batch);
  return *BetweenBatches({&recovered_.at(span->first), span->first},
                         {&recovered_.at(span->last), span->last}, batch);
}

// One far above a first few, so that those that are asked for next lie between.
void BatchPrograms::RecoverBeyond(int64_t batch) {
  const bool is_first = recovered_.empty();
  if (is_first || recovered_.rbegin()->first >= batch || failures_ >= kMostRecoveryFailures) return;
  try {
    Recovered(std::max(kFarBatch, kFarTimes * batch));
  } catch (const Error&) {  // nobody asked for it
    failures_ = kMostRecoveryFailures;
  }
}

const Program& BatchPrograms::Recovered(int64_t batch) {
  const auto [at, added] = recovered_.try_emplace(batch);
  if (added) {
    try {
      at->second = PrepareRun(file_, RequestAt(batch)).program;
    } catch (...) {
      recovered_.erase(at);
      throw;
    }
  }
  return at->second;
}

const BatchPrograms::Span* BatchPrograms::FindSpan(int64_t batch) const {
  for (const Span& span : spans_) {
    if (span.first <= batch && batch <= span.last) return &span;
  }
  return nullptr;
}

// Between the nearest recovered ones around `batch`, which is recovered to confirm it.
const BatchPrograms::Span* BatchPrograms::TrySpan(int64_t batch) {
  const auto above = recovered_.upper_bound(batch);
  if (above == recovered_.end() || above == recovered_.begin() ||
      failures_ >= kMostRecoveryFailures) {
    return nullptr;
  }
  const auto below = std::prev(above);
  const Span span = {below->first, above->first};
  const std::optional<Program> read =
      BetweenBatches({&below->second, span.first}, {&above->second, span.last}, batch);
  if (!read || !SameProgram(*read, Recovered(batch))) {
    ++failures_;
    return nullptr;
  }
  spans_.push_back(span);
  return &spans_.back();
}

}  // namespace onnxfit
