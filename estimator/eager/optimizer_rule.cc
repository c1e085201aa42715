// Sources: torch/optim/*.py, pytorch v2.6.0 (lists: recorded events, torch 2.11);
// adamw-8bit: bitsandbytes 0.49, optim/optimizer.py (blockwise, min_8bit_size 4096);
// lion: the authors' lion-pytorch.
#include "estimator/eager/optimizer_rule.h"

#include "estimator/base/bytes.h"

namespace onnxfit {
namespace {

TensorType Same(const TensorType& parameter) { return parameter; }

// torch.optim.Adafactor: a row and a column instead of the matrix, in the gradient's dtype.
TensorType RowVariance(const TensorType& parameter) {
  if (parameter.dims.size() < 2) return {};
  TensorType type = parameter;
  type.dims.back() = 1;
  return type;
}

TensorType ColumnVariance(const TensorType& parameter) {
  if (parameter.dims.size() < 2) return {};
  TensorType type = parameter;
  type.dims[type.dims.size() - 2] = 1;
  return type;
}

TensorType VectorVariance(const TensorType& parameter) {
  return parameter.dims.size() < 2 ? parameter : TensorType();
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

constexpr OptimizerRule kRules[] = {
    {.optimizer = Optimizer::kNone},
    {.optimizer = Optimizer::kSgd},
    {.optimizer = Optimizer::kSgdMomentum, .states = {{{"momentum_buffer", Same}}}},
    {.optimizer = Optimizer::kAdam,
     .states = {{{"exp_avg", Same}, {"exp_avg_sq", Same}}},
     .lists = 1},
    {.optimizer = Optimizer::kAdamW,
     .states = {{{"exp_avg", Same}, {"exp_avg_sq", Same}}},
     .lists = 1},
    {.optimizer = Optimizer::kRmsprop, .states = {{{"square_avg", Same}}}, .lists = 1},
    {.optimizer = Optimizer::kAdagrad,
     .states = {{{"sum", Same}}},
     .state_at_construction = true,
     .lists = 2},
    {.optimizer = Optimizer::kAdafactor,
     .states = {{{"row_var", RowVariance},
                 {"col_var", ColumnVariance},
                 {"variance", VectorVariance}}},
     .singles = 1},
    {.optimizer = Optimizer::kLion, .states = {{{"exp_avg", Same}}}, .singles = 1},
    {.optimizer = Optimizer::kAdamW8bit,
     .states = {{{"state1", Quantized},
                 {"state2", Quantized},
                 {"absmax1", BlockScales},
                 {"absmax2", BlockScales}}},
     .shared_bytes = kQuantizationTables},
};

}  // namespace

const OptimizerRule& FindOptimizerRule(Optimizer optimizer) {
  for (const OptimizerRule& rule : kRules) {
    if (rule.optimizer == optimizer) return rule;
  }
  return kRules[0];
}

}  // namespace onnxfit
