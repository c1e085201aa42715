// How a model comes to the device: as it is, or its weights packed on the way.
#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "estimator/eager/forward.h"
#include "estimator/operators/strides.h"

namespace onnxfit {

void Forward::BeginPlacement() {
  const Program& program = calls_.program();
  is_buffer_.resize(names_.size());
  parameter_of_.resize(names_.size(), -1);
  for (const NameId buffer : program.buffers) is_buffer_[Index(buffer)] = true;
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    parameter_of_[Index(program.parameters[i])] = static_cast<int32_t>(i);
  }
}

void Forward::PlaceModel() {
  const Program& program = calls_.program();
  BeginPlacement();
  if (!program.quantized.empty()) return PlacePacked();
  std::map<NameId, const FlatWeights*> flat;  // by the last of them
  for (const FlatWeights& weights : program.flat_weights) {
    const std::set<NameId> names(weights.names.begin(), weights.names.end());
    const auto last = std::find_if(program.placement.rbegin(), program.placement.rend(),
                                   [&](NameId name) { return names.contains(name); });
    if (last != program.placement.rend()) flat[*last] = &weights;
  }
  for (const NameId name : program.placement) {
    BindOfModel(name, NewOfModel(name, calls_.TypeOf(name)));
    if (const auto found = flat.find(name); found != flat.end()) Flatten(*found->second);
  }
  LayOut();
}

// model.to(memory_format=…) of a model that is on the device: one tensor after the other is copied.
void Forward::LayOut() {
  for (const NameId name : calls_.program().placement) {
    const StridedType& type = calls_.TypeOf(name);
    if (type.strides == ContiguousStrides(type.dims)) continue;
    const Kind kind = is_buffer_[Index(name)] ? Kind::kBuffer : Kind::kParameter;
    BindOfModel(name, machine_.NewStrided(type, calls_.NameLabel(name), kind));
  }
}

// _cudnn_rnn_flatten_weight (native/cudnn/RNN.cpp, pytorch v2.11.0): they are copied into one
// tensor, then seen there one after the other.
void Forward::Flatten(const FlatWeights& weights) {
  const NameId first = weights.names[0];
  const TensorId whole = NewOfModel(first, {calls_.TypeOf(first).dtype, {weights.numel}});
  for (const NameId name : weights.names) {
    const TensorId apart = Lookup(name);
    if (apart == kNoTensor) continue;
    const StridedType& type = machine_.tensor(apart);
    BindOfModel(name, machine_.View(whole, type.dims, type.strides));
  }
  machine_.Release(whole);
}

TensorId Forward::NewOfModel(NameId name, const TensorType& type) {
  const Kind kind = is_buffer_[Index(name)] ? Kind::kBuffer : Kind::kParameter;
  return machine_.New(type, calls_.NameLabel(name), kind);
}

void Forward::MakeLeaf(int32_t parameter, TensorId tensor) {
  const GradNodeId leaf =
      machine_.NewNode({.call = GradNode::kLeaf, .parameter = parameter, .next = {}, .saved = {}});
  machine_.SetGradFn(tensor, {leaf, 0});
}

void Forward::AskForGradientsOf(NameId parameter, bool asks) {
  const TensorId tensor = Lookup(parameter);
  const int32_t index = parameter_of_[Index(parameter)];
  if (tensor == kNoTensor || index < 0) return;
  const bool has_leaf = machine_.tensor(tensor).grad_fn.node != kNoGradNode;
  if (asks && !has_leaf) MakeLeaf(index, tensor);
  if (!asks && has_leaf) machine_.DropGradFn(tensor);
}

// A parameter that is trained becomes a leaf.
void Forward::BindOfModel(NameId name, TensorId tensor) {
  const int32_t parameter = parameter_of_[Index(name)];
  if (parameter < 0) return Bind(name, tensor);
  MakeLeaf(parameter, tensor);
  const TensorId before = std::exchange(names_[Index(name)], tensor);
  if (before != kNoTensor) machine_.NoteRelease(Holder::Type::kName, name);
  machine_.NoteHolder(name, {.type = Holder::Type::kName, .id = name}, tensor);
  if (before != kNoTensor) machine_.Release(before);
}

namespace {

// By name, all that the model has.
std::unordered_map<std::string_view, NameId> NamesOfModel(const Program& program) {
  std::unordered_map<std::string_view, NameId> names;
  const auto add = [&](NameId name) {
    if (name != kNoName) names.emplace(program.values[Index(name)].name, name);
  };
  for (const NameId name : program.placement) add(name);
  for (const QuantizedWeight& weight : program.quantized) {
    const QuantizedWeight::Scales& scales = weight.scales;
    for (const NameId name : {weight.packed, scales.code, scales.offset, scales.scales_of_scales,
                              scales.scales, scales.code_of_scales})
      add(name);
  }
  return names;
}

}  // namespace

// What the other has not is new.
void Forward::ShareModel(const Forward& other) {
  BeginPlacement();
  const auto others = NamesOfModel(other.calls_.program());
  for (const auto& [text, name] : NamesOfModel(calls_.program())) {
    const auto found = others.find(text);
    const TensorId shared = found == others.end() ? kNoTensor : other.Lookup(found->second);
    if (shared == kNoTensor) {
      BindOfModel(name, NewOfModel(name, calls_.TypeOf(name)));
      continue;
    }
    machine_.Retain(shared);
    names_[Index(name)] = shared;
  }
}

// --- Packed ---------------------------------------------------------------------------------

// As from_pretrained(quantization_config=…) does it with a checkpoint of 16 bits, then peft's
// prepare_model_for_kbit_training (0.21.2, utils/other.py), which casts what is not packed to fp32
// and empties the cache (auto_clear_cache), and get_peft_model, which puts adapters beside weights
// of 4 bits in the type of the products, and casts them, too.
void Forward::PlacePacked() {
  const Program& program = calls_.program();
  const std::span<const NameId> names = program.placement;
  const size_t adapters = program.adapters.size();  // the last (transforms/adapters.h)
  PlaceAndCast(names.first(names.size() - adapters));
  if (adapters > 0) machine_.EmptyCache();
  PlaceAndCast(names.last(adapters));
}

namespace {

// Those that come in fp32: all but what stands beside weights of 4 bits, whose layers say in which
// type they compute (peft 0.21.2, tuners/tuners_utils.py, _move_adapter_to_device_of_base_layer).
std::set<NameId> WideAdapters(const Program& program) {
  std::set<NameId> wide(program.adapters.begin(), program.adapters.end());
  for (const QuantizedWeight& weight : program.quantized) {
    for (const NameId name : weight.adapters) {
      if (weight.is_in_4_bits()) wide.erase(name);
    }
  }
  return wide;
}

}  // namespace

// All of 16 bits first, then one after the other in its own type, in the order of
// model.parameters(): a module's own before those of its children.
void Forward::PlaceAndCast(std::span<const NameId> names) {
  const Program& program = calls_.program();
  const DType narrow = QuantizedComputeType(calls_.settings().precision);
  std::unordered_map<NameId, const QuantizedWeight*> packed;
  for (const QuantizedWeight& weight : program.quantized) packed[weight.packed] = &weight;
  const std::set<NameId> wide = WideAdapters(program);
  std::map<NameId, TensorId> narrow_ones;
  for (const NameId name : names) {
    const auto found = packed.find(name);
    if (found != packed.end()) {
      found->second->is_in_4_bits() ? Pack(*found->second) : PackRows(*found->second);
      continue;
    }
    const TensorType type = calls_.TypeOf(name);
    const bool is_cast = type.dtype == DType::kFloat32 && !program.adapters.empty() &&
                         !is_buffer_[Index(name)] && !wide.contains(name);
    const TensorId tensor = NewOfModel(name, is_cast ? TensorType{narrow, type.dims} : type);
    if (is_cast) {
      narrow_ones[name] = tensor;
    } else {
      BindOfModel(name, tensor);
    }
  }
  for (const NameId name : program.copy_order) {
    const auto found = narrow_ones.find(name);
    if (found == narrow_ones.end()) continue;
    BindOfModel(name, NewOfModel(name, calls_.TypeOf(name)));
    machine_.Release(found->second);
  }
}

// bitsandbytes 0.50.2, nn/modules.py (Int8Params._quantize), backends/cuda/ops.py
// (int8_vectorwise_quant).
void Forward::PackRows(const QuantizedWeight& weight) {
  const TensorId full = NewOfModel(weight.packed, weight.full);
  for (const NameId name : {weight.scales.scales, weight.packed}) {
    BindOfModel(name, NewOfModel(name, calls_.TypeOf(name)));
  }
  machine_.Release(full);
}

// bitsandbytes 0.50.2, nn/modules.py (Params4bit._quantize) and functional.py (quantize_4bit): the
// order from recorded events.
void Forward::Pack(const QuantizedWeight& weight) {
  const NameId code = weight.scales.code;
  const NameId code_of_scales = weight.scales.code_of_scales;
  const TensorType exact_scales = {DType::kFloat32, calls_.TypeOf(weight.scales.scales).dims};
  const auto keep = [&](NameId name) { BindOfModel(name, NewOfModel(name, calls_.TypeOf(name))); };
  const auto take = [&](const TensorType& type) { return NewOfModel(weight.packed, type); };
  const TensorId full = take(weight.full);
  const TensorId of_blocks = take(exact_scales);
  keep(weight.packed);
  keep(code);
  const TensorId absolute = take(calls_.TypeOf(code));
  const TensorId largest = take({DType::kFloat32, {}});
  machine_.Release(absolute);
  machine_.Release(largest);
  keep(weight.scales.offset);
  const TensorId around_mean = take(exact_scales);
  if (code_of_scales_ == kNoTensor) {
    code_of_scales_ = NewOfModel(code_of_scales, calls_.TypeOf(code_of_scales));
  }
  keep(weight.scales.scales_of_scales);
  keep(weight.scales.scales);
  keep(code_of_scales);
  for (const TensorId tensor : {around_mean, of_blocks, full}) machine_.Release(tensor);
}

}  // namespace onnxfit
