#include "estimator/fit/max_batch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "estimator/base/calibration.h"
#include "estimator/base/error.h"
#include "estimator/base/parallel.h"
#include "estimator/base/warnings.h"
#include "estimator/fit/batch_search.h"
#include "estimator/fit/doubts.h"

namespace onnxfit {
namespace {

using Members = std::vector<size_t>;

constexpr int64_t kProbes[] = {3, 1000};  // batches

template <typename Same>
std::vector<Members> GroupBy(size_t count, const Same& same) {
  std::vector<Members> groups;
  for (size_t i = 0; i < count; ++i) {
    const auto group = std::find_if(groups.begin(), groups.end(),
                                    [&](const Members& members) { return same(members[0], i); });
    if (group == groups.end()) {
      groups.push_back({i});
    } else {
      group->push_back(i);
    }
  }
  return groups;
}

SharedBatchRun RunOn(const DeviceProfile& device, BatchPrograms& programs, int64_t batch,
                     TrainingSettings settings) {
  settings.device = device;
  return programs.Run(batch, settings);
}

// Whether they ask for the same: which buffer when, and how much.
bool AskAlike(const std::vector<SharedBatchRun>& a, const std::vector<SharedBatchRun>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), [](const auto& x, const auto& y) {
    return x->loop.calls == y->loop.calls && x->sizes.bytes == y->sizes.bytes;
  });
}

// Groups of targets, as indices, on which kernels ask for the same memory: at a small batch and
// at a large one the run's traces are equal, and nothing else was measured there.  In the order of
// their first members.  Two runs for each kind of kernels.
std::vector<Members> GroupTargets(BatchPrograms& programs, const TrainingSettings& settings,
                                  std::span<const Target> targets) {
  const std::vector<Members> kinds = GroupBy(targets.size(), [&](size_t a, size_t b) {
    return SameKernels(targets[a].device, targets[b].device);
  });
  if (kinds.size() == 1) return kinds;
  std::vector<std::vector<SharedBatchRun>> asked(kinds.size());
  try {
    for (const int64_t batch : kProbes) {
      ForEachIndex(kinds.size(), [&](size_t i) {
        asked[i].push_back(RunOn(targets[kinds[i][0]].device, programs, batch, settings));
      });
    }
  } catch (const Error&) {
    return kinds;  // of batches that nobody asked for
  }
  // What was measured is of few batches, and hardly of those.
  const auto calibration_of = [&](size_t kind) -> const SharedCalibration& {
    return targets[kinds[kind][0]].device.calibration;
  };
  const auto are_alike = [&](size_t a, size_t b) {
    return calibration_of(a) == calibration_of(b) && AskAlike(asked[a], asked[b]);
  };
  std::vector<Members> groups;
  for (const Members& alike : GroupBy(kinds.size(), are_alike)) {
    Members& group = groups.emplace_back();
    for (const size_t kind : alike)
      group.insert(group.end(), kinds[kind].begin(), kinds[kind].end());
  }
  return groups;
}

int64_t LargestOf(BatchSearch& search, const BatchLimits& limits) {
  return limits.reads_off ? search.LargestSettled(limits) : search.Largest(limits);
}

// The first failing size above the answer, or why there is none larger.
void FindNext(BatchSearch& search, ReadingLoops& loops, MaxBatch& answer) {
  const int64_t failing = search.FirstFailureAboutAbove(answer.batch);
  const std::optional<SizeEnd> end = search.End();
  if (end && failing > end->size) {
    answer.end = end->why;
  } else {
    answer.next = {failing, loops.JudgeAt(failing, answer.target)};
  }
}

// The first failing batch above the answer, and those beyond that run all the same.
void FindNeighbours(BatchSearch& search, ReadingLoops& loops, MaxBatch& answer) {
  const int64_t failing = search.FirstFailureAbove(answer.batch);
  answer.next = {failing, loops.JudgeAt(failing, answer.target)};
  answer.luckier = search.RunningAbove(failing);
  answer.luckier_stride = search.StrideAbove(failing);
}

// A sample's bytes on both halves of a line differ by no more than one part in so many.
constexpr int64_t kStraight = 16;

// Of a size that ends somewhere, each is run: most are on no line.
int64_t PeakBytesAt(BatchLoops& loops, int64_t size) {
  return PeakBytes(loops.size().may_end ? loops.Exactly(size) : loops.Unmeasured(size));
}

void FindLine(BatchLoops& loops, MaxBatch& answer) {
  const bool may_end = loops.size().may_end;
  const int64_t high = may_end ? answer.batch : std::max<int64_t>(answer.batch, 2);
  const int64_t low = may_end ? std::max(high / 2, loops.size().least) : high / 2;
  if (low == high) return;
  const int64_t middle = low + (high - low) / 2;
  const int64_t low_bytes = PeakBytesAt(loops, low);
  const int64_t high_bytes = PeakBytesAt(loops, high);
  const int64_t per_sample = (high_bytes - low_bytes) / (high - low);
  const int64_t fixed = high_bytes - per_sample * high;
  if (middle > low) {
    const int64_t middle_bytes = PeakBytesAt(loops, middle);
    const int64_t below = (middle_bytes - low_bytes) / (middle - low);
    const int64_t above = (high_bytes - middle_bytes) / (high - middle);
    answer.half_sample_bytes = below;
    answer.last_sample_bytes = above;
    const int64_t allowed = per_sample / kStraight;
    answer.grows_faster = above - below > allowed && fixed < 0;
    if (std::abs(above - below) > allowed) return;
  }
  if (fixed < 0) return;
  answer.fixed_bytes = fixed;
  answer.per_sample_bytes = per_sample;
}

constexpr double kNearlyFull = 0.9;  // of a card

std::string WhyNotTake(const MaxBatch& found, Mode mode) {
  if (found.is_limited || found.judgement.share() < kNearlyFull) return "";
  return WhyNotLargest(found.target, mode);
}

// The largest that is FITS, which is below what is TIGHT.
void FindFitting(ReadingLoops& loops, const BatchLimits& limits, MaxBatch& answer) {
  if (answer.batch == 0 || answer.judgement.verdict != Verdict::kTight) return;
  BatchLimits below = limits;
  below.most = answer.batch;
  BatchSearch search(loops.all(), answer.target, true);
  const int64_t batch = LargestOf(search, below);
  answer.fitting = {batch, batch > 0 ? loops.JudgeAt(batch, answer.target) : Judgement()};
}

// What the guess alone would answer.
void FindGuessed(ReadingLoops& loops, const BatchLimits& limits, MaxBatch& answer) {
  if (loops.size() == 1) return;
  BatchSearch search(loops.of_guess(), answer.target, limits.is_strict);
  const int64_t guessed = LargestOf(search, limits);
  if (guessed == answer.batch) return;
  answer.guessed_batch = guessed;
  answer.reading = loops.flags_of_worse();
}

MaxBatch FindMaxBatch(ReadingLoops& loops, const Target& target, const BatchLimits& limits) {
  MaxBatch answer;
  answer.target = target;
  if (limits.progress) limits.progress("the largest batch on " + target.name);
  BatchSearch search(loops.all(), target, limits.is_strict);
  answer.batch = LargestOf(search, limits);
  const int64_t larger = std::max(loops.solved_size().least, answer.batch + limits.multiple_of);
  answer.is_limited = limits.most && answer.batch > 0 && larger > *limits.most &&
                      !search.FirstFailureAround(larger);
  answer.judged_batch = answer.batch > 0 ? answer.batch : *search.FirstFailureAround(larger);
  answer.judgement = loops.JudgeAt(answer.judged_batch, target);
  if (limits.detail == BatchDetail::kBatch) return answer;
  FindFitting(loops, limits, answer);
  if (limits.detail == BatchDetail::kHeadline) return answer;
  FindGuessed(loops, limits, answer);
  if (limits.reads_off && !answer.is_limited) FindNext(search, loops, answer);
  if (!limits.reads_off && !answer.is_limited) FindNeighbours(search, loops, answer);
  if (answer.batch > 0) FindLine(loops.of_worse(), answer);
  return answer;
}

std::vector<MaxBatch> FindAll(ReadingPrograms& programs, std::span<const Target> targets,
                              const BatchLimits& limits) {
  std::vector<MaxBatch> answers(targets.size());
  std::vector<std::unique_ptr<ReadingLoops>> loops;
  std::vector<ReadingLoops*> loops_of(targets.size());
  for (const std::vector<size_t>& group :
       GroupTargets(programs.of_worse(), programs.worse().settings, targets)) {
    loops.push_back(std::make_unique<ReadingLoops>(
        programs, [&](EstimateRequest& own) { own.settings.device = targets[group[0]].device; }));
    for (const size_t i : group) loops_of[i] = loops.back().get();
  }
  ForEachIndex(targets.size(),
               [&](size_t i) { answers[i] = FindMaxBatch(*loops_of[i], targets[i], limits); });
  return answers;
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
  std::vector<std::string> with_ecc;
  for (const MaxBatchRow& row : rows) {
    const Target& target = row.found.target;
    if (!WhyUnsupported(framework, target.device).empty()) unsupported.push_back(target.name);
    for (const Warning& warning : target.warnings) {
      if (warning.code == warning::kUnseenTotal) unseen.push_back(target.name);
      if (warning.code == warning::kSharedMemory) shared.push_back(target.name);
      if (warning.code == warning::kWithEcc) with_ecc.push_back(target.name);
    }
  }
  Warnings warnings;
  WarnOf(warning::kUnsupportedCard, fmt::format("{} has no kernels for", framework.name),
         unsupported, warnings);
  WarnOf(warning::kUnseenTotal, "their size under Linux was not seen", unseen, warnings);
  WarnOf(warning::kWithEcc, "their size is that with ECC on, a sixteenth less than with it off",
         with_ecc, warnings);
  WarnOf(warning::kSharedMemory, "they share their memory with the CPU", shared, warnings);
  return warnings;
}

// The request at a batch that its row answers with.
EstimateRequest AnsweredRequest(const Study& study, const EstimateRequest& request, int64_t batch) {
  return RequestAt(study, request, std::max<int64_t>(batch, 1));
}

// What goes with one answer: the estimate at that batch, why it is not the largest.
void Explain(const Study& study, const EstimateRequest& request, const BatchLimits& limits,
             MaxBatchRow& row) {
  const int64_t told = limits.tells_largest ? row.found.batch : RecommendedOf(row.found).batch;
  EstimateRequest at_batch = AnsweredRequest(study, request, told);
  at_batch.details = request.details;
  at_batch.why = request.why;
  row.estimate = MakeEstimate(study, at_batch);
  row.why_not_largest = WhyNotTake(row.found, request.settings.mode);
}

// A row for each target.  Those of a table share what is to be said of the file, at the batch of
// the first of them.
void AddRows(const Study& study, const EstimateRequest& request, const BatchLimits& limits,
             bool is_table, MaxBatchAnswer& answer) {
  const auto dims = WithoutMissing(study.file(), request.binding).dims;
  std::vector<MaxBatch> all = FindMaxBatches(study, request, request.targets, limits);
  FileRemarks remarks;
  if (is_table) {
    remarks = RemarksOnFile(study, AnsweredRequest(study, request, RecommendedOf(all[0]).batch));
  }
  for (MaxBatch& found : all) {
    answer.rows.push_back({request.settings, dims, std::move(found), std::nullopt, remarks});
  }
}

}  // namespace

BatchOutcome FittingOf(const MaxBatch& found) {
  if (found.fitting) return *found.fitting;
  const bool fits = found.batch > 0 && found.judgement.verdict == Verdict::kFits;
  return fits ? BatchOutcome{found.batch, found.judgement} : BatchOutcome();
}

BatchOutcome RecommendedOf(const MaxBatch& found) {
  const BatchOutcome fitting = FittingOf(found);
  return fitting.batch > 0 ? fitting : BatchOutcome{found.batch, found.judgement};
}

std::vector<MaxBatch> FindMaxBatches(const Study& study, const EstimateRequest& request,
                                     std::span<const Target> targets, const BatchLimits& limits) {
  ReadingPrograms programs(study, request, 1);
  return FindAll(programs, targets, limits);
}

std::vector<MaxBatch> FindLargest(const Study& study, const EstimateRequest& request,
                                  std::span<const Target> targets, const BatchLimits& limits,
                                  const SolvedSize& size) {
  ReadingPrograms programs(study, request, size);
  return FindAll(programs, targets, limits);
}

BatchesOfAll LeastOf(std::span<const MaxBatchRow> rows) {
  BatchesOfAll least = {rows[0].found.batch, FittingOf(rows[0].found).batch};
  for (const MaxBatchRow& row : rows) {
    least.runs = std::min(least.runs, row.found.batch);
    least.fits = std::min(least.fits, FittingOf(row.found).batch);
  }
  return least;
}

MaxBatchAnswer AnswerMaxBatch(const Study& study, std::span<const EstimateRequest> requests,
                              const BatchLimits& limits) {
  MaxBatchAnswer answer;
  answer.model = study.file().path;
  answer.alloc_conf = requests[0].alloc_conf.text;
  answer.is_strict = limits.is_strict;
  BatchLimits own = limits;
  const bool is_table = requests.size() > 1 || requests[0].targets.size() > 1;
  if (is_table) own.detail = std::min(own.detail, BatchDetail::kHeadline);
  for (const EstimateRequest& request : requests) {
    AddRows(study, request, own, is_table, answer);
  }
  if (answer.rows.size() > 1) {
    answer.warnings = CardWarnings(answer.rows, requests[0].settings.framework);
    answer.warnings.insert(answer.warnings.begin(), requests[0].warnings.begin(),
                           requests[0].warnings.end());
  } else if (own.detail >= BatchDetail::kAround) {
    Explain(study, requests[0], own, answer.rows[0]);
  }
  return answer;
}

std::string WhyNotLargest(const Target& target, Mode mode) {
  const ContextBytes& context = target.device.context;
  const int64_t differ = context.high - context.low;
  std::string text = "A little less is safer: drivers and contexts differ by up to ";
  text += differ > 0 ? FormatBytes(differ) : "a few hundred MiB";
  text += ", and on a full card retries take time.";
  if (mode == Mode::kEval) return text;
  return text + " Very large batches generalise worse unless the learning rate is tuned along.";
}

}  // namespace onnxfit
