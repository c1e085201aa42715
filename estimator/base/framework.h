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
  kOutside,  // cuBLAS takes its own from CUDA, which PyTorch's allocator does not know
};

// When a call of cublasLt takes the workspace of cuBLAS, whose handle it uses: before its own
// or after it, or it has none of its own.
enum class CublasInLt : uint8_t { kNever, kFirst, kSecond, kInstead };

// Whether cuDNN's attention comes first on cards of compute capability 9.x and 10.x, and which
// heads of more than 128 it takes beside those of 192 with values of 128.
enum class CudnnHeads : uint8_t {
  kNone,         // it does not come first: its cuDNN is older than 9.15.1
  k256OnHopper,  // up to 256 on 9.x
  k256,          // of 256; up to 256 where nothing is trained
};

// Whose blocks' sizes its CUB and Thrust have, by versions of PyTorch.
enum class Cub : uint8_t { kTo210, kFrom211, kFrom213 };

// What scaled_dot_product_attention runs, by versions of PyTorch.
enum class AttentionForm : uint8_t {
  kNone,    // there is no such function: modules multiply, and take softmax, themselves
  kFrom20,  // flash attention 1; a memory-efficient kernel without masks and dropout
  kFrom21,  // a memory-efficient kernel for both; masks are as large as the scores where padded
  kFrom22,  // flash attention 2; masks are padded as they are
  kFrom25,  // without a kernel: in fp32, rows that are masked out become zeros
};

struct FrameworkProfile {
  std::string_view name;  // as --framework spells it

  WorkspaceLife cublas = WorkspaceLife::kKept;
  WorkspaceLife cublaslt = WorkspaceLife::kKept;
  CublasInLt cublas_in_lt = CublasInLt::kFirst;
  bool lt_within_cublas = false;  // cublasLt's is no larger than cuBLAS's (CUBLAS_WORKSPACE_CONFIG)
  int64_t lt_min_rows = 1;        // a product with a bias is cublasLt's from so many rows on
  std::span<const int> large_workspaces = {};  // major compute capabilities: cuBLAS's has 32 MiB

  AttentionForm attention = AttentionForm::kFrom25;

  // Where attention holds the seed and offset of its dropout on the device: flash attention, and
  // the memory-efficient one where it drops nothing.
  bool flash_seeds = true;
  bool seeds_without_dropout = false;

  int cudnn = 0;          // that its wheel brings: 91900 is 9.19.0
  bool cudnn_v7 = false;  // convolutions by the calls of cuDNN 7, which try other plans
  CudnnHeads cudnn_attention = CudnnHeads::kNone;
  bool cudnn_drops_all = false;   // cuDNN's takes every dropout, not p = n/16 alone
  bool efficient_groups = false;  // the memory-efficient kernel takes grouped heads

  bool sorts_by_rows = false;  // embedding's backward sorts only the bits that row numbers have
  Cub cub = Cub::kTo210;

  bool softmax_reads_input = false;  // backward of softmax and log_softmax: kept beside the result
  bool mean_reads_input = false;     // backward of mean, which asks how many there were
  bool fuses_rms_norm = true;        // rms_norm is a kernel, no sequence of calls
  bool upsamples_as_is = false;      // autocast leaves interpolation in the type of its input

  // Gradients of a norm's weight and bias over many rows are sums of partial ones.
  bool norms_in_parts = true;

  bool norms_with_offsets = false;  // _foreach_norm keeps where each tensor's chunks begin
  bool loops_by_default = false;    // torch.optim's, where foreach and fused are not told
  bool adam_adds_anew = false;      // foreach: its denominator is a list beside the root's
  bool keeps_zeroed_grads = false;  // zero_grad() fills gradients with zeros (set_to_none=False)
  bool fused_adagrad = false;       // torch.optim.Adagrad(fused=True) runs on CUDA
  bool has_muon = false;            // torch.optim.Muon
  std::span<const std::string_view> missing_alloc_options = {};  // of PYTORCH_ALLOC_CONF

  // torch.compiler.is_exporting() is False where torch.compile traces, and not True there, too.
  bool tells_export_from_compile = false;

  int min_compute_capability = 0;  // times ten: 75 for 7.5
};

// Every version that we know, oldest first.
std::span<const FrameworkProfile> Frameworks();

// What settings begin with: pytorch-2.11.  Commands ask the file (cli/asked_of_file.h).
const FrameworkProfile& DefaultFramework();

const FrameworkProfile& NewestFramework();

// Why a run goes by that version.
enum class FrameworkBasis : uint8_t {
  kUnasked,  // settings began with it
  kGiven,    // somebody named it
  kFile,     // it wrote the file
  kNearest,  // it is the nearest to what wrote the file, or to that and what flags ask for
  kUnknown,  // the file does not say what wrote it: the default, which takes more than the newest
};

struct FrameworkChoice {
  FrameworkBasis basis = FrameworkBasis::kUnasked;
  std::string written_by = {};  // "2.11.0+cu130", the PyTorch that wrote the file; "" if unknown
};

// "given", "file", "nearest", "unknown"; "" where nobody asked.
std::string_view ToString(FrameworkBasis basis);

// The row of PyTorch `version`, such as "2.11.0+cu130" or "1.13.1"; of one that has none, the next
// later one, since what is new in a release is told from what came before; of those to come, the
// newest.  Null for what is no version.
const FrameworkProfile* FindFramework(std::string_view version);

// Whether `framework` is of PyTorch `version`, and not only the nearest to it.
bool IsOf(const FrameworkProfile& framework, std::string_view version);

// Whether PyTorch `version` came after all that are known.
bool IsNewerThanKnown(std::string_view version);

// "2.11.0" of "2.11.0+cu130".
std::string_view ReleaseOf(std::string_view version);

// Of one thread and handle, on that card.
int64_t CublasWorkspaceBytes(const FrameworkProfile& framework, const DeviceProfile& device);
inline constexpr int64_t kCublasLtWorkspaceBytes = int64_t{1} << 20;  // in every version

// Why `framework` has no kernels of CUDA for that card, "" where it has.
std::string WhyUnsupported(const FrameworkProfile& framework, const DeviceProfile& device);

}  // namespace onnxfit
