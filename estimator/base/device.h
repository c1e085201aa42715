// What we know of a card: of its kind, what CUDA takes there for a process, and what one says
// that was found in this machine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/error.h"

namespace onnxfit {

// Where a number comes from.
enum class Basis : uint8_t {
  kExact,     // from the graph
  kModelled,  // a rule of the framework or its allocator
  kMeasured,  // seen on a card
  kAssumed,   // a guess, which is said
};

constexpr std::string_view ToString(Basis basis) {
  constexpr std::string_view kNames[] = {"exact", "modelled", "measured", "assumed"};
  return kNames[static_cast<size_t>(basis)];
}

struct Calibration;  // calibration.h

// What CUDA takes for a process before any tensor exists, with the kernels that a
// training run loads.  `bytes` was seen most, `low` and `high` are the extremes seen; or all
// three are assumed.
struct ContextBytes {
  int64_t bytes = 0;
  int64_t low = 0;
  int64_t high = 0;
  Basis basis = Basis::kMeasured;

  bool operator==(const ContextBytes&) const = default;
};

struct DeviceProfile {
  std::string name = {};  // of a card that was found, and of no row, its own
  ContextBytes context = {};
  int compute_capability = 0;   // times ten: 80 for 8.0; 0 where it is not NVIDIA's
  int64_t multiprocessors = 0;  // of AMD's: compute units
  int64_t threads_per_multiprocessor = 0;
  bool without_cudnn = false;  // convolutions ask for no workspace; of a card that nobody named
  bool is_cudnn_off = false;   // the user says so, which leaves nothing open
  std::shared_ptr<const Calibration> calibration = {};  // what libraries asked for there, if known
};

// 9 of compute capability 9.0.
inline int MajorOf(const DeviceProfile& device) { return device.compute_capability / 10; }

// Whether the same kernels run on both, with the same workspaces and scratch.
inline bool SameKernels(const DeviceProfile& a, const DeviceProfile& b) {
  return a.compute_capability == b.compute_capability && a.multiprocessors == b.multiprocessors &&
         a.threads_per_multiprocessor == b.threads_per_multiprocessor &&
         a.without_cudnn == b.without_cudnn && a.calibration == b.calibration;
}

// The card that answers assume where none is named: an A100.
const DeviceProfile& DefaultDevice();

// What follows is a card that was found in this machine, with what it says about itself.

// Another program that holds memory of a card.
struct GpuProcess {
  int64_t pid = 0;
  std::string name = {};              // "python", "" where it may not be seen
  std::optional<int64_t> bytes = {};  // nullopt where the driver does not tell

  bool operator==(const GpuProcess&) const = default;
};

struct DetectedGpu {
  int index = 0;               // CUDA's, as --device takes it
  std::string name = {};       // CUDA's: "NVIDIA A100-SXM4-40GB"
  int compute_capability = 0;  // times ten: 80 for 8.0
  int64_t multiprocessors = 0;
  int64_t threads_per_multiprocessor = 0;
  int64_t total_bytes = 0;                // cudaMemGetInfo's
  int64_t free_bytes = 0;                 // the same, once this process has its context
  std::string why_unusable = {};          // a sentence where it gives this process no context
  std::optional<int64_t> smi_bytes = {};  // nvidia-smi's total, where there is NVML
  bool shares_memory = false;             // with the CPU
  std::string driver = {};                // "580.65.06", "" where nobody tells
  int cuda_driver = 0;                    // the newest CUDA that the driver runs: 13000 for 13.0
  int cuda_runtime = 0;                   // the one that is built in
  std::optional<int64_t> process_bytes = {};  // of this process; nullopt where nobody tells
  std::vector<GpuProcess> others = {};        // those that the driver shows, largest first
};

// "13.0" of 13000, as CUDA counts its versions.
std::string CudaVersionText(int version);

// "9.19.0" of 91900, "8.9.2" of 8902, as cuDNN counts its own; and back, 0 for any other text.
std::string CudnnVersionText(int version);
int CudnnVersionOf(const std::string& text);

// What a search found.
struct GpuSearch {
  std::vector<DetectedGpu> gpus = {};
  std::string why_none = {};  // a sentence where there is none: "no usable GPU: …"
};

// Thrown where a card is needed and none can be used.  Nothing is wrong with what was typed, so
// that it has an exit code of its own.
class NoGpuError : public Error {
 public:
  explicit NoGpuError(std::string why) : Error({.text = std::move(why)}) {}
};

}  // namespace onnxfit
