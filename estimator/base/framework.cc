// Basis of every cell: measured.  The wheel of that version that PyPI has (2.6.0, 2.7.1, 2.8.0,
// 2.9.1, 2.10.0, 2.11.0, 2.12.1, 2.13.0, 2.14.1, 2.15.0), unchanged, on a CUDA runtime that only
// counts.  Workspaces, seeds, norms and Adagrad: events of torch.cuda.memory, forward and backward;
// large workspaces: the same on cards of compute capability 9.0, 10.0, 11.0, 12.0 and (2.6, 2.8,
// 2.10 to 2.13) 7.5, 8.6, 8.9, 10.3 and 12.1; options: what setting each one answers; Muon: what
// torch.optim has; the lowest compute capability: torch.cuda.get_arch_list(); attention: what
// torch._fused_sdp_choice answers with the cuDNN that the wheel brings, on cards of 8.0, 9.0, 10.0
// and 12.0; norms in parts: which kernels the libraries of 2.6.0, 2.7.1, 2.8.0 and 2.11.0 have;
// sorts: events on the same cards (both 2.9 to 2.15; 2.6 to 2.8 are taken to be as 2.9).
// cublasLt's workspace within cuBLAS's: getCUDABlasLtWorkspaceSize of
// aten/src/ATen/cuda/CublasHandlePool.cpp, and events of 2.11 under :0:0, :16:8 and :4096:2 of
// CUBLAS_WORKSPACE_CONFIG; 2.9 and 2.10, which allocate both in the same order, are taken to be so.
// 1.13 and 2.0 to 2.5: the wheels of 1.13.1 (CUDA 11.7), 2.0.1 (11.7), 2.1.2, 2.2.2, 2.3.1, 2.4.1
// (12.1) and 2.5.1 (12.4), unchanged on a runtime for those versions of CUDA.  Events of attention
// in each form on a card of 8.0, figures of each operator of benchmarks/accuracy (but 1.13) and of
// whole steps (benchmarks/frameworks); workspaces on cards of 8.0 and 9.0; options of 1.13, 2.0 to
// 2.5; fused rms_norm of 2.5, 2.6 and 2.8: whether their libraries have it.  Adam's lists of 2.0,
// and that its step loops by default before: torch/optim of these wheels, and events.  Other
// optimizers of 2.0 were not run: their rows are those of 2.11.
// Not modelled: before 2.4 products of 16 bits whose operand lies in a larger tensor are not
// cublasLt's; x[:, i] runs a slice before 2.11; 1.13's attention of nn.MultiheadAttention copies
// other tensors than are said here (vit_b_16's peaks: -6 to +6 %).
// Of 1.10, which stands for all before 1.11, nothing was run.  It is as 1.13 but for what a source
// shows: softmax's backward takes the input before 1.11, and its type since (softmax_backward_data
// of src/transformers/pytorch_utils.py, transformers 4.17); its build for CUDA 11.3 is for cards of
// 3.7 and more.  Nobody looked at 1.11 and 1.12: 1.13 is the nearest to them.
// is_exporting(): transformers 5.24.0 says so of 2.14 (pytorch#176499) beside the check of it
// (_ignore_causal_mask_sdpa of masking_utils.py); that ViT compiled by 2.15.0 has no mask, its
// events. Of the rest of the allocator nothing differs in what these versions were run with, but
// that 2.12 takes another one of free blocks of equal size: its reserved bytes can be off by a
// segment.
#include "estimator/base/framework.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <compare>
#include <iterator>
#include <optional>

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
    "max_non_split_rounding_mb",
    "pinned_use_background_threads",
    "release_lock_on_cudamalloc",
    "release_lock_on_hipmalloc",
    "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register",
    "pinned_num_register_threads",
    "expandable_segments",
    "backend",
};

constexpr std::span<const std::string_view> Youngest(size_t count) {
  return std::span(kYoungOptions).first(count);
}

constexpr FrameworkProfile kFrameworks[] = {
    {.name = "pytorch-1.10",
     .cublas = WorkspaceLife::kOutside,
     .cublaslt = WorkspaceLife::kPerCall,
     .cublas_in_lt = CublasInLt::kSecond,
     .attention = AttentionForm::kNone,
     .flash_seeds = false,
     .cudnn_v7 = true,
     .softmax_reads_input = true,
     .mean_reads_input = true,
     .fuses_rms_norm = false,
     .upsamples_as_is = true,
     .norms_in_parts = false,
     .loops_by_default = true,
     .keeps_zeroed_grads = true,
     .missing_alloc_options = Youngest(19),
     .min_compute_capability = 37},
    {.name = "pytorch-1.13",
     .cublas = WorkspaceLife::kOutside,
     .cublaslt = WorkspaceLife::kPerCall,
     .cublas_in_lt = CublasInLt::kSecond,
     .attention = AttentionForm::kNone,
     .flash_seeds = false,
     .cudnn = 8500,
     .cudnn_v7 = true,
     .mean_reads_input = true,
     .fuses_rms_norm = false,
     .upsamples_as_is = true,
     .norms_in_parts = false,
     .loops_by_default = true,
     .keeps_zeroed_grads = true,
     .missing_alloc_options = Youngest(19),
     .min_compute_capability = 37},
    {.name = "pytorch-2.0",
     .cublaslt = WorkspaceLife::kPerCall,
     .cublas_in_lt = CublasInLt::kSecond,
     .large_workspaces = kHopper,
     .attention = AttentionForm::kFrom20,
     .flash_seeds = false,
     .cudnn = 8500,
     .mean_reads_input = true,
     .fuses_rms_norm = false,
     .upsamples_as_is = true,
     .norms_in_parts = false,
     .adam_adds_anew = true,
     .missing_alloc_options = Youngest(18),
     .min_compute_capability = 37},
    {.name = "pytorch-2.1",
     .cublaslt = WorkspaceLife::kPerCall,
     .cublas_in_lt = CublasInLt::kSecond,
     .large_workspaces = kHopper,
     .attention = AttentionForm::kFrom21,
     .flash_seeds = false,
     .cudnn = 8902,
     .mean_reads_input = true,
     .fuses_rms_norm = false,
     .upsamples_as_is = true,
     .norms_in_parts = false,
     .missing_alloc_options = Youngest(17),
     .min_compute_capability = 50},
    {.name = "pytorch-2.2",
     .cublaslt = WorkspaceLife::kPerCall,
     .cublas_in_lt = CublasInLt::kSecond,
     .large_workspaces = kHopper,
     .attention = AttentionForm::kFrom22,
     .flash_seeds = false,
     .cudnn = 8902,
     .fuses_rms_norm = false,
     .upsamples_as_is = true,
     .norms_in_parts = false,
     .missing_alloc_options = Youngest(12),
     .min_compute_capability = 50},
    {.name = "pytorch-2.3",
     .cublaslt = WorkspaceLife::kPerCall,
     .cublas_in_lt = CublasInLt::kSecond,
     .large_workspaces = kHopper,
     .attention = AttentionForm::kFrom22,
     .flash_seeds = false,
     .cudnn = 8902,
     .fuses_rms_norm = false,
     .upsamples_as_is = true,
     .norms_in_parts = false,
     .missing_alloc_options = Youngest(12),
     .min_compute_capability = 50},
    {.name = "pytorch-2.4",
     .cublaslt = WorkspaceLife::kPerCall,
     .cublas_in_lt = CublasInLt::kSecond,
     .large_workspaces = kHopper,
     .attention = AttentionForm::kFrom22,
     .flash_seeds = false,
     .cudnn = 90100,
     .fuses_rms_norm = false,
     .norms_in_parts = false,
     .missing_alloc_options = Youngest(12),
     .min_compute_capability = 50},
    {.name = "pytorch-2.5",
     .cublaslt = WorkspaceLife::kPerCall,
     .cublas_in_lt = CublasInLt::kSecond,
     .large_workspaces = kHopper,
     .attention = AttentionForm::kFrom25,
     .flash_seeds = false,
     .cudnn = 90100,
     .fuses_rms_norm = false,
     .norms_in_parts = false,
     .missing_alloc_options = Youngest(11),
     .min_compute_capability = 50},
    {.name = "pytorch-2.6",
     .cublaslt = WorkspaceLife::kPerCall,
     .cublas_in_lt = CublasInLt::kSecond,
     .large_workspaces = kHopper,
     .flash_seeds = false,
     .cudnn = 90100,
     .fuses_rms_norm = false,
     .norms_in_parts = false,
     .missing_alloc_options = Youngest(10),
     .min_compute_capability = 50},
    {.name = "pytorch-2.7",
     .cublaslt = WorkspaceLife::kPerCall,
     .cublas_in_lt = CublasInLt::kSecond,
     .large_workspaces = kHopper,
     .cudnn = 90501,
     .fuses_rms_norm = false,
     .norms_in_parts = false,
     .missing_alloc_options = Youngest(10),
     .min_compute_capability = 50},
    {.name = "pytorch-2.8",
     .cublaslt = WorkspaceLife::kPerCall,
     .cublas_in_lt = CublasInLt::kSecond,
     .large_workspaces = kHopper,
     .cudnn = 91002,
     .fuses_rms_norm = false,
     .missing_alloc_options = Youngest(10),
     .min_compute_capability = 70},
    {.name = "pytorch-2.9",
     .cublas_in_lt = CublasInLt::kFirst,
     .lt_within_cublas = true,
     .large_workspaces = kHopper,
     .cudnn = 91002,
     .has_muon = true,
     .missing_alloc_options = Youngest(9),
     .min_compute_capability = 70},
    {.name = "pytorch-2.10",
     .cublas_in_lt = CublasInLt::kFirst,
     .lt_within_cublas = true,
     .lt_min_rows = 2,
     .large_workspaces = kHopper,
     .cudnn = 91002,
     .has_muon = true,
     .missing_alloc_options = Youngest(7),
     .min_compute_capability = 70},
    {.name = "pytorch-2.11",
     .cublas_in_lt = CublasInLt::kFirst,
     .lt_within_cublas = true,
     .large_workspaces = kHopper,
     .cudnn = 91900,
     .cudnn_attention = CudnnHeads::k256OnHopper,
     .cudnn_drops_all = true,
     .cub = Cub::kFrom211,
     .has_muon = true,
     .missing_alloc_options = Youngest(6),
     .min_compute_capability = 75},
    {.name = "pytorch-2.12",
     .cublas_in_lt = CublasInLt::kInstead,
     .large_workspaces = kHopperAndBlackwell,
     .cudnn = 92000,
     .cudnn_attention = CudnnHeads::k256OnHopper,
     .cub = Cub::kFrom211,
     .fused_adagrad = true,
     .has_muon = true,
     .missing_alloc_options = Youngest(4),
     .min_compute_capability = 75},
    {.name = "pytorch-2.13",
     .cublas_in_lt = CublasInLt::kInstead,
     .large_workspaces = kHopperAndBlackwell,
     .cudnn = 92000,
     .cudnn_attention = CudnnHeads::k256OnHopper,
     .sorts_by_rows = true,
     .cub = Cub::kFrom213,
     .fused_adagrad = true,
     .has_muon = true,
     .missing_alloc_options = Youngest(2),
     .min_compute_capability = 75},
    {.name = "pytorch-2.14",
     .cublas_in_lt = CublasInLt::kInstead,
     .large_workspaces = kHopperAndLater,
     .seeds_without_dropout = true,
     .cudnn = 92400,
     .cudnn_attention = CudnnHeads::k256,
     .efficient_groups = true,
     .sorts_by_rows = true,
     .cub = Cub::kFrom213,
     .fused_adagrad = true,
     .has_muon = true,
     .missing_alloc_options = Youngest(2),
     .tells_export_from_compile = true,
     .min_compute_capability = 75},
    {.name = "pytorch-2.15",
     .cublas = WorkspaceLife::kPerCall,
     .cublaslt = WorkspaceLife::kPerCall,
     .cublas_in_lt = CublasInLt::kNever,
     .large_workspaces = kHopperAndLater,
     .seeds_without_dropout = true,
     .cudnn = 92600,
     .cudnn_attention = CudnnHeads::k256,
     .efficient_groups = true,
     .sorts_by_rows = true,
     .cub = Cub::kFrom213,
     .norms_with_offsets = true,
     .fused_adagrad = true,
     .has_muon = true,
     .tells_export_from_compile = true,
     .min_compute_capability = 75},
};
constexpr const FrameworkProfile& kDefault = kFrameworks[13];
static_assert(kDefault.name == "pytorch-2.11");

constexpr int64_t kCublasBytes = 2 * 4096 * kKiB + 8 * 16 * kKiB;  // ":4096:2:16:8"
constexpr int64_t kLargeCublasBytes = 8 * 4096 * kKiB;             // ":4096:8"

}  // namespace

std::span<const FrameworkProfile> Frameworks() { return kFrameworks; }
const FrameworkProfile& DefaultFramework() { return kDefault; }
const FrameworkProfile& NewestFramework() { return *std::prev(std::end(kFrameworks)); }

std::string_view ToString(FrameworkBasis basis) {
  constexpr std::string_view kWords[] = {"", "given", "file", "nearest", "unknown"};
  return kWords[static_cast<size_t>(basis)];
}

// What follows finds the version that a file's text means.
namespace {

struct Release {
  int major = 0;
  int minor = 0;

  auto operator<=>(const Release&) const =
      default;  // NOLINT(modernize-use-nullptr): 14 takes it for one
};

// Of "2.11.0+cu130", "2.16.0.dev20261101", "2.7.0a0+git5228986" and "<=2.4", which
// torch.export.load calls what was saved before programs said who wrote them (torch/_export/serde/
// schema.py, 2.11.0: ExportedProgram.torch_version).
std::optional<Release> ReadRelease(std::string_view text) {
  if (text.starts_with("<=")) text.remove_prefix(2);
  Release release;
  const char* const end = text.data() + text.size();
  const auto major = std::from_chars(text.data(), end, release.major);
  if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') return std::nullopt;
  const auto minor = std::from_chars(major.ptr + 1, end, release.minor);
  if (minor.ec != std::errc() || release.major < 0 || release.minor < 0) return std::nullopt;
  return release;
}

// Rows are called "pytorch-2.11".
Release ReleaseOf(const FrameworkProfile& framework) {
  return *ReadRelease(framework.name.substr(framework.name.find('-') + 1));
}

}  // namespace

const FrameworkProfile* FindFramework(std::string_view version) {
  const std::optional<Release> release = ReadRelease(version);
  if (!release.has_value()) return nullptr;
  for (const FrameworkProfile& framework : kFrameworks) {
    if (ReleaseOf(framework) >= *release) return &framework;
  }
  return &NewestFramework();
}

bool IsOf(const FrameworkProfile& framework, std::string_view version) {
  return ReadRelease(version) == ReleaseOf(framework);
}

bool IsNewerThanKnown(std::string_view version) {
  const std::optional<Release> release = ReadRelease(version);
  return release.has_value() && *release > ReleaseOf(NewestFramework());
}

std::string_view ReleaseOf(std::string_view version) {
  return version.substr(0, version.find('+'));
}

int64_t CublasWorkspaceBytes(const FrameworkProfile& framework, const DeviceProfile& device) {
  const std::span<const int> large = framework.large_workspaces;
  const bool is_large = std::find(large.begin(), large.end(), MajorOf(device)) != large.end();
  return is_large ? kLargeCublasBytes : kCublasBytes;
}

std::string WhyUnsupported(const FrameworkProfile& framework, const DeviceProfile& device) {
  const int found = device.compute_capability;
  const int least = framework.min_compute_capability;
  if (found >= least) return "";
  if (found == 0) {
    return fmt::format(
        "{} has no compute capability: it runs {}'s build for ROCm, and the figures "
        "are of CUDA's kernels and workspaces",
        device.name, framework.name);
  }
  return fmt::format("{} runs on cards of compute capability {}.{} or more, {} has {}.{}",
                     framework.name, least / 10, least % 10, device.name, found / 10, found % 10);
}

}  // namespace onnxfit
