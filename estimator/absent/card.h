// The cards that the program sees, as `onnxfit run` wrote them down.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/base/cudnn_card.h"

namespace onnxfit::absent {

struct AbsentCard {
  std::string name = {};
  int capability = 0;  // times ten: 86 of 8.6
  int multiprocessors = 0;
  int threads = 0;  // of a multiprocessor
  int64_t total_bytes = 0;
  int64_t context_bytes = 0;  // of a process
  int l2_bytes = 0;
  int bus_bits = 0;
  int place = 0;  // among the cards of the machine, whose counts are by this
};

struct AbsentMachine {
  std::string folder = {};             // of the run, without a slash behind it
  std::vector<AbsentCard> cards = {};  // those that CUDA_VISIBLE_DEVICES lets through
  std::vector<AbsentCard> all = {};    // NVML's, which that variable does not concern
};

// Read when it is asked for first.  Without a run's folder there is no card.
const AbsentMachine& Machine();

inline bool HasCard(int device) {
  return device >= 0 && static_cast<size_t>(device) < Machine().cards.size();
}

// The newest CUDA that the driver of these cards runs: 13.2 (driver 595).  PyTorch asks for one
// that is as new as its own runtime.
inline constexpr int kDriverVersion = 13020;
inline constexpr const char* kDriverText = "595.45.04";

// What CUDA says of a card beside its memory.
const CapabilityLimits& LimitsOf(const AbsentCard& card);

inline constexpr int kThreadsPerBlock = 1024;
inline constexpr int kBlockSides[] = {1024, 1024, 64};
inline constexpr int kGridSides[] = {2147483647, 65535, 65535};
inline constexpr int kWarp = 32;
inline constexpr int kRegisters = 65536;       // of a block, and of a multiprocessor
inline constexpr int kSharedBytes = 48 << 10;  // of a block that asks for no more

// `attribute` as cudaDeviceAttr and CUdevice_attribute number it alike; 0 where there is no row.
int AttributeOf(const AbsentCard& card, int attribute);

// How many blocks of so many threads a multiprocessor runs at once, shared memory apart.
int BlocksOf(const AbsentCard& card, int threads_of_block);

}  // namespace onnxfit::absent
