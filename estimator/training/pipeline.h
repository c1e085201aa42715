// A stage of a pipeline: forward and backward passes of micro-batches in the order of a schedule,
// of which several are under way at once.  Sources: torch/distributed/pipelining/{stage,schedules,
// _backward}.py, pytorch v2.11.0: PipelineStage, Schedule1F1B, ScheduleGPipe; and recorded events.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "estimator/eager/autograd.h"
#include "estimator/eager/call_table.h"
#include "estimator/eager/forward.h"
#include "estimator/training/loop_batches.h"
#include "estimator/training/model_outputs.h"

namespace onnxfit {

// Throws Error where these settings ask for what is not known of stages.
void CheckPipeline(const TrainingSettings& settings);

class Pipeline {
 public:
  // All must outlive it.
  Pipeline(CallTable& calls, Forward& forward, LoopBatches& batches, ParameterGradients& gradients,
           const BackwardHooks& hooks);

  // schedule.step(x, target=y, losses=losses), of a batch of `accumulate` micro-batches that the
  // loop's names hold.  O(micro-batches × calls × log calls).
  void Step(int32_t step);

 private:
  // A micro-batch between its forward pass and its backward (fwd_cache), and its loss.
  struct Pass {
    std::vector<TensorId> outputs = {};
    TensorId loss = kNoTensor;
  };

  // What is received for a micro-batch, in buffers that stay.
  struct Buffers {
    std::vector<TensorId> given = {};      // leaves, by Program::received
    std::vector<TensorId> gradients = {};  // by Program::sent
  };

  const Program& program() const { return calls_.program(); }
  const PipelineSettings& settings() const { return calls_.settings().ranks.pipeline; }
  bool is_first() const { return program().received.empty(); }
  bool is_last() const { return program().sent.empty(); }
  const std::vector<NameId>& made() const { return is_last() ? outputs_.names : program().sent; }

  void FindLocals();
  void Initialize();
  void InferShapes();
  TensorId NewLeaf(size_t number);
  void BindInputs(size_t micro);
  void DropLocals();
  void RunForward(size_t micro);
  void ComputeLoss(size_t micro);
  void RunBackward(size_t micro);
  std::vector<std::pair<Edge, TensorId>> RootsOf(size_t micro, TensorId& ones);
  void RunInTurns(int32_t step);
  void RunAllForward(int32_t step);
  bool KeepsOutputs() const;
  void Merge();
  void Hold(std::vector<TensorId>& name, const std::vector<TensorId>& tensors);
  void Drop(std::vector<TensorId>& name);

  CallTable& calls_;
  Machine& machine_;
  Forward& forward_;
  LoopBatches& batches_;
  ParameterGradients& gradients_;
  const BackwardHooks& hooks_;
  const MadeOutputs outputs_;
  const size_t micro_batches_;
  std::vector<NameId> locals_;        // of the model's forward
  std::vector<NameId> casts_;         // of what is received, which autocast keeps for each pass
  std::vector<Buffers> buffers_;      // by micro-batch
  std::vector<Pass> passes_;          // by micro-batch
  std::vector<TensorId> batch_;       // whole, by input; the loop's names hold it
  std::vector<TensorId> output_;      // of the last forward pass
  std::vector<TensorId> sends_;       // outputs in the list of operations
  std::vector<TensorId> back_sends_;  // gradients in the same
  std::vector<TensorId> chunks_;      // output_chunks
  std::vector<TensorId> merged_;      // of them, what the loop holds
  std::vector<TensorId> losses_;      // of the step before
  std::vector<TensorId> kept_casts_;  // of all passes, as long as torch.autocast is around them
};

}  // namespace onnxfit
