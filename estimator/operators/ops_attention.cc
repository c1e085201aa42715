// Scaled-dot-product attention: what each kernel allocates and keeps.  Which one PyTorch takes:
// attention_kernels.h.
// Sources: pytorch v2.6.0, aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp,
// cuda/attention{,_backward}.cu, cuda/mem_eff_attention/kernel_backward.h and ../cudnn/MHA.cpp;
// torch 2.11 events of head sizes from 4 to 256, with and without masks, dropout and grouped heads;
// 2.6 to 2.15 events of seeds.  cuDNN's kernel was never run: its order is that of MHA.cpp.
#include <algorithm>
#include <cmath>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/operators/attention_kernels.h"
#include "estimator/operators/dispatcher.h"
#include "estimator/operators/op_rule.h"
#include "estimator/operators/strides.h"

namespace onnxfit {
namespace {

constexpr TensorType kNoTensorType = {};

// Kernels' ints: whether it drops out; whether it is causal (of the memory-efficient kernel and
// cuDNN's: whether they keep the log-sum-exp); whether seed and offset are on the device.
Attention Read(const CallTypes& call) {
  const bool drops = !call.ints().empty() && call.ints()[0] != 0;
  return {call.in(0), call.in(1), call.in(2), drops};
}

// --- Flash attention ---------------------------------------------------------------------------

// The head size that its kernels are made for.
int64_t FlashHeadSize(int64_t size) { return RoundUp(size, size <= 128 ? 32 : 64); }

// num_splits_heuristic: keys are split where the rows alone leave multiprocessors idle.
int64_t FlashSplits(const CallTypes& call) {
  const Attention a = Read(call);
  constexpr int64_t kMostSplits = 128;
  const int64_t block = a.head_size() <= 64 ? 256 : (a.head_size() <= 128 ? 128 : 64);
  const int64_t key_blocks = DivideUp(a.keys(), block);
  const auto work = static_cast<float>(a.batch() * a.heads() * DivideUp(a.rows(), 64));
  const int64_t processors = 2 * call.device().multiprocessors;
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
  const int64_t splits = FlashSplits(call);
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

// Kernels make those of q, k and v, also where nobody wants one: _flash_attention_backward and
// _efficient_attention_backward, aten/src/ATen/native/transformers/cuda/attention_backward.cu,
// pytorch v2.11.0; torch 2.11 events.
void MakeGradOf(Kernel& kernel, int input, Dims strides) {
  if (!kernel.IsWanted(input)) return kernel.MakeGradAnyway(input);
  kernel.MakeGrad(input, std::move(strides));
}

void FlashBackward(Kernel& kernel) {
  const Attention a = Read(kernel.types());
  kernel.Take(CopyUnlessRowsFirst(kernel.types().incoming_gradient()));
  kernel.Take(CopyUnlessRowsFirst(kernel.types().out(0)));
  for (int i = 0; i < 3; ++i) {
    const StridedType& input = kernel.types().in(static_cast<size_t>(i));
    MakeGradOf(kernel, i, SwapHeadsAndRows(StridesLike(HeadsSwapped(input))));
  }
  const int64_t rows = RoundUp(a.rows(), 128);
  kernel.Take({DType::kFloat32, {a.batch(), a.heads(), rows}});  // sums of the softmax's gradient
  kernel.Take({DType::kFloat32, {a.batch(), rows, a.heads(), FlashHeadSize(a.head_size())}});
  if (!a.is_grouped()) return;
  const Dims expanded = {a.batch(), a.keys(), a.heads(), a.head_size()};
  kernel.Take({a.q.dtype, expanded});  // gradients of k and v, by head of q
  kernel.Take({a.q.dtype, expanded});
}

// --- Flash attention 1, before 2.2 ---------------------------------------------------------------
// Source: mha_fwd and mha_bwd of aten/src/ATen/native/transformers/cuda/flash_attn/fmha_api.cpp;
// torch 2.0.1 and 2.1.2 events.

// Where each sample's rows, or keys, begin.
TensorType BeginningsOfSamples(const CallTypes& call) {
  return {DType::kInt32, {Read(call).batch() + 1}};
}

TensorType RowsBy16(const CallTypes& call) {
  const Attention a = Read(call);
  return {DType::kFloat32, {a.batch(), a.heads(), RoundUp(a.rows(), 16)}};
}

// What passes over blocks of keys are added up in; one block needs none.
TensorType SumOfPasses(const CallTypes& call) {
  const Attention a = Read(call);
  const int64_t block = a.head_size() > 64 ? 128 : 256;
  if (a.keys() <= block) return kNoTensorType;
  return {DType::kFloat32, {a.batch(), a.rows(), a.heads(), a.head_size()}};
}

void FirstFlashBackward(Kernel& kernel) {
  kernel.Take(CopyUnlessRowsFirst(kernel.types().incoming_gradient()));
  for (int i = 0; i < 3; ++i) {
    MakeGradOf(kernel, i, RowsFirst(kernel.types().in(static_cast<size_t>(i)).dims));
  }
  kernel.Take(RowsBy16(kernel.types()));
  kernel.Take(SumOfPasses(kernel.types()));
}

// --- Memory-efficient attention ------------------------------------------------------------------

// should_compute_logsumexp() asks whether gradients are enabled, too (pytorch v2.11.0,
// aten/src/ATen/native/transformers/sdp_utils_cpp.h).
constexpr bool kForGradients = true;

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

// Output of 16 bits that does not stay in registers is summed up in fp32: of a kernel that takes
// heads of any size, be they keys' or values'.  Source: _efficient_attention_forward of
// aten/src/ATen/native/transformers/cuda/attention.cu, pytorch v2.11.0.
TensorType OutputAccumulator(const CallTypes& call) {
  const Attention a = Read(call);
  const int64_t size = std::max(a.head_size(), a.value_size());
  if (!a.is_16_bit() || size <= kLargestInRegisters) return kNoTensorType;
  return {DType::kFloat32, {a.batch(), a.rows(), a.heads(), a.value_size()}};
}

// The tile in which a kernel sums up q's gradient: rows of a block, columns, and what locks it
// (fp32 elements).
struct AttentionTile {
  int64_t rows;
  int64_t columns;
  int64_t lock;
};

AttentionTile TileOf(const Attention& a) {
  const int64_t size = std::max(a.head_size(), a.value_size());
  if (size <= 64) return {64, 64, 4};
  return a.is_16_bit() && size <= kLargestInRegisters ? AttentionTile{128, 128, 4}
                                                      : AttentionTile{128, 64, 4};
}

// workspace_size(): fp32 elements.
int64_t EfficientWorkspace(const Attention& a) {
  const AttentionTile tile = TileOf(a);
  int64_t elements =
      CheckedMul(CheckedMul(DivideUp(a.rows(), tile.rows), DivideUp(a.head_size(), tile.columns)),
                 tile.rows * tile.columns + tile.lock);
  if (a.is_16_bit() && std::max(a.head_size(), a.value_size()) > kLargestInRegisters) {
    constexpr int64_t kKeys = 64;       // of a block, kBlockSizeJ
    constexpr int64_t kColumns = 128;   // kBlockSizeI
    constexpr int64_t kMostWork = 200;  // samples x heads x splits
    const int64_t splits = std::clamp<int64_t>(
        DivideUp(a.keys(), kKeys), 1, std::max<int64_t>(1, kMostWork / (a.batch() * a.heads())));
    elements +=
        splits * kKeys * (RoundUp(a.head_size(), kColumns) + RoundUp(a.value_size(), kColumns));
  }
  return CheckedMul(a.batch() * a.heads(), RoundUp(elements, 4));
}

// A mask's gradient is written in rows of a multiple of 16.
void MakeMaskGradient(Kernel& kernel, const Attention& a) {
  if (!kernel.IsWanted(3)) return;
  const Dims padded = {a.batch(), a.heads(), a.rows(), RoundUp(a.keys(), 16)};
  kernel.MakeGrad(3, ContiguousStrides(padded), padded);
}

// Of grouped heads: the gradients of k and v by head of q, summed up at the end.
void TakeExpandedGradients(Kernel& kernel, const Attention& a) {
  if (!a.is_grouped()) return;
  kernel.Take({a.k.dtype, {a.batch(), a.keys(), a.heads(), a.head_size()}});
  kernel.Take({a.v.dtype, {a.batch(), a.keys(), a.heads(), a.value_size()}});
}

// Sums of gradient times output: the kernel makes them in 16 bits.
void EfficientBackward(Kernel& kernel) {
  const Attention a = Read(kernel.types());
  const int copy = kernel.Take(CopyUnlessRowsFirst(kernel.types().incoming_gradient()));
  for (int i = 0; i < 3; ++i) {
    MakeGradOf(kernel, i, RowsFirst(kernel.types().in(static_cast<size_t>(i)).dims));
  }
  MakeMaskGradient(kernel, a);
  TakeExpandedGradients(kernel, a);
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
  const bool is_first = kernel.types().framework().attention == AttentionForm::kFrom20;
  const int workspace =
      kernel.Take(is_first ? kNoTensorType : TensorType{DType::kFloat32, {EfficientWorkspace(a)}});
  kernel.Free(sums);
  kernel.Free(workspace);
  kernel.Free(copy);
}

// --- cuDNN's attention ---------------------------------------------------------------------------

// cudnn_seed and cudnn_offset, also where nothing is dropped.
TensorType CudnnSeed(const CallTypes&) { return {DType::kInt64, {}}; }

TensorType CudnnLogSumExp(const CallTypes& call) {
  const Attention a = Read(call);
  if (call.ints()[1] == 0) return kNoTensorType;
  return {DType::kFloat32, {a.batch(), a.heads(), a.rows(), 1}};
}

// alloc_with_matching_layout
Dims CudnnOutput(const CallTypes& call) {
  return StridesAs(call.out(0).dims, StridesLike(call.in(0)));
}

TensorType CudnnForwardWorkspace(const CallTypes& call) {
  return {DType::kUint8, {CudnnAttentionForwardBytes(Read(call), call.device())}};
}

TensorType CudnnBackwardWorkspace(const CallTypes& call) {
  return {DType::kUint8,
          {CudnnAttentionBackwardBytes(Read(call), call.has_input(3), call.framework(),
                                       call.device())}};
}

// Of an incoming gradient whose last dimension does not lie densely.
TensorType CudnnGradientCopy(const CallTypes& call) {
  const StridedType& gradient = call.incoming_gradient();
  return gradient.strides.back() == 1 ? kNoTensorType : gradient;
}

// _safe_softmax: rows that are masked out become zeros.  ints: the dimension; none: the last.
TensorType MaskedRows(const CallTypes& call) {
  Dims rows = call.out(0).dims;
  const int64_t axis = call.ints().empty() ? std::ssize(rows) - 1 : call.ints()[0];
  rows[Index(axis)] = 1;
  return {DType::kBool, rows};
}

constexpr Slots kQkv = In(0) | In(1) | In(2);
// One formula makes all gradients (derivatives.yaml of pytorch v2.11.0): whichever is wanted, all
// is saved that any of them reads.
constexpr Slots kFlashSaved = kQkv | Out(0) | Aux(0) | Aux(1) | Aux(2);
constexpr Slots kCudnnSaved = kQkv | In(3) | Out(0) | Aux(0) | Aux(1) | Aux(2);
constexpr Slots kEfficientSaved = kQkv | In(3) | Out(0) | Aux(0) | Aux(1) | Aux(2);

// A mask of bools for the keys of each sequence.
TensorType BoolsOfRows(const CallTypes& call) {
  const Dims& dims = call.out(0).dims;
  return {DType::kBool, {dims.front(), dims.back()}};
}

constexpr OpRule kAttentionRules[] = {
    {.name = "scaled_dot_product_attention",
     .take_apart = TakeAttentionApart,
     .autocast = AutocastPolicy::kLower},
    {.name = "_flash_attention",
     .strides = LikeQuery,
     .gradients = {Reads(kFlashSaved), Reads(kFlashSaved), Reads(kFlashSaved)},
     .aux = {{{"logsumexp", FlashLogSumExp}, {"rng", RngFirst}, {"rng offset", RngSecond}}},
     .forward = {MakeOut(0), MakeAux(0), Scratch(SplitLogSumExp), Scratch(SplitOutput),
                 Scratch(RngScratch), MakeAux(1), MakeAux(2)},
     .run_backward = FlashBackward},
    {.name = "_flash_attention_1",
     .strides = OutputRowsFirst,
     .gradients = {Reads(kFlashSaved), Reads(kFlashSaved), Reads(kFlashSaved)},
     .aux = {{{"logsumexp", RowsBy16},
              {"rows of samples", BeginningsOfSamples},
              {"keys of samples", BeginningsOfSamples}}},
     .forward = {MakeAux(1), MakeAux(2), MakeOut(0), Passing(SumOfPasses), MakeAux(0)},
     .run_backward = FirstFlashBackward},
    // q, k, v, additive mask, which saves them and needs no gradient
    {.name = "_cudnn_attention",
     .strides = CudnnOutput,
     .gradients = {ReadsAsInput(kCudnnSaved), ReadsAsInput(kCudnnSaved), ReadsAsInput(kCudnnSaved)},
     .makes_all_gradients = [](const CallTypes&) { return true; },
     .aux = {{{"logsumexp", CudnnLogSumExp, kForGradients},
              {"rng seed", CudnnSeed},
              {"rng offset", CudnnSeed}}},
     .forward = {MakeAux(1), MakeAux(2), MakeOut(0), MakeAux(0),
                 UsesForAttention(CudnnForwardWorkspace)},
     .backward = {MakeGrad(0), MakeGrad(1), MakeGrad(2), Scratch(CudnnGradientCopy),
                  UsesForAttention(CudnnBackwardWorkspace)}},
    // q, k, v, additive mask
    {.name = "_efficient_attention",
     .strides = OutputRowsFirst,
     .gradients = {Reads(kEfficientSaved), Reads(kEfficientSaved), Reads(kEfficientSaved),
                   Reads(kEfficientSaved)},
     .aux = {{{"logsumexp", EfficientLogSumExp, kForGradients},
              {"rng offset", EfficientSeed},
              {"rng seed", EfficientSeed}}},
     .forward = {MakeAux(2), MakeAux(1), MakeOut(0), MakeAux(0), Scratch(OutputAccumulator)},
     .run_backward = EfficientBackward},
    // Within attention, where autocast is over.
    {.name = "_softmax", .gradients = {Reads(Out(0))}},
    {.name = "_safe_softmax",
     .gradients = {Reads(Out(0))},
     .forward = {MakeOut(0), Scratch(BoolsLikeOutput), Scratch(MaskedRows),
                 Scratch(ScalarLikeOutput)},
     .backward = {MakeGrad(0), Scratch(LikeOutput)}},
    // Of torch._native_multi_head_attention, in inference alone: q, k and v by heads; scores under
    // a mask of them all; both written over, by softmax and by the context.
    {.name = "_transform_bias_rescale_qkv"},
    {.name = "_masked_softmax", .forward = {Scratch(BoolsLikeOutput), MakeOut(0)}},
    {.name = "_masked_softmax.rows", .forward = {Scratch(BoolsOfRows), MakeOut(0)}},
    {.name = "softmax_", .in_place = InPlace::kAlways},
    {.name = "bmm_", .in_place = InPlace::kAlways, .forward = {Uses(Workspace::kCublas)}},
};

}  // namespace

std::span<const OpRule> AttentionRules() { return kAttentionRules; }

}  // namespace onnxfit
