#include "estimator/ranks/zero_engine.h"

#include <vector>

namespace onnxfit {

ZeroEngine::ZeroEngine(CallTable& calls, Forward& forward, ParameterGradients& gradients,
                       OptimizerStep& optimizer, size_t model_end)
    : optimizer_(optimizer) {
  CheckZeroPartition(calls.program(), calls.settings());
  std::vector<size_t> stepped;
  if (calls.settings().ranks.strategy == Strategy::kZero3) {
    stage3_.emplace(calls, forward, gradients, model_end);
    stage3_->Construct();
    optimizer.StepShards(stage3_->ShardTypes());
    for (const std::vector<size_t>& group : stage3_->groups()) stepped.push_back(group[0]);
    gradients.HookAccumulation([this](size_t parameter) { stage3_->TakeGradient(parameter); });
  } else {
    partition_.emplace(calls, forward, gradients);
    partition_->Construct();
    optimizer.StepShards(partition_->ShardTypes());
    stepped.push_back(0);
    gradients.HookAccumulation([this](size_t parameter) { partition_->TakeGradient(parameter); });
  }
  optimizer.StepOnly(stepped);
}

void ZeroEngine::BeginForward() {
  if (stage3_) stage3_->BeginForward();
}

void ZeroEngine::EndForward() {
  if (stage3_) stage3_->EndForward();
}

void ZeroEngine::EndBackward() { stage3_ ? stage3_->EndBackward() : partition_->EndBackward(); }

void ZeroEngine::Step() {
  if (stage3_) return StepByGroup();
  partition_->BeginStep();
  optimizer_.Run();
  partition_->EndStep();
}

void ZeroEngine::StepByGroup() {
  stage3_->BeginStep();
  for (const std::vector<size_t>& group : stage3_->groups()) {
    stage3_->BeginGroup(group);
    optimizer_.RunOf(group[0]);
    stage3_->EndGroup(group);
  }
  stage3_->EndStep();
}

}  // namespace onnxfit
