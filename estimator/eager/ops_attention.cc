// Scaled-dot-product attention: which kernel PyTorch takes, what it allocates and keeps.
// Sources: pytorch v2.6.0, aten/src/ATen/native/transformers/attention.cpp (masks, padding, the
// math path), cuda/sdp_utils.cpp (the choice), cuda/flash_attn/flash_api.cpp,
// cuda/attention_backward.cu and cuda/mem_eff_attention/kernel_backward.h; torch 2.11 events of
// head sizes from 4 to 256, with and without masks, dropout and grouped heads; 2.6 to 2.15 events
// of seeds.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/device.h"
#include "estimator/eager/composites.h"
#include "estimator/eager/op_families.h"
#include "estimator/eager/strides.h"

namespace onnxfit {
namespace {

constexpr TensorType kNoTensorType = {};

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t RoundUp(int64_t a, int64_t to) { return DivideUp(a, to) * to; }

// The arguments of a call, q [B, H, S, D], k and v [B, Hk, Sk, D or Dv], with ints: whether it
// drops out, whether it is causal (of the memory-efficient kernel: whether it keeps its
// log-sum-exp); of kernels, whether seed and offset are on the device.
struct Attention {
  StridedType q;
  StridedType k;
  StridedType v;
  bool drops = false;

  int64_t batch() const { return q.dims[0]; }
  int64_t heads() const { return q.dims.end()[-3]; }
  int64_t rows() const { return q.dims.end()[-2]; }
  int64_t keys() const { return k.dims.end()[-2]; }
  int64_t head_size() const { return q.dims.back(); }
  int64_t value_size() const { return v.dims.back(); }
  bool is_grouped() const { return k.dims.end()[-3] != heads(); }
  bool is_16_bit() const { return BitsOf(q.dtype) == 16; }
};

Attention Read(const CallTypes& call) {
  const bool drops = !call.ints().empty() && call.ints()[0] != 0;
  return {call.in(0), call.in(1), call.in(2), drops};
}

// --- Flash attention ---------------------------------------------------------------------------

// The head size that its kernels are made for.
int64_t FlashHeadSize(int64_t size) { return RoundUp(size, size <= 128 ? 32 : 64); }

// num_splits_heuristic: keys are split where the rows alone leave multiprocessors idle.
int64_t FlashSplits(const Attention& a) {
  constexpr int64_t kMostSplits = 128;
  const int64_t block = a.head_size() <= 64 ? 256 : (a.head_size() <= 128 ? 128 : 64);
  const int64_t key_blocks = DivideUp(a.keys(), block);
  const auto work = static_cast<float>(a.batch() * a.heads() * DivideUp(a.rows(), 64));
  const int64_t processors = 2 * DefaultDevice().multiprocessors;
  const auto all = static_cast<float>(processors);
  if (a.drops || work >= 0.8F * all) return 1;
  const int64_t most = std::min({kMostSplits, processors, key_blocks});
  const auto is_eligible = [&](int64_t splits) {
    return splits == 1 || DivideUp(key_blocks, splits) != DivideUp(key_blocks, splits - 1);
  };
  const auto efficiency = [&](int64_t splits) {
    const float waves = work * static_cast<float>(splits) / all;
    return waves / std::ceil(waves);
  };
  float best = 0;
  for (int64_t splits = 1; splits <= most; ++splits) {
    if (is_eligible(splits)) best = std::max(best, efficiency(splits));
  }
  for (int64_t splits = 1; splits <= most; ++splits) {
    if (is_eligible(splits) && efficiency(splits) >= 0.85F * best) return splits;
  }
  return 1;
}

TensorType FlashLogSumExp(const CallTypes& call) {
  const Attention a = Read(call);
  return {DType::kFloat32, {a.batch(), a.heads(), a.rows()}};
}

TensorType SplitLogSumExp(const CallTypes& call) {
  const Attention a = Read(call);
  const int64_t splits = FlashSplits(a);
  if (splits == 1) return kNoTensorType;
  return {DType::kFloat32, {splits, a.batch(), a.heads(), a.rows()}};
}

TensorType SplitOutput(const CallTypes& call) {
  TensorType type = SplitLogSumExp(call);
  if (type.dtype != DType::kUndefined) type.dims.push_back(FlashHeadSize(Read(call).head_size()));
  return type;
}

// Seed and offset of the random numbers, bytes; without dropout in the other order, and unread.
// Where they are on the host there is neither.
TensorType RngBytes(const CallTypes& call, int64_t bytes) {
  return call.ints()[2] == 0 ? kNoTensorType : TensorType{DType::kUint8, {bytes}};
}
TensorType RngScratch(const CallTypes& call) {
  return Read(call).drops ? RngBytes(call, 16) : kNoTensorType;
}
TensorType RngFirst(const CallTypes& call) { return RngBytes(call, Read(call).drops ? 8 : 16); }
TensorType RngSecond(const CallTypes& call) { return RngBytes(call, Read(call).drops ? 16 : 8); }

// [B, H, S, D] of a tensor that lies as [B, S, H, D] does.
Dims SwapHeadsAndRows(const Dims& of) { return {of[0], of[2], of[1], of[3]}; }
StridedType HeadsSwapped(const StridedType& type) {
  return {{type.dtype, SwapHeadsAndRows(type.dims)}, SwapHeadsAndRows(type.strides)};
}

// As empty_like(q.transpose(1, 2)).
Dims LikeQuery(const CallTypes& call) {
  return SwapHeadsAndRows(StridesLike(HeadsSwapped(call.in(0))));
}

// As a contiguous [B, S, H, D].
Dims RowsFirst(const Dims& dims) {
  return SwapHeadsAndRows(ContiguousStrides(SwapHeadsAndRows(dims)));
}
Dims OutputRowsFirst(const CallTypes& call) { return RowsFirst(call.out(0).dims); }

TensorType CopyUnlessRowsFirst(const StridedType& type) {
  return IsContiguous(HeadsSwapped(type)) ? kNoTensorType : type;
}

void FlashBackward(Kernel& kernel) {
  const Attention a = Read(kernel.types());
  kernel.Take(CopyUnlessRowsFirst(kernel.types().incoming_gradient()));
  kernel.Take(CopyUnlessRowsFirst(kernel.types().out(0)));
  for (int i = 0; i < 3; ++i) {
    kernel.MakeGrad(
        i, SwapHeadsAndRows(StridesLike(HeadsSwapped(kernel.types().in(static_cast<size_t>(i))))));
  }
  const int64_t rows = RoundUp(a.rows(), 128);
  kernel.Take({DType::kFloat32, {a.batch(), a.heads(), rows}});  // sums of the softmax's gradient
  kernel.Take({DType::kFloat32, {a.batch(), rows, a.heads(), FlashHeadSize(a.head_size())}});
  if (!a.is_grouped()) return;
  const Dims expanded = {a.batch(), a.keys(), a.heads(), a.head_size()};
  kernel.Take({a.q.dtype, expanded});  // gradients of k and v, by head of q
  kernel.Take({a.q.dtype, expanded});
}

// --- Memory-efficient attention ------------------------------------------------------------------

// Rows padded to the size of a block; nothing where no gradient will ask for it.
TensorType EfficientLogSumExp(const CallTypes& call) {
  const Attention a = Read(call);
  if (call.ints()[1] == 0) return kNoTensorType;
  return {DType::kFloat32, {a.batch(), a.heads(), RoundUp(a.rows(), 32)}};
}

TensorType EfficientSeed(const CallTypes& call) {
  return call.ints()[2] == 0 ? kNoTensorType : TensorType{DType::kInt64, {}};
}

constexpr int64_t kLargestInRegisters = 128;  // head size

// Output of 16 bits that does not stay in registers is summed up in fp32.
TensorType OutputAccumulator(const CallTypes& call) {
  const Attention a = Read(call);
  if (!a.is_16_bit() || a.value_size() <= kLargestInRegisters) return kNoTensorType;
  return {DType::kFloat32, {a.batch(), a.rows(), a.heads(), a.value_size()}};
}

// The tile in which a kernel sums up q's gradient: rows of a block, columns, and what locks it
// (fp32 elements).
struct Tile {
  int64_t rows;
  int64_t columns;
  int64_t lock;
};

Tile TileOf(const Attention& a) {
  const int64_t size = std::max(a.head_size(), a.value_size());
  if (size <= 64) return {64, 64, 4};
  return a.is_16_bit() && size <= kLargestInRegisters ? Tile{128, 128, 4} : Tile{128, 64, 4};
}

// workspace_size(): fp32 elements.
int64_t EfficientWorkspace(const Attention& a) {
  const Tile tile = TileOf(a);
  int64_t elements = DivideUp(a.rows(), tile.rows) * DivideUp(a.head_size(), tile.columns) *
                     (tile.rows * tile.columns + tile.lock);
  if (a.is_16_bit() && std::max(a.head_size(), a.value_size()) > kLargestInRegisters) {
    constexpr int64_t kKeys = 128;      // of a block
    constexpr int64_t kMostWork = 200;  // samples x heads x splits
    const int64_t splits = std::clamp<int64_t>(
        DivideUp(a.keys(), kKeys), 1, std::max<int64_t>(1, kMostWork / (a.batch() * a.heads())));
    elements += splits * kKeys * (RoundUp(a.head_size(), kKeys) + RoundUp(a.value_size(), kKeys));
  }
  return CheckedMul(a.batch() * a.heads(), RoundUp(elements, 4));
}

// A mask's gradient is written in rows of a multiple of 16.
void MakeMaskGradient(Kernel& kernel, const Attention& a) {
  if (!kernel.IsWanted(3)) return;
  const Dims padded = {a.batch(), a.heads(), a.rows(), RoundUp(a.keys(), 16)};
  kernel.MakeGrad(3, ContiguousStrides(padded), padded);
}

// Sums of gradient times output: the kernel makes them in 16 bits.
void EfficientBackward(Kernel& kernel) {
  const Attention a = Read(kernel.types());
  const int copy = kernel.Take(CopyUnlessRowsFirst(kernel.types().incoming_gradient()));
  for (int i = 0; i < 3; ++i) {
    kernel.MakeGrad(i, RowsFirst(kernel.types().in(static_cast<size_t>(i)).dims));
  }
  MakeMaskGradient(kernel, a);
  const Dims rows = {a.batch(), a.rows(), a.heads()};
  int sums = -1;
  if (a.is_16_bit()) {
    sums = kernel.Take({DType::kFloat32, rows});
  } else {
    const int product = kernel.Take({DType::kFloat32, {rows[0], rows[1], rows[2], a.value_size()}});
    sums = kernel.Take({DType::kFloat32, rows});
    if (a.rows() > 1 && a.heads() > 1) {  // transposed, as a contiguous tensor
      const int transposed = kernel.Take({DType::kFloat32, rows});
      kernel.Free(std::exchange(sums, transposed));
    }
    kernel.Free(product);
  }
  const int workspace = kernel.Take({DType::kFloat32, {EfficientWorkspace(a)}});
  kernel.Free(sums);
  kernel.Free(workspace);
  kernel.Free(copy);
}

// --- The choice ----------------------------------------------------------------------------------

enum class Backend : uint8_t { kFlash, kEfficient, kMath };

bool HasUnitStride(const StridedType& type) { return type.strides.back() == 1; }

bool FlashRuns(const Attention& a, bool has_mask, bool is_causal) {
  constexpr int64_t kLargest = 256;
  return !has_mask && a.is_16_bit() && a.head_size() == a.value_size() &&
         a.head_size() <= kLargest && !(is_causal && a.rows() != a.keys()) && HasUnitStride(a.q) &&
         HasUnitStride(a.k) && HasUnitStride(a.v);
}

bool EfficientRuns(const Attention& a, const StridedType* mask) {
  const int64_t alignment = a.is_16_bit() ? 8 : 4;
  const bool has_type = a.is_16_bit() || a.q.dtype == DType::kFloat32;
  return has_type && !a.is_grouped() && a.head_size() % alignment == 0 &&
         a.value_size() % alignment == 0 && HasUnitStride(a.q) && HasUnitStride(a.k) &&
         HasUnitStride(a.v) && (mask == nullptr || HasUnitStride(*mask));
}

Backend Choose(const Attention& a, const StridedType* mask, bool is_causal) {
  const bool is_empty = Numel(a.q.dims) == 0 || Numel(a.k.dims) == 0;
  if (is_empty || a.q.dims.size() != 4) return Backend::kMath;
  if (FlashRuns(a, mask != nullptr, is_causal)) return Backend::kFlash;
  return EfficientRuns(a, mask) ? Backend::kEfficient : Backend::kMath;
}

// --- What is run around the kernels --------------------------------------------------------------

// A mask of bools becomes zeros and -inf, which are added.
NameId AdditiveMask(Dispatcher& d, NameId mask, DType dtype) {
  if (mask == kNoName || IsFloat(d.TypeOf(mask).dtype)) return mask;
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

// Rows of the memory-efficient kernel's mask begin at multiples of 8 elements.
NameId MaskForKernel(Dispatcher& d, NameId mask, const Attention& a) {
  const StridedType type = d.TypeOf(mask);
  if (!IsAligned(type)) {
    Dims padded = type.dims;
    padded.back() = RoundUp(padded.back(), 8);
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

void RunEfficient(Dispatcher& d, const AtenCall& call, NameId mask, const Attention& a) {
  const bool keeps =
      d.NeedsGrad(call.inputs[0]) || d.NeedsGrad(call.inputs[1]) || d.NeedsGrad(call.inputs[2]);
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
  const NameId copy = d.Make("clone", {repeated}, {type.dtype, dims});
  return d.Make("view", {copy}, {type.dtype, {dims[0], a.heads(), dims[3], dims[4]}});
}

// _scaled_dot_product_attention_math: in fp32 where inputs have 16 bits; it returns the
// probabilities too, and makes them last in the result's type before the product.
void RunMath(Dispatcher& d, const AtenCall& call, NameId mask, const Attention& a, bool is_causal) {
  const DType dtype = a.is_16_bit() ? DType::kFloat32 : a.q.dtype;
  const NameId q = Cast(d, call.inputs[0], dtype);
  NameId k = Cast(d, call.inputs[1], dtype);
  NameId v = Cast(d, call.inputs[2], dtype);
  const NameId scaled_q = d.Make("mul.Scalar", {q}, {dtype, a.q.dims});
  if (is_causal) mask = CausalMask(d, a);
  k = RepeatHeads(d, k, a);
  v = RepeatHeads(d, v, a);
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
  NameId probabilities = d.Make("_safe_softmax", {scores}, {dtype, square});
  d.Drop(scores);
  if (a.drops) probabilities = d.Make("dropout", {probabilities}, {dtype, square});
  if (dtype == a.q.dtype) return (void)MatMul(d, probabilities, v, Ends::kCall);
  Cast(d, probabilities, a.q.dtype);
  const NameId product = MatMul(d, probabilities, v, Ends::kLocal);
  d.MakeResult("_to_copy", {product});
}

// torch.nn.functional.scaled_dot_product_attention
void TakeAttentionApart(Dispatcher& d, const AtenCall& call) {
  const Attention a = {d.TypeOf(call.inputs[0]), d.TypeOf(call.inputs[1]), d.TypeOf(call.inputs[2]),
                       call.ints[0] != 0};
  const NameId given = call.inputs.size() > 3 ? call.inputs[3] : kNoName;
  const bool is_causal = call.ints[1] != 0;
  const std::optional<StridedType> mask_type =
      given == kNoName ? std::nullopt : std::optional(d.TypeOf(given));
  const Backend backend = Choose(a, mask_type ? &*mask_type : nullptr, is_causal);
  const NameId mask = AdditiveMask(d, given, a.q.dtype);
  switch (backend) {
    case Backend::kFlash:
      return RunFlash(d, call);
    case Backend::kEfficient:
      return RunEfficient(d, call, mask, a);
    case Backend::kMath:
      return RunMath(d, call, mask, a, is_causal);
  }
}

// _safe_softmax: rows that are masked out become zeros.
TensorType MaskedElements(const CallTypes& call) { return {DType::kBool, call.out(0).dims}; }
TensorType MaskedRows(const CallTypes& call) {
  Dims rows = call.out(0).dims;
  rows.back() = 1;
  return {DType::kBool, rows};
}
TensorType Number(const CallTypes& call) { return {call.out(0).dtype, {}}; }
TensorType LikeOutput(const CallTypes& call) { return call.out(0); }

constexpr Slots kQkv = In(0) | In(1) | In(2);
constexpr Slots kEfficientSaved = kQkv | In(3) | Out(0) | Aux(0) | Aux(1) | Aux(2);

constexpr OpRule kRules[] = {
    {.name = "scaled_dot_product_attention",
     .take_apart = TakeAttentionApart,
     .autocast = AutocastPolicy::kLower},
    {.name = "_flash_attention",
     .strides = LikeQuery,
     .gradients = {Reads(kQkv | Out(0) | Aux(0) | Aux(1) | Aux(2)), Reads(kQkv), Reads(kQkv)},
     .aux = {{{"logsumexp", FlashLogSumExp}, {"rng", RngFirst}, {"rng offset", RngSecond}}},
     .forward = {MakeOut(0), MakeAux(0), Scratch(SplitLogSumExp), Scratch(SplitOutput),
                 Scratch(RngScratch), MakeAux(1), MakeAux(2)},
     .run_backward = FlashBackward},
    // q, k, v, additive mask
    {.name = "_efficient_attention",
     .strides = OutputRowsFirst,
     .gradients = {Reads(kEfficientSaved), Reads(kEfficientSaved), Reads(kEfficientSaved),
                   Reads(kEfficientSaved)},
     .aux = {{{"logsumexp", EfficientLogSumExp},
              {"rng offset", EfficientSeed},
              {"rng seed", EfficientSeed}}},
     .forward = {MakeAux(2), MakeAux(1), MakeOut(0), MakeAux(0), Scratch(OutputAccumulator)},
     .run_backward = EfficientBackward},
    {.name = "_safe_softmax",
     .gradients = {Reads(Out(0))},
     .forward = {MakeOut(0), Scratch(MaskedElements), Scratch(MaskedRows), Scratch(Number)},
     .backward = {MakeGrad(0), Scratch(LikeOutput)}},
};

}  // namespace

std::span<const OpRule> AttentionRules() { return kRules; }

}  // namespace onnxfit
