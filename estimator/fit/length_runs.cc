#include "estimator/fit/length_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/parallel.h"
#include "estimator/base/quote.h"
#include "estimator/fit/judge_targets.h"
#include "estimator/fit/solved_size.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit {

std::string DimOf(const Graph& file, const LengthOptions& options) {
  const std::vector<std::string> dims = FreeDimsBesideBatch(file);
  const std::string all =
      dims.empty() ? "none but the batch" : fmt::format("{}", fmt::join(dims, ", "));
  const bool is_there = std::ranges::find(dims, options.dim) != dims.end();
  if (options.dim.empty() && dims.size() == 1) return dims[0];
  if (is_there) return options.dim;
  const std::string first =
      dims.empty() ? "" : fmt::format("--lengths {}=uniform:64..512", dims[0]);
  throw Error({.file = file.path,
               .where = "--lengths",
               .text = options.dim.empty()
                           ? fmt::format("expected one dimension that is free, found {}", all)
                           : fmt::format("expected a dimension that is free, found {}; free are {}",
                                         Quote(options.dim), all),
               .hint = first});
}

EstimateRequest AtShape(const EstimateRequest& request, const std::string& dim,
                        const StepShape& shape) {
  EstimateRequest own = request;
  own.binding.dims[dim] = shape.length;
  if (shape.batch > 0) own.binding.batch = shape.batch;
  own.details = false;
  own.why.clear();
  return own;
}

namespace {

void CheckRepeats(const Loop& loop, const std::string& path) {
  if (loop.repeats()) return;
  throw Error({.file = path,
               .where = "--lengths",
               .text = "expected steps that repeat, which these do not"});
}

void AddEach(const std::vector<std::string>& more, std::vector<std::string>& all) {
  for (const std::string& one : more) {
    if (std::ranges::find(all, one) == all.end()) all.push_back(one);
  }
}

}  // namespace

LengthRuns::LengthRuns(const Study& study, const EstimateRequest& request, std::string dim,
                       int64_t batch)
    : study_(study), request_(request), dim_(std::move(dim)), batch_(batch) {}

void LengthRuns::Add(const std::set<StepShape>& shapes,
                     const std::function<void(size_t, size_t)>& progress) {
  std::vector<StepShape> missing;
  for (const StepShape& shape : shapes) {
    if (!place_.contains(shape)) missing.push_back(shape);
  }
  Prepare(shapes);
  std::vector<PlayableRun> runs(missing.size());
  std::atomic<size_t> done = 0;
  ForEachIndex(missing.size(), [&](size_t i) {
    runs[i] = Predicted(missing[i]);
    if (progress) progress(++done, missing.size());
  });
  for (size_t i = 0; i < missing.size(); ++i) Keep(missing[i], std::move(runs[i]));
  if (CanFollow(Loops())) return;
  throw Error({.where = "--lengths",
               .text = "expected steps that leave as much at each length, which these do not"});
}

SeriesRun LengthRuns::Play(const std::vector<StepShape>& shapes, const CardRoom& room,
                           const AllocatorConf& conf) const {
  std::vector<int32_t> order;
  for (const StepShape& shape : shapes) order.push_back(place_.at(shape));
  return PlaySeries(Loops(), order, room, conf);
}

EstimateRequest LengthRuns::Asked(StepShape shape) const {
  if (shape.batch == batch_) shape.batch = 0;
  return AtShape(request_, dim_, shape);
}

// What was measured is of a length: no other's is read off beside it.
PlayableRun LengthRuns::Predicted(const StepShape& shape) const {
  if (request_.settings.device.calibration == nullptr) return ReadOff(shape);
  const auto looped = std::make_shared<const LoopedPrediction>(PredictLoop(study_, Asked(shape)));
  CheckRepeats(looped->loop, study_.file().path);
  PlayableRun run = looped->playable();
  run.owner = looped;
  return run;
}

PlayableRun LengthRuns::ReadOff(const StepShape& shape) const {
  const SharedBatchRun run = programs_.at(shape.batch)->Run(shape.length, request_.settings);
  CheckRepeats(run->loop, study_.file().path);
  return {.loop = &run->loop,
          .bytes = run->sizes.bytes,
          .unmodelled_bytes = run->sizes.unmodelled_bytes,
          .nccl_bytes = MostNcclBytes(request_.settings, request_.overhead_bytes.has_value()),
          .missing = run->missing,
          .owner = run};
}

// The programs of each batch: its ends first, then the one that confirms what is read off between.
void LengthRuns::Prepare(const std::set<StepShape>& shapes) {
  if (request_.settings.device.calibration != nullptr) return;
  std::map<int64_t, std::vector<int64_t>> lengths;  // by batch, in their order
  for (const StepShape& shape : shapes) lengths[shape.batch].push_back(shape.length);
  for (const auto& [batch, at] : lengths) {
    std::unique_ptr<BatchPrograms>& programs = programs_[batch];
    if (programs != nullptr) continue;
    SolvedSize size = {.name = dim_, .least = at.front(), .most = at.back()};
    size.set = [dim = dim_](EstimateRequest& request, int64_t length) {
      request.binding.dims[dim] = length;
    };
    const EstimateRequest own = Asked({batch, at.back()});
    programs = std::make_unique<BatchPrograms>(study_, own, std::move(size));
    for (const int64_t first : {at.back(), at.front(), at[at.size() / 2]}) programs->At(first);
  }
}

void LengthRuns::Keep(const StepShape& shape, PlayableRun run) {
  beside_.unmodelled_bytes = std::max(beside_.unmodelled_bytes, run.unmodelled_bytes);
  beside_.nccl_bytes = run.nccl_bytes;
  AddEach(run.missing.bounded, beside_.missing.bounded);
  AddEach(run.missing.unbounded, beside_.missing.unbounded);
  Sized sized = {std::shared_ptr<const Loop>(run.owner, run.loop), std::move(run.bytes)};
  for (const Sized& other : sized_) {
    if (!SameCalls(*other.loop, *sized.loop)) continue;
    sized.loop = other.loop;
    break;
  }
  place_[shape] = static_cast<int32_t>(sized_.size());
  sized_.push_back(std::move(sized));
}

std::vector<SeriesLoop> LengthRuns::Loops() const {
  std::vector<SeriesLoop> loops;
  for (const Sized& sized : sized_) loops.push_back({sized.loop.get(), sized.bytes});
  return loops;
}

}  // namespace onnxfit
