#include "estimator/writer/smoothed_losses.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/index.h"

namespace onnxfit {
namespace {

// A function whose calls are written one by one, and what its names hold until it returns.
class LossFunction {
 public:
  LossFunction(ProgramWriter& writer, CallPlace place) : writer_(writer), place_(std::move(place)) {
    place_.written_in_place = false;
  }

  TensorType TypeOf(NameId name) const { return writer_.program().values[Index(name)].type; }

  NameId Make(std::string_view op, std::vector<NameId> inputs, const char* name,
              const TensorType& type) {
    const NameId made = writer_.NewName(name, type);
    writer_.Emit(place_, op, std::move(inputs), {made});
    return made;
  }
  // The same, which a name holds.
  NameId Hold(std::string_view op, std::vector<NameId> inputs, const char* name,
              const TensorType& type) {
    held_.push_back(Make(op, std::move(inputs), name, type));
    return held_.back();
  }
  void Hold(const std::vector<NameId>& names) {
    held_.insert(held_.end(), names.begin(), names.end());
  }
  // The name of `value` is bound to what the last call has made.
  void Rebind(NameId value) { HoldUntilLast(writer_.program(), {value}); }

  void Return(NameId loss) {
    writer_.program().loss = loss;
    HoldUntilLast(writer_.program(), held_);
  }

 private:
  ProgramWriter& writer_;
  CallPlace place_;
  std::vector<NameId> held_;
};

Dims WithLast(Dims dims, int64_t last) {
  if (!dims.empty()) dims.back() = last;
  return dims;
}

Dims WithoutLast(Dims dims) {
  if (!dims.empty()) dims.pop_back();
  return dims;
}

// x[..., :-1, :].contiguous() of the dimension that is `from_last` from the end.
NameId Shortened(LossFunction& f, NameId x, size_t from_last, const char* name) {
  TensorType type = f.TypeOf(x);
  if (type.dims.size() < from_last + 1) return x;
  --type.dims[type.dims.size() - 1 - from_last];
  const NameId part = f.Make("slice", {x}, name, type);
  return f.Make("contiguous", {part}, name, type);
}

// labels.numel() - mask.long().sum()
NameId CountActive(LossFunction& f, NameId mask) {
  const TensorType count = {DType::kInt64, {}};
  const NameId numbers = f.Make("to", {mask}, "mask.long", {DType::kInt64, f.TypeOf(mask).dims});
  const NameId padded = f.Make("sum", {numbers}, "padded", count);
  return f.Hold("neg", {padded}, "denominator", count);
}

}  // namespace

void HoldUntilLast(Program& program, const std::vector<NameId>& held) {
  if (program.calls.empty()) return;
  AtenCall& last = program.calls.back();
  const size_t level = program.modules.DepthOf(last.module);
  for (const NameId name : held) last.held.push_back({name, level});
}

//   logprobs = log_softmax(x); nll_loss = -logprobs.gather(labels.unsqueeze(1)); ….squeeze(1)
//   smooth_loss = -logprobs.mean(-1)
//   loss = 0.9 * nll_loss + 0.1 * smooth_loss; return loss.mean()
void AppendTimmSmoothing(ProgramWriter& writer, const CallPlace& place, NameId logits,
                         NameId labels) {
  LossFunction f(writer, place);
  const TensorType type = f.TypeOf(logits);
  if (type.dims.size() != 2) {
    throw Error({.file = writer.path(),
                 .where = "--label-smoothing",
                 .text = fmt::format("expected logits of [N, C], which timm's "
                                     "LabelSmoothingCrossEntropy takes, found {} dimensions",
                                     type.dims.size()),
                 .hint = "--label-smoothing=no"});
  }
  const DType dtype = type.dtype;
  const Dims rows = {type.dims[0]};
  const Dims column = {type.dims[0], 1};
  const NameId logs = f.Hold("log_softmax", {logits}, "logprobs", type);
  const NameId index = f.Make("view", {labels}, "index", {DType::kInt64, column});
  const NameId picked = f.Make("gather", {logs, index}, "picked", {dtype, column});
  const NameId likely = f.Make("neg", {picked}, "nll_loss", {dtype, column});
  const NameId nll = f.Hold("view", {likely}, "nll_loss", {dtype, rows});
  const NameId mean = f.Make("mean", {logs}, "mean", {dtype, rows});
  const NameId smooth = f.Hold("neg", {mean}, "smooth_loss", {dtype, rows});
  const NameId first = f.Make("mul.Scalar", {nll}, "0.9 * nll_loss", {dtype, rows});
  const NameId second = f.Make("mul.Scalar", {smooth}, "0.1 * smooth_loss", {dtype, rows});
  const NameId each = f.Hold("add", {first, second}, "losses", {dtype, rows});
  f.Return(f.Make("mean", {each}, "loss", {dtype, {}}));
}

//   loss = sum(-target * log_softmax(x), -1); return loss.mean()
void AppendTimmSoftTargets(ProgramWriter& writer, const CallPlace& place, NameId logits,
                           NameId targets) {
  LossFunction f(writer, place);
  const TensorType type = f.TypeOf(logits);
  if (type.dims.size() != 2) {
    throw Error(
        {.file = writer.path(),
         .where = "--mixup",
         .text = fmt::format("expected logits of [N, C], found [{}]", fmt::join(type.dims, ", ")),
         .hint = "a model that tells classes of images"});
  }
  const NameId negative = f.Make("neg", {targets}, "-target", f.TypeOf(targets));
  const NameId logs = f.Make("log_softmax", {logits}, "log_softmax", type);
  const NameId products = f.Make("mul", {negative, logs}, "products", type);
  const NameId each = f.Hold("sum", {products}, "losses", {type.dtype, {type.dims[0]}});
  f.Return(f.Make("mean", {each}, "loss", {type.dtype, {}}));
}

//   [logits = logits[..., :-1, :].contiguous(); labels = labels[..., 1:].contiguous()]
//   log_probs = -log_softmax(logits); padding_mask = labels.eq(-100); labels = clamp(labels, 0)
//   nll_loss = log_probs.gather(labels); smoothed_loss = log_probs.sum(-1, keepdim=True)
//   each .masked_fill_(padding_mask, 0); each .sum() / denominator
//   return 0.9 * nll_loss + 0.1 * smoothed_loss
void AppendTrainerSmoothing(ProgramWriter& writer, const CallPlace& place, NameId logits,
                            NameId labels, const SmoothedBy& by) {
  LossFunction f(writer, place);
  f.Hold(by.outputs);
  if (by.shifts) {
    logits = Shortened(f, logits, 1, "logits");
    f.Hold({logits});
    labels = Shortened(f, labels, 0, "labels");  // until that name is bound again
  }
  const TensorType type = f.TypeOf(logits);
  const TensorType number = {type.dtype, {}};
  const Dims column = WithLast(type.dims, 1);
  const bool is_flat = f.TypeOf(labels).dims == WithoutLast(type.dims);
  if (is_flat) labels = f.Make("view", {labels}, "labels", {DType::kInt64, column});
  const NameId logs = f.Make("log_softmax", {logits}, "log_softmax", type);
  const NameId log_probs = f.Hold("neg", {logs}, "log_probs", type);
  const NameId mask = f.Hold("eq", {labels}, "padding_mask", {DType::kBool, column});
  const NameId index = f.Hold("clamp", {labels}, "labels", {DType::kInt64, column});
  const NameId picked = f.Make("gather", {log_probs, index}, "nll_loss", {type.dtype, column});
  const NameId summed = f.Make("sum", {log_probs}, "smoothed_loss", {DType::kFloat32, column});
  const NameId nll = f.Make("masked_fill_", {picked, mask}, "nll_loss", {type.dtype, column});
  const NameId smooth =
      f.Make("masked_fill_", {summed, mask}, "smoothed_loss", {DType::kFloat32, column});
  const NameId count = by.count == kNoName ? CountActive(f, mask) : by.count;
  const NameId total = f.Make("sum", {nll}, "nll_loss.sum", number);
  const NameId first = f.Hold("div", {total, count}, "nll_loss", number);
  f.Rebind(nll);
  const NameId smooth_total = f.Make("sum", {smooth}, "smoothed_loss.sum", number);
  const NameId numbers = f.Make("mul.Scalar", {count}, "labels * classes", {DType::kInt64, {}});
  const NameId second = f.Hold("div", {smooth_total, numbers}, "smoothed_loss", number);
  f.Rebind(smooth);
  const NameId likely = f.Make("mul.Scalar", {first}, "0.9 * nll_loss", number);
  const NameId spread = f.Make("mul.Scalar", {second}, "0.1 * smoothed_loss", number);
  f.Return(f.Make("add", {likely, spread}, "loss", number));
}

}  // namespace onnxfit
