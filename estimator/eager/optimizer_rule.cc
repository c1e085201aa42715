// Sources: torch/optim/*.py, pytorch v2.11.0 and v2.15.0, each row by recorded events; lion: the
// authors' lion-pytorch 0.2.5, the same way; adamw-8bit: bitsandbytes 0.49,
// optim/optimizer.py (blockwise, min_8bit_size 4096), its states alone.
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

// Two quantization tables of 256 fp32 values.
constexpr int kQuantizationTables = 2 * 256 * 4;

using States = std::array<StateTensor, 5>;
constexpr States kMomentum = {{{"momentum_buffer", Same}}};
constexpr States kMoments = {{{"exp_avg", Same}, {"exp_avg_sq", Same}}};
constexpr States kMomentsOnDevice = {
    {{"step", StepCount}, {"exp_avg", Same}, {"exp_avg_sq", Same}}};
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

// The first of an optimizer is the implementation taken by default.
constexpr OptimizerRule kOptimizerRules[] = {
    {.optimizer = Optimizer::kNone, .impl = OptimizerImpl::kForeach},

    {.optimizer = Optimizer::kSgd, .impl = OptimizerImpl::kForeach},
    {.optimizer = Optimizer::kSgd, .impl = OptimizerImpl::kForLoop},
    {.optimizer = Optimizer::kSgd, .impl = OptimizerImpl::kFused},

    {.optimizer = Optimizer::kSgdMomentum, .impl = OptimizerImpl::kForeach, .states = kMomentum},
    {.optimizer = Optimizer::kSgdMomentum, .impl = OptimizerImpl::kForLoop, .states = kMomentum},
    {.optimizer = Optimizer::kSgdMomentum, .impl = OptimizerImpl::kFused, .states = kMomentum},

    {.optimizer = Optimizer::kAdam,
     .impl = OptimizerImpl::kForeach,
     .states = kMoments,
     .steps = {Bind(Local::kDenominator, {Same})}},
    {.optimizer = Optimizer::kAdam,
     .impl = OptimizerImpl::kForLoop,
     .states = kMoments,
     .steps = {Bind(Local::kRoot, {Same}), Bind(Local::kDenominator, {Same}),
               Delete(Local::kRoot)}},
    {.optimizer = Optimizer::kAdam, .impl = OptimizerImpl::kFused, .states = kMomentsOnDevice},

    {.optimizer = Optimizer::kAdamW,
     .impl = OptimizerImpl::kForeach,
     .states = kMoments,
     .steps = {Bind(Local::kDenominator, {Same})}},
    {.optimizer = Optimizer::kAdamW,
     .impl = OptimizerImpl::kForLoop,
     .states = kMoments,
     .steps = {Bind(Local::kRoot, {Same}), Bind(Local::kDenominator, {Same}),
               Delete(Local::kRoot)}},
    {.optimizer = Optimizer::kAdamW, .impl = OptimizerImpl::kFused, .states = kMomentsOnDevice},

    {.optimizer = Optimizer::kRmsprop,
     .impl = OptimizerImpl::kForeach,
     .states = kSquareAverage,
     .steps = {Bind(Local::kDenominator, {Same})}},
    {.optimizer = Optimizer::kRmsprop,
     .impl = OptimizerImpl::kForLoop,
     .states = kSquareAverage,
     .steps = {Bind(Local::kDenominator, {Same})}},

    {.optimizer = Optimizer::kAdagrad,
     .impl = OptimizerImpl::kForeach,
     .states = kSum,
     .states_made = StatesMade::kConstruction,
     .steps = {Bind(Local::kDenominator, {Same}), Bind(Local::kNumerator, {Same})}},
    {.optimizer = Optimizer::kAdagrad,
     .impl = OptimizerImpl::kForLoop,
     .states = kSum,
     .states_made = StatesMade::kConstruction,
     .steps = {Bind(Local::kDenominator, {Same})}},
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
     .states_made = StatesMade::kWithUpdate,
     .steps = {Bind(Local::kEstimate, {Same}), Bind(Local::kUpdate, {Same}),
               Delete(Local::kEstimate), Delete(Local::kUpdate)}},

    {.optimizer = Optimizer::kAdamW8bit,
     .impl = OptimizerImpl::kForLoop,
     .states = {{{"state1", Quantized},
                 {"state2", Quantized},
                 {"absmax1", BlockScales},
                 {"absmax2", BlockScales}}},
     .shared_bytes = kQuantizationTables},

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
    if (rule.optimizer != optimizer || !IsIn(framework, rule)) continue;
    text += fmt::format("{}{}", text.empty() ? "" : " or ", ToString(rule.impl));
  }
  return text;
}

}  // namespace

const OptimizerRule& FindOptimizerRule(Optimizer optimizer, std::optional<OptimizerImpl> impl,
                                       const FrameworkProfile& framework) {
  if (optimizer == Optimizer::kNone && impl) {
    throw Error({.where = "--optimizer-impl",
                 .text = fmt::format("expected an optimizer, found none that could be '{}'",
                                     ToString(*impl)),
                 .hint = "--optimizer adamw"});
  }
  for (const OptimizerRule& rule : kOptimizerRules) {
    const bool fits = rule.optimizer == optimizer && rule.impl == impl.value_or(rule.impl);
    if (fits && IsIn(framework, rule)) return rule;
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
