#include "estimator/eager/autocast.h"

#include <utility>

#include "estimator/base/index.h"

namespace onnxfit {

Autocast::Autocast(CallTable& calls, Precision precision)
    : calls_(calls),
      machine_(calls.machine()),
      lower_(AutocastType(precision)),
      cache_(calls.program().values.size(), kNoTensor) {}

void Autocast::CastArguments(int32_t index, bool grad, std::vector<TensorId>& inputs,
                             std::vector<TensorId>& casts) {
  const AutocastPolicy policy = calls_.rule(index).autocast;
  if (lower_ == DType::kUndefined || policy == AutocastPolicy::kAsIs) return;
  const DType to = policy == AutocastPolicy::kLower ? lower_ : DType::kFloat32;
  for (size_t i = inputs.size(); i-- > 0;) {
    if (inputs[i] == kNoTensor) continue;
    const DType from = machine_.tensor(inputs[i]).dtype;
    if (from == to || !IsFloat(from) || from == DType::kFloat64) continue;
    inputs[i] = CastOf(calls_.call(index).inputs[i], inputs[i], to, grad, casts);
  }
}

// Parameters are cast once; what else is an argument each time.
TensorId Autocast::CastOf(NameId name, TensorId tensor, DType to, bool grad,
                          std::vector<TensorId>& casts) {
  const GradNodeId node = machine_.tensor(tensor).grad_fn.node;
  const bool is_parameter = node != kNoGradNode && machine_.node(node).call == GradNode::kLeaf;
  if (!is_parameter || to != lower_) {
    casts.push_back(Cast(name, tensor, to, grad));
    return casts.back();
  }
  TensorId& cached = cache_[Index(name)];
  if (cached == kNoTensor) {
    cached = Cast(name, tensor, to, grad);
    machine_.NoteHolder(name, {.type = Holder::Type::kCache, .id = name}, cached);
    cached_.push_back(name);
  }
  return cached;
}

TensorId Autocast::Cast(NameId name, TensorId tensor, DType to, bool grad) {
  const TensorType type = {to, machine_.tensor(tensor).dims};
  const TensorId cast = machine_.New(type, calls_.CastLabel(name), Kind::kActivation);
  const Edge source = machine_.tensor(tensor).grad_fn;
  if (!grad || source.node == kNoGradNode) return cast;
  const DType from = machine_.tensor(tensor).dtype;
  const GradNodeId node = machine_.NewNode({.call = GradNode::kCast,
                                            .cast_name = name,
                                            .next = {source},
                                            .saved = {},
                                            .input_dtypes = {from}});
  machine_.SetGradFn(cast, {node, 0});
  return cast;
}

void Autocast::Exit() {
  for (const NameId name : std::exchange(cached_, {})) {
    machine_.NoteRelease(Holder::Type::kCache, name);
    machine_.Release(std::exchange(cache_[Index(name)], kNoTensor));
  }
}

}  // namespace onnxfit
