// What the driver's management library (NVML) says of a card: it knows other processes, which CUDA
// does not.  libnvidia-ml.so.1 is opened at run time; where it, a function of it or an answer is
// missing, that is not told, never an error.  No CUDA.  Internal to estimator/cuda/ and
// benchmarks/cuda/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "estimator/base/device.h"

namespace onnxfit {

inline constexpr char kNvmlLibrary[] = "libnvidia-ml.so.1";

// Who holds memory of a card, as the driver shows it to this process.
struct NvmlProcesses {
  // Of a process with a context there, false says that the list is of another pid namespace (a
  // container's), where ids and names mean nothing.
  bool has_this_process = false;
  std::optional<int64_t> own_bytes = {};  // of this process
  std::vector<GpuProcess> others = {};    // of its MIG slice, where it has one; largest first
};

// The library, initialized for as long as this lives.  Cards are named by PCI bus id
// (cudaDeviceGetPCIBusId), since NVML counts those, too, that CUDA_VISIBLE_DEVICES hides.
class Nvml {
 public:
  explicit Nvml(const char* library = kNvmlLibrary);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // "580.65.06", "" where it is not told.
  std::string DriverVersion() const;

  // What nvidia-smi shows as total: of a MIG slice its card's.
  std::optional<int64_t> TotalBytes(const std::string& bus_id) const;

  // Without names, which take a call each.
  std::optional<int64_t> OwnBytes(const std::string& bus_id) const;

  NvmlProcesses Processes(const std::string& bus_id) const;

 private:
  struct Library;
  std::unique_ptr<const Library> library_;  // null where there is none
};

}  // namespace onnxfit
