// Evaluation behind a step of training, run on the machine of the loop.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/eager/call_table.h"
#include "estimator/eager/forward.h"
#include "estimator/program/program.h"
#include "estimator/training/loop_batches.h"
#include "estimator/training/model_outputs.h"

namespace onnxfit {

// What cannot be evaluated behind a step: a model that is sharded or compiled, loops whose
// evaluation is not known.  Throws Error.
void CheckEvaluation(const TrainingSettings& settings);

// The model of training in eval mode:
//   with torch.no_grad():
//       for _ in range(batches):
//           x, y = a new batch on the device        # the old one lives until rebound
//           out = model(x)                          # the old out lives until then
//           loss_function(out, y).item()
//           kept.append(out)                        # and with settings.evaluation.keep of them
//           kept = [to the host]
// transformers' Trainer (libraries/loops.cc) repeats the loss for each sample, and adds what it
// keeps to one tensor, which is made anew for each batch: losses, and with settings.evaluation.keep
// predictions and labels.
class Evaluation {
 public:
  // `program` is of EvaluationOf(settings); `calls` and `trained` run the model that is trained.
  // All must outlive it.
  Evaluation(const Program& program, CallTable& calls, Forward& trained,
             const TrainingSettings& settings);

  // Behind step `step`.  Nobody is told who holds what of it (Machine::RecordInto).  O(calls).
  void Run(int32_t step);

  // What modules keep of it (self.attn = …) goes when the model has run in training again.
  void DropAttributes();

 private:
  // What the Trainer has of each batch: by output, of the last one and of all.
  struct Gathered {
    LabelId label = -1;
    std::vector<TensorId> last = {};
    std::vector<TensorId> all = {};
  };

  int64_t Batches() const;
  bool Keeps() const { return settings_.evaluation.keep > 0; }
  void RunModel();
  void RunBatch();
  void PredictionStep();
  void TakeLosses(TensorId mean);
  void TakePredictions();
  void AskSize(TensorId tensor);
  void Add(Gathered& gathered);
  void KeepAsMuch();
  void MoveToHost();
  void Release(std::vector<TensorId>& tensors);
  void End();

  void TakeAttributes();

  const Program& program_;
  const TrainingSettings settings_;
  const bool is_trainers_;
  Machine& machine_;
  CallTable calls_;
  Forward forward_;
  Forward& trained_;
  LoopBatches batches_;
  const MadeOutputs outputs_;
  std::vector<NameId> attributes_, trained_attributes_;  // names that modules keep
  std::vector<TensorId> kept_;                           // the plain loop's list of predictions
  Gathered losses_, predictions_, labels_;
};

}  // namespace onnxfit
