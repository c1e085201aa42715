// A CUDA runtime on the host, for tests: device memory is the host's, kernels run there, and the
// card is as full as a test wants it.  Linked before the real one, it takes its place, so that the
// code of benchmarks/cuda/ runs on machines without a card.  No CUDA in this header.
#pragma once

#include <cstdint>
#include <string>

namespace onnxfit {

// What the card of this process is like.  The environment sets it for whole programs:
// HOST_CUDA_TOTAL, HOST_CUDA_OTHERS (bytes), HOST_CUDA_FAILS_AT, HOST_CUDA_DEVICES (numbers).
struct HostCuda {
  int devices = 1;
  std::string name = "NVIDIA GeForce RTX 3060";
  int64_t total_bytes = int64_t{12} << 30;
  int64_t others_bytes = 0;           // of other processes
  int64_t context_bytes = 100 << 20;  // from the first call on
  int64_t fails_at = -1;              // the cudaMalloc, from 0, that says the card is full
  int64_t scribbles_at = -1;          // the cudaMemsetAsync, from 0, that writes something else

  int64_t interrupts_at = -1;  // the cudaMemsetAsync, from 0, during which Ctrl-C comes

  int64_t held_bytes = 0;  // by this process, without the context
  int64_t mallocs = 0;     // until now
  int64_t writes = 0;
  int64_t kernels = 0;
};

// That of this process, read from the environment when it is first asked for.
HostCuda& TheHostCuda();

}  // namespace onnxfit
