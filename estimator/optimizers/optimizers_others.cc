// Sources, each row by recorded events: the authors' lion-pytorch 0.2.5, transformers 5.17.0
// (optimization.py), schedulefree 1.4.1 (adamw_schedulefree.py, sgd_schedulefree.py); timm 1.0.31
// (optim/lion.py, adopt.py, lamb.py), prodigyopt 1.1.2 (prodigy.py) and ultralytics 8.4.190
// (optim/muon.py), by their sources and peaks.  SOAP's is in soap_step.h, GaLore's
// in galore_step.h.
#include "estimator/optimizers/optimizer_rows.h"

namespace onnxfit {
namespace {

using States = OptimizerStates;

// transformers' Adafactor, in fp32 whatever the parameter's type is.
TensorType Fp32Scalar(const TensorType& parameter) { return {InFp32(parameter).dtype, {}}; }
TensorType Fp32Matrix(const TensorType& parameter) { return Matrix(InFp32(parameter)); }
TensorType Fp32Vector(const TensorType& parameter) { return Vector(InFp32(parameter)); }
TensorType Fp32Rows(const TensorType& parameter) { return RowVariance(InFp32(parameter)); }
TensorType Fp32Columns(const TensorType& parameter) { return ColumnVariance(InFp32(parameter)); }
TensorType Fp32MeanOfRows(const TensorType& parameter) { return MeanOfRows(InFp32(parameter)); }

constexpr States kFactoredInFp32 = {
    {{"exp_avg_sq_row", Fp32Rows}, {"exp_avg_sq_col", Fp32Columns}, {"exp_avg_sq", Fp32Vector}}};
constexpr Making kFp32Norm = {.type = Fp32Scalar, .summed = InFp32};

// Statements of step(), with those of _rms and _approx_sq_grad.
constexpr OptimizerSteps kAdafactorOfTransformers = {
    kMakeStates,
    // grad = p.grad.float(); p_data_fp32 = p.float()
    Delete(Local::kGradient), Bind(Local::kGradient, {CopyInFp32}), Delete(Local::kParameter),
    Bind(Local::kParameter, {CopyInFp32}),
    // state["RMS"] = p.norm(2) / …
    Bind(Local::kMean, kFp32Norm), Keep({Fp32Scalar}), Delete(Local::kMean),
    // update = grad**2 + eps
    Bind(Local::kSquare, {InFp32}), Bind(Local::kEstimate, {InFp32}), Delete(Local::kSquare),
    Alias(Local::kUpdate, Local::kEstimate), Delete(Local::kEstimate),
    // exp_avg_sq_row.add_(update.mean(dim=-1)), exp_avg_sq_col.add_(update.mean(dim=-2))
    Pass({.type = Fp32Rows, .summed = Fp32Matrix, .dim = Reduced::kLast}),
    Pass({.type = Fp32Columns, .summed = Fp32Matrix, .dim = Reduced::kLastButOne}),
    // r_factor = row / row.mean(dim=-1); c_factor = col.rsqrt(); return r_factor * c_factor
    Bind(Local::kMean, {.type = Fp32MeanOfRows, .summed = Fp32Rows, .dim = Reduced::kLastButOne}),
    Bind(Local::kRowMean, {Fp32Rows}), Delete(Local::kMean),
    Bind(Local::kColumnMean, {Fp32Columns}), Bind(Local::kEstimate, {Fp32Matrix}),
    Delete(Local::kRowMean), Delete(Local::kColumnMean),
    // update = exp_avg_sq.rsqrt()
    Bind(Local::kEstimate, {Fp32Vector}), Alias(Local::kUpdate, Local::kEstimate),
    Delete(Local::kEstimate),
    // update.div_(update.norm(2) / … / clip_threshold)
    Bind(Local::kMean, kFp32Norm), Bind(Local::kNumerator, {Fp32Scalar}), Delete(Local::kMean),
    Bind(Local::kClampedNorm, {Fp32Scalar}), Delete(Local::kNumerator), Delete(Local::kClampedNorm),
    // p.add_(-update)
    Pass({InFp32})};

// schedulefree: the point z beside the parameter, which is y.
constexpr States kScheduleFree = {{{"z", Same}, {"exp_avg_sq", Same}}};

// MuSGD.step(), with nesterov: updates = torch._foreach_add(grads, buffers, alpha=momentum).
constexpr OptimizerRule OfMuSgd(uint8_t args) {
  OptimizerSteps steps = {};
  size_t at = 0;
  if ((args & kUseMuon) != 0) steps[at++] = kUpdateByMuon;
  steps[at++] = Delete(Local::kGradient);
  if ((args & kWeightDecay) != 0) steps[at++] = kDecay;
  steps[at++] = Bind(Local::kUpdate, {Same});
  return {.optimizer = Optimizer::kMuSgd,
          .impl = OptimizerImpl::kForeach,
          .args = args,
          .states = (args & kUseMuon) != 0
                        ? States{{{"momentum_buffer", Same}, {"momentum_buffer_SGD", Same}}}
                        : States{{{"momentum_buffer", Same}}},
          .in_step_itself = true,
          .steps = steps};
}

constexpr OptimizerRule kOtherOptimizers[] = {
    {.optimizer = Optimizer::kLion,
     .impl = OptimizerImpl::kForLoop,
     .states = {{{"exp_avg", Same}}},
     .states_made = StatesMade::kByStatement,
     .steps = {kMakeStates, Bind(Local::kEstimate, {Same}), Bind(Local::kUpdate, {Same}),
               Delete(Local::kEstimate), Delete(Local::kUpdate)}},

    // p0 is one number for a parameter that is all zeros; which are, data decide.
    {.optimizer = Optimizer::kProdigy,
     .impl = OptimizerImpl::kForLoop,
     .states = {{{"s", Same}, {"p0", Same}, {"exp_avg", Same}, {"exp_avg_sq", Same}}},
     .states_made = StatesMade::kByStatement,
     .steps = {kMakeStates,
               // torch.dot(sliced_grad, p0.data - p.data).item(), s.abs().sum().item()
               Bind(Local::kEstimate, {Same}), Pass({.type = Scalar, .product = true}),
               Delete(Local::kEstimate), Bind(Local::kEstimate, {Same}),
               Pass({.type = Scalar, .summed = Same}), Delete(Local::kEstimate), kLoopAnew,
               Bind(Local::kDenominator, {Same})}},

    {.optimizer = Optimizer::kSoap,
     .impl = OptimizerImpl::kForLoop,
     .states_made = StatesMade::kByStatement,
     .in_step_itself = true,
     .steps = {kTurnOfSoap}},

    {.optimizer = Optimizer::kGaLore,
     .impl = OptimizerImpl::kForLoop,
     .states_made = StatesMade::kByStatement,
     .in_step_itself = true,
     .steps = {kTurnOfGaLore}},

    OfMuSgd(0),
    OfMuSgd(kWeightDecay),
    OfMuSgd(kUseMuon),
    OfMuSgd(kUseMuon | kWeightDecay),

    {.optimizer = Optimizer::kAdafactorTransformers,
     .impl = OptimizerImpl::kForLoop,
     .states = kFactoredInFp32,
     .states_made = StatesMade::kByStatement,
     .steps = kAdafactorOfTransformers},

    {.optimizer = Optimizer::kScheduleFreeAdamW,
     .impl = OptimizerImpl::kForeach,
     .states = kScheduleFree,
     .steps = {Bind(Local::kDenominator, {Same})}},
    {.optimizer = Optimizer::kScheduleFreeAdamW,
     .impl = OptimizerImpl::kForLoop,
     .states = kScheduleFree,
     .steps = {Bind(Local::kDenominator, {Same})}},

    // Its weight decay adds to the gradients in place.
    {.optimizer = Optimizer::kScheduleFreeSgd,
     .impl = OptimizerImpl::kForeach,
     .states = {{{"z", Same}}}},
    {.optimizer = Optimizer::kScheduleFreeSgd,
     .impl = OptimizerImpl::kForLoop,
     .states = {{{"z", Same}}}},

    // Whole lists: they are in parts where a quarter of the L2 cache has 4 Mi elements or more, 64
    // MiB of fp32 and 32 MiB of 16 bits (_foreach_chunk_elements).
    {.optimizer = Optimizer::kTimmLion,
     .impl = OptimizerImpl::kForeach,
     .states = {{{"exp_avg", Same}}},
     .steps = {Bind(Local::kUpdate, {Same})}},
    {.optimizer = Optimizer::kTimmAdopt,
     .impl = OptimizerImpl::kForeach,
     .states = kMoments,
     .begins_with_states = true,
     .steps = {Bind(Local::kDenominator, {Same}), Bind(Local::kUpdate, {Same})}},
    {.optimizer = Optimizer::kTimmAdopt,
     .impl = OptimizerImpl::kForeach,
     .args = kWeightDecay,
     .states = kMoments,
     .begins_with_states = true,
     .steps = {kDecay, Bind(Local::kDenominator, {Same}), Bind(Local::kUpdate, {Same})}},
    {.optimizer = Optimizer::kTimmLamb,
     .impl = OptimizerImpl::kForeach,
     .states = kMoments,
     .by_norm_of_all = true,
     .steps = {Bind(Local::kGradient, {Same}), Bind(Local::kDenominator, {Same}),
               Bind(Local::kUpdate, {Same})}},
    // Those that decay are scaled by a ratio of norms.
    {.optimizer = Optimizer::kTimmLamb,
     .impl = OptimizerImpl::kForeach,
     .args = kWeightDecay,
     .states = kMoments,
     .by_norm_of_all = true,
     .steps = {Bind(Local::kGradient, {Same}), Bind(Local::kDenominator, {Same}),
               Bind(Local::kUpdate, {Same}), Norms(Local::kMean, Same),
               Norms(Local::kClampedNorm, Same)}},
};

}  // namespace

std::span<const OptimizerRule> OtherOptimizers() { return kOtherOptimizers; }

}  // namespace onnxfit
