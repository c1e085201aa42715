// Basis of every cell: the wheel of that version as PyPI has it (the last of its patches), run
// on cards that only count.  Workspaces and norms: events of torch.cuda.memory; large
// workspaces: the same on cards of compute capability 7.5, 8.0, 8.6, 8.9, 9.0, 10.0, 10.3, 11.0,
// 12.0 and 12.1; options: what setting them answers; the lowest compute capability:
// torch.cuda.get_arch_list().  tests/framework_test.cc has the events.
// Names in the sources: aten/src/ATen/cuda/CublasHandlePool.cpp and CUDABlas.cpp (workspaces),
// aten/src/ATen/native/cuda/ForeachReduceOp.cu (norms), torch/optim/adagrad.py.
#include "estimator/base/framework.h"

#include <fmt/format.h>

#include <algorithm>

#include "estimator/base/bytes.h"

namespace onnxfit {
namespace {

constexpr int kHopper[] = {9};
constexpr int kHopperAndBlackwell[] = {9, 10, 12};
constexpr int kHopperAndLater[] = {9, 10, 11, 12};

// Options of the allocator by age, youngest first: what a version lacks is a head of it.
constexpr std::string_view kYoungOptions[] = {
    "expandable_segments_reserve",
    "expandable_segments_reserve_by_class",
    "pinned_max_round_threshold_mb",
    "pinned_max_cached_size_mb",
    "throw_on_cudamalloc_oom",
    "pinned_free_catch_all",
    "large_segment_size_mb",
    "per_process_memory_fraction",
    "pinned_reserve_segment_size_mb",
    "graph_capture_record_stream_reuse",
};

constexpr std::span<const std::string_view> Youngest(size_t count) {
  return std::span(kYoungOptions).first(count);
}

constexpr FrameworkProfile kFrameworks[] = {
    {.name = "pytorch-2.6",
     .cublaslt = WorkspaceLife::kPerCall,
     .cublas_in_lt = CublasInLt::kSecond,
     .large_workspaces = kHopper,
     .missing_alloc_options = Youngest(10),
     .min_compute_capability = 50},
    {.name = "pytorch-2.8",
     .cublaslt = WorkspaceLife::kPerCall,
     .cublas_in_lt = CublasInLt::kSecond,
     .large_workspaces = kHopper,
     .missing_alloc_options = Youngest(10),
     .min_compute_capability = 70},
    {.name = "pytorch-2.9",
     .cublas_in_lt = CublasInLt::kFirst,
     .large_workspaces = kHopper,
     .missing_alloc_options = Youngest(9),
     .min_compute_capability = 70},
    {.name = "pytorch-2.10",
     .cublas_in_lt = CublasInLt::kFirst,
     .lt_min_rows = 2,
     .large_workspaces = kHopper,
     .missing_alloc_options = Youngest(7),
     .min_compute_capability = 70},
    {.name = "pytorch-2.11",
     .cublas_in_lt = CublasInLt::kFirst,
     .large_workspaces = kHopper,
     .missing_alloc_options = Youngest(6),
     .min_compute_capability = 75},
    {.name = "pytorch-2.12",
     .cublas_in_lt = CublasInLt::kInstead,
     .large_workspaces = kHopperAndBlackwell,
     .fused_adagrad = true,
     .missing_alloc_options = Youngest(4),
     .min_compute_capability = 75},
    {.name = "pytorch-2.13",
     .cublas_in_lt = CublasInLt::kInstead,
     .large_workspaces = kHopperAndBlackwell,
     .fused_adagrad = true,
     .missing_alloc_options = Youngest(2),
     .min_compute_capability = 75},
    {.name = "pytorch-2.14",
     .cublas_in_lt = CublasInLt::kInstead,
     .large_workspaces = kHopperAndLater,
     .fused_adagrad = true,
     .missing_alloc_options = Youngest(2),
     .min_compute_capability = 75},
    {.name = "pytorch-2.15",
     .cublas = WorkspaceLife::kPerCall,
     .cublaslt = WorkspaceLife::kPerCall,
     .cublas_in_lt = CublasInLt::kNever,
     .large_workspaces = kHopperAndLater,
     .norms_with_offsets = true,
     .fused_adagrad = true,
     .min_compute_capability = 75},
};
constexpr const FrameworkProfile& kDefault = kFrameworks[4];
static_assert(kDefault.name == "pytorch-2.11");

constexpr int64_t kCublasBytes = 2 * 4096 * kKiB + 8 * 16 * kKiB;  // ":4096:2:16:8"
constexpr int64_t kLargeCublasBytes = 8 * 4096 * kKiB;             // ":4096:8"

}  // namespace

std::span<const FrameworkProfile> Frameworks() { return kFrameworks; }
const FrameworkProfile& DefaultFramework() { return kDefault; }

int64_t CublasWorkspaceBytes(const FrameworkProfile& framework, const DeviceProfile& device) {
  const std::span<const int> large = framework.large_workspaces;
  const bool is_large =
      std::find(large.begin(), large.end(), device.compute_capability / 10) != large.end();
  return is_large ? kLargeCublasBytes : kCublasBytes;
}

std::string WhyUnsupported(const FrameworkProfile& framework, const DeviceProfile& device) {
  const int found = device.compute_capability;
  const int least = framework.min_compute_capability;
  if (found >= least) return "";
  return fmt::format("{} runs on cards of compute capability {}.{} or more, {} has {}.{}",
                     framework.name, least / 10, least % 10, device.name, found / 10, found % 10);
}

}  // namespace onnxfit
