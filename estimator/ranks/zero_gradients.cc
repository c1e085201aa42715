#include "estimator/ranks/zero_gradients.h"

#include <utility>

#include "estimator/base/index.h"
#include "estimator/operators/kernel_scratch.h"

namespace onnxfit {

ZeroGradients::ZeroGradients(CallTable& calls)
    : calls_(calls), machine_(calls.machine()), label_(machine_.AddLabel("ZeRO")) {
  const Program& program = calls.program();
  for (const NameId name : program.parameters) type_ = program.values[Index(name)].type.dtype;
}

const Dims& ZeroGradients::DimsOf(size_t parameter) const {
  const Program& program = calls_.program();
  return program.values[Index(program.parameters[parameter])].type.dims;
}

int64_t ZeroGradients::ElementsOf(size_t parameter) const { return Numel(DimsOf(parameter)); }

TensorId ZeroGradients::New(DType type, int64_t elements, Kind kind) const {
  return machine_.New({type, {elements}}, label_, kind);
}

TensorId ZeroGradients::NormOf(int64_t elements, bool has_scratch) const {
  const Dims dims = {elements};
  const TensorId cast = machine_.New({DType::kFloat64, dims}, label_);
  const TensorId norm = NewNorm();
  const SumShape sum = SumOver(DType::kFloat64, dims, {1}, 0);
  if (has_scratch) PassScratch(machine_, sum, calls_.settings().device, label_);
  machine_.Release(cast);
  return norm;
}

void ZeroGradients::PassNorms(const std::vector<int64_t>& elements, bool has_scratch) const {
  std::vector<TensorId> norms;
  for (const int64_t each : elements) norms.push_back(NormOf(each, has_scratch));
  for (const TensorId norm : norms) machine_.Release(norm);
}

void ZeroGradients::DropNorms() {
  for (const TensorId norm : std::exchange(norms_, {})) machine_.Release(norm);
}

void ZeroGradients::PassIn32Bits(int64_t elements) const {
  if (type_ != DType::kFloat32) machine_.Release(New(DType::kFloat32, elements, Kind::kTemporary));
}

bool ZeroGradients::IsLastMicroBatch() const {
  return micro_batch_ + 1 == calls_.settings().loop.accumulate;
}

void ZeroGradients::EndMicroBatch() {
  micro_batch_ = (micro_batch_ + 1) % calls_.settings().loop.accumulate;
}

}  // namespace onnxfit
