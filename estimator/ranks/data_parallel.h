// What torch.nn.parallel.DistributedDataParallel asks of its rank's allocator: flat copies that are
// broadcast, and the buckets in which gradients are added up.  What NCCL takes is not the
// allocator's.  Sources: torch/nn/parallel/distributed.py, torch/csrc/distributed/c10d/{reducer,
// comm}.cpp, pytorch v2.11.0, and recorded events.
#pragma once

#include <vector>

#include "estimator/eager/autograd.h"
#include "estimator/eager/call_table.h"
#include "estimator/eager/forward.h"
#include "estimator/eager/machine.h"

namespace onnxfit {

// DistributedDataParallel(model), of a model whose trained parameters all get a gradient, which it
// asks for.
class DataParallel {
 public:
  // As the settings of `calls` have ranks.  Those of gradients_as_views have p.grad as a part of
  // its bucket (gradient_as_bucket_view).
  DataParallel(CallTable& calls, ParameterGradients& gradients);

  // The constructor, behind model.to("cuda").  Its one bucket stays until BeforeForward makes
  // others.  O(parameters).
  void Construct();

  // What its forward does before the module's: behind the first backward that tells the order in
  // which gradients come, its buckets are those; buffers are broadcast.  Unless it `reduces`, the
  // next backward leaves gradients where they are (no_sync).  O(parameters).
  void BeforeForward(bool reduces = true);

  // Behind it: of a static graph, outputs pass through _DDPSink until a backward has been reduced.
  void AfterForward(Forward& forward, const std::vector<NameId>& outputs);

  // The gradient of that parameter is there: it is copied into its bucket.
  void TakeGradient(size_t parameter);

  // All are: those of a static graph's first backward are copied now (_delay_all_reduce).
  void EndBackward();

 private:
  void GiveView(size_t parameter);
  void Broadcast(const std::vector<StridedType>& tensors);
  void Rebuild();
  void MakeBuckets(const std::vector<std::vector<size_t>>& parameters);
  std::vector<StridedType> TypesOf(const std::vector<NameId>& names) const;
  const TensorType& TypeOf(size_t parameter) const;

  CallTable& calls_;
  Machine& machine_;
  ParameterGradients& gradients_;
  const RankSettings& ranks_;
  LabelId label_;
  std::vector<size_t> order_;  // of gradients, by parameter, in the first such backward
  std::vector<bool> came_;     // by parameter: whether it is there
  std::vector<TensorId> buckets_;
  std::vector<size_t> bucket_of_;  // by parameter
  bool reduces_ = true;            // require_backward_grad_sync
  bool sends_buffers_ = true;      // require_forward_param_sync
  bool has_reduced_ = false;       // a backward
  bool has_rebuilt_ = false;
};

// Which parameters the first of `world` ranks steps with ZeroRedundancyOptimizer, in its order: the
// largest first, each to the rank that has the fewest elements.  Source:
// _partition_parameters of torch/distributed/optim/zero_redundancy_optimizer.py, pytorch v2.11.0.
// O(parameters × (log parameters + world)).
std::vector<size_t> FirstShare(const Program& program, int64_t world);

// How many more elements than the first the rank steps that has most.  O(the same).
int64_t MoreThanFirstShare(const Program& program, int64_t world);

}  // namespace onnxfit
