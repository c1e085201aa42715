// torch.nn.functional.scaled_dot_product_attention, taken apart into calls.
// Source: aten/src/ATen/native/transformers/attention.cpp (masks, padding, the math path), pytorch
// v2.6.0; torch 2.11 events.
#include <numeric>
#include <optional>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/operators/attention_kernels.h"
#include "estimator/operators/dispatcher.h"
#include "estimator/operators/strides.h"

namespace onnxfit {
namespace {

// zeros_like(mask, dtype).masked_fill_(mask.logical_not(), -inf)
NameId FilledMask(Dispatcher& d, NameId mask, DType dtype) {
  const Dims dims = d.TypeOf(mask).dims;
  const NameId additive = d.Make("constant", {}, {dtype, dims});
  d.Drop(d.Make("constant", {}, {DType::kBool, dims}));
  return additive;
}

// A mask of bools becomes zeros and -inf, which are added.
NameId AdditiveMask(Dispatcher& d, NameId mask, DType dtype) {
  if (mask == kNoName || IsFloat(d.TypeOf(mask).dtype)) return mask;
  if (d.framework().attention < AttentionForm::kFrom25) return FilledMask(d, mask, dtype);
  const NameId zero = d.Make("constant", {}, {dtype, {}});
  const NameId infinity = d.Make("constant", {}, {dtype, {}});
  const Dims dims = d.TypeOf(mask).dims;
  const NameId additive = d.Make("where", {mask, zero, infinity}, {dtype, dims});
  d.Drop(infinity);
  d.Drop(zero);
  return additive;
}

bool IsAligned(const StridedType& mask) {
  for (size_t i = 0; i + 1 < mask.strides.size(); ++i) {
    if (mask.strides[i] % 8 != 0) return false;
  }
  return true;
}

// 2.1 pads to multiples of 16 what it has expanded.
NameId WholeMaskForKernel(Dispatcher& d, NameId mask, const Attention& a) {
  const TensorType scores = {d.TypeOf(mask).dtype, {a.batch(), a.heads(), a.rows(), a.keys()}};
  const NameId expanded = d.Make("expand", {mask}, scores);
  if (a.keys() % 16 == 0) return expanded;
  TensorType padded = scores;
  padded.dims.back() = RoundUp(a.keys(), 16);
  const NameId made = d.Make("pad", {expanded}, padded);
  d.Drop(mask);
  return d.Make("slice", {made}, scores);
}

// Rows of the memory-efficient kernel's mask begin at multiples of 8 elements.  pad_bias makes them
// longer where they are that long, too, and another stride is none: of one head, x.permute(2, 0,
// 1).
NameId MaskForKernel(Dispatcher& d, NameId mask, const Attention& a) {
  if (d.framework().attention == AttentionForm::kFrom21) return WholeMaskForKernel(d, mask, a);
  const StridedType type = d.TypeOf(mask);
  if (!IsAligned(type)) {
    Dims padded = type.dims;
    padded.back() += 8 - padded.back() % 8;
    const NameId made = d.Make("pad", {mask}, {type.dtype, padded});
    d.Drop(mask);
    mask = d.Make("slice", {made}, type);
  }
  const Dims dims = {a.batch(), a.heads(), a.rows(), a.keys()};
  return d.Make("expand", {mask}, {type.dtype, dims});
}

NameId PadHead(Dispatcher& d, NameId name) {
  const StridedType type = d.TypeOf(name);
  Dims padded = type.dims;
  padded.back() = RoundUp(padded.back(), 8);
  return padded == type.dims ? name : d.Make("pad", {name}, {type.dtype, padded});
}

void RunFlash(Dispatcher& d, const AtenCall& call) {
  const std::vector<NameId> qkv(call.inputs.begin(), call.inputs.begin() + 3);
  if (d.framework().attention < AttentionForm::kFrom22) {
    return d.MakeResult("_flash_attention_1", qkv);
  }
  std::vector<NameId> inputs;
  for (size_t i = 0; i < 3; ++i) inputs.push_back(PadHead(d, call.inputs[i]));
  const std::vector<int64_t> ints = {call.ints[0], call.ints[1], d.framework().flash_seeds ? 1 : 0};
  if (inputs[0] == call.inputs[0]) return d.MakeResult("_flash_attention", inputs, ints);
  const TensorType type = d.TypeOf(inputs[0]);
  const NameId padded = d.Make("_flash_attention", inputs, type, ints);
  d.MakeResult("slice", {padded});
}

// Random numbers that nobody draws have a seed on the device, those of a dropout on the host.
bool HasSeeds(const Dispatcher& d, const Attention& a) {
  return !a.drops && d.framework().seeds_without_dropout;
}

bool NeedsGrad(const Dispatcher& d, const AtenCall& call) {
  return d.NeedsGrad(call.inputs[0]) || d.NeedsGrad(call.inputs[1]) || d.NeedsGrad(call.inputs[2]);
}

void RunCudnn(Dispatcher& d, const AtenCall& call, NameId mask, const Attention& a) {
  d.MakeResult("_cudnn_attention", {call.inputs[0], call.inputs[1], call.inputs[2], mask},
               {a.drops ? 1 : 0, NeedsGrad(d, call) ? 1 : 0});
}

void RunEfficient(Dispatcher& d, const AtenCall& call, NameId mask, const Attention& a) {
  const bool keeps = NeedsGrad(d, call);
  if (mask != kNoName) mask = MaskForKernel(d, mask, a);
  d.MakeResult("_efficient_attention", {call.inputs[0], call.inputs[1], call.inputs[2], mask},
               {a.drops ? 1 : 0, keeps ? 1 : 0, HasSeeds(d, a) ? 1 : 0});
}

NameId Cast(Dispatcher& d, NameId name, DType to) {
  const TensorType type = d.TypeOf(name);
  return type.dtype == to ? name : d.Make("_to_copy", {name}, {to, type.dims});
}

// torch.ones(S, Sk).tril()
NameId CausalMask(Dispatcher& d, const Attention& a) {
  const TensorType type = {DType::kBool, {a.rows(), a.keys()}};
  const NameId ones = d.Make("constant", {}, type);
  const NameId lower = d.Make("tril", {ones}, type);
  d.Drop(ones);
  const NameId additive = AdditiveMask(d, lower, a.q.dtype);
  d.Drop(lower);
  return additive;
}

// x.repeat_interleave(heads of q / heads of x, dim=1)
NameId RepeatHeads(Dispatcher& d, NameId name, const Attention& a) {
  const StridedType type = d.TypeOf(name);
  if (type.dims.size() != 4 || type.dims[1] == a.heads()) return name;
  Dims dims = type.dims;
  dims.insert(dims.begin() + 2, 1);
  const NameId apart = d.Make("view", {name}, {type.dtype, dims});
  dims[2] = a.heads() / type.dims[1];
  const NameId repeated = d.Make("expand", {apart}, {type.dtype, dims});
  const NameId copy = d.Make("clone", {repeated}, {type.dtype, dims}, kAsContiguous);
  return d.Make("view", {copy}, {type.dtype, {dims[0], a.heads(), dims[3], dims[4]}});
}

// Whether one head of keys and values is for all of q, without enable_gqa: the fused kernels take
// none such.
// Source: check_batch_size_and_num_heads_dense, sdp_utils_cpp.h, pytorch v2.11.0.
bool BroadcastsHeads(const AtenCall& call) { return call.ints.size() > 2 && call.ints[2] != 0; }

// Whether there is a mask of one value for all positions, which libraries leave out but where
// Dynamo traces them: no fused kernel takes one without unit strides.
bool HasTracedMask(const Dispatcher& d, const AtenCall& call) {
  return d.is_compiled() && call.ints.size() > 3 && call.ints[3] != 0;
}

// _scaled_dot_product_attention_math: from 2.5 on in fp32 where inputs have 16 bits; it returns the
// probabilities too, and makes them last in the result's type before the product.
void RunMath(Dispatcher& d, const AtenCall& call, NameId mask, const Attention& a, bool is_causal) {
  const bool is_wide = d.framework().attention >= AttentionForm::kFrom25;
  const DType dtype = is_wide && a.is_16_bit() ? DType::kFloat32 : a.q.dtype;
  const NameId q = Cast(d, call.inputs[0], dtype);
  NameId k = Cast(d, call.inputs[1], dtype);
  NameId v = Cast(d, call.inputs[2], dtype);
  const NameId scaled_q = d.Make("mul.Scalar", {q}, {dtype, a.q.dims});
  if (is_causal) mask = CausalMask(d, a);
  const bool broadcasts = BroadcastsHeads(call);
  if (!broadcasts) k = RepeatHeads(d, k, a);
  if (!broadcasts) v = RepeatHeads(d, v, a);
  std::vector<int64_t> order(d.TypeOf(k).dims.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::swap(order.end()[-1], order.end()[-2]);
  const NameId transposed = d.Permute(k, order);
  const NameId scaled_k = d.Make("mul.Scalar", {transposed}, d.TypeOf(transposed));
  Dims square = a.q.dims;
  square.back() = a.keys();
  NameId scores = MatMul(d, scaled_q, scaled_k, Ends::kLocal);
  d.Drop(scaled_k);
  if (mask != kNoName) {
    const NameId masked = d.Make("add_", {scores, mask}, {dtype, square});
    d.Drop(std::exchange(scores, masked));
  }
  NameId probabilities = d.Make(is_wide ? "_safe_softmax" : "_softmax", {scores}, {dtype, square});
  d.Drop(scores);
  if (a.drops) {  // "attn = at::dropout(attn, dropout_p, true)"
    const NameId dropped = d.Make("dropout", {probabilities}, {dtype, square});
    d.Drop(std::exchange(probabilities, dropped));
  }
  if (dtype == a.q.dtype) return (void)MatMul(d, probabilities, v, Ends::kCall);
  Cast(d, probabilities, a.q.dtype);
  const NameId product = MatMul(d, probabilities, v, Ends::kLocal);
  d.SetResultType(a.q.dtype);
  d.MakeResult("_to_copy", {product});
}

}  // namespace

void TakeAttentionApart(Dispatcher& d, const AtenCall& call) {
  const Attention a = {d.TypeOf(call.inputs[0]), d.TypeOf(call.inputs[1]), d.TypeOf(call.inputs[2]),
                       call.ints[0] != 0};
  const NameId given = call.inputs.size() > 3 ? call.inputs[3] : kNoName;
  const bool is_causal = call.ints[1] != 0;
  const bool has_mask = given != kNoName;
  const AttentionTerms terms = {
      .mask = has_mask ? std::optional(d.TypeOf(given)) : std::nullopt,
      .is_causal = is_causal,
      .needs_grad = NeedsGrad(d, call),
      .mask_needs_grad = has_mask && d.NeedsGrad(given),
  };
  const AttentionKernel kernel = BroadcastsHeads(call) || HasTracedMask(d, call)
                                     ? AttentionKernel::kMath
                                     : ChooseAttention(a, terms, d.framework(), d.device());
  const NameId mask = AdditiveMask(d, given, a.q.dtype);
  switch (kernel) {
    case AttentionKernel::kCudnn:
      return RunCudnn(d, call, mask, a);
    case AttentionKernel::kFlash:
      return RunFlash(d, call);
    case AttentionKernel::kEfficient:
      return RunEfficient(d, call, mask, a);
    case AttentionKernel::kMath:
      return RunMath(d, call, mask, a, is_causal);
  }
}

}  // namespace onnxfit
