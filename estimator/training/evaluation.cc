#include "estimator/training/evaluation.h"

#include <algorithm>
#include <string>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/eager/in_place.h"
#include "estimator/libraries/libraries.h"
#include "estimator/training/compiled_trace.h"

namespace onnxfit {
namespace {

constexpr int64_t kBatches = 3;  // peaks settle with the third

// What no call lets go of, beside what the loop has: modules keep it until they run again.
std::vector<NameId> AttributesOf(const Program& program) {
  std::vector<bool> is_kept(program.values.size());
  for (const AtenCall& call : program.calls) {
    for (const NameId name : call.outputs) {
      if (name != kNoName) is_kept[Index(name)] = !call.made_once;
    }
    for (const NameId name : call.dies) is_kept[Index(name)] = false;
  }
  if (program.loss != kNoName) is_kept[Index(program.loss)] = false;
  for (const auto* names : {&program.outputs, &program.cached_casts, &program.placement}) {
    for (const NameId name : *names) is_kept[Index(name)] = false;
  }
  std::vector<NameId> kept;
  for (size_t i = 0; i < is_kept.size(); ++i) {
    if (is_kept[i]) kept.push_back(static_cast<NameId>(i));
  }
  return kept;
}

int64_t RowsOf(const TensorType& type) { return type.dims.empty() ? 1 : type.dims[0]; }

// In the order in which the model returns them.
MadeOutputs OutputsAsReturned(const Program& program) {
  MadeOutputs made = FindOutputs(program);
  const auto place = [&](NameId name) { return std::ranges::find(program.outputs, name); };
  std::ranges::sort(made.names, {}, place);
  return made;
}

}  // namespace

void CheckEvaluation(const TrainingSettings& settings) {
  const auto refuse = [](const std::string& what) {
    throw Error({.where = "--eval-batch", .text = "expected no " + what});
  };
  const Strategy strategy = settings.ranks.strategy;
  if (IsFullySharded(strategy) || IsOfDeepSpeed(strategy))
    refuse("--strategy " + std::string(ToString(strategy)));
  if (IsCompiled(settings)) refuse("--compile");
  const LoopLibrary library = settings.loop.library;
  using enum LoopLibrary;
  if (library == kLightning || library == kTimm || library == kUltralytics)
    refuse("--loop " + std::string(ToString(library)));
}

Evaluation::Evaluation(const Program& program, CallTable& calls, Forward& trained,
                       const TrainingSettings& settings)
    : program_(program),
      settings_(EvaluationOf(settings)),
      is_trainers_(DoesLoop(settings.loop.library, LoopFact::kRepeatsLosses)),
      machine_(calls.machine()),
      calls_(program, machine_, settings_),
      forward_(calls_, settings_),
      trained_(trained),
      batches_(calls_, forward_, settings_),
      outputs_(OutputsAsReturned(program)),
      attributes_(AttributesOf(program)),
      trained_attributes_(AttributesOf(calls.program())),
      losses_{machine_.AddLabel("losses")},
      predictions_{machine_.AddLabel("predictions")},
      labels_{machine_.AddLabel("labels of predictions")} {
  CheckEvaluation(settings);
  calls_.ShareWorkspaces(calls);
  forward_.ShareModel(trained);
  if (LeavesInPlaceOpen(program, settings_))
    forward_.PlanInPlace(FindInPlaceCalls(program, settings_));
}

int64_t Evaluation::Batches() const { return std::max(kBatches, settings_.evaluation.keep); }

void Evaluation::Run(int32_t step) {
  HolderLog* const log = machine_.StopRecording();
  machine_.EnterPhase(step, Phase::kEvaluation);
  for (int64_t i = 0; i < Batches(); ++i) {
    const bool is_played = i < kBatches || i + kBatches >= Batches();
    if (!is_played) {
      KeepAsMuch();
    } else {
      is_trainers_ ? PredictionStep() : RunBatch();
    }
    if (i == 0) {
      if (log != nullptr) machine_.RecordInto(*log);
      TakeAttributes();
      (void)machine_.StopRecording();
    }
    if (Keeps() && (i + 1) % settings_.evaluation.keep == 0) MoveToHost();
  }
  End();
  if (log != nullptr) machine_.RecordInto(*log);
}

// Modules let go of what they kept in training.
void Evaluation::TakeAttributes() {
  for (const NameId name : trained_attributes_) trained_.Unbind(name);
}

void Evaluation::DropAttributes() {
  HolderLog* const log = machine_.StopRecording();
  for (const NameId name : attributes_) forward_.Unbind(name);
  if (log != nullptr) machine_.RecordInto(*log);
}

// out = model(x); loss_function(out, y)
void Evaluation::RunModel() {
  std::vector<TensorId> old;
  for (const NameId name : outputs_.names) old.push_back(forward_.Take(name));
  forward_.Run(0, outputs_.model_end, /*grad=*/false);
  Release(old);
  forward_.Run(outputs_.model_end, program_.calls.size(), /*grad=*/false);
  forward_.ExitAutocast();
}

void Evaluation::RunBatch() {
  batches_.Next();
  RunModel();
  if (program_.loss != kNoName) forward_.Unbind(program_.loss);
  if (!Keeps()) return;
  for (const NameId name : outputs_.names) {
    kept_.push_back(forward_.Lookup(name));
    machine_.Retain(kept_.back());
  }
}

// losses, logits, labels = self.prediction_step(model, inputs), and what the loop does with them
// (Trainer.evaluation_loop).
void Evaluation::PredictionStep() {
  batches_.Next();
  batches_.BindCount();
  RunModel();
  TensorId mean = kNoTensor;
  if (program_.loss != kNoName) {
    const DType dtype = machine_.tensor(forward_.Lookup(program_.loss)).dtype;
    mean = machine_.New({dtype, {}}, machine_.AddLabel("loss.mean"), Kind::kActivation);
    forward_.Unbind(program_.loss);
  }
  batches_.DropCount();
  TakePredictions();
  if (mean != kNoTensor) TakeLosses(mean);
  if (!Keeps()) return;
  for (const Gathered* gathered : {&labels_, &predictions_}) {
    for (const TensorId tensor : gathered->last) AskSize(tensor);
  }
  Add(predictions_);
  Add(labels_);
}

// losses = losses.repeat(batch_size)
void Evaluation::TakeLosses(TensorId mean) {
  const int64_t samples = RowsOf(machine_.tensor(batches_.labels()));
  Release(losses_.last);
  losses_.last = {
      machine_.New({machine_.tensor(mean).dtype, {samples}}, losses_.label, Kind::kActivation)};
  machine_.Release(mean);
  Add(losses_);
}

// What the names are bound to when the function has returned; without metrics to nothing.
void Evaluation::TakePredictions() {
  std::vector<TensorId> predictions;
  for (const NameId name : outputs_.names) predictions.push_back(forward_.Take(name));
  if (!Keeps()) return Release(predictions);
  std::vector<TensorId> labels;
  if (batches_.labels() != kNoTensor) {
    labels.push_back(batches_.labels());
    machine_.Retain(labels.back());
  }
  std::swap(predictions_.last, predictions);
  std::swap(labels_.last, labels);
  Release(predictions);
  Release(labels);
}

// pad_across_processes(tensor, dim=1): size = torch.tensor(tensor.shape, device=…)
void Evaluation::AskSize(TensorId tensor) {
  const auto rank = static_cast<int64_t>(machine_.tensor(tensor).dims.size());
  if (rank < 2) return;
  machine_.Release(machine_.New({DType::kInt64, {rank}}, machine_.AddLabel("size")));
}

// EvalLoopContainer.add: torch.cat((all, last))
void Evaluation::Add(Gathered& gathered) {
  if (gathered.all.empty()) {
    gathered.all = gathered.last;
    for (const TensorId tensor : gathered.last) machine_.Retain(tensor);
    return;
  }
  for (size_t i = 0; i < gathered.last.size(); ++i) {
    TensorType sum = machine_.tensor(gathered.all[i]);
    if (sum.dims.empty()) sum.dims = {1};
    sum.dims[0] += RowsOf(machine_.tensor(gathered.last[i]));
    const TensorId made = machine_.New(sum, gathered.label, Kind::kActivation);
    machine_.Release(std::exchange(gathered.all[i], made));
  }
}

// What another batch leaves on the device, without the way to it.
void Evaluation::KeepAsMuch() {
  for (Gathered* gathered : {&losses_, &predictions_, &labels_}) Add(*gathered);
  for (size_t i = 0; i < outputs_.names.size() && !is_trainers_; ++i) {
    const TensorType type = machine_.tensor(forward_.Lookup(outputs_.names[i]));
    kept_.push_back(machine_.New(type, calls_.NameLabel(outputs_.names[i]), Kind::kActivation));
  }
}

// The Trainer deletes its names of the last batch, too.
void Evaluation::MoveToHost() {
  Release(kept_);
  for (Gathered* gathered : {&losses_, &predictions_, &labels_}) {
    Release(gathered->all);
    Release(gathered->last);
  }
  if (is_trainers_) batches_.Drop();
}

void Evaluation::Release(std::vector<TensorId>& tensors) {
  for (const TensorId tensor : std::exchange(tensors, {})) {
    if (tensor != kNoTensor) machine_.Release(tensor);
  }
}

// The function's names go when it returns.
void Evaluation::End() {
  MoveToHost();
  for (const NameId name : outputs_.names) forward_.Unbind(name);
  batches_.Drop();
}

}  // namespace onnxfit
