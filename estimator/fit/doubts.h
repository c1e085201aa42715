// What a file leaves open: the questions, and a run by one answer to all of them.  Internal to the
// room fit/.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "estimator/base/doubt.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/predict.h"
#include "estimator/program/program.h"

namespace onnxfit {

// What `program`, recovered for `settings`, has guessed and no flag said.  O(calls).
std::vector<Doubt> DoubtsOf(const Program& program, const TrainingSettings& settings);

// The same of the run that is asked for: a recovery.
std::vector<Doubt> DoubtsAt(const Graph& file, const EstimateRequest& request);

// A run by one reading of what its file leaves open.
struct Reading {
  EstimateRequest request;
  std::string flags = {};     // that say so, "--in-place known"; "" as guessed
  bool keeps_program = true;  // what is recovered is that of the guess
};

// Every doubt answered so that tensors take more, or less.
Reading AnswerAll(const EstimateRequest& request, std::span<const Doubt> doubts, bool by_more);

// The worse reading, then the guess; the guess alone where nothing is open.
std::vector<Reading> ReadingsOf(const EstimateRequest& request, std::span<const Doubt> doubts);

// A reading, run.
struct ReadRun {
  Reading reading;
  Prediction prediction;
};

// The worse reading of `file`, which was predicted as `guess`; nullopt where nothing is open.
// Throws Error as Predict does.
std::optional<ReadRun> PredictWorse(const Graph& file, const EstimateRequest& request,
                                    std::span<const Doubt> doubts, const Prediction& guess);

// The smallest and the largest of three: `guessed_bytes` of `guess`, without flags, and where every
// doubt is answered so that tensors take less, and more (`worse`).  (What is reserved is not always
// less then.)  nullopt where all are the same.  Flags that change nothing are left out.  A further
// run of `file` where the guess is not the least, and where several doubts are open one for each.
std::optional<DeviceRange> FindRange(const Graph& file, const EstimateRequest& request,
                                     std::span<const Doubt> doubts, const ReadRun& worse,
                                     const Prediction& guess, int64_t guessed_bytes);

// One sentence for people: by how much the other readings differ from the guess.
Warning RangeWarning(const DeviceRange& range, int64_t guessed_bytes);

}  // namespace onnxfit
