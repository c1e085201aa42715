// What we know of a card.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "estimator/base/basis.h"

namespace onnxfit {

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
  std::shared_ptr<const Calibration> calibration = {};  // what libraries asked for there, if known
};

// 9 of compute capability 9.0.
inline int MajorOf(const DeviceProfile& device) { return device.compute_capability / 10; }

// Whether the same kernels run on both, with the same workspaces and scratch.
inline bool SameKernels(const DeviceProfile& a, const DeviceProfile& b) {
  return a.compute_capability == b.compute_capability && a.multiprocessors == b.multiprocessors &&
         a.threads_per_multiprocessor == b.threads_per_multiprocessor &&
         a.calibration == b.calibration;
}

// The card that answers assume where none is named: an A100.
const DeviceProfile& DefaultDevice();

}  // namespace onnxfit
