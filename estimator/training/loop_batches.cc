#include "estimator/training/loop_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "estimator/operators/kernel_scratch.h"
#include "estimator/operators/strides.h"

namespace onnxfit {
namespace {

constexpr StreamId kLoaderStream = 3;  // beside those of FSDP

bool IsImage(const TensorType& type) { return IsFloat(type.dtype) && type.dims.size() == 4; }

// One batch for all steps leaves nothing to do with the next one.
void CheckSameBatch(const TrainingSettings& settings) {
  const auto refuse = [](const char* what) {
    throw Error({.where = "--same-batch", .text = fmt::format("expected no {} beside it", what)});
  };
  if (settings.loop.library != LoopLibrary::kPlain) refuse("--loop");
  if (settings.loop.drop_batch) refuse("--drop-batch");
  if (settings.loop.prefetch > 0) refuse("--prefetch");
  if (settings.mixup) refuse("--mixup");
}

}  // namespace

// Without --prefetch its batches come as those of other loops do (--no-prefetcher).
bool LoopBatches::LoadsImages() const {
  return settings_.loop.prefetch > 0 && DoesLoop(settings_.loop.library, LoopFact::kLoadsImages);
}

// One for training, one for validation.
void LoopBatches::Construct() {
  if (!LoadsImages()) return;
  for (const NameId name : program().inputs) {
    const TensorType type = TypeOf(name);
    if (!IsImage(type)) continue;
    for (const char* const label : {"loader.mean", "loader.std", "loader.mean", "loader.std"})
      machine_.New({type.dtype, {type.dims[1]}}, machine_.AddLabel(label), Kind::kBuffer);
  }
}

void LoopBatches::Prefetch() {
  if (settings_.loop.same_batch) {
    CheckSameBatch(settings_);
    return Take();
  }
  for (int64_t i = 0; i < settings_.loop.prefetch; ++i) ahead_.push(New());
}

void LoopBatches::Next() {
  if (!settings_.loop.same_batch) Take();
}

void LoopBatches::Take() {
  const Batch batch = TakeFirst();
  if (unmixed_ != kNoTensor) machine_.Release(std::exchange(unmixed_, kNoTensor));
  Bind(batch);
  for (const TensorId tensor : batch) machine_.Release(tensor);
  if (Mixes()) Mix();
}

// Where the loader's workers do not: FastCollateMixup mixes on the host what is loaded ahead
// (timm's train.py, args.prefetcher).
bool LoopBatches::Mixes() const { return settings_.mixup && !LoadsImages(); }

bool LoopBatches::IsMixedTarget(NameId input) const {
  return Mixes() && input == program().inputs.back();
}

// input, target = Mixup()(input, target): images are mixed in place with those of the batch turned
// round, and so are one-hot targets, by copies.  The loader's name holds the labels.
// Source: timm 1.0.31, data/mixup.py, data/loader.py, and recorded events.
void LoopBatches::Mix() {
  const NameId image = program().inputs.front();
  const LabelId label = machine_.AddLabel("mixup");
  machine_.Release(machine_.New(TypeOf(image), label));
  const NameId name = program().inputs.back();
  const TensorType type = calls_.TypeOf(name);
  std::vector<TensorId> made;  // y1, y2, then each times its share
  for (int i = 0; i < 4; ++i) made.push_back(machine_.New(type, label));
  const TensorId target = machine_.New(type, calls_.NameLabel(name), Kind::kInput);
  std::rotate(made.begin(), made.begin() + 2, made.end());
  for (const TensorId tensor : made) machine_.Release(tensor);
  machine_.Retain(target);
  forward_.Bind(name, target);
  unmixed_ = std::exchange(batch_.back(), target);
}

void LoopBatches::TakeStep() {
  std::vector<Batch> batches;
  for (int64_t i = 0; i < settings_.loop.accumulate; ++i) batches.push_back(TakeFirst());
  const TensorId count = CountLabels();
  for (const Batch& old : std::exchange(step_batches_, std::move(batches))) {
    for (const TensorId tensor : old) machine_.Release(tensor);
  }
  const TensorId old = std::exchange(label_count_, count);
  if (old != kNoTensor) machine_.Release(old);
}

void LoopBatches::BindOfStep(int64_t micro) { Bind(step_batches_[Index(micro)]); }

void LoopBatches::BindCount() {
  label_count_ = CountLabels();
  if (label_count_ == kNoTensor) return;
  machine_.Retain(label_count_);
  forward_.Bind(program().label_count.count, label_count_);
}

void LoopBatches::DropCount() {
  if (label_count_ == kNoTensor) return;
  forward_.Unbind(program().label_count.count);
  machine_.Release(std::exchange(label_count_, kNoTensor));
}

TensorId LoopBatches::labels() const { return batch_.empty() ? kNoTensor : batch_.back(); }

void LoopBatches::Drop() {
  for (const NameId name : program().inputs) forward_.Unbind(name);
  const bool is_held =
      DoesLoop(settings_.loop.library, LoopFact::kHoldsEvenBatches) && dropped_++ % 2 == 1;
  Batch old = std::exchange(batch_, {});
  if (is_held) std::swap(old, held_);
  for (const TensorId tensor : old) machine_.Release(tensor);
  if (is_held) return;
  for (const TensorId tensor : std::exchange(held_, {})) machine_.Release(tensor);
}

TensorType LoopBatches::TypeOf(NameId input) const {
  if (IsMixedTarget(input)) return {DType::kInt64, {calls_.TypeOf(input).dims[0]}};
  const TensorType& asked = calls_.TypeOf(input);
  return type_ ? type_(asked) : asked;
}

LoopBatches::Batch LoopBatches::New() {
  if (LoadsImages()) return NewFromBytes();
  Batch batch;
  for (const NameId name : program().inputs)
    batch.push_back(Laid(name, machine_.New(TypeOf(name), calls_.NameLabel(name), Kind::kInput)));
  return batch;
}

// x = x.contiguous(memory_format=…) where the program has pictures so.
TensorId LoopBatches::Laid(NameId input, TensorId tensor) {
  const StridedType& type = calls_.TypeOf(input);
  if (type.strides == ContiguousStrides(type.dims)) return tensor;
  const TensorId laid =
      machine_.NewStrided({TypeOf(input), type.strides}, calls_.NameLabel(input), Kind::kInput);
  machine_.Release(tensor);
  return laid;
}

// with torch.cuda.stream(loader's): x = x.to(device), …; x = x.to(torch.float32)
LoopBatches::Batch LoopBatches::NewFromBytes() {
  machine_.UseStream(kLoaderStream);
  Batch batch;
  for (const NameId name : program().inputs) {
    TensorType type = TypeOf(name);
    if (IsImage(type)) type.dtype = DType::kUint8;
    batch.push_back(machine_.New(type, calls_.NameLabel(name), Kind::kInput));
  }
  for (size_t i = 0; i < batch.size(); ++i) {
    const NameId name = program().inputs[i];
    if (!IsImage(TypeOf(name))) continue;
    const TensorId bytes =
        std::exchange(batch[i], machine_.New(TypeOf(name), calls_.NameLabel(name), Kind::kInput));
    machine_.Release(bytes);
  }
  machine_.UseStream(kMainStream);
  return batch;
}

// A new one is there before the first of those ahead is taken.
LoopBatches::Batch LoopBatches::TakeFirst() {
  ahead_.push(New());
  Batch batch = std::move(ahead_.front());
  ahead_.pop();
  for (size_t i = 0; LoadsImages() && i < batch.size(); ++i)
    batch[i] = Laid(program().inputs[i], batch[i]);
  return batch;
}

void LoopBatches::Bind(const Batch& batch) {
  for (size_t i = 0; i < batch.size(); ++i) {
    for (int references = 0; references < 2; ++references) machine_.Retain(batch[i]);
    forward_.Bind(program().inputs[i], batch[i]);
  }
  for (const TensorId old : std::exchange(batch_, batch)) machine_.Release(old);
  if (label_count_ == kNoTensor) return;
  machine_.Retain(label_count_);
  forward_.Bind(program().label_count.count, label_count_);
}

// sum((labels != -100).sum() for labels in batches)
TensorId LoopBatches::CountLabels() {
  const LabelCount& counted = program().label_count;
  if (counted.count == kNoName) return kNoTensor;
  TensorType labels = calls_.TypeOf(counted.labels);
  if (counted.is_shifted && !labels.dims.empty() && labels.dims.back() > 0) --labels.dims.back();
  TensorId sum = kNoTensor;
  for (int64_t i = 0; i < settings_.loop.accumulate; ++i) {
    const TensorId of_batch = CountNonZero(labels.dims);
    const TensorId old = std::exchange(sum, NewCount());
    for (const TensorId term : {old, of_batch}) {
      if (term != kNoTensor) machine_.Release(term);
    }
  }
  return sum;
}

// Integers are added up as such: booleans are cast first (make_reduction of
// aten/src/ATen/native/ReduceOpsUtils.h, pytorch v2.11.0).
TensorId LoopBatches::CountNonZero(const Dims& dims) {
  const LabelId label = machine_.AddLabel("number of labels");
  const TensorId mask = machine_.New({DType::kBool, dims}, label);
  const TensorId count = NewCount();
  const TensorId cast = machine_.New({DType::kInt64, dims}, label);
  PassScratch(machine_, SumOver(DType::kInt64, dims, ContiguousStrides(dims), /*kept=*/0),
              settings_.device, label);
  machine_.Release(cast);
  machine_.Release(mask);
  return count;
}

TensorId LoopBatches::NewCount() {
  return machine_.New({DType::kInt64, {}}, machine_.AddLabel("number of labels"),
                      Kind::kActivation);
}

}  // namespace onnxfit
