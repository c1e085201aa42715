// What a file leaves open: the questions, and the runs that it may stand for by one answer or
// another.  Internal to the rooms fit/, advise/ and oom/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/fit/batch_runs.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/predict.h"
#include "estimator/fit/study.h"
#include "estimator/fit/target.h"
#include "estimator/fit/verdict.h"
#include "estimator/onnx/graph.h"
#include "estimator/program/program.h"

namespace onnxfit {

// What `program`, recovered for `settings`, has guessed and no flag said.  O(calls).
std::vector<Doubt> DoubtsOf(const Program& program, const TrainingSettings& settings);

// The same of the run that is asked for.
std::vector<Doubt> DoubtsAt(const Study& study, const EstimateRequest& request);

// A run by one reading of what its file leaves open.
struct Reading {
  EstimateRequest request;
  std::string flags = {};  // that say so, "--in-place known"; "" as guessed
};

// Every doubt answered so that tensors take more, or less.
Reading AnswerAll(const EstimateRequest& request, std::span<const Doubt> doubts, bool by_more);

// The worse reading, then the guess; the guess alone where nothing is open.
std::vector<Reading> ReadingsOf(const EstimateRequest& request, std::span<const Doubt> doubts);

using SharedPrediction = std::shared_ptr<const Prediction>;

// A reading, run.
struct ReadRun {
  Reading reading;
  SharedPrediction prediction;
};

// The worse reading of `request`, which was predicted as `guess`; nullopt where nothing is open.
// Where it means the same run, its prediction is the guess itself.  Throws Error as Predict does.
std::optional<ReadRun> PredictWorse(const Study& study, const EstimateRequest& request,
                                    std::span<const Doubt> doubts, const SharedPrediction& guess);

// The smallest and the largest of three: `guessed_bytes` of `guess`, without flags, and where every
// doubt is answered so that tensors take less, and more (`worse`).  (What is reserved is not always
// less then.)  nullopt where all are the same.  Flags that change nothing are left out.  A further
// run where the guess is not the least, and where several doubts are open one for each.
std::optional<DeviceRange> FindRange(const Study& study, const EstimateRequest& request,
                                     std::span<const Doubt> doubts, const ReadRun& worse,
                                     const SharedPrediction& guess, int64_t guessed_bytes);

// One sentence for people: by how much the other readings differ from the guess.
Warning RangeWarning(const DeviceRange& range, int64_t guessed_bytes);

// What follows are those runs at any batch: the worse reading, then the guess.

// The programs of readings, the worse first.  Readings that mean the same share theirs.
class ReadingPrograms {
 public:
  // What `request` leaves open at `batch`.  `study` must outlive it.
  ReadingPrograms(const Study& study, const EstimateRequest& request, int64_t batch);
  ReadingPrograms(const Study& study, std::vector<Reading> readings, int64_t batch);
  // The same of any size, at its least.
  ReadingPrograms(const Study& study, const EstimateRequest& request, const SolvedSize& size);
  ReadingPrograms(const Study&& study, const EstimateRequest& request, int64_t batch) = delete;

  const std::vector<Reading>& readings() const { return readings_; }
  const EstimateRequest& worse() const { return readings_.front().request; }
  BatchPrograms& of(size_t reading) { return *programs_[reading]; }
  BatchPrograms& of_worse() { return of(0); }

 private:
  std::shared_ptr<BatchPrograms> ProgramsOf(const Study& study,
                                            const EstimateRequest& request) const;
  void Share(const Study& study, int64_t batch);

  std::optional<SolvedSize> size_;  // nullopt: the batch
  std::vector<Reading> readings_;
  std::vector<std::shared_ptr<BatchPrograms>> programs_;
};

// Their loops, changed alike; one where they are the same run.
class ReadingLoops {
 public:
  // `change` changes nothing that recovery reads: the card, the optimizer.
  explicit ReadingLoops(ReadingPrograms& programs,
                        const std::function<void(EstimateRequest&)>& change = {});

  size_t size() const { return loops_.size(); }
  const SolvedSize& solved_size() const { return loops_[0]->size(); }
  BatchLoops& of(size_t reading) { return *loops_[reading]; }
  BatchLoops& of_worse() { return of(0); }
  BatchLoops& of_guess() { return *loops_.back(); }
  std::vector<BatchLoops*> all();                               // the worse first
  const std::string& flags_of_worse() const { return flags_; }  // "" where nothing is open

  // The worse of all at that batch.
  Judgement JudgeAt(int64_t batch, const Target& target);

  // Of one process and one copy: how many more there may be takes longer, and is not asked.
  Judgement JudgeOneAt(int64_t batch, const Target& target);

 private:
  Judgement WorstAt(int64_t batch, const Target& target, bool asks_copies);

  std::string flags_;
  std::vector<std::unique_ptr<BatchLoops>> loops_;
};

}  // namespace onnxfit
