// Losses.  Sources: pytorch v2.11.0, tools/autograd/derivatives.yaml; what they make,
// aten/src/ATen/native/Loss.cpp, its CUDA kernels in native/cuda/Loss.cu, LossMultiMargin… and
// DistanceKernel.cu; orders from recorded events, torch 2.11 (the flat nll_loss allocates
// total_weight after the loss, the spatial one before it).  Autocast: all but
// binary_cross_entropy, which it refuses, run in fp32 (aten/src/ATen/autocast_mode.h).
#include <utility>
#include <vector>

#include "estimator/base/strided_loops.h"
#include "estimator/operators/dispatcher.h"
#include "estimator/operators/kernel_scratch.h"
#include "estimator/operators/layouts.h"
#include "estimator/operators/op_rule.h"

namespace onnxfit {
namespace {

// --- Losses that are calls of others: ints are their reduction, 0 none, 1 mean, 2 sum ------------

// The errors, and what is made of them: the result itself where nothing is reduced.
void EndLoss(Dispatcher& d, const AtenCall& call, std::string_view op, std::vector<NameId> inputs,
             const TensorType& errors) {
  const int64_t reduction = call.ints.empty() ? 1 : call.ints[0];
  if (reduction == 0) return d.MakeResult(op, std::move(inputs));
  const NameId each = d.Make(op, std::move(inputs), errors);
  d.MakeResult(reduction == 1 ? "mean" : "sum", {each});
}

// Of x and y as they are broadcast.
TensorType ErrorsOf(const Dispatcher& d, NameId x, NameId y) {
  return {d.TypeOf(x).dtype, BroadcastDims(d.TypeOf(x).dims, d.TypeOf(y).dims)};
}

// abs (x - target)
void TakeL1Apart(Dispatcher& d, const AtenCall& call) {
  const TensorType errors = ErrorsOf(d, call.inputs[0], call.inputs[1]);
  EndLoss(d, call, "abs", {d.Make("sub", call.inputs, errors)}, errors);
}

// exp (target) * (target - x), or xlogy (target, target) - target * x; ints[1]: the former
void TakeDivergenceApart(Dispatcher& d, const AtenCall& call) {
  const NameId x = call.inputs[0];
  const NameId target = call.inputs[1];
  const TensorType errors = ErrorsOf(d, x, target);
  if (call.ints.size() > 1 && call.ints[1] != 0) {
    const NameId difference = d.Make("sub", {target, x}, errors);
    const NameId weight = d.Make("exp", {target}, d.TypeOf(target));
    return EndLoss(d, call, "mul", {weight, difference}, errors);
  }
  const NameId product = d.Make("mul", {target, x}, errors);
  const NameId entropy = d.Make("xlogy", {target, target}, d.TypeOf(target));
  EndLoss(d, call, "sub", {entropy, product}, errors);
}

// clamp_min_ (-target * (x - y) + margin, 0): what it writes over is a clone, as long as both live
void TakeRankingApart(Dispatcher& d, const AtenCall& call) {
  const TensorType difference = ErrorsOf(d, call.inputs[0], call.inputs[1]);
  const NameId target = call.inputs[2];
  const TensorType errors = {difference.dtype,
                             BroadcastDims(difference.dims, d.TypeOf(target).dims)};
  const NameId order = d.Make("sub", {call.inputs[0], call.inputs[1]}, difference);
  const NameId sign = d.Make("neg", {target}, d.TypeOf(target));
  const NameId product = d.Make("mul", {sign, order}, errors);
  const NameId sum = d.Make("add.Scalar", {product}, errors);
  d.Drop(product);
  d.Drop(order);
  EndLoss(d, call, "clamp_min", {sum}, errors);
}

// where (target != 1, clamp_min_ (margin - x, 0), 0) + where (target != -1, x, 0)
void TakeHingeApart(Dispatcher& d, const AtenCall& call) {
  const NameId x = call.inputs[0];
  const NameId target = call.inputs[1];
  const TensorType errors = ErrorsOf(d, x, target);
  const TensorType chosen = {DType::kBool, d.TypeOf(target).dims};
  const NameId zeros = d.Make("constant", {}, d.TypeOf(x));
  const NameId rest = d.Make("neg", {x}, d.TypeOf(x));
  const NameId margin = d.Make("clamp_min", {rest}, d.TypeOf(x));
  const NameId is_far = d.Make("ne", {target}, chosen);
  const NameId far = d.Make("where", {is_far, margin, zeros}, errors);
  const NameId is_near = d.Make("ne", {target}, chosen);
  const NameId near = d.Make("where", {is_near, x, zeros}, errors);
  EndLoss(d, call, "add", {far, near}, errors);
}

// x1 · x2 / √((x1² + ε) (x2² + ε)) along the last dimension: where (target == 1, 1 - cos, 0)
// + where (target == -1, clamp_min_ (cos - margin, 0), 0)
void TakeCosineLossApart(Dispatcher& d, const AtenCall& call) {
  const NameId target = call.inputs[2];
  const TensorType products = ErrorsOf(d, call.inputs[0], call.inputs[1]);
  TensorType type = products;
  if (!type.dims.empty()) type.dims.pop_back();
  const auto sum_of = [&](NameId a, NameId b, bool moves) {
    const NameId product = d.Make("mul", {a, b}, products);
    NameId sum = d.Make("sum", {product}, type);
    const NameId moved = moves ? d.Make("add.Scalar", {sum}, type) : kNoName;
    if (moves) d.Drop(sum);
    d.Drop(product);
    return moves ? moved : sum;
  };
  const NameId both = sum_of(call.inputs[0], call.inputs[1], false);
  const NameId first = sum_of(call.inputs[0], call.inputs[0], true);
  const NameId second = sum_of(call.inputs[1], call.inputs[1], true);
  const NameId size = d.Make("sqrt_", {d.Make("mul", {first, second}, type)}, type);
  const NameId cosine = d.Make("div", {both, size}, type);
  const NameId zeros = d.Make("constant", {}, type);
  const NameId far = d.Make("neg", {cosine}, type);
  const NameId near = d.Make("clamp_min", {d.Make("add.Scalar", {cosine}, type)}, type);
  const TensorType errors = {type.dtype, BroadcastDims(type.dims, d.TypeOf(target).dims)};
  const TensorType chosen = {DType::kBool, d.TypeOf(target).dims};
  const NameId alike = d.Make("where", {d.Make("eq", {target}, chosen), far, zeros}, errors);
  const NameId unlike = d.Make("where", {d.Make("eq", {target}, chosen), near, zeros}, errors);
  EndLoss(d, call, "add", {alike, unlike}, errors);
}

// target * log (target) - target + 0.5 * log (2 pi * target), 0 where target <= 1
NameId MakeStirlingTerm(Dispatcher& d, NameId target) {
  const TensorType type = d.TypeOf(target);
  const NameId scaled = d.Make("mul.Scalar", {target}, type);
  const NameId log_scaled = d.Make("log", {scaled}, type);
  const NameId half = d.Make("mul.Scalar", {log_scaled}, type);
  const NameId log = d.Make("log", {target}, type);
  const NameId product = d.Make("mul", {target, log}, type);
  const NameId difference = d.Make("sub", {product, target}, type);
  const NameId sum = d.Make("add", {difference, half}, type);
  for (const NameId local : {difference, product, half, log_scaled}) d.Drop(local);
  const NameId is_small = d.Make("le", {target}, {DType::kBool, type.dims});
  return d.Make("masked_fill", {sum, is_small}, type);
}

// exp (x) - target * x, or x - target * log (x + eps), and Stirling's term; ints: reduction,
// whether x is a logarithm, whether that is added
void TakePoissonApart(Dispatcher& d, const AtenCall& call) {
  const NameId x = call.inputs[0];
  const NameId target = call.inputs[1];
  const TensorType errors = ErrorsOf(d, x, target);
  const bool is_log = call.ints[1] != 0;
  const bool is_full = call.ints[2] != 0;
  const NameId of = is_log ? x : d.Make("log", {d.Make("add.Scalar", {x}, d.TypeOf(x))}, errors);
  const NameId product = d.Make("mul", {target, of}, errors);
  const NameId first = is_log ? d.Make("exp", {x}, d.TypeOf(x)) : x;
  if (!is_full) return EndLoss(d, call, "sub", {first, product}, errors);
  const NameId loss = d.Make("sub", {first, product}, errors);
  d.Drop(product);
  EndLoss(d, call, "add_", {loss, MakeStirlingTerm(d, target)}, errors);
}

// -(log_softmax (x) * target).sum () / N, where targets are probabilities.
void TakeSoftTargetsApart(Dispatcher& d, const AtenCall& call) {
  const TensorType errors = ErrorsOf(d, call.inputs[0], call.inputs[1]);
  const NameId log = d.Make("_log_softmax", {call.inputs[0]}, d.TypeOf(call.inputs[0]));
  const NameId product = d.Make("mul", {log, call.inputs[1]}, errors);
  const NameId sum = d.Make("sum", {product}, {errors.dtype, {}});
  d.MakeResult("mul.Scalar", {d.Make("neg", {sum}, {errors.dtype, {}})});
}

// The mean of -log_softmax (x) over the classes, where labels are to be followed, in float.
NameId MakeSmoothLoss(Dispatcher& d, NameId log, NameId labels) {
  TensorType type = d.TypeOf(log);
  type.dims.erase(type.dims.begin() + (type.dims.size() > 1 ? 1 : 0));
  const NameId sum = d.Make("sum", {log}, type);
  const NameId smooth = d.Make("neg", {sum}, type);
  d.Drop(sum);
  const TensorType mask = {DType::kBool, d.TypeOf(labels).dims};
  const NameId is_ignored = d.Make("eq", {labels}, mask);
  const NameId filled = d.Make("masked_fill_", {smooth, is_ignored}, type);
  const NameId is_told = d.Make("logical_not", {is_ignored}, mask);
  const NameId count = d.Make("sum", {is_told}, {DType::kInt64, {}});
  const NameId total = d.Make("sum", {filled}, {type.dtype, {}});
  const NameId mean = d.Make("div", {total, count}, {type.dtype, {}});
  for (const NameId local : {total, count, is_told}) d.Drop(local);
  return mean;
}

// (1 - s) * nll_loss (log_softmax (x), labels) + s / classes * the mean of -log_softmax (x), whose
// products are made from the right (cross_entropy_loss_label_smoothing; recorded events).
void TakeSmoothedApart(Dispatcher& d, const AtenCall& call) {
  const NameId labels = call.inputs[1];
  const NameId log = d.Make("_log_softmax", {call.inputs[0]}, d.TypeOf(call.inputs[0]));
  const bool is_spatial = d.TypeOf(log).dims.size() > 2;
  const NameId loss = d.MakeInAutocast(is_spatial ? "nll_loss2d" : "nll_loss", {log, labels},
                                       {d.TypeOf(log).dtype, {}});
  const TensorType number = d.TypeOf(loss);
  const NameId mean = MakeSmoothLoss(d, log, labels);
  const NameId second = d.Make("mul.Scalar", {mean}, number);
  const NameId first = d.Make("mul.Scalar", {loss}, number);
  d.MakeResult("add", {first, second});
}

// ints: 1 where labels are smoothed.
void TakeCrossEntropyApart(Dispatcher& d, const AtenCall& call) {
  const bool smooths = !call.ints.empty() && call.ints[0] != 0;
  smooths ? TakeSmoothedApart(d, call) : TakeSoftTargetsApart(d, call);
}

// --- Kernels -------------------------------------------------------------------------------------

TensorType TotalWeight(const CallTypes& call) { return {call.in(0).dtype, {}}; }

bool IsReduced(const CallTypes& call) {
  return call.out(0).dims.empty() && !call.in(0).dims.empty();
}

// A result that is made for the errors, and resized to one number.
TensorType ErrorsUnlessEmpty(const CallTypes& call) {
  const StridedType& x = call.in(0);
  return Numel(x.dims) == 0 ? TensorType(call.out(0)) : TensorType(x);
}

// Errors that are reduced, and: the number that they are reduced to.
TensorType ReducedErrors(const CallTypes& call) {
  return IsReduced(call) ? TensorType{call.out(0).dtype, call.in(0).dims} : TensorType();
}
TensorType ReducedNumber(const CallTypes& call) {
  return IsReduced(call) ? TensorType{call.out(0).dtype, {}} : TensorType();
}
// The sum of all errors, dense, by several blocks of a kernel.
SumScratch ScratchOfErrors(const CallTypes& call) {
  if (!IsReduced(call)) return {};
  const StridedType& x = call.in(0);
  return ScratchOf(SumOver(call.out(0).dtype, x.dims, ContiguousStrides(x.dims), 0), call.device());
}
TensorType SumsOfErrors(const CallTypes& call) {
  return ScratchBytes(ScratchOfErrors(call).partial_bytes);
}
TensorType SemaphoresOfErrors(const CallTypes& call) {
  return ScratchBytes(ScratchOfErrors(call).semaphore_bytes);
}
// An error for each sample of [N, C].
TensorType ReducedRows(const CallTypes& call) {
  const bool has_rows = IsReduced(call) && call.in(0).dims.size() > 1;
  return has_rows ? TensorType{call.out(0).dtype, {call.in(0).dims[0]}} : TensorType();
}

// A summand for each other row: [N - 1, N, D] of x [N, D].
TensorType DistanceSummands(const CallTypes& call) {
  const Dims& dims = call.in(0).dims;
  return {call.out(0).dtype, {dims[0] - 1, dims[0], dims[1]}};
}

// at::pdist of aten/src/ATen/native/Distance.cpp
void TakePairDistancesApart(Dispatcher& d, const AtenCall& call) {
  d.MakeResult("pdist", {MakeDense(d, call.inputs[0])});
}

// As both operands do, where it is not reduced.
Dims AsErrors(const CallTypes& call) { return IsReduced(call) ? Dims() : AsOperands(call); }

constexpr OpRule kLossRules[] = {
    // Inside of cross_entropy autocast leaves it in 16 bits (torch 2.11 events).
    {.name = "_log_softmax",
     .gradients = {Reads(Out(0))},
     .reads_input = &FrameworkProfile::softmax_reads_input,
     .forward = {MakeOut(0), Scratch(DenseInput<0>)},
     .backward = {MakeGrad(0), Scratch(DenseGradient)}},
    // log-probabilities, labels, weights of classes
    {.name = "nll_loss",
     .autocast = AutocastPolicy::kFp32,
     .gradients = {Reads(In(0) | In(1) | In(2) | Aux(0))},
     .aux = {{{"total_weight", TotalWeight}}}},
    {.name = "nll_loss2d",
     .autocast = AutocastPolicy::kFp32,
     .gradients = {Reads(In(0) | In(1) | In(2) | Aux(0))},
     .aux = {{{"total_weight", TotalWeight}}},
     .forward = {MakeAux(0), MakeOut(0)}},
    // prediction, target.  The result is made for the errors and resized to their mean's one
    // number (TORCH_META_FUNC(mse_loss)).
    {.name = "mse_loss",
     .strides = AsErrors,
     .storage = ErrorsUnlessEmpty,
     .autocast = AutocastPolicy::kFp32,
     .gradients = {Reads(In(0) | In(1)), Reads(In(0) | In(1))},
     .forward = {MakeOut(0), Scratch(ReducedErrors), Scratch(SumsOfErrors),
                 Passing(SemaphoresOfErrors)}},
    {.name = "huber_loss",
     .strides = AsErrors,
     .autocast = AutocastPolicy::kFp32,
     .gradients = {Reads(In(0) | In(1)), Reads(In(0) | In(1))},
     .forward = {Scratch(ReducedErrors), MakeOut(0), Scratch(SumsOfErrors),
                 Passing(SemaphoresOfErrors)}},
    // prediction, target, weight.  The result is made for the errors and resized.
    {.name = "binary_cross_entropy",
     .storage = ErrorsUnlessEmpty,
     .gradients = {ReadsAsInput(In(0) | In(1) | In(2)), ReadsAsInput(In(0) | In(1) | In(2))},
     .forward = {MakeOut(0), Scratch(ReducedNumber), Scratch(SumsOfErrors),
                 Passing(SemaphoresOfErrors)}},
    // The logarithm of the sigmoid, then errors; of the target's gradient grad * -x
    {.name = "binary_cross_entropy_with_logits",
     .autocast = AutocastPolicy::kFp32,
     .gradients = {ReadsAsInput(In(0) | In(1) | In(2)), ReadsAsInput(In(0) | In(1) | In(2))},
     .forward = {Scratch(LikeInput), Scratch(ReducedErrors), MakeOut(0), Scratch(SumsOfErrors),
                 Passing(SemaphoresOfErrors)},
     .backward = {MakeGrad(0), ScratchWith(1, LikeInput), MakeGrad(1)}},
    // log (1 + exp (-target * x)); -target * grad * z / (1 + z) of z = exp (-target * x)
    {.name = "soft_margin_loss",
     .storage = ErrorsUnlessEmpty,
     .autocast = AutocastPolicy::kFp32,
     .gradients = {Reads(In(0) | In(1))},
     .forward = {MakeOut(0), Scratch(ReducedNumber), Scratch(SumsOfErrors),
                 Passing(SemaphoresOfErrors)},
     .backward = {Scratch(LikeInput), Scratch(LikeInput), MakeGrad(0)}},
    // scores, labels, weights of classes
    {.name = "multi_margin_loss",
     .autocast = AutocastPolicy::kFp32,
     .gradients = {Reads(In(0) | In(1) | In(2))},
     .forward = {MakeOut(0), Scratch(DenseInput<0>), Scratch(ReducedRows)},
     .backward = {MakeGrad(0), Scratch(DenseInput<0>)}},
    {.name = "multilabel_margin_loss",
     .autocast = AutocastPolicy::kFp32,
     .gradients = {Reads(In(0) | In(1) | Aux(0))},
     .aux = {{{"is_target", LikeInput}}},
     .forward = {Scratch(DenseInput<0>), MakeAux(0), Scratch(ReducedRows), MakeOut(0)},
     .backward = {MakeGrad(0), Scratch(DenseInput<0>)}},
    // Distances of all pairs of rows.
    {.name = "pdist",
     .take_apart = TakePairDistancesApart,
     .autocast = AutocastPolicy::kFp32,
     .gradients = {Reads(In(0) | Out(0))},
     .backward = {MakeGrad(0), Scratch(DistanceSummands)}},

    {.name = "cross_entropy_loss", .take_apart = TakeCrossEntropyApart},
    {.name = "l1_loss", .take_apart = TakeL1Apart, .autocast = AutocastPolicy::kFp32},
    {.name = "kl_div", .take_apart = TakeDivergenceApart, .autocast = AutocastPolicy::kFp32},
    {.name = "margin_ranking_loss",
     .take_apart = TakeRankingApart,
     .autocast = AutocastPolicy::kFp32},
    {.name = "hinge_embedding_loss",
     .take_apart = TakeHingeApart,
     .autocast = AutocastPolicy::kFp32},
    {.name = "cosine_embedding_loss",
     .take_apart = TakeCosineLossApart,
     .autocast = AutocastPolicy::kFp32},
    {.name = "poisson_nll_loss", .take_apart = TakePoissonApart, .autocast = AutocastPolicy::kFp32},

    // No operator: what a watched step does between its calls (Program::actions).
    {.name = "action", .has_own_type = true},
};

}  // namespace

std::span<const OpRule> LossRules() { return kLossRules; }

}  // namespace onnxfit
