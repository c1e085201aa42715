// torch.optim.  Sources: torch/optim/*.py, pytorch v2.11.0 and v2.15.0, each row by recorded
// events.
#include <algorithm>

#include "estimator/optimizers/optimizer_rows.h"

namespace onnxfit {
namespace {

// Fused kernels count steps on the device, in fp32.
TensorType StepCount(const TensorType&) { return {DType::kFloat32, {}}; }

using States = OptimizerStates;
constexpr States kMoments3 = {{{"exp_avg", Same}, {"exp_avg_sq", Same}, {"max_exp_avg_sq", Same}}};
constexpr States kMoments3OnDevice = {
    {{"step", StepCount}, {"exp_avg", Same}, {"exp_avg_sq", Same}, {"max_exp_avg_sq", Same}}};
constexpr States kMomentum = {{{"momentum_buffer", Same}}};
constexpr States kMomentsOnDevice = {
    {{"step", StepCount}, {"exp_avg", Same}, {"exp_avg_sq", Same}}};
constexpr States kInfinityNorm = {{{"exp_avg", Same}, {"exp_inf", Same}}};
constexpr States kSquareAverage = {{{"square_avg", Same}}};
constexpr States kSum = {{{"sum", Same}}};
constexpr States kSumOnDevice = {{{"step", StepCount}, {"sum", Same}}};
constexpr States kFactored = {
    {{"row_var", RowVariance}, {"col_var", ColumnVariance}, {"variance", Vector}}};

// Adafactor's norms and means.
constexpr Making kNorm = {.type = Scalar, .summed = Same};
constexpr Making kRowNorm = {.type = RowVariance, .summed = Matrix, .dim = Reduced::kLast};
constexpr Making kColumnNorm = {
    .type = ColumnVariance, .summed = Matrix, .dim = Reduced::kLastButOne};
constexpr Making kMeanOfRows = {
    .type = MeanOfRows, .summed = RowVariance, .dim = Reduced::kLastButOne};
constexpr Making kOuterProduct = {.type = Matrix, .product = true};

// Muon's iteration, in bf16: what is there already is not copied.
TensorType InBf16(const TensorType& parameter) { return {DType::kBFloat16, parameter.dims}; }
TensorType CopyInBf16(const TensorType& parameter) {
  return parameter.dtype == DType::kBFloat16 ? TensorType() : InBf16(parameter);
}
TensorType Bf16Scalar(const TensorType&) { return {DType::kBFloat16, {}}; }
TensorType GramMatrix(const TensorType& parameter) {
  const int64_t side = std::min(parameter.dims[0], parameter.dims[1]);
  return {DType::kBFloat16, {side, side}};
}

// ASGD's scalars are on the device in every implementation.
TensorType Fp32Number(const TensorType&) { return {DType::kFloat32, {}}; }
constexpr States kAveraged = {
    {{"step", Fp32Number}, {"eta", Fp32Number}, {"mu", Fp32Number}, {"ax", Same}}};
// intermediate = torch._foreach_add(…); del intermediate; the same with _foreach_sub; then
// new_etas and new_mus, numbers brought to the device.
constexpr UpdateStep kIntermediate = Bind(Local::kUpdate, {Same});
constexpr UpdateStep kNewEtas = Bind(Local::kNumerator, {Fp32Number});
constexpr UpdateStep kNewMus = Bind(Local::kDenominator, {Fp32Number});

constexpr States kSquaresAndDeltas = {{{"square_avg", Same}, {"acc_delta", Same}}};
constexpr UpdateStep kStd = Bind(Local::kDenominator, {Same});
constexpr UpdateStep kDelta = Bind(Local::kNumerator, {Same});

// The update, whose norm is clamped, then five iterations of Newton and Schulz.
constexpr OptimizerSteps MuonSteps() {
  OptimizerSteps steps = {Bind(Local::kUpdate, {Same}),
                          Alias(Local::kOrthogonal, Local::kUpdate),
                          Bind(Local::kOrthogonal, {CopyInBf16}),
                          Bind(Local::kMean, {.type = Bf16Scalar, .summed = InBf16}),
                          Bind(Local::kClampedNorm, {Bf16Scalar}),
                          Delete(Local::kMean),
                          Delete(Local::kClampedNorm)};
  size_t at = 7;
  for (int iteration = 0; iteration < 5; ++iteration) {
    steps[at++] = Bind(Local::kGram, {.type = GramMatrix, .product = true});
    steps[at++] = Bind(Local::kGramUpdate, {.type = GramMatrix, .product = true});
    steps[at++] = Bind(Local::kOrthogonal, {.type = InBf16, .product = true});
  }
  steps[at++] = Delete(Local::kGram);
  steps[at++] = Delete(Local::kGramUpdate);
  steps[at++] = Alias(Local::kUpdate, Local::kOrthogonal);
  steps[at++] = Delete(Local::kOrthogonal);
  return steps;
}

// grad = momentum_buffer
constexpr UpdateStep kTakeMomentum = Delete(Local::kGradient);
// grad = grad.add(momentum_buffer, alpha=momentum)
constexpr UpdateStep kAddMomentum = Bind(Local::kGradient, {Same});

constexpr OptimizerRule OfMomentum(OptimizerImpl impl, uint8_t args, OptimizerSteps steps) {
  return {.optimizer = Optimizer::kSgdMomentum,
          .impl = impl,
          .args = args,
          .states = kMomentum,
          .states_made = StatesMade::kByStatement,
          .steps = steps};
}

constexpr OptimizerRule OfAdam(Optimizer optimizer, OptimizerImpl impl, uint8_t args) {
  const bool decays = (args & kWeightDecay) != 0;
  const bool is_loop = impl == OptimizerImpl::kForLoop;
  OptimizerSteps steps = {};
  size_t at = 0;
  if (decays && is_loop) steps[at++] = kNextGradient;
  if (decays) steps[at++] = kDecay;
  if (decays && !is_loop) steps[at++] = Delete(Local::kGradient);
  if (is_loop) steps[at++] = Bind(Local::kRoot, {Same});
  steps[at++] = Bind(Local::kDenominator, {Same});
  if (is_loop) steps[at++] = Delete(Local::kRoot);
  return {.optimizer = optimizer,
          .impl = impl,
          .args = args,
          .states = (args & kAmsgrad) != 0 ? kMoments3 : kMoments,
          .steps = steps};
}

// Before 2.1 foreach wrote denom = torch._foreach_add(exp_avg_sq_sqrt, eps): both lists, and those
// of what has decayed, stay until the step returns (torch/optim/adam.py and adamw.py, 2.0.1).
constexpr OptimizerRule OfFirstAdam(Optimizer optimizer, uint8_t args) {
  OptimizerRule rule = OfAdam(optimizer, OptimizerImpl::kForeach, args);
  const UpdateStep root = Bind(Local::kRoot, {Same}), sum = Bind(Local::kDenominator, {Same});
  const bool decays = (args & kWeightDecay) != 0;
  rule.steps = decays ? OptimizerSteps{kDecay, root, sum} : OptimizerSteps{root, sum};
  rule.only_where = &FrameworkProfile::adam_adds_anew;
  return rule;
}

constexpr OptimizerRule OfFusedAdam(Optimizer optimizer, uint8_t args) {
  return {.optimizer = optimizer,
          .impl = OptimizerImpl::kFused,
          .args = args,
          .states = (args & kAmsgrad) != 0 ? kMoments3OnDevice : kMomentsOnDevice};
}

constexpr OptimizerRule kOptimizersOfTorch[] = {
    {.optimizer = Optimizer::kNone, .impl = OptimizerImpl::kForeach},

    {.optimizer = Optimizer::kSgd, .impl = OptimizerImpl::kForeach},
    {.optimizer = Optimizer::kSgd,
     .impl = OptimizerImpl::kForeach,
     .args = kWeightDecay,
     .steps = {kDecay}},
    {.optimizer = Optimizer::kSgd, .impl = OptimizerImpl::kForLoop},
    {.optimizer = Optimizer::kSgd,
     .impl = OptimizerImpl::kForLoop,
     .args = kWeightDecay,
     .steps = {kNextGradient, kDecay}},
    {.optimizer = Optimizer::kSgd, .impl = OptimizerImpl::kFused},

    // Foreach adds the momentum to the gradients, or to their copies, in place.
    OfMomentum(OptimizerImpl::kForeach, 0, {kMakeStates}),
    OfMomentum(OptimizerImpl::kForeach, kNesterov, {kMakeStates}),
    OfMomentum(OptimizerImpl::kForeach, kWeightDecay, {kDecay, kMakeStates, kTakeMomentum}),
    OfMomentum(OptimizerImpl::kForeach, kWeightDecay | kNesterov, {kDecay, kMakeStates}),
    OfMomentum(OptimizerImpl::kForLoop, 0, {kMakeStates}),
    OfMomentum(OptimizerImpl::kForLoop, kNesterov, {kNextGradient, kMakeStates, kAddMomentum}),
    OfMomentum(OptimizerImpl::kForLoop, kWeightDecay,
               {kNextGradient, kDecay, kMakeStates, kTakeMomentum}),
    OfMomentum(OptimizerImpl::kForLoop, kWeightDecay | kNesterov,
               {kNextGradient, kDecay, kMakeStates, kAddMomentum}),
    {.optimizer = Optimizer::kSgdMomentum, .impl = OptimizerImpl::kFused, .states = kMomentum},

    OfFirstAdam(Optimizer::kAdam, 0),
    OfFirstAdam(Optimizer::kAdam, kWeightDecay),
    OfFirstAdam(Optimizer::kAdam, kAmsgrad),
    OfFirstAdam(Optimizer::kAdam, kWeightDecay | kAmsgrad),
    OfAdam(Optimizer::kAdam, OptimizerImpl::kForeach, 0),
    OfAdam(Optimizer::kAdam, OptimizerImpl::kForeach, kWeightDecay),
    OfAdam(Optimizer::kAdam, OptimizerImpl::kForeach, kAmsgrad),
    OfAdam(Optimizer::kAdam, OptimizerImpl::kForeach, kWeightDecay | kAmsgrad),
    OfAdam(Optimizer::kAdam, OptimizerImpl::kForLoop, 0),
    OfAdam(Optimizer::kAdam, OptimizerImpl::kForLoop, kWeightDecay),
    OfAdam(Optimizer::kAdam, OptimizerImpl::kForLoop, kAmsgrad),
    OfAdam(Optimizer::kAdam, OptimizerImpl::kForLoop, kWeightDecay | kAmsgrad),
    OfFusedAdam(Optimizer::kAdam, 0),
    OfFusedAdam(Optimizer::kAdam, kAmsgrad),

    // Its decay scales parameters in place.
    OfFirstAdam(Optimizer::kAdamW, 0),
    OfFirstAdam(Optimizer::kAdamW, kAmsgrad),
    OfAdam(Optimizer::kAdamW, OptimizerImpl::kForeach, 0),
    OfAdam(Optimizer::kAdamW, OptimizerImpl::kForeach, kAmsgrad),
    OfAdam(Optimizer::kAdamW, OptimizerImpl::kForLoop, 0),
    OfAdam(Optimizer::kAdamW, OptimizerImpl::kForLoop, kAmsgrad),
    OfFusedAdam(Optimizer::kAdamW, 0),
    OfFusedAdam(Optimizer::kAdamW, kAmsgrad),

    {.optimizer = Optimizer::kRmsprop,
     .impl = OptimizerImpl::kForeach,
     .states = kSquareAverage,
     .steps = {Bind(Local::kDenominator, {Same})}},
    {.optimizer = Optimizer::kRmsprop,
     .impl = OptimizerImpl::kForeach,
     .args = kWeightDecay,
     .states = kSquareAverage,
     .steps = {kDecay, Bind(Local::kDenominator, {Same})}},
    {.optimizer = Optimizer::kRmsprop,
     .impl = OptimizerImpl::kForLoop,
     .states = kSquareAverage,
     .steps = {Bind(Local::kDenominator, {Same})}},
    {.optimizer = Optimizer::kRmsprop,
     .impl = OptimizerImpl::kForLoop,
     .args = kWeightDecay,
     .states = kSquareAverage,
     .steps = {kNextGradient, kDecay, Bind(Local::kDenominator, {Same})}},

    {.optimizer = Optimizer::kAdagrad,
     .impl = OptimizerImpl::kForeach,
     .states = kSum,
     .states_made = StatesMade::kConstruction,
     .steps = {Bind(Local::kDenominator, {Same}), Bind(Local::kNumerator, {Same})},
     .joined_blocks = 3},  // grad, std and their quotient
    // What has decayed becomes the numerator.
    {.optimizer = Optimizer::kAdagrad,
     .impl = OptimizerImpl::kForeach,
     .args = kWeightDecay,
     .states = kSum,
     .states_made = StatesMade::kConstruction,
     .steps = {kDecay, Bind(Local::kDenominator, {Same})}},
    {.optimizer = Optimizer::kAdagrad,
     .impl = OptimizerImpl::kForLoop,
     .states = kSum,
     .states_made = StatesMade::kConstruction,
     .steps = {Bind(Local::kDenominator, {Same})},
     .joined_blocks = 3},  // grad, std and their quotient
    {.optimizer = Optimizer::kAdagrad,
     .impl = OptimizerImpl::kForLoop,
     .args = kWeightDecay,
     .states = kSum,
     .states_made = StatesMade::kConstruction,
     .steps = {kNextGradient, kDecay, Bind(Local::kDenominator, {Same})}},
    {.optimizer = Optimizer::kAdagrad,
     .impl = OptimizerImpl::kFused,
     .only_where = &FrameworkProfile::fused_adagrad,
     .states = kSumOnDevice,
     .states_made = StatesMade::kConstruction},

    // Of sparse gradients alone (torch/optim/sparse_adam.py).
    {.optimizer = Optimizer::kSparseAdam,
     .impl = OptimizerImpl::kForLoop,
     .states = kMoments,
     // grad, both old averages, both new ones, and the update
     .joined_blocks = 6},

    {.optimizer = Optimizer::kAdafactor,
     .impl = OptimizerImpl::kForLoop,
     .states = kFactored,
     .steps = {Pass(kNorm), Bind(Local::kRowMean, kRowNorm), Bind(Local::kColumnMean, kColumnNorm),
               Bind(Local::kEstimate, kOuterProduct), Pass(kMeanOfRows),
               Bind(Local::kSquare, {Vector}), Bind(Local::kEstimate, {Vector}),
               Alias(Local::kUpdate, Local::kEstimate), Pass(kNorm)}},
    {.optimizer = Optimizer::kAdafactor,
     .impl = OptimizerImpl::kForeach,
     .states = kFactored,
     .matrices_apart = true,
     .steps = {Pass(kNorm), Bind(Local::kRowMean, kRowNorm), Delete(Local::kRowMean),
               Bind(Local::kColumnMean, kColumnNorm), Delete(Local::kColumnMean),
               Bind(Local::kEstimate, kOuterProduct), Bind(Local::kMean, kMeanOfRows),
               Delete(Local::kMean), Bind(Local::kSquare, {Vector}), Delete(Local::kSquare),
               Bind(Local::kEstimate, {Vector}), Alias(Local::kUpdate, Local::kEstimate),
               Pass(kNorm)}},

    // What has decayed stays until the step returns.
    {.optimizer = Optimizer::kNAdam,
     .impl = OptimizerImpl::kForeach,
     .states = kMoments,
     .steps = {Bind(Local::kDenominator, {Same})}},
    {.optimizer = Optimizer::kNAdam,
     .impl = OptimizerImpl::kForeach,
     .args = kWeightDecay,
     .states = kMoments,
     .steps = {kDecay, Bind(Local::kDenominator, {Same})}},
    {.optimizer = Optimizer::kNAdam,
     .impl = OptimizerImpl::kForLoop,
     .states = kMoments,
     .steps = {Bind(Local::kRoot, {Same}), Bind(Local::kDenominator, {Same}),
               Delete(Local::kRoot)}},
    {.optimizer = Optimizer::kNAdam,
     .impl = OptimizerImpl::kForLoop,
     .args = kWeightDecay,
     .states = kMoments,
     .steps = {kNextGradient, kDecay, Bind(Local::kRoot, {Same}), Bind(Local::kDenominator, {Same}),
               Delete(Local::kRoot)}},

    // A loop's temporaries become more with its sixth step, which is not played: no row.
    {.optimizer = Optimizer::kRAdam,
     .impl = OptimizerImpl::kForeach,
     .states = kMoments,
     .steps = {Bind(Local::kDenominator, {Same})}},
    {.optimizer = Optimizer::kRAdam,
     .impl = OptimizerImpl::kForeach,
     .args = kWeightDecay,
     .states = kMoments,
     .steps = {kDecay, Delete(Local::kGradient), Bind(Local::kDenominator, {Same})}},

    // The gradients' magnitudes, in place in what has decayed.
    {.optimizer = Optimizer::kAdamax,
     .impl = OptimizerImpl::kForeach,
     .states = kInfinityNorm,
     .steps = {Bind(Local::kGradient, {Same})}},
    {.optimizer = Optimizer::kAdamax,
     .impl = OptimizerImpl::kForeach,
     .args = kWeightDecay,
     .states = kInfinityNorm,
     .steps = {kDecay}},
    {.optimizer = Optimizer::kAdamax,
     .impl = OptimizerImpl::kForLoop,
     .states = kInfinityNorm,
     .steps = {Pass({Same})}},
    {.optimizer = Optimizer::kAdamax,
     .impl = OptimizerImpl::kForLoop,
     .args = kWeightDecay,
     .states = kInfinityNorm,
     .steps = {kNextGradient, kDecay, Pass({Same})}},

    {.optimizer = Optimizer::kAdadelta,
     .impl = OptimizerImpl::kForeach,
     .states = kSquaresAndDeltas,
     .steps = {kStd, kDelta}},
    {.optimizer = Optimizer::kAdadelta,
     .impl = OptimizerImpl::kForeach,
     .args = kWeightDecay,
     .states = kSquaresAndDeltas,
     .steps = {kDecay, kStd, kDelta}},
    {.optimizer = Optimizer::kAdadelta,
     .impl = OptimizerImpl::kForLoop,
     .states = kSquaresAndDeltas,
     .steps = {kStd, kDelta}},
    {.optimizer = Optimizer::kAdadelta,
     .impl = OptimizerImpl::kForLoop,
     .args = kWeightDecay,
     .states = kSquaresAndDeltas,
     .steps = {kNextGradient, kDecay, kStd, kDelta}},

    // What has decayed is the first intermediate.  A loop's temporaries become more where it
    // begins to average (t0, 1e6 steps): no row.
    {.optimizer = Optimizer::kAsgd,
     .impl = OptimizerImpl::kForeach,
     .states = kAveraged,
     .steps = {kIntermediate, Delete(Local::kUpdate), kIntermediate, Delete(Local::kUpdate),
               kNewEtas, kNewMus}},

    {.optimizer = Optimizer::kMuon,
     .impl = OptimizerImpl::kForLoop,
     .only_where = &FrameworkProfile::has_muon,
     .states = kMomentum,
     .steps = MuonSteps(),
     .of_others = Optimizer::kAdamW},
};

}  // namespace

std::span<const OptimizerRule> OptimizersOfTorch() { return kOptimizersOfTorch; }

}  // namespace onnxfit
