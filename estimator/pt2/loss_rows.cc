// Losses that a model computes itself.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/pt2/call_rows.h"

namespace onnxfit::pt2 {
namespace {

constexpr int64_t kMean = 1;  // at::Reduction

int64_t ReductionOf(CallWriter& writer, const Call& call) {
  return writer.IntAt(call, "reduction", kMean);
}

// Tensors, and how their errors become one number.
void WriteLoss(CallWriter& writer, const Call& call, std::string_view op) {
  writer.Emit(op, writer.Tensors(call), {writer.Result(call)}, {ReductionOf(writer, call)});
}

// A bend at 0 is none.
// Source: smooth_l1_loss of aten/src/ATen/native/Loss.cpp, pytorch v2.11.0.
void WriteSmoothL1(CallWriter& writer, const Call& call, std::string_view op) {
  WriteLoss(writer, call, writer.RealAt(call, "beta", 1) == 0 ? "l1_loss" : op);
}

// Weights of positives need other formulas.
void WriteLogitsLoss(CallWriter& writer, const Call& call, std::string_view op) {
  if (writer.TensorAt(call, "pos_weight") != kNoName) return writer.WriteUnknown(call);
  WriteLoss(writer, call, op);
}

void WriteDivergence(CallWriter& writer, const Call& call, std::string_view op) {
  writer.Emit(op, writer.Tensors(call), {writer.Result(call)},
              {ReductionOf(writer, call), writer.IntAt(call, "log_target", 0)});
}

void WritePoisson(CallWriter& writer, const Call& call, std::string_view op) {
  writer.Emit(op, writer.Tensors(call), {writer.Result(call)},
              {ReductionOf(writer, call), writer.IntAt(call, "log_input", 1),
               writer.IntAt(call, "full", 0)});
}

NameId ViewAs(CallWriter& writer, const Call& call, NameId of, Dims dims) {
  const DType dtype = writer.program().values[Index(of)].type.dtype;
  const NameId view = writer.NewName(std::string(call.name) + ".view", {dtype, std::move(dims)});
  writer.Emit("view", {of}, {view});
  return view;
}

// [N, C] and [C] by one kernel, [N, C, H, W] by another; others as [N, C, 1, rest].
// Source: nll_loss_nd of aten/src/ATen/native/LossNLL.cpp, pytorch v2.11.0.
void WriteNll(CallWriter& writer, const Call& call, NameId scores, NameId labels) {
  const Dims dims = writer.DimsOf(scores);
  const bool is_flat = dims.size() < 3;
  if (!is_flat && dims.size() != 4) {
    if (ReductionOf(writer, call) == 0) return writer.WriteUnknown(call);
    const int64_t rest = Numel(Dims(dims.begin() + 2, dims.end()));
    scores = ViewAs(writer, call, scores, {dims[0], dims[1], 1, rest});
    labels = ViewAs(writer, call, labels, {dims[0], 1, rest});
  }
  std::vector<NameId> operands = {scores, labels};
  const NameId weight = writer.TensorAt(call, "weight");
  if (weight != kNoName) operands.push_back(weight);
  writer.Emit(is_flat ? "nll_loss" : "nll_loss2d", std::move(operands), {writer.Result(call)});
}

void WriteNllLoss(CallWriter& writer, const Call& call, std::string_view) {
  const NameId scores = writer.TensorAt(call, "self");
  const NameId labels = writer.TensorAt(call, "target");
  if (scores == kNoName || labels == kNoName) return writer.WriteUnknown(call);
  WriteNll(writer, call, scores, labels);
}

// A logarithm of softmax, then a loss of its result.  What weighs or does not average smoothed
// labels or probabilities is an unknown call.
// Source: cross_entropy_loss of aten/src/ATen/native/LossNLL.cpp, pytorch v2.11.0.
void WriteCrossEntropy(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId x = writer.TensorAt(call, "self");
  const NameId target = writer.TensorAt(call, "target");
  if (x == kNoName || target == kNoName) return writer.WriteUnknown(call);
  const bool smooths = writer.RealAt(call, "label_smoothing", 0) > 0;
  const bool is_soft = IsFloat(writer.program().values[Index(target)].type.dtype);
  const bool is_plain =
      writer.TensorAt(call, "weight") == kNoName && ReductionOf(writer, call) == kMean;
  if ((is_soft && smooths) || ((is_soft || smooths) && !is_plain)) return writer.WriteUnknown(call);
  if (is_soft || smooths) {
    return writer.Emit(op, {x, target}, {writer.Result(call)}, {smooths ? 1 : 0});
  }
  const TensorType type = writer.program().values[Index(x)].type;
  const NameId log = writer.NewName(std::string(call.name) + ".log_softmax", type);
  writer.Emit("_log_softmax", {x}, {log});
  WriteNll(writer, call, log, target);
}

constexpr CallRow kLossRows[] = {
    {"mse_loss.default", "mse_loss", WriteLoss},
    {"l1_loss.default", "l1_loss", WriteLoss},
    {"smooth_l1_loss.default", "smooth_l1_loss", WriteSmoothL1},
    {"huber_loss.default", "huber_loss", WriteLoss},
    {"binary_cross_entropy.default", "binary_cross_entropy", WriteLoss},
    {"binary_cross_entropy_with_logits.default", "binary_cross_entropy_with_logits",
     WriteLogitsLoss},
    {"cross_entropy_loss.default", "cross_entropy_loss", WriteCrossEntropy},
    {"nll_loss_nd.default", "", WriteNllLoss},
    {"nll_loss.default", "", WriteNllLoss},
    {"kl_div.default", "kl_div", WriteDivergence},
    {"poisson_nll_loss.default", "poisson_nll_loss", WritePoisson},
    {"soft_margin_loss.default", "soft_margin_loss", WriteLoss},
    {"multi_margin_loss.default", "multi_margin_loss", WriteLoss},
    {"multilabel_margin_loss.default", "multilabel_margin_loss", WriteLoss},
    {"margin_ranking_loss.default", "margin_ranking_loss", WriteLoss},
    {"hinge_embedding_loss.default", "hinge_embedding_loss", WriteLoss},
    {"cosine_embedding_loss.default", "cosine_embedding_loss", WriteLoss},
    {"pdist.default", "pdist", WriteUnary},
};

}  // namespace

std::span<const CallRow> LossRows() { return kLossRows; }

}  // namespace onnxfit::pt2
