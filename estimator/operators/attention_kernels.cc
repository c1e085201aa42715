#include "estimator/operators/attention_kernels.h"

#include <algorithm>

#include "estimator/base/bytes.h"

namespace onnxfit {

// --- The choice ----------------------------------------------------------------

namespace {

constexpr int kAmpere = 80;

bool HasUnitStride(const StridedType& type) { return type.strides.back() == 1; }
bool HaveUnitStrides(const Attention& a) {
  return HasUnitStride(a.q) && HasUnitStride(a.k) && HasUnitStride(a.v);
}

bool HasUnitStride(const AttentionTerms& terms) {
  return !terms.mask.has_value() || HasUnitStride(*terms.mask);
}

bool IsHopperOrBlackwell(const DeviceProfile& device) {
  return MajorOf(device) == 9 || MajorOf(device) == 10;
}

// check_cudnn_tensor_shapes and check_cudnn_d256_bprop_head_dim
bool CudnnHasHeads(const Attention& a, const AttentionTerms& terms, CudnnHeads heads,
                   const DeviceProfile& device) {
  const int64_t most = std::max(a.head_size(), a.value_size());
  if (a.head_size() % 8 != 0 || a.value_size() % 8 != 0) return false;
  if (most <= 128 || (a.head_size() == 192 && a.value_size() == 128)) return true;
  if (most > 256) return false;
  if (heads == CudnnHeads::k256OnHopper) return MajorOf(device) == 9;
  return !terms.needs_grad || (a.head_size() == 256 && a.value_size() == 256);
}

bool CudnnRuns(const Attention& a, const AttentionTerms& terms, const FrameworkProfile& framework,
               const DeviceProfile& device) {
  const CudnnHeads heads = framework.cudnn_attention;
  if (heads == CudnnHeads::kNone || !IsHopperOrBlackwell(device)) return false;
  if (a.drops && (!framework.cudnn_drops_all || a.rows() == 1)) return false;
  return a.is_16_bit() && a.keys() > 1 && !terms.mask_needs_grad && HaveUnitStrides(a) &&
         HasUnitStride(terms) && CudnnHasHeads(a, terms, heads, device);
}

// check_requires_grad_and_head_dim_gt192_constraints_on_sm86_89_or_120
bool FlashHasBackward(const Attention& a, const DeviceProfile& device) {
  const int capability = device.compute_capability;
  const bool is_small = (capability >= 86 && capability <= 89) || MajorOf(device) == 12;
  constexpr int64_t kMost = 192;
  constexpr int64_t kMostInParts = 224;  // beyond it another kernel runs
  return !is_small || a.head_size() <= kMost || (!a.drops && a.head_size() > kMostInParts);
}

// check_head_dim_size: before 2.2 the first flash attention.
bool FlashHasHeads(const Attention& a, const FrameworkProfile& framework) {
  const bool is_first = framework.attention < AttentionForm::kFrom22;
  return is_first ? a.head_size() <= 128 && a.head_size() % 8 == 0 && !a.is_grouped()
                  : a.head_size() <= 256;
}

bool FlashRuns(const Attention& a, const AttentionTerms& terms, const FrameworkProfile& framework,
               const DeviceProfile& device) {
  return FlashHasHeads(a, framework) && device.compute_capability >= kAmpere &&
         !terms.mask.has_value() && a.is_16_bit() && a.head_size() == a.value_size() &&
         !(terms.is_causal && a.rows() != a.keys()) && HaveUnitStrides(a) &&
         (!terms.needs_grad || FlashHasBackward(a, device));
}

// minimum_gemm_alignment: elements.
int64_t Alignment(const Attention& a, const DeviceProfile& device) {
  if (a.is_16_bit()) return 8;
  return device.compute_capability >= kAmpere ? 4 : 1;
}

bool EfficientRuns(const Attention& a, const AttentionTerms& terms,
                   const FrameworkProfile& framework, const DeviceProfile& device) {
  const bool is_first = framework.attention == AttentionForm::kFrom20;
  if (is_first && (a.drops || terms.mask.has_value())) return false;
  const bool has_bf16 = device.compute_capability >= kAmpere;
  const bool has_type = a.q.dtype == DType::kFloat32 || a.q.dtype == DType::kFloat16 ||
                        (a.q.dtype == DType::kBFloat16 && has_bf16);
  const int64_t alignment = Alignment(a, device);
  return has_type && (!a.is_grouped() || framework.efficient_groups) &&
         a.head_size() % alignment == 0 && a.value_size() % alignment == 0 && HaveUnitStrides(a) &&
         HasUnitStride(terms);
}

// priority_order of sdp_utils.cpp before 2.2, as events of 2.0.1 and 2.1.2 show it: with few
// samples and heads, or with heads of 128.  2.1 asks so only where nothing is trained.
bool EfficientComesFirst(const Attention& a, const AttentionTerms& terms,
                         const FrameworkProfile& framework) {
  if (framework.attention >= AttentionForm::kFrom22) return false;
  if (framework.attention == AttentionForm::kFrom21 && terms.needs_grad) return false;
  constexpr int64_t kFew = 60;
  constexpr int64_t kRows = 64;  // of a block
  const bool is_few = CheckedMul(a.batch(), a.heads()) < kFew && a.rows() / kRows >= 2;
  return is_few || a.head_size() == 128;
}

}  // namespace

AttentionKernel ChooseAttention(const Attention& a, const AttentionTerms& terms,
                                const FrameworkProfile& framework, const DeviceProfile& device) {
  const bool is_empty = Numel(a.q.dims) == 0 || Numel(a.k.dims) == 0;
  const bool is_there = framework.attention != AttentionForm::kNone;
  if (is_empty || a.q.dims.size() != 4 || !is_there) return AttentionKernel::kMath;
  const bool is_efficient = EfficientRuns(a, terms, framework, device);
  if (is_efficient && EfficientComesFirst(a, terms, framework)) return AttentionKernel::kEfficient;
  if (CudnnRuns(a, terms, framework, device)) return AttentionKernel::kCudnn;
  if (FlashRuns(a, terms, framework, device)) return AttentionKernel::kFlash;
  if (is_efficient) return AttentionKernel::kEfficient;
  return AttentionKernel::kMath;
}

// --- Workspaces of cuDNN -------------------------------------------------------

// Basis: measured without a card.  What cuDNN's first plan and cudnn-frontend's graph ask for
// together, for cards that are only described, compute capability 9.0, 10.0 and 10.3, with
// cuDNN 9.19.0, 9.20.0, 9.24.0 and 9.26.0 (torch 2.11 to 2.15): 528 calls of 1 to 4096 rows and
// keys, heads of 8 to 256, grouped or not, with and without masks and dropout, causal or not.
// The closed forms are right for all that PyTorch gives to cuDNN of them:
// tests/data/cudnn_attention.csv, which benchmarks/attention.py writes.
//
// All lie as [B, S, H, D] there, masks as [B, 1, S, K]; [B, H, S, D], q, k and v in one tensor and
// other masks were tried on a thousand calls more and change nothing, nor do 78 to 160
// multiprocessors but as the header says.
//
// Source of what cudnn-frontend adds: sdpa_backward in its node/
// scaled_dot_product_flash_attention.h, 1.18.0.

namespace {

constexpr int kCapability100 = 100;

// cuDNN's own parts begin at multiples of it; on Blackwell there is as much in front of them.
constexpr int64_t kPart = 128;
constexpr int64_t kFrontOnHopper = 256;

int64_t Part(DType dtype, const Dims& dims) { return RoundUp(BytesOf({dtype, dims}), kPart); }

bool IsHopper(const DeviceProfile& device) { return MajorOf(device) == 9; }

// One bit for each probability, in tiles of 128 x 128.
int64_t DroppedBits(const Attention& a) {
  constexpr int64_t kTile = 128;
  if (!a.drops) return 0;
  return Part(DType::kUint8,
              {a.batch(), a.heads(), RoundUp(a.rows(), kTile), RoundUp(a.keys(), kTile) / 8});
}

// Blackwell's backward for heads of 256, which keeps q's gradient to itself.
bool RunsOwnKernel(const Attention& a, const DeviceProfile& device) {
  return !IsHopper(device) && a.head_size() == 256;
}

int64_t GradientsByHead(const Attention& a, DType dtype) {
  return CheckedAdd(Part(dtype, {a.batch(), a.heads(), a.keys(), a.head_size()}),
                    Part(dtype, {a.batch(), a.heads(), a.keys(), a.value_size()}));
}

// Gradients of k and v for each head of q, before they are added up.
int64_t UngroupedGradients(const Attention& a, const DeviceProfile& device) {
  if (!a.is_grouped()) return 0;
  const int64_t rounded = GradientsByHead(a, a.k.dtype);
  if (!RunsOwnKernel(a, device)) return rounded;
  return CheckedAdd(rounded, GradientsByHead(a, DType::kFloat32));
}

// Whether Blackwell's kernel for few rows or keys runs, which drops nothing.
bool HasFew(const Attention& a, bool has_mask, const FrameworkProfile& framework,
            const DeviceProfile& device) {
  constexpr int64_t kFew = 128;
  constexpr int kFirstWithoutRows = 92600;
  if (a.drops || std::max(a.head_size(), a.value_size()) > 128) return false;
  const bool takes_rows = framework.cudnn < kFirstWithoutRows ||
                          device.compute_capability != kCapability100 || has_mask;
  return a.keys() <= kFew || (takes_rows && a.rows() > 1 && a.rows() <= kFew);
}

// Its gradient of q in float32.
int64_t GradientOfFew(const Attention& a) {
  return Part(DType::kFloat32, {a.batch(), a.heads(), RoundUp(a.rows(), 8), a.head_size()});
}

// cudnn-frontend's tensors between the operations of its graph: sums of softmax's gradient, and
// q's gradient in float32.
int64_t GraphBytes(const Attention& a, const DeviceProfile& device) {
  const Dims rows = {a.batch(), a.heads(), a.rows()};
  const int64_t sums = BytesOf({DType::kFloat32, rows});
  if (RunsOwnKernel(a, device)) return sums;
  return CheckedAdd(sums, BytesOf({DType::kFloat32, {rows[0], rows[1], rows[2], a.head_size()}}));
}

int64_t WithFront(int64_t parts) { return parts == 0 ? 0 : CheckedAdd(parts, kPart); }

}  // namespace

int64_t CudnnAttentionForwardBytes(const Attention& a, const DeviceProfile& device) {
  if (IsHopper(device)) return a.rows() > 1 ? kFrontOnHopper : 0;
  return WithFront(DroppedBits(a));
}

int64_t CudnnAttentionBackwardBytes(const Attention& a, bool has_mask,
                                    const FrameworkProfile& framework,
                                    const DeviceProfile& device) {
  const int64_t graph = GraphBytes(a, device);
  int64_t parts = UngroupedGradients(a, device);
  if (IsHopper(device)) return CheckedAdd(graph, CheckedAdd(parts, kFrontOnHopper));
  parts = CheckedAdd(parts, DroppedBits(a));
  if (HasFew(a, has_mask, framework, device)) parts = CheckedAdd(parts, GradientOfFew(a));
  return CheckedAdd(graph, WithFront(parts));
}

}  // namespace onnxfit
