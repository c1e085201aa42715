// What torch.nn.parallel.DistributedDataParallel asks of its rank's allocator: flat copies that are
// broadcast, and the buckets in which gradients are added up.  What NCCL takes is not the
// allocator's.  Sources: torch/nn/parallel/distributed.py, torch/csrc/distributed/c10d/{reducer,
// comm}.cpp, pytorch v2.11.0, and recorded events.
#pragma once

#include <vector>

#include "estimator/eager/autograd.h"
#include "estimator/eager/call_table.h"
#include "estimator/eager/machine.h"

namespace onnxfit {

// DistributedDataParallel(model) with its defaults, of a model whose trained parameters all get a
// gradient, which it asks for.
class DataParallel {
 public:
  // With `as_views` p.grad is a part of its bucket (gradient_as_bucket_view).
  DataParallel(CallTable& calls, ParameterGradients& gradients, bool as_views);

  // The constructor, behind model.to("cuda").  Its one bucket stays until BeforeForward makes
  // others.  O(parameters).
  void Construct();

  // What its forward does before the module's: from the second one on its buckets are those of the
  // gradients in the order in which they came; buffers are broadcast.  O(parameters).
  void BeforeForward();

  // The gradient of that parameter is there: it is copied into its bucket.
  void TakeGradient(size_t parameter);

 private:
  void Broadcast(const std::vector<TensorType>& tensors);
  void Rebuild();
  void MakeBuckets(const std::vector<std::vector<size_t>>& parameters);
  std::vector<TensorType> TypesOf(const std::vector<NameId>& names) const;
  const TensorType& TypeOf(size_t parameter) const;

  CallTable& calls_;
  Machine& machine_;
  ParameterGradients& gradients_;
  bool as_views_;
  LabelId label_;
  std::vector<size_t> order_;  // of gradients, by parameter, in the first backward
  std::vector<TensorId> buckets_;
  std::vector<size_t> bucket_of_;  // by parameter
  int forwards_ = 0;
};

// Which parameters the first of `world` ranks steps with ZeroRedundancyOptimizer, in its order: the
// largest first, each to the rank that has the fewest elements.  Source:
// _partition_parameters of torch/distributed/optim/zero_redundancy_optimizer.py, pytorch v2.11.0.
// O(parameters × (log parameters + world)).
std::vector<size_t> FirstShare(const Program& program, int64_t world);

// How many more elements than the first the rank steps that has most.  O(the same).
int64_t MoreThanFirstShare(const Program& program, int64_t world);

}  // namespace onnxfit
