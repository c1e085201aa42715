// What differs between versions of PyTorch, as far as it changes bytes: one row a version.
// Nobody else compares versions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "estimator/base/device.h"

namespace onnxfit {

// How long a library's workspace lives.
enum class WorkspaceLife : uint8_t {
  kKept,     // from the first call of a thread that needs it, for good
  kPerCall,  // while the call runs
};

// When a call of cublasLt takes the workspace of cuBLAS, whose handle it uses: before its own
// or after it, or it has none of its own.
enum class CublasInLt : uint8_t { kNever, kFirst, kSecond, kInstead };

struct FrameworkProfile {
  std::string_view name;  // as --framework spells it

  WorkspaceLife cublas = WorkspaceLife::kKept;
  WorkspaceLife cublaslt = WorkspaceLife::kKept;
  CublasInLt cublas_in_lt = CublasInLt::kFirst;
  int64_t lt_min_rows = 1;  // a product with a bias is cublasLt's from so many rows on
  std::span<const int> large_workspaces = {};  // major compute capabilities: cuBLAS's has 32 MiB

  // Where attention holds the seed and offset of its dropout on the device: flash attention, and
  // the memory-efficient one where it drops nothing.
  bool flash_seeds = true;
  bool seeds_without_dropout = false;

  bool norms_with_offsets = false;  // _foreach_norm keeps where each tensor's chunks begin
  bool fused_adagrad = false;       // torch.optim.Adagrad(fused=True) runs on CUDA
  std::span<const std::string_view> missing_alloc_options = {};  // of PYTORCH_ALLOC_CONF

  int min_compute_capability = 0;  // times ten: 75 for 7.5
};

// Every version that we know, oldest first.
std::span<const FrameworkProfile> Frameworks();

// What answers assume where none is named: pytorch-2.11.
const FrameworkProfile& DefaultFramework();

// Of one thread and handle, on that card.
int64_t CublasWorkspaceBytes(const FrameworkProfile& framework, const DeviceProfile& device);
inline constexpr int64_t kCublasLtWorkspaceBytes = int64_t{1} << 20;  // in every version

// Why `framework` has no kernels for that card, "" where it has.
std::string WhyUnsupported(const FrameworkProfile& framework, const DeviceProfile& device);

}  // namespace onnxfit
