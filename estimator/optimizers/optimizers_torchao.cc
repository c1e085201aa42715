// Sources: torchao 0.18.0 (optim/adam.py, subclass_*.py), by its source and Inductor's code of it.
#include "estimator/base/bytes.h"
#include "estimator/optimizers/optimizer_rows.h"

namespace onnxfit {
namespace {

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

constexpr OptimizerRule kOptimizersOfTorchao[] = {
    OfTorchao(Optimizer::kTorchaoAdamW8bit, kTorchao8bit, kTorchao8bitSteps),
    OfTorchao(Optimizer::kTorchaoAdamW4bit, kTorchao4bit, kTorchao4bitSteps),
    OfTorchao(Optimizer::kTorchaoAdamWFp8, kTorchaoFp8, kTorchaoFp8Steps),
};

}  // namespace

std::span<const OptimizerRule> OptimizersOfTorchao() { return kOptimizersOfTorchao; }

}  // namespace onnxfit
