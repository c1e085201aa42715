// The runs that a file may stand for, at any batch: the worse reading of what it leaves open, then
// the guess.  Internal to the room fit/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "estimator/fit/batch_loops.h"
#include "estimator/fit/batch_programs.h"
#include "estimator/fit/doubts.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/target.h"
#include "estimator/fit/verdict.h"
#include "estimator/graph/graph.h"

namespace onnxfit {

// The programs of readings, the worse first.  Readings that recover alike share theirs.
class ReadingPrograms {
 public:
  // What `request` leaves open at `batch`, found by a recovery that is kept.  `file` must outlive
  // it.
  ReadingPrograms(const Graph& file, const EstimateRequest& request, int64_t batch);
  ReadingPrograms(const Graph& file, std::vector<Reading> readings);

  const std::vector<Reading>& readings() const { return readings_; }
  const EstimateRequest& worse() const { return readings_.front().request; }
  BatchPrograms& of(size_t reading) { return *programs_[reading]; }
  BatchPrograms& of_worse() { return of(0); }

 private:
  void Share(const Graph& file, const std::shared_ptr<BatchPrograms>& guessed);

  std::vector<Reading> readings_;
  std::vector<std::shared_ptr<BatchPrograms>> programs_;
};

// Their loops, changed alike.
class ReadingLoops {
 public:
  // `change` changes nothing that recovery reads: the card, the optimizer.
  explicit ReadingLoops(ReadingPrograms& programs,
                        const std::function<void(EstimateRequest&)>& change = {});

  size_t size() const { return loops_.size(); }
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
