#include "estimator/eager/attention_choice.h"

#include <algorithm>

namespace onnxfit {
namespace {

constexpr int kAmpere = 80;

bool HasUnitStride(const StridedType& type) { return type.strides.back() == 1; }
bool HaveUnitStrides(const Attention& a) {
  return HasUnitStride(a.q) && HasUnitStride(a.k) && HasUnitStride(a.v);
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
         CudnnHasHeads(a, terms, heads, device);
}

// check_requires_grad_and_head_dim_gt192_constraints_on_sm86_89_or_120
bool FlashHasBackward(const Attention& a, const DeviceProfile& device) {
  const int capability = device.compute_capability;
  const bool is_small = (capability >= 86 && capability <= 89) || MajorOf(device) == 12;
  constexpr int64_t kMost = 192;
  constexpr int64_t kMostInParts = 224;  // beyond it another kernel runs
  return !is_small || a.head_size() <= kMost || (!a.drops && a.head_size() > kMostInParts);
}

bool FlashRuns(const Attention& a, const AttentionTerms& terms, const DeviceProfile& device) {
  constexpr int64_t kLargest = 256;
  return device.compute_capability >= kAmpere && !terms.mask.has_value() && a.is_16_bit() &&
         a.head_size() == a.value_size() && a.head_size() <= kLargest &&
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
  const bool has_bf16 = device.compute_capability >= kAmpere;
  const bool has_type = a.q.dtype == DType::kFloat32 || a.q.dtype == DType::kFloat16 ||
                        (a.q.dtype == DType::kBFloat16 && has_bf16);
  const int64_t alignment = Alignment(a, device);
  return has_type && (!a.is_grouped() || framework.efficient_groups) &&
         a.head_size() % alignment == 0 && a.value_size() % alignment == 0 && HaveUnitStrides(a) &&
         (!terms.mask.has_value() || HasUnitStride(*terms.mask));
}

}  // namespace

AttentionKernel ChooseAttention(const Attention& a, const AttentionTerms& terms,
                                const FrameworkProfile& framework, const DeviceProfile& device) {
  const bool is_empty = Numel(a.q.dims) == 0 || Numel(a.k.dims) == 0;
  if (is_empty || a.q.dims.size() != 4) return AttentionKernel::kMath;
  if (CudnnRuns(a, terms, framework, device)) return AttentionKernel::kCudnn;
  if (FlashRuns(a, terms, device)) return AttentionKernel::kFlash;
  if (EfficientRuns(a, terms, framework, device)) return AttentionKernel::kEfficient;
  return AttentionKernel::kMath;
}

}  // namespace onnxfit
