// Sources: bitsandbytes 0.50.2 (optim/optimizer.py, ademamix.py), each row by recorded events.
#include "estimator/base/bytes.h"
#include "estimator/optimizers/optimizer_rows.h"

namespace onnxfit {
namespace {

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

constexpr OptimizerStates WithMoments32bit(bool paged) {
  return {{Paged("state1", Fp32, paged), Paged("state2", Fp32, paged)}};
}

constexpr OptimizerStates WithMoment32bit(bool paged) { return {{Paged("state1", Fp32, paged)}}; }

constexpr OptimizerStates WithAdEMAMix32bit(bool paged) {
  return {{Paged("state1", Fp32Pair, paged), Paged("state2", Fp32, paged)}};
}

// One row of bitsandbytes.
constexpr OptimizerRule OfBitsandbytes(Optimizer optimizer, OptimizerStates states,
                                       OptimizerStates in_32_bits = {}) {
  return {.optimizer = optimizer,
          .impl = OptimizerImpl::kForLoop,
          .states = states,
          .states_in_32_bits = in_32_bits,
          .states_made = StatesMade::kByStatement,
          .steps = {kMakeStates}};
}

// Without states in 32 bits: those that nothing asks to keep some there.
constexpr OptimizerRule kOptimizersOfBitsandbytes[] = {
    OfBitsandbytes(Optimizer::kAdamW8bit, WithMoments8bit(false), WithMoments32bit(false)),
    OfBitsandbytes(Optimizer::kPagedAdamW8bit, WithMoments8bit(true), WithMoments32bit(true)),
    OfBitsandbytes(Optimizer::kPagedAdamW32bit, WithMoments32bit(true)),
    OfBitsandbytes(Optimizer::kLion8bit, WithMoment8bit(false), WithMoment32bit(false)),
    OfBitsandbytes(Optimizer::kPagedLion8bit, WithMoment8bit(true), WithMoment32bit(true)),
    OfBitsandbytes(Optimizer::kLion32bit, WithMoment32bit(false)),
    OfBitsandbytes(Optimizer::kPagedLion32bit, WithMoment32bit(true)),
    OfBitsandbytes(Optimizer::kAdEMAMix32bit, WithAdEMAMix32bit(false)),
    OfBitsandbytes(Optimizer::kAdEMAMix8bit, WithAdEMAMix8bit(false), WithAdEMAMix32bit(false)),
    OfBitsandbytes(Optimizer::kPagedAdEMAMix32bit, WithAdEMAMix32bit(true)),
    OfBitsandbytes(Optimizer::kPagedAdEMAMix8bit, WithAdEMAMix8bit(true), WithAdEMAMix32bit(true)),
    OfBitsandbytes(Optimizer::kSgdMomentum8bit, WithMoment8bit(false)),
    OfBitsandbytes(Optimizer::kRmsprop32bit, WithMoment32bit(false)),
    OfBitsandbytes(Optimizer::kRmsprop8bit, WithMoment8bit(false), WithMoment32bit(false)),
    OfBitsandbytes(Optimizer::kAdagrad8bit, WithMoment8bit(false)),
};

}  // namespace

std::span<const OptimizerRule> OptimizersOfBitsandbytes() { return kOptimizersOfBitsandbytes; }

}  // namespace onnxfit
