// One model, and all that is asked of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "estimator/base/settings.h"

namespace onnxfit {

class BatchPrograms;
struct EstimateRequest;
struct Graph;
struct Prediction;
struct PreparedRun;
struct Program;
struct SolvedSize;

// What is made of a file at some sizes, and kept.
enum class Stage : uint8_t {
  kProgram,  // what PyTorch runs
  kRun,      // what a run of a given program asks of memory
};

// What that stage reads of `settings`, as text: where it is the same, so is what the stage makes.
// (Who reads what is a table in study.cc.)
std::string KeyOf(Stage stage, const TrainingSettings& settings);

// Keeps what was made of a file by what each stage reads, so that whoever asks again, for another
// card, optimizer, batch or way to read the file, gets what there is: shapes by binding, programs
// by the settings that recovery reads, runs by all others.  Of each only the last few are kept.
// May be asked from several threads; what two of them want is made once.  No answer depends on what
// was asked before.  Throws Error as the functions of predict.h do.
class Study {
 public:
  // `file` must outlive it.  A function that takes a Study takes a file, too.
  Study(const Graph& file);  // NOLINT(google-explicit-constructor)
  ~Study();
  Study(const Study&) = delete;
  Study& operator=(const Study&) = delete;

  const Graph& file() const { return file_; }

  // As PrepareRun.
  std::shared_ptr<const PreparedRun> Prepared(const EstimateRequest& request) const;

  // As Predict.  Who holds what (details, why) is found anew each time.
  std::shared_ptr<const Prediction> Predicted(const EstimateRequest& request) const;

  // The programs of `request` at any batch.
  std::shared_ptr<BatchPrograms> Programs(const EstimateRequest& request) const;

  // The same at any size that is solved for.
  std::shared_ptr<BatchPrograms> Programs(const EstimateRequest& request,
                                          const SolvedSize& size) const;

 private:
  struct Kept;

  const Graph& file_;
  const std::unique_ptr<Kept> kept_;
};

// Whether both are the same, names and places included: by settings of which KeyOf(Stage::kRun) is
// the same, they run alike.  O(calls).
bool RunAlike(const Program& a, const Program& b);

}  // namespace onnxfit
