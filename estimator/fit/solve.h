// The largest size of a run that cards have room for, where its batch is held: how long, how large
// an image, which rank.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "estimator/fit/estimate.h"
#include "estimator/fit/study.h"
#include "estimator/fit/target.h"
#include "estimator/fit/verdict.h"

namespace onnxfit {

struct SolveOptions {
  std::string name = {};                                  // as SizeNamed takes it (solved_size.h)
  std::optional<int64_t> multiple_of = {};                // nullopt: the size's own
  std::optional<int64_t> most = {};                       // no larger one
  bool is_strict = false;                                 // what is TIGHT does not run
  std::function<void(const std::string&)> progress = {};  // told what is done, from threads
};

// A size, judged.
struct SolvedOutcome {
  int64_t size = 0;
  Judgement judgement;
};

// One run on one card.
struct Solved {
  Target target;
  TrainingSettings settings;
  std::map<std::string, int64_t> dims = {};  // that are held
  int64_t batch = 1;
  SolvedOutcome fits;  // the largest that is FITS; size 0 where none is
  SolvedOutcome runs;  // the largest that runs; size 0, and the judgement of the least that fails
  int64_t judged = 0;  // the size of that judgement
  std::optional<SolvedOutcome> next = {};  // the first above `runs` that fails
  bool is_limited = false;                 // larger ones run, too: options.most ends it
  std::string end = {};                    // why the model takes no larger one; "" where it does
  // Where the file leaves open what decides and the worse reading has a say: the largest size as
  // guessed, and flags of that reading.
  std::optional<int64_t> guessed = {};
  std::string reading = {};
  // What tensors take for one more, just below `runs` and just above half of it; 0 where unknown.
  int64_t last_bytes = 0;
  int64_t half_bytes = 0;
  // At answer(), or at the least that fails.
  int64_t allocated_bytes = 0;
  int64_t reserved_bytes = 0;
  int64_t device_bytes = 0;
  std::vector<std::string> assumptions = {};
  Warnings warnings = {};

  // The one to take: that which fits, else that which runs.
  const SolvedOutcome& answer() const { return fits.size > 0 ? fits : runs; }
  bool grows_faster() const;  // one more takes more, the more there are
};

struct SolveAnswer {
  std::string model;  // its path
  std::string name;   // of the size
  int64_t multiple_of = 1;
  std::string alloc_conf = {};
  bool is_strict = false;
  std::vector<Solved> rows = {};  // for each request its targets, in their order
};

// Solves each of `requests` on its targets.  Some 20 predictions a target and the plays of ten
// steps around the answer.  Throws Error as Predict and SizeNamed do.  REQUIRES: there is a row.
SolveAnswer SolveSize(const Study& study, std::span<const EstimateRequest> requests,
                      const SolveOptions& options);

}  // namespace onnxfit
