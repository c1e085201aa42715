#include "estimator/fit/batch_loops.h"

#include <algorithm>
#include <iterator>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

constexpr int64_t kShortSpan = 8;  // predicting all of it costs less than checking it
constexpr int kMostFailures = 12;  // in a row; then nothing is read off any more

bool SameCalls(const Loop& a, const Loop& b) {
  return a.calls == b.calls && a.steps == b.steps && a.twins == b.twins;
}

// What grows from `first_bytes` at `span.first` to `last_bytes` at `span.last`, at `batch`.
int64_t Interpolate(int64_t first_bytes, int64_t last_bytes, int64_t width, int64_t samples) {
  return first_bytes + (last_bytes - first_bytes) / width * samples;
}

}  // namespace

BatchLoops::BatchLoops(const Graph& file, const EstimateRequest& request)
    : file_(file), request_(request) {
  request_.details = false;
  request_.why.clear();
}

const LoopedPrediction& BatchLoops::Anchor(int64_t batch) {
  std::unique_ptr<LoopedPrediction>& anchor = anchors_[batch];
  if (!anchor) {
    request_.binding.batch = batch;
    anchor = std::make_unique<LoopedPrediction>(PredictLoop(file_, request_));
  }
  return *anchor;
}

PlayableRun BatchLoops::Predicted(int64_t batch) {
  const std::lock_guard lock(mutex_);
  return Anchor(batch).playable();
}

PlayableRun BatchLoops::At(int64_t batch) {
  const std::lock_guard lock(mutex_);
  return ReadOff(batch);
}

PlayableRun BatchLoops::ReadOff(int64_t batch) {
  if (anchors_.contains(batch)) return Anchor(batch).playable();
  while (FindSpan(batch) == nullptr) {
    if (!TrySpan(batch)) return Anchor(batch).playable();
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
  if (failures_ >= kMostFailures || span.last - span.first <= kShortSpan) return false;
  if (IsEven(span)) {
    spans_.push_back(span);
    failures_ = 0;
  } else {
    ++failures_;
  }
  return !anchors_.contains(batch);
}

bool BatchLoops::IsEven(const Span& span) {
  const int64_t width = span.last - span.first;
  const int64_t inside = span.first + width * 5 / 13;
  const LoopedPrediction& first = Anchor(span.first);
  const LoopedPrediction& last = Anchor(span.last);
  if (!SameCalls(first.loop, last.loop)) return false;
  const std::vector<int64_t> low = BytesOf(first.prediction.trace);
  const std::vector<int64_t> high = BytesOf(last.prediction.trace);
  for (size_t i = 0; i < low.size(); ++i) {
    if ((high[i] - low[i]) % width != 0) return false;
  }
  for (const int64_t batch : {inside, inside + 1}) {
    const LoopedPrediction& anchor = Anchor(batch);
    if (!SameCalls(first.loop, anchor.loop)) return false;
    const std::vector<int64_t> bytes = BytesOf(anchor.prediction.trace);
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] != Interpolate(low[i], high[i], width, batch - span.first)) return false;
    }
  }
  return true;
}

PlayableRun BatchLoops::Between(const Span& span, int64_t batch) {
  const LoopedPrediction& last = Anchor(span.last);
  const std::vector<int64_t> low = BytesOf(Anchor(span.first).prediction.trace);
  PlayableRun run = last.playable();
  for (size_t i = 0; i < low.size(); ++i) {
    run.bytes[i] = Interpolate(low[i], run.bytes[i], span.last - span.first, batch - span.first);
  }
  return run;
}

}  // namespace onnxfit
