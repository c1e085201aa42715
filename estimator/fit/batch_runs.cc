#include "estimator/fit/batch_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/base/quote.h"
#include "estimator/fit/predict.h"
#include "estimator/onnx/shapes.h"
#include "estimator/operators/dispatch.h"
#include "estimator/program/between_batches.h"
#include "estimator/workspaces/cudnn_workspaces.h"

namespace onnxfit {
namespace {

constexpr int kMostRecoveryFailures = 4;  // then every batch is recovered

constexpr int64_t kFarBatch = 512;
constexpr int64_t kFarTimes = 4;

EstimateRequest WithoutDetails(EstimateRequest request) {
  request.details = false;
  request.why.clear();
  return request;
}

}  // namespace

EstimateRequest RequestAt(const Study& study, const EstimateRequest& request, int64_t batch) {
  EstimateRequest own = WithoutDetails(request);
  BatchOf(study, own).set(own, batch);
  return own;
}

BatchPrograms::BatchPrograms(const Study& study, const EstimateRequest& request)
    : study_(study), request_(WithoutDetails(request)), size_(BatchOf(study, request_)) {}

BatchPrograms::BatchPrograms(const Study& study, const EstimateRequest& request, SolvedSize size)
    : study_(study), request_(WithoutDetails(request)), size_(std::move(size)) {}

Program BatchPrograms::At(int64_t batch) {
  const std::lock_guard lock(mutex_);
  if (recovered_.contains(batch)) return recovered_.at(batch);
  if (FindSpan(batch) == nullptr) RecoverEnds(batch);
  if (FindSpan(batch) == nullptr) TrySpan(batch);
  const Span* span = FindSpan(batch);
  if (span == nullptr) return Recovered(batch);
  return *BetweenBatches({&recovered_.at(span->first), span->first},
                         {&recovered_.at(span->last), span->last}, batch);
}

// One far above a first few, so that those that are asked for next lie between; and the least, so
// that the first one that was asked for confirms what is read off.
void BatchPrograms::RecoverEnds(int64_t batch) {
  if (recovered_.empty() || failures_ >= kMostRecoveryFailures) return;
  const bool is_second = recovered_.size() == 1;
  const int64_t last = recovered_.rbegin()->first;
  if (!is_second && last >= batch) return;
  const int64_t far = std::min(size_.most, std::max(kFarBatch, kFarTimes * std::max(last, batch)));
  if (far <= std::max(last, batch)) return;
  try {
    Recovered(far);
    if (!is_second || last == size_.least) return;
    Recovered(size_.least);
    Confirm({size_.least, far}, last);
  } catch (const Error&) {  // nobody asked for it
    failures_ = kMostRecoveryFailures;
  }
}

const Program& BatchPrograms::Recovered(int64_t batch) {
  const auto [at, added] = recovered_.try_emplace(batch);
  if (added) {
    try {
      EstimateRequest request = request_;
      size_.set(request, batch);
      const std::shared_ptr<const PreparedRun> run = study_.Prepared(request);
      at->second = run->program;
      missing_[batch] = MissingIn(*run, batch);
    } catch (...) {
      recovered_.erase(at);
      throw;
    }
  }
  return at->second;
}

// A size that data decide may grow with the batch, and is what it was given as.
MissingBytes BatchPrograms::MissingIn(const PreparedRun& run, int64_t batch) const {
  MissingBytes missing = MissingBytesOf(
      {&run.warnings, &run.file->shapes.warnings, &run.roles.warnings, &run.program.warnings});
  if (size_.asked == batch) return missing;
  for (const auto& [name, size] : run.file->sizes_of_data) {
    missing.unbounded.push_back(fmt::format("data decide {}, which stays {} whatever {} is",
                                            Quote(name), size, size_.name));
  }
  return missing;
}

MissingBytes BatchPrograms::MissingAt(int64_t batch) {
  const std::lock_guard lock(mutex_);
  const auto above = missing_.lower_bound(batch);
  if (above != missing_.end()) return above->second;
  return missing_.empty() ? MissingBytes() : missing_.rbegin()->second;
}

const BatchPrograms::Span* BatchPrograms::FindSpan(int64_t batch) const {
  for (const Span& span : spans_) {
    if (span.first <= batch && batch <= span.last) return &span;
  }
  return nullptr;
}

// Between the nearest recovered ones around `batch`, which is recovered to confirm it.
void BatchPrograms::TrySpan(int64_t batch) {
  const auto above = recovered_.upper_bound(batch);
  if (above == recovered_.end() || above == recovered_.begin() ||
      failures_ >= kMostRecoveryFailures) {
    return;
  }
  Confirm({std::prev(above)->first, above->first}, batch);
}

// A span where the program of `batch`, which is inside, is as it is read off.
void BatchPrograms::Confirm(const Span& span, int64_t batch) {
  const std::optional<Program> read = BetweenBatches({&recovered_.at(span.first), span.first},
                                                     {&recovered_.at(span.last), span.last}, batch);
  if (read && SameProgram(*read, Recovered(batch))) {
    spans_.push_back(span);
  } else {
    ++failures_;
  }
}

// What follows runs programs, and reads loops off.
namespace {

// What is kept of what was run: beyond, a batch is run each time that it is asked for.
constexpr size_t kMostSharedEvents = 1'000'000;

}  // namespace

SharedBatchRun BatchPrograms::Run(int64_t batch, const TrainingSettings& settings) {
  const std::pair key(batch, KeyOf(Stage::kRun, settings));
  {
    const std::lock_guard lock(runs_mutex_);
    if (const auto found = runs_.find(key); found != runs_.end()) return found->second;
  }
  const std::shared_ptr<BatchRun> run = RunBatch(Dispatch(At(batch), settings), settings);
  run->missing = MissingAt(batch);
  const std::lock_guard lock(runs_mutex_);
  const bool has_room = kept_events_ + run->trace.events.size() <= kMostSharedEvents;
  if (has_room && runs_.emplace(key, run).second) kept_events_ += run->trace.events.size();
  return run;
}

namespace {

constexpr int64_t kShortSpan = 8;  // predicting all of it costs less than checking it
// What is kept of what was run: beyond, a batch is run each time that it is asked for.
constexpr size_t kMostAnchors = 512;
constexpr size_t kMostEvents = 4'000'000;

constexpr int64_t kClose = 4;  // within a quarter of the batch

constexpr int kMostFailuresInARow = 12;  // in a row; then nothing is read off any more

// The number between both (last - 1 is not) that most powers of 2 divide: where a size is
// rounded, it is one that ends a step.
int64_t RoundestBetween(int64_t first, int64_t last) {
  int64_t power = 1;
  while ((last - 2) / (2 * power) * (2 * power) > first) power *= 2;
  return (last - 2) / power * power;
}

}  // namespace

BatchLoops::BatchLoops(BatchPrograms& programs, const EstimateRequest& request)
    : programs_(programs),
      request_(request),
      calibration_(request.settings.device.calibration),
      endless_(std::make_shared<EndlessPlays>(request.alloc_conf.conf)) {
  request_.settings.device.calibration = nullptr;
}

SharedBatchRun BatchLoops::Run(int64_t batch) {
  if (const auto found = anchors_.find(batch); found != anchors_.end()) return found->second;
  SharedBatchRun run = programs_.Run(batch, request_.settings);
  if (!IsFull()) {
    anchors_.emplace(batch, run);
    kept_events_ += run->trace.events.size();
  }
  return run;
}

bool BatchLoops::IsFull() const {
  return anchors_.size() >= kMostAnchors || kept_events_ >= kMostEvents;
}

// Null where nothing of that batch was measured.
SharedBatchRun BatchLoops::RunMeasured(int64_t batch) {
  if (calibration_ == nullptr) return nullptr;
  if (const auto found = measured_.find(batch); found != measured_.end()) return found->second;
  TrainingSettings settings = request_.settings;
  settings.device.calibration = calibration_;
  const Program program = Dispatch(programs_.At(batch), settings);
  SharedBatchRun run;
  if (CountMeasured(program, settings).measured > 0) {
    const std::shared_ptr<BatchRun> made = RunBatch(program, settings);
    made->missing = programs_.MissingAt(batch);
    run = made;
  }
  if (!IsFull()) {
    measured_.emplace(batch, run);
    if (run) kept_events_ += run->trace.events.size();
  }
  return run;
}

PlayableRun BatchLoops::Playable(const SharedBatchRun& anchor, BatchSizes sizes) const {
  return {.trace = &anchor->trace,
          .loop = &anchor->loop,
          .bytes = std::move(sizes.bytes),
          .conf = request_.alloc_conf.conf,
          .unmodelled_bytes = sizes.unmodelled_bytes,
          .is_inference = request_.settings.mode == Mode::kEval,
          .nccl_bytes = MostNcclBytes(request_.settings, request_.overhead_bytes.has_value()),
          .missing = anchor->missing,
          .owner = anchor};
}

PlayableRun BatchLoops::Whole(int64_t batch) {
  const SharedBatchRun anchor = Run(batch);
  return Playable(anchor, anchor->sizes);
}

PlayableRun BatchLoops::At(int64_t batch) {
  const std::lock_guard lock(mutex_);
  const SharedBatchRun measured = RunMeasured(batch);
  return WithKnown(batch, measured ? Playable(measured, measured->sizes) : ReadOff(batch));
}

PlayableRun BatchLoops::Exactly(int64_t batch) {
  const std::lock_guard lock(mutex_);
  const SharedBatchRun measured = RunMeasured(batch);
  return WithKnown(batch, measured ? Playable(measured, measured->sizes) : Whole(batch));
}

PlayableRun BatchLoops::WithKnown(int64_t batch, PlayableRun run) {
  std::shared_ptr<KnownPlays>& known = known_[batch];
  if (known == nullptr) known = NewKnownPlays(endless_);
  run.known = known;
  return run;
}

PlayableRun BatchLoops::Unmeasured(int64_t batch) {
  const std::lock_guard lock(mutex_);
  return ReadOff(batch);
}

PlayableRun BatchLoops::Near(int64_t batch) {
  const std::lock_guard lock(mutex_);
  if (anchors_.contains(batch)) return Whole(batch);
  if (const Span* even = FindSpan(batch)) return Between(*even, batch);
  const std::optional<Span> span = CloseSpan(batch);
  return span ? Between(*span, batch) : Whole(batch);
}

// Of the nearest anchors around `batch`, where they are close and make the same calls.
std::optional<BatchLoops::Span> BatchLoops::CloseSpan(int64_t batch) {
  const auto above = anchors_.upper_bound(batch);
  if (above == anchors_.end() || above == anchors_.begin()) return std::nullopt;
  const auto below = std::prev(above);
  const int64_t close = below->first / kClose + kShortSpan;
  if (above->first - below->first > close) return std::nullopt;
  if (!SameCalls(below->second->loop, above->second->loop)) return std::nullopt;
  return Span{below->first, above->first};
}

PlayableRun BatchLoops::ReadOff(int64_t batch) {
  if (anchors_.contains(batch)) return Whole(batch);
  while (FindSpan(batch) == nullptr) {
    if (!TrySpan(batch)) return Whole(batch);
  }
  return Between(*FindSpan(batch), batch);
}

const BatchLoops::Span* BatchLoops::FindSpan(int64_t batch) const {
  for (const Span& span : spans_) {
    if (span.first <= batch && batch <= span.last) return &span;
  }
  return nullptr;
}

// Between the nearest anchors around `batch`.  Returns false where nothing is left to be tried.
bool BatchLoops::TrySpan(int64_t batch) {
  const auto above = anchors_.upper_bound(batch);
  if (above == anchors_.end() || above == anchors_.begin()) return false;
  const Span span = {std::prev(above)->first, above->first};
  if (IsFull() || failures_ >= kMostFailuresInARow || span.last - span.first <= kShortSpan)
    return false;
  if (IsEven(span)) {
    spans_.push_back(span);
    failures_ = 0;
  } else {
    ++failures_;
  }
  return !anchors_.contains(batch);
}

// Runs two batches inside of `span`: where it is not even, shorter ones end there.
bool BatchLoops::IsEven(const Span& span) {
  const int64_t inside = RoundestBetween(span.first, span.last);
  const SharedBatchRun first = Run(span.first);
  const SharedBatchRun last = Run(span.last);
  const SharedBatchRun middle = Run(inside);
  const SharedBatchRun next = Run(inside + 1);
  return AreOnLine({span.first, *first}, {span.last, *last}, {inside, *middle}) &&
         AreOnLine({span.first, *first}, {span.last, *last}, {inside + 1, *next});
}

PlayableRun BatchLoops::Between(const Span& span, int64_t batch) {
  const SharedBatchRun first = Run(span.first);
  const SharedBatchRun last = Run(span.last);
  return Playable(last,
                  SizesBetween({span.first, *first}, {span.last, *last}, batch, request_.settings));
}

}  // namespace onnxfit
