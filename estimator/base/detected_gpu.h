// A card that was found in this machine, with what it says about itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/error.h"

namespace onnxfit {

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
