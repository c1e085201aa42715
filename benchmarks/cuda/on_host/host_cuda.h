// A CUDA runtime on the host, for tests: device memory is the host's, kernels run there, and the
// cards are as full as a test wants them.  Linked before the real one, it takes its place, so that
// the code that calls CUDA runs on machines without a card.  No CUDA in this header.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace onnxfit {

// A card.  A status is a cudaError_t: 0 is success.
struct HostDevice {
  std::string name = "NVIDIA GeForce RTX 3060";
  std::string bus_id = "0000:01:00.0";
  int64_t total_bytes = int64_t{12} << 30;
  int64_t others_bytes = 0;   // of other processes
  int properties_status = 0;  // of cudaGetDeviceProperties
  int context_status = 0;     // of cudaSetDevice
};

// What the cards of this process are like, and what it did with them.
struct HostCuda {
  std::vector<HostDevice> devices = std::vector<HostDevice>(1);
  std::optional<int> count_status = {};  // of cudaGetDeviceCount; else an error without devices
  int driver = 13000;                    // the latest CUDA that it can run
  int64_t context_bytes = 100 << 20;     // on each device, from the first call on
  int64_t fails_at = -1;                 // the cudaMalloc, from 0, that says the card is full
  int64_t scribbles_at = -1;             // the cudaMemsetAsync, from 0, that writes something else

  int64_t interrupts_at = -1;  // the cudaMemsetAsync, from 0, during which Ctrl-C comes

  int current = 0;              // the device that calls are for
  std::set<int> contexts = {};  // devices on which cudaSetDevice made one
  int64_t held_bytes = 0;       // by this process, on one device, without the context
  int64_t mallocs = 0;          // until now
  int64_t writes = 0;
  int64_t kernels = 0;
};

// That of this process, for tests to set.
HostCuda& TheHostCuda();

}  // namespace onnxfit
