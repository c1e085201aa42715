#include "estimator/training/training.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/eager/autograd.h"
#include "estimator/eager/call_table.h"
#include "estimator/eager/forward.h"
#include "estimator/eager/in_place.h"
#include "estimator/libraries/libraries.h"
#include "estimator/optimizers/optimizer_step.h"
#include "estimator/program/checkpointed_spans.h"
#include "estimator/ranks/data_parallel.h"
#include "estimator/ranks/fully_sharded.h"
#include "estimator/ranks/zero_engine.h"
#include "estimator/training/compiled_trace.h"
#include "estimator/training/evaluation.h"
#include "estimator/training/graph_pool.h"
#include "estimator/training/loop_batches.h"
#include "estimator/training/model_outputs.h"
#include "estimator/training/pipeline.h"
#include "estimator/training/watched_step.h"
#include "estimator/transforms/tensor_parallel.h"

namespace onnxfit {
namespace {

class Training {
 public:
  Training(const Program& program, const TrainingSettings& settings, Trace& trace, HolderLog* log,
           ConvolvedLog* convolved)
      : program_(program),
        settings_(settings),
        machine_(trace),
        calls_(program, machine_, settings),
        forward_(calls_, settings),
        batches_(calls_, forward_, settings),
        gradients_(program.parameters.size()),
        optimizer_(calls_, settings, gradients_) {
    if (log != nullptr) machine_.RecordInto(*log);
    if (convolved != nullptr) machine_.RecordInto(*convolved);
    if (settings.optimizer_in_backward) StepInBackward();
    const bool trains = settings.mode == Mode::kTrain;
    const auto spans = CheckpointedSpans(program, settings.checkpoint);
    AreReentrant(program, settings) ? forward_.CheckpointReentrant(spans)
                                    : forward_.Checkpoint(spans);
    if (std::ranges::find(settings.checkpoint, kAutoCheckpoint) != settings.checkpoint.end())
      forward_.AskAsLibraries();
    if (trains ? program.frozen.empty() && spans.empty() : !LeavesInPlaceOpen(program, settings))
      return;
    forward_.PlanInPlace(FindInPlaceCalls(program, settings));
  }

  void Run() {
    machine_.EnterPhase(0, Phase::kSetup);
    if (IsWholeStep(program_)) return RunWatchedSteps();
    has_backward() && IsFullySharded(settings_.ranks.strategy) ? Shard() : Place();
    batches_.Construct();
    if (has_backward()) optimizer_.Construct();
    if (has_backward() && Does(LoopFact::kSumsLosses)) NewScalar(DType::kFloat32, "sum of losses");
    batches_.Prefetch();
    if (has_backward() && program_.evaluation != nullptr)
      evaluation_.emplace(*program_.evaluation, calls_, forward_, settings_);
    for (int32_t step = 1; step <= settings_.steps; ++step) {
      pipeline_ ? PipelineStep(step) : has_backward() ? TrainingStep(step) : InferenceStep(step);
      if (settings_.loop.same_batch) ReturnFromStep();
      if (evaluation_) evaluation_->Run(step);
    }
  }

 private:
  bool Does(LoopFact fact) const { return DoesLoop(settings_.loop.library, fact); }
  bool ReducesLast() const {
    return settings_.ranks.no_sync || Does(LoopFact::kReducesLast) ||
           (ddp_ && Does(LoopFact::kReducesLastInDdp));
  }
  bool has_backward() const { return settings_.mode == Mode::kTrain && HasBackward(program_); }

  // for step in range(steps): x, y = a new batch on the device; loss = step(x, y)
  void RunWatchedSteps() {
    forward_.PlaceModel();
    WatchedStep watched(calls_, forward_, gradients_, hooks_, settings_);
    watched.Construct();
    for (int32_t step = 1; step <= settings_.steps; ++step) {
      watched.Begin(step);
      NextBatch();
      std::vector<TensorId> old;
      for (const NameId name : outputs_.names) old.push_back(forward_.Take(name));
      forward_.Run(0, program_.calls.size(), /*grad=*/true);
      forward_.ExitAutocast();
      ReleaseAll(old);
    }
  }

  void Place() {
    forward_.PlaceModel();
    if (!has_backward() || settings_.ranks.strategy == Strategy::kNone) return;
    if (settings_.ranks.strategy == Strategy::kPipeline) return JoinPipeline();
    if (IsOfDeepSpeed(settings_.ranks.strategy)) {
      zero_.emplace(calls_, forward_, gradients_, optimizer_, outputs_.model_end);
    } else {
      JoinRanks();
    }
  }

  // stage = PipelineStage(…); schedule = …(stage, accumulate, loss_function)
  void JoinPipeline() {
    CheckPipeline(settings_);
    pipeline_.emplace(calls_, forward_, batches_, gradients_, hooks_);
  }

  // fully_shard(model)
  void Shard() {
    CheckFullySharded(program_, settings_);
    fsdp_.emplace(calls_, forward_, gradients_);
    fsdp_->Construct();
    batches_.HandOver([this](const TensorType& type) { return fsdp_->InputType(type); });
    optimizer_.StepShards(fsdp_->ShardTypes());
    if (settings_.ranks.fsdp_offload) optimizer_.StepOnly({});
  }

  // DistributedDataParallel(model); with zero-redundancy its optimizer is a
  // ZeroRedundancyOptimizer(model.parameters(), …).
  void JoinRanks() {
    const RankSettings& ranks = settings_.ranks;
    if (settings_.optimizer_in_backward) {
      throw Error({.where = "--strategy",
                   .text = "expected no --optimizer-in-backward, which steps before ranks have "
                           "added up their gradients"});
    }
    ddp_.emplace(calls_, gradients_);
    ddp_->Construct();
    if (ranks.strategy == Strategy::kZeroRedundancy)
      optimizer_.StepOnly(FirstShare(program_, ranks.world));
    gradients_.HookAccumulation([this](size_t parameter) { ddp_->TakeGradient(parameter); });
  }

  // optimizer_of[p].step(); optimizer_of[p].zero_grad()
  void StepInBackward() {
    gradients_.HookAccumulation([this](size_t parameter) {
      optimizer_.RunOf(parameter);
      gradients_.Drop(parameter, machine_);
    });
  }

  void TrainingStep(int32_t step) {
    for (int64_t i = 0; i < settings_.loop.accumulate; ++i) {
      machine_.EnterPhase(step, Phase::kForward);
      if (Does(LoopFact::kDropsBatch)) DropBatch();
      if (Does(LoopFact::kTakesBatchesAtOnce)) {
        if (i == 0) batches_.TakeStep();
        batches_.BindOfStep(i);
      } else {
        NextBatch();
      }
      if (i == 0) ZeroGradIf(ZeroGrad::kBeforeForward);
      const bool reduces = !ReducesLast() || i + 1 == settings_.loop.accumulate;
      if (ddp_) ddp_->BeforeForward(reduces);
      if (fsdp_) fsdp_->SetReduces(reduces);
      RunForward(/*grad=*/true);
      machine_.EnterPhase(step, Phase::kBackward);
      if (i == 0) ZeroGradIf(ZeroGrad::kBeforeBackward);
      RunBackward();
      const bool is_last = i + 1 == settings_.loop.accumulate;
      if (!is_last && Does(LoopFact::kDropsLoss)) ReleaseIf(loss_);
    }
    machine_.EnterPhase(step, Phase::kOptimizer);
    zero_ ? zero_->Step() : optimizer_.Run();
    if (Does(LoopFact::kDropsLoss)) ReleaseIf(loss_);
    const bool drops = settings_.loop.zero_grad == ZeroGrad::kAfterStep;
    if (drops || Does(LoopFact::kDropsGradients)) gradients_.Clear(machine_);
  }

  // optimizer.zero_grad(); schedule.step(x, target=y, losses=losses); optimizer.step()
  void PipelineStep(int32_t step) {
    machine_.EnterPhase(step, Phase::kForward);
    NextBatch();
    if (settings_.loop.zero_grad != ZeroGrad::kKeep) gradients_.Clear(machine_);
    pipeline_->Step(step);
    forward_.ExitAutocast();
    machine_.EnterPhase(step, Phase::kOptimizer);
    optimizer_.Run();
    if (settings_.loop.zero_grad == ZeroGrad::kAfterStep) gradients_.Clear(machine_);
  }

  void InferenceStep(int32_t step) {
    machine_.EnterPhase(step, Phase::kForward);
    NextBatch();
    RunForward(/*grad=*/false);
  }

  // Of a benchmark, the names of whose step are a function's.
  void ReturnFromStep() {
    std::vector<TensorId> outputs;
    for (const NameId name : outputs_.names) outputs.push_back(forward_.Take(name));
    ReleaseAll(outputs);
    ReleaseIf(loss_);
  }

  // Where the host's batch takes the names first, the device's old one is gone before the new one.
  void NextBatch() {
    if (settings_.loop.drop_batch) batches_.Drop();
    batches_.Next();
  }

  // What the turn of a loop whose body is a function held.
  void DropBatch() {
    ReleaseIf(loss_copy_);
    batches_.Drop();
  }

  void ReleaseIf(TensorId& tensor) {
    if (tensor != kNoTensor) machine_.Release(std::exchange(tensor, kNoTensor));
  }

  // With set_to_none=False the gradients stay, wherever the loop zeroes them.
  void ZeroGradIf(ZeroGrad place) {
    if (settings_.loop.zero_grad == place) gradients_.Clear(machine_);
  }

  // out = model(x); loss = loss_function(out, y).  What `out` held before lives until the
  // model has returned, or until both have.
  void RunForward(bool grad) {
    std::vector<TensorId> old;
    for (const NameId name : outputs_.names) old.push_back(forward_.Take(name));
    const bool holds_result = Does(LoopFact::kHoldsResult);
    if (zero_) zero_->BeginForward();
    fsdp_ ? RunSharded(grad) : forward_.Run(0, outputs_.model_end, grad);
    if (zero_) zero_->EndForward();
    if (ddp_ && grad) ddp_->AfterForward(forward_, outputs_.names);
    if (evaluation_) evaluation_->DropAttributes();
    if (!holds_result) ReleaseAll(old);
    forward_.Run(outputs_.model_end, program_.calls.size(), grad);
    if (grad) BindLoss();
    forward_.ExitAutocast();
    if (holds_result) ReleaseAll(old);
  }

  void ReleaseAll(const std::vector<TensorId>& tensors) {
    for (const TensorId tensor : tensors) {
      if (tensor != kNoTensor) machine_.Release(tensor);
    }
  }

  // The hooks of sharded modules are between the calls.
  void RunSharded(bool grad) {
    size_t done = 0;
    fsdp_->BeforeModel();
    for (const FullySharded::Run& run : fsdp_->runs()) {
      if (Index(run.span.last) >= outputs_.model_end) break;
      forward_.Run(done, Index(run.span.first), grad);
      fsdp_->Before(run);
      done = Index(run.span.last) + 1;
      forward_.Run(Index(run.span.first), done, grad);
      fsdp_->After(run);
    }
    forward_.Run(done, outputs_.model_end, grad);
    fsdp_->AfterModel();
  }

  // loss = … [/ accumulate]
  void BindLoss() {
    TensorId loss = forward_.Lookup(program_.loss);
    machine_.Retain(loss);
    if (!IsHeldOutput(program_.loss)) machine_.Release(forward_.Take(program_.loss));
    if (DividesInPlace()) {
      // loss *= 1, the number of ranks; loss /= micro-batches: in place, and yet one more node.
      const TensorId same = machine_.View(loss, {}, {});
      FollowFrom(loss, same);
      machine_.Release(std::exchange(loss, same));
    } else if (DividesLoss()) {
      const TensorId mean = Multiple(loss, "loss / micro-batches");
      if (Does(LoopFact::kCopiesLoss)) CopyLoss(mean);
      machine_.Release(std::exchange(loss, mean));
    }
    if (Does(LoopFact::kAveragesLoss)) loss = SumAndAverage(loss);
    const TensorId old = std::exchange(loss_, loss);
    if (Does(LoopFact::kSumsLosses)) {
      last_loss_ = old;  // what the loop adds up is bound to its name when backward has returned
    } else if (old != kNoTensor) {
      machine_.Release(old);
    }
  }

  // loss, self.loss_items = …; self.loss = loss.sum(); self.tloss is that of the first batch, then
  // (self.tloss * i + self.loss_items) / (i + 1).  The caller owns the sum.
  TensorId SumAndAverage(TensorId loss) {
    ReleaseIf(summand_);
    summand_ = loss;
    const DType dtype = machine_.tensor(loss).dtype;
    const TensorId sum = NewScalar(dtype, "loss.sum()");
    machine_.SetGradFn(sum, machine_.tensor(loss).grad_fn);
    TensorId average = loss;
    if (average_ == kNoTensor) {
      machine_.Retain(loss);
    } else {
      const TensorId product = NewScalar(dtype, "tloss * i");
      const TensorId total = NewScalar(dtype, "tloss * i + loss");
      machine_.Release(product);
      average = NewScalar(dtype, "tloss");
      machine_.Release(total);
    }
    ReleaseIf(average_);
    average_ = average;
    return sum;
  }

  // loss.detach().clone()
  void CopyLoss(TensorId loss) {
    loss_copy_ = NewScalar(machine_.tensor(loss).dtype, "copy of the loss");
  }

  bool DividesInPlace() const {
    if (Does(LoopFact::kDividesInPlace)) return settings_.loop.accumulate > 1;
    return Does(LoopFact::kModelTakesLabels) && batches_.has_label_count();
  }

  // The loop itself, beside what a library does when it goes backward.
  bool DividesLoss() const {
    if (IsOfDeepSpeed(settings_.ranks.strategy)) return false;  // its engine does
    if (Does(LoopFact::kModelTakesLabels) || Does(LoopFact::kNamesMean)) return true;
    const bool divides = !Does(LoopFact::kDividesLoss) && !Does(LoopFact::kAddsLosses);
    return settings_.loop.accumulate > 1 && divides;
  }

  // `tensor` times a number, which the caller owns.
  TensorId Multiple(TensorId tensor, const char* name) {
    const TensorId multiple = NewScalar(machine_.tensor(tensor).dtype, name);
    FollowFrom(tensor, multiple);
    return multiple;
  }

  bool IsHeldOutput(NameId name) const {
    return settings_.loop.hold_outputs &&
           std::find(outputs_.names.begin(), outputs_.names.end(), name) != outputs_.names.end();
  }

  TensorId NewScalar(DType dtype, const char* name) {
    return machine_.New({dtype, {}}, machine_.AddLabel(name), Kind::kActivation);
  }

  // `multiple` is `tensor` times a number: its gradient becomes another scalar.
  void FollowFrom(TensorId tensor, TensorId multiple) {
    const Edge source = machine_.tensor(tensor).grad_fn;
    if (source.node == kNoGradNode) return;
    const GradNodeId node = machine_.NewNode({.call = GradNode::kMultiple,
                                              .next = {source},
                                              .saved = {},
                                              .multiple_of = machine_.tensor(tensor).dtype});
    machine_.SetGradFn(multiple, {node, 0});
  }

  // scaler.scale(loss [/ accumulate]).backward()
  void RunBackward() {
    const bool is_of_engine = IsOfDeepSpeed(settings_.ranks.strategy);
    const bool divides = Does(LoopFact::kDividesLoss) || is_of_engine;
    const TensorId mean = divides ? Multiple(loss_, "loss / 1") : kNoTensor;
    const TensorId loss = mean == kNoTensor ? loss_ : mean;
    // DeepSpeed's engine multiplies by its scale, which is 1 but for fp16.
    const TensorId scaled = is_of_engine ? Multiple(loss, "loss * 1") : optimizer_.ScaleLoss();
    if (scaled != kNoTensor && !is_of_engine) FollowFrom(loss, scaled);
    const TensorId root = scaled == kNoTensor ? loss : scaled;
    if (machine_.tensor(root).grad_fn.node != kNoGradNode) {
      if (fsdp_) fsdp_->BeginBackward();
      onnxfit::RunBackward(calls_, root, gradients_, hooks_);
      if (zero_) zero_->EndBackward();
    }
    if (Does(LoopFact::kDetachesLoss))
      machine_.Release(std::exchange(loss_, machine_.Detach(loss_)));
    for (const TensorId tensor : {scaled, mean, std::exchange(last_loss_, kNoTensor)}) {
      if (tensor != kNoTensor) machine_.Release(tensor);
    }
    if (Does(LoopFact::kTestsLoss)) TestLoss();
  }

  // torch.isnan(loss) or torch.isinf(loss), each in places that are free again once it is read.
  void TestLoss() {
    machine_.Release(NewScalar(DType::kBool, "isnan"));
    const TensorId magnitude = NewScalar(machine_.tensor(loss_).dtype, "isinf");
    const TensorId is_infinite = NewScalar(DType::kBool, "isinf");
    machine_.Release(magnitude);
    machine_.Release(is_infinite);
  }

  const Program& program_;
  const TrainingSettings& settings_;
  Machine machine_;
  CallTable calls_;
  Forward forward_;
  LoopBatches batches_;
  ParameterGradients gradients_;
  OptimizerStep optimizer_;
  const BackwardHooks hooks_ = {
      .unpack = [this](GradNodeId node) { forward_.Unpack(node); },
      .rerun =
          [this](GradNodeId node, const std::vector<TensorId>& incoming) {
            return forward_.Rerun(node, incoming, gradients_, hooks_);
          },
      .function =
          [this](GradNodeId node, const std::vector<TensorId>& incoming) {
            return forward_.RunFunction(node, incoming, gradients_, hooks_);
          },
      .enter =
          [this](int32_t module) {
            zero_ ? zero_->BeforeBackward(module) : fsdp_->BeforeBackward(module);
          },
      .leave =
          [this](int32_t module) {
            zero_ ? zero_->AfterBackward(module) : fsdp_->AfterBackward(module);
          },
      .end =
          [this] {
            if (fsdp_) fsdp_->EndBackward();
            if (ddp_) ddp_->EndBackward();
          }};
  std::optional<DataParallel> ddp_;  // around the model, where ranks train together
  std::optional<ZeroEngine> zero_;
  std::optional<Pipeline> pipeline_;
  std::optional<FullySharded> fsdp_;      // the same, where each has a part of it
  std::optional<Evaluation> evaluation_;  // behind each step
  const MadeOutputs outputs_ = FindOutputs(program_);
  TensorId loss_ = kNoTensor;       // what the loop's loss holds
  TensorId last_loss_ = kNoTensor;  // and held, until backward has returned
  TensorId loss_copy_ = kNoTensor;  // for reports, where a library makes one
  TensorId summand_ = kNoTensor;    // of the loss, where a library sums it up
  TensorId average_ = kNoTensor;    // of losses, where a library has it
};

Trace RunEager(const Program& program, const TrainingSettings& settings, Holders* holders,
               ConvolvedLog* convolved = nullptr) {
  Trace trace;
  std::optional<HolderLog> log;
  if (holders != nullptr) log.emplace(trace, *holders);
  Training(program, settings, trace, log ? &*log : nullptr, convolved).Run();
  return trace;
}

// A program that is traced has no operator that writes over its input.
Trace RunCompiled(const Program& program, TrainingSettings settings, Holders* holders) {
  settings.in_place = InPlaceUse::kNever;
  Holders own;
  Trace eager = RunEager(program, settings, &own);
  Trace compiled =
      CompileTrace(program, settings, FindOutputs(program).model_end, std::move(eager), own);
  if (holders != nullptr) *holders = std::move(own);
  return compiled;
}

}  // namespace

Trace RunTraining(const Program& program, const TrainingSettings& settings, Holders* holders) {
  CheckCompilable(program, settings);
  CheckTensorParallel(settings);  // a program is kept for other optimizers
  Trace trace = IsCompiled(settings) ? RunCompiled(program, settings, holders)
                                     : RunEager(program, settings, holders);
  if (!settings.cuda_graphs || settings.mode != Mode::kTrain) return trace;
  return PutInGraphPool(program, FindOutputs(program).model_end, std::move(trace), holders);
}

Trace RunTraining(const Program& program, const TrainingSettings& settings, ConvolvedLog& log) {
  const bool moves_buffers = IsCompiled(settings) || settings.cuda_graphs;
  if (moves_buffers || settings.cudnn_benchmark) return RunTraining(program, settings);
  CheckCompilable(program, settings);
  CheckTensorParallel(settings);
  return RunEager(program, settings, nullptr, &log);
}

}  // namespace onnxfit
