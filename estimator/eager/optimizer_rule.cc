// Sources: torch/optim/*.py, pytorch v2.11.0 and v2.15.0, each row by recorded events; lion: the
// authors' lion-pytorch 0.2.5, transformers 5.17.0 (optimization.py), schedulefree 1.4.1
// (adamw_schedulefree.py, sgd_schedulefree.py) and bitsandbytes 0.50.2 (optim/optimizer.py,
// ademamix.py), the same way; timm 1.0.31 (optim/lion.py,
// adopt.py, lamb.py), by its source and peaks; torchao 0.18.0 (optim/adam.py, subclass_*.py), by
// its source and Inductor's code of it.
#include "estimator/eager/optimizer_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"

namespace onnxfit {
namespace {

TensorType Same(const TensorType& parameter) { return parameter; }
TensorType Scalar(const TensorType& parameter) { return {parameter.dtype, {}}; }

// Fused kernels count steps on the device, in fp32.
TensorType StepCount(const TensorType&) { return {DType::kFloat32, {}}; }

TensorType Matrix(const TensorType& parameter) {
  return parameter.dims.size() < 2 ? TensorType() : parameter;
}

TensorType Vector(const TensorType& parameter) {
  return parameter.dims.size() < 2 ? parameter : TensorType();
}

// torch.optim.Adafactor: a row and a column instead of the matrix.
TensorType RowVariance(const TensorType& parameter) {
  TensorType type = Matrix(parameter);
  if (!type.dims.empty()) type.dims.back() = 1;
  return type;
}

TensorType ColumnVariance(const TensorType& parameter) {
  TensorType type = Matrix(parameter);
  if (!type.dims.empty()) type.dims[type.dims.size() - 2] = 1;
  return type;
}

TensorType MeanOfRows(const TensorType& parameter) {
  return ColumnVariance(RowVariance(parameter));
}

TensorType InFp32(const TensorType& parameter) {
  const bool wider = parameter.dtype == DType::kFloat64;
  return {wider ? parameter.dtype : DType::kFloat32, parameter.dims};
}
TensorType CopyInFp32(const TensorType& parameter) {
  return InFp32(parameter).dtype == parameter.dtype ? TensorType() : InFp32(parameter);
}

// bitsandbytes: one byte an element and one fp32 scale for 256 of them; small tensors
// stay in fp32.
constexpr int64_t kMin8bitElements = 4096;
constexpr int64_t kBlockElements = 256;

TensorType Quantized(const TensorType& parameter) {
  const bool small = Numel(parameter.dims) < kMin8bitElements;
  return {small ? DType::kFloat32 : DType::kUint8, parameter.dims};
}

TensorType BlockScales(const TensorType& parameter) {
  const int64_t numel = Numel(parameter.dims);
  if (numel < kMin8bitElements) return {};
  return {DType::kFloat32, {RoundUp(numel, kBlockElements) / kBlockElements}};
}

// AdEMAMix._get_state_double_buffer: the fast and the slow average in one tensor.
TensorType Doubled(TensorType type) {
  if (type.dtype != DType::kUndefined) type.dims.insert(type.dims.begin(), 2);
  return type;
}
TensorType QuantizedPair(const TensorType& parameter) { return Doubled(Quantized(parameter)); }
TensorType BlockScalesPair(const TensorType& parameter) { return Doubled(BlockScales(parameter)); }

// name2qmap["dynamic"], name2qmap["udynamic"]
TensorType QuantizationTable(const TensorType& parameter) {
  if (Numel(parameter.dims) < kMin8bitElements) return {};
  return {DType::kFloat32, {256}};
}

TensorType Fp32(const TensorType& parameter) { return {DType::kFloat32, parameter.dims}; }

TensorType Fp32Pair(const TensorType& parameter) { return Doubled(Fp32(parameter)); }

// torchao: as many elements as bitsandbytes asks for, in whole blocks; others have the parameter's
// type, under the name of their codes.
bool IsInBlocks(const TensorType& parameter, int64_t block) {
  const int64_t numel = Numel(parameter.dims);
  return numel >= kMin8bitElements && numel % block == 0;
}

// OptimState8bit, OptimStateFp8: a byte an element; each state has a table of its own.
constexpr int64_t kBlockOf4bit = 128;

TensorType Codes8bit(const TensorType& parameter) {
  return IsInBlocks(parameter, kBlockElements) ? TensorType{DType::kUint8, parameter.dims}
                                               : parameter;
}
TensorType Codes4bit(const TensorType& parameter) {
  return IsInBlocks(parameter, kBlockOf4bit)
             ? TensorType{DType::kUint8, {Numel(parameter.dims) / 2}}
             : parameter;
}
TensorType Scales8bit(const TensorType& parameter) {
  if (!IsInBlocks(parameter, kBlockElements)) return {};
  return {DType::kFloat32, {Numel(parameter.dims) / kBlockElements}};
}
TensorType Scales4bit(const TensorType& parameter) {
  if (!IsInBlocks(parameter, kBlockOf4bit)) return {};
  return {DType::kFloat32, {Numel(parameter.dims) / kBlockOf4bit}};
}
TensorType Moment8bit(const TensorType& parameter) {
  return IsInBlocks(parameter, kBlockElements) ? Fp32(parameter) : TensorType();
}
TensorType Moment4bit(const TensorType& parameter) {
  return IsInBlocks(parameter, kBlockOf4bit) ? Fp32(parameter) : TensorType();
}
TensorType NewFp8(const TensorType& parameter) {
  return IsInBlocks(parameter, kBlockElements) ? Codes8bit(parameter) : TensorType();
}
// Of half a byte each, before two are packed.
TensorType Unpacked4bit(const TensorType& parameter) {
  if (!IsInBlocks(parameter, kBlockOf4bit)) return {};
  return {DType::kInt64, {Numel(parameter.dims)}};
}
TensorType Table8bit(const TensorType& parameter) {
  return IsInBlocks(parameter, kBlockElements) ? TensorType{DType::kFloat32, {256}} : TensorType();
}
TensorType Table4bit(const TensorType& parameter) {
  return IsInBlocks(parameter, kBlockOf4bit) ? TensorType{DType::kFloat32, {16}} : TensorType();
}

// get_state_buffer: elements from which a state of a paged optimizer is F.get_paged(…).
constexpr int64_t kPagedElements = 100000;

constexpr StateTensor Shared(std::string_view name, TypeForParameter type) {
  return {.name = name, .type = type, .shared = true};
}
constexpr StateTensor Paged(std::string_view name, TypeForParameter type, bool paged) {
  return {.name = name, .type = type, .paged = paged};
}

constexpr OptimizerStates WithMoments8bit(bool paged) {
  return {{Shared("qmap1", QuantizationTable),
           Shared("qmap2", QuantizationTable),
           Paged("state1", Quantized, paged),
           Paged("state2", Quantized, paged),
           {"absmax1", BlockScales},
           {"absmax2", BlockScales}}};
}

constexpr OptimizerStates WithMoment8bit(bool paged) {
  return {{Shared("qmap1", QuantizationTable),
           Paged("state1", Quantized, paged),
           {"absmax1", BlockScales}}};
}

constexpr OptimizerStates WithAdEMAMix8bit(bool paged) {
  return {{Shared("qmap1", QuantizationTable),
           Shared("qmap2", QuantizationTable),
           {"absmax1", BlockScalesPair},
           {"absmax2", BlockScales},
           Paged("state1", QuantizedPair, paged),
           Paged("state2", Quantized, paged)}};
}

constexpr OptimizerStates WithAdEMAMix32bit(bool paged) {
  return {{Paged("state1", Fp32Pair, paged), Paged("state2", Fp32, paged)}};
}

// One row of bitsandbytes.
constexpr OptimizerRule OfBitsandbytes(Optimizer optimizer, OptimizerStates states) {
  return {.optimizer = optimizer,
          .impl = OptimizerImpl::kForLoop,
          .states = states,
          .states_made = StatesMade::kByStatement,
          .steps = {kMakeStates}};
}

// One row of torchao.  Its step is compiled for one parameter at a time: these are the buffers of
// Inductor's code (TORCH_LOGS=output_code, torch 2.11.0); parameters that are in no blocks are one
// kernel, without any.
constexpr OptimizerRule OfTorchao(Optimizer optimizer, OptimizerStates states,
                                  OptimizerSteps steps) {
  return {.optimizer = optimizer,
          .impl = OptimizerImpl::kForLoop,
          .states = states,
          .states_made = StatesMade::kByStatement,
          .steps = steps};
}

// Codes are found where all new moments and their scales are there.
constexpr OptimizerSteps kTorchao8bitSteps = {kMakeStates,
                                              Bind(Local::kScales, {Scales8bit}),
                                              Bind(Local::kScalesOfSquares, {Scales8bit}),
                                              Bind(Local::kMoment, {Moment8bit}),
                                              Bind(Local::kMomentOfSquares, {Moment8bit}),
                                              Delete(Local::kMoment),
                                              Delete(Local::kMomentOfSquares),
                                              Delete(Local::kScales),
                                              Delete(Local::kScalesOfSquares)};
constexpr OptimizerSteps kTorchao4bitSteps = {kMakeStates,
                                              Bind(Local::kScales, {Scales4bit}),
                                              Bind(Local::kScalesOfSquares, {Scales4bit}),
                                              Bind(Local::kMoment, {Moment4bit}),
                                              Bind(Local::kMomentOfSquares, {Moment4bit}),
                                              Bind(Local::kCodes, {Unpacked4bit}),
                                              Bind(Local::kCodesOfSquares, {Unpacked4bit}),
                                              Delete(Local::kMoment),
                                              Delete(Local::kCodes),
                                              Delete(Local::kScales),
                                              Delete(Local::kMomentOfSquares),
                                              Delete(Local::kCodesOfSquares),
                                              Delete(Local::kScalesOfSquares)};
constexpr OptimizerSteps kTorchaoFp8Steps = {kMakeStates,
                                             Bind(Local::kScales, {Scales8bit}),
                                             Bind(Local::kScalesOfSquares, {Scales8bit}),
                                             Bind(Local::kCodes, {NewFp8}),
                                             Bind(Local::kCodesOfSquares, {NewFp8}),
                                             Delete(Local::kCodes),
                                             Delete(Local::kScales),
                                             Delete(Local::kCodesOfSquares),
                                             Delete(Local::kScalesOfSquares)};

using States = OptimizerStates;
constexpr States kMoments3 = {{{"exp_avg", Same}, {"exp_avg_sq", Same}, {"max_exp_avg_sq", Same}}};
constexpr States kMoments3OnDevice = {
    {{"step", StepCount}, {"exp_avg", Same}, {"exp_avg_sq", Same}, {"max_exp_avg_sq", Same}}};
constexpr States kMomentum = {{{"momentum_buffer", Same}}};
constexpr States kMoments = {{{"exp_avg", Same}, {"exp_avg_sq", Same}}};
constexpr States kMomentsOnDevice = {
    {{"step", StepCount}, {"exp_avg", Same}, {"exp_avg_sq", Same}}};
constexpr States kInfinityNorm = {{{"exp_avg", Same}, {"exp_inf", Same}}};
constexpr States kTorchao8bit = {{{"exp_avg", Codes8bit},
                                  {"exp_avg.scale", Scales8bit},
                                  {"exp_avg.qmap", Table8bit},
                                  {"exp_avg_sq", Codes8bit},
                                  {"exp_avg_sq.scale", Scales8bit},
                                  {"exp_avg_sq.qmap", Table8bit}}};
constexpr States kTorchao4bit = {{{"exp_avg", Codes4bit},
                                  {"exp_avg.scale", Scales4bit},
                                  {"exp_avg.qmap", Table4bit},
                                  {"exp_avg_sq", Codes4bit},
                                  {"exp_avg_sq.scale", Scales4bit},
                                  {"exp_avg_sq.qmap", Table4bit}}};
constexpr States kTorchaoFp8 = {{{"exp_avg", Codes8bit},
                                 {"exp_avg.scale", Scales8bit},
                                 {"exp_avg_sq", Codes8bit},
                                 {"exp_avg_sq.scale", Scales8bit}}};
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

// grad = grad.add(param, alpha=weight_decay); a list's is a new list.
constexpr UpdateStep kDecay = Bind(Local::kGradient, {Same});
// grad = grads[i], where the last turn has decayed its own
constexpr UpdateStep kNextGradient = Delete(Local::kGradient);
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

constexpr OptimizerRule OfFusedAdam(Optimizer optimizer, uint8_t args) {
  return {.optimizer = optimizer,
          .impl = OptimizerImpl::kFused,
          .args = args,
          .states = (args & kAmsgrad) != 0 ? kMoments3OnDevice : kMomentsOnDevice};
}

// The first of an optimizer is the implementation taken by default.
constexpr OptimizerRule kOptimizerRules[] = {
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
     .steps = {Bind(Local::kDenominator, {Same}), Bind(Local::kNumerator, {Same})}},
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
     .steps = {Bind(Local::kDenominator, {Same})}},
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

    {.optimizer = Optimizer::kLion,
     .impl = OptimizerImpl::kForLoop,
     .states = {{{"exp_avg", Same}}},
     .states_made = StatesMade::kByStatement,
     .steps = {kMakeStates, Bind(Local::kEstimate, {Same}), Bind(Local::kUpdate, {Same}),
               Delete(Local::kEstimate), Delete(Local::kUpdate)}},

    OfBitsandbytes(Optimizer::kAdamW8bit, WithMoments8bit(false)),
    OfBitsandbytes(Optimizer::kPagedAdamW8bit, WithMoments8bit(true)),
    OfBitsandbytes(Optimizer::kPagedAdamW32bit,
                   {{Paged("state1", Fp32, true), Paged("state2", Fp32, true)}}),
    OfBitsandbytes(Optimizer::kLion8bit, WithMoment8bit(false)),
    OfBitsandbytes(Optimizer::kPagedLion8bit, WithMoment8bit(true)),
    OfBitsandbytes(Optimizer::kLion32bit, {{{"state1", Fp32}}}),
    OfBitsandbytes(Optimizer::kPagedLion32bit, {{Paged("state1", Fp32, true)}}),
    OfBitsandbytes(Optimizer::kAdEMAMix32bit, WithAdEMAMix32bit(false)),
    OfBitsandbytes(Optimizer::kAdEMAMix8bit, WithAdEMAMix8bit(false)),
    OfBitsandbytes(Optimizer::kPagedAdEMAMix32bit, WithAdEMAMix32bit(true)),
    OfBitsandbytes(Optimizer::kPagedAdEMAMix8bit, WithAdEMAMix8bit(true)),
    OfBitsandbytes(Optimizer::kSgdMomentum8bit, WithMoment8bit(false)),
    OfBitsandbytes(Optimizer::kRmsprop32bit, {{{"state1", Fp32}}}),
    OfBitsandbytes(Optimizer::kRmsprop8bit, WithMoment8bit(false)),
    OfBitsandbytes(Optimizer::kAdagrad8bit, WithMoment8bit(false)),

    OfTorchao(Optimizer::kTorchaoAdamW8bit, kTorchao8bit, kTorchao8bitSteps),
    OfTorchao(Optimizer::kTorchaoAdamW4bit, kTorchao4bit, kTorchao4bitSteps),
    OfTorchao(Optimizer::kTorchaoAdamWFp8, kTorchaoFp8, kTorchaoFp8Steps),

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

    // Whole lists: they are in parts where 16 elements of each fill an L2 cache of 64 MiB or more.
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

    {.optimizer = Optimizer::kMuon,
     .impl = OptimizerImpl::kForLoop,
     .only_where = &FrameworkProfile::has_muon,
     .states = kMomentum,
     .steps = MuonSteps(),
     .of_others = Optimizer::kAdamW},
};

bool IsIn(const FrameworkProfile& framework, const OptimizerRule& rule) {
  return rule.only_where == nullptr || framework.*rule.only_where;
}

// "foreach or for-loop".
std::string ImplsOf(Optimizer optimizer, const FrameworkProfile& framework) {
  std::string text;
  for (const OptimizerRule& rule : kOptimizerRules) {
    if (rule.optimizer != optimizer || rule.args != 0 || !IsIn(framework, rule)) continue;
    text += fmt::format("{}{}", text.empty() ? "" : " or ", ToString(rule.impl));
  }
  return text;
}

// The row beside `plain` that has those of `args` that rows of its implementation tell.
const OptimizerRule& WithArgs(const OptimizerRule& plain, uint8_t args) {
  const auto is_of_impl = [&](const OptimizerRule& rule) {
    return rule.optimizer == plain.optimizer && rule.impl == plain.impl;
  };
  unsigned told = 0;
  for (const OptimizerRule& rule : kOptimizerRules) {
    if (is_of_impl(rule)) told |= rule.args;
  }
  return *std::ranges::find_if(kOptimizerRules, [&](const OptimizerRule& rule) {
    return is_of_impl(rule) && rule.args == (args & told);
  });
}

}  // namespace

bool CopiesGradientsToDecay(Optimizer optimizer, std::optional<OptimizerImpl> impl,
                            const FrameworkProfile& framework) {
  const OptimizerRule& rule = FindOptimizerRule(optimizer, impl, framework, kWeightDecay);
  const auto is_gradient = [](const UpdateStep& step, UpdateStep::Type type) {
    return step.type == type && step.local == Local::kGradient;
  };
  return rule.impl == OptimizerImpl::kForeach && (rule.args & kWeightDecay) != 0 &&
         is_gradient(rule.steps[0], UpdateStep::Type::kBind) &&
         !is_gradient(rule.steps[1], UpdateStep::Type::kDelete);
}

uint8_t ArgsTaken(Optimizer optimizer, uint8_t args) {
  unsigned taken = kWeightDecay;
  for (const OptimizerRule& rule : kOptimizerRules) {
    if (rule.optimizer == optimizer) taken |= rule.args;
  }
  return static_cast<uint8_t>(args & taken);
}

TensorType StateType(const StateTensor& state, const TensorType& parameter) {
  const bool is_paged = state.paged && Numel(parameter.dims) >= kPagedElements;
  return state.type == nullptr || is_paged ? TensorType() : state.type(parameter);
}

const OptimizerRule& FindOptimizerRule(Optimizer optimizer, std::optional<OptimizerImpl> impl,
                                       const FrameworkProfile& framework, uint8_t args) {
  if (optimizer == Optimizer::kNone && impl) {
    throw Error({.where = "--optimizer-impl",
                 .text = fmt::format("expected an optimizer, found none that could be '{}'",
                                     ToString(*impl)),
                 .hint = "--optimizer adamw"});
  }
  for (const OptimizerRule& rule : kOptimizerRules) {
    const bool fits = rule.optimizer == optimizer && rule.impl == impl.value_or(rule.impl);
    if (fits && IsIn(framework, rule)) return WithArgs(rule, args);
  }
  const std::string impls = ImplsOf(optimizer, framework);
  if (impls.empty()) {
    throw Error({.where = "--optimizer",
                 .text = fmt::format("expected one of {}'s, found '{}'", framework.name,
                                     ToString(optimizer)),
                 .hint = "a later version, --framework"});
  }
  throw Error({.where = "--optimizer-impl",
               .text = fmt::format("expected {} for {} of {}, found '{}'", impls,
                                   ToString(optimizer), framework.name, ToString(*impl)),
               .hint = "leave it out for PyTorch's own choice"});
}

}  // namespace onnxfit
