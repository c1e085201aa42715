// The batches that a loop has on the device, and the names that hold them.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/eager/call_table.h"
#include "estimator/eager/forward.h"

namespace onnxfit {

class LoopBatches {
 public:
  // All must outlive it.
  LoopBatches(CallTable& calls, Forward& forward, const TrainingSettings& settings)
      : calls_(calls), machine_(calls.machine()), forward_(forward), settings_(settings) {}

  // What the loop hands to the model is of another type than the program asks for.
  void HandOver(std::function<TensorType(const TensorType&)> type) { type_ = std::move(type); }

  // The loop's loaders, which have a mean and a deviation of each color on the device (LoopFact).
  void Construct();

  // ahead = [loop.prefetch batches]; with same_batch x, y.  Throws Error where the loop has that
  // and something to do with further ones.
  void Prefetch();

  // x, y = next(batches): all of the new batch is there before the names of the old one are bound
  // again.  With same_batch nothing.
  void Next();

  // Those of a whole step, before the first of its micro-batches runs (LoopFact):
  //   batches, count = [next(batches) for _ in range(accumulate)], how many labels they have
  void TakeStep();
  // x, y = batches[micro]
  void BindOfStep(int64_t micro);
  // Whether labels were counted.
  bool has_label_count() const { return label_count_ != kNoTensor; }

  // How many labels the batch has that x, y hold, where the model takes that; and no longer.
  void BindCount();
  void DropCount();

  // del x, y; what a loop's iterator holds of it stays for one more turn (LoopFact).
  void Drop();
  // Of the batch that x, y hold: its labels, kNoTensor where it has none.
  TensorId labels() const;

 private:
  using Batch = std::vector<TensorId>;  // by index into Program::inputs

  const Program& program() const { return calls_.program(); }
  bool LoadsImages() const;
  void Take();
  Batch New();
  Batch NewFromBytes();
  TensorId Laid(NameId input, TensorId tensor);
  TensorType TypeOf(NameId input) const;
  bool Mixes() const;
  void Mix();
  bool IsMixedTarget(NameId input) const;
  Batch TakeFirst();
  void Bind(const Batch& batch);
  TensorId CountLabels();
  TensorId CountNonZero(const Dims& dims);
  TensorId NewCount();

  CallTable& calls_;
  Machine& machine_;
  Forward& forward_;
  const TrainingSettings& settings_;
  std::function<TensorType(const TensorType&)> type_;  // null: as the program asks
  std::queue<Batch> ahead_;                            // on the device before the loop takes them
  Batch batch_;                                        // what the loop's x and y hold
  Batch held_;                                         // beside that, by what makes batches
  int64_t dropped_ = 0;                                // turns that have begun without it
  std::vector<Batch> step_batches_;   // of the step, where a library takes all at once
  TensorId label_count_ = kNoTensor;  // of the step
  TensorId unmixed_ = kNoTensor;      // the batch's labels, as they were loaded
};

}  // namespace onnxfit
