// What NCCL allocates for a communicator of one node, beside PyTorch's allocator.
// Source: NVIDIA/nccl 2.30, src/init.cc (DEFAULT_*BUFFSIZE), src/include/device.h,
// src/transport/p2p.cc (p2pSendSetup, p2pRecvSetup); issue 1685 shows both sizes on 8 H100.
#pragma once

#include <cstdint>

#include "estimator/base/bytes.h"

namespace onnxfit {

inline constexpr int64_t kNcclSteps = 8;
inline constexpr int64_t kNcclSimple = int64_t{4} << 20;                // NCCL_BUFFSIZE
inline constexpr int64_t kNcclLl = int64_t{8} * 512 * kNcclSteps * 16;  // lines of a fifo
inline constexpr int64_t kNcclLl128 = int64_t{120} * 640 * kNcclSteps * 8;
inline constexpr int64_t kNcclGranularity = int64_t{2} << 20;  // CUDA_IPC_MIN

// What one channel has for a peer that it receives from and one that it sends to: the buffers of
// three protocols, and the sender's heads.
constexpr int64_t NcclConnectionBytes() {
  const int64_t buffers = kNcclSimple + kNcclLl + kNcclLl128;
  return DivideUp(buffers, kNcclGranularity) * kNcclGranularity + kNcclGranularity;
}

// A ring has one such pair; a tree within a node has two, its parent and a child.
inline constexpr int64_t kNcclRing = 1;
inline constexpr int64_t kNcclTree = 2;

// Channels are twice as many as the rings that are found, one at least; 32 are seen on 8 H100
// behind NVSwitch (issue 1685), 64 are the most.
inline constexpr int64_t kNcclFewestChannels = 2;
inline constexpr int64_t kNcclManyChannels = 32;

// A communicator that runs rings alone, on few channels, and one that runs both on many.
constexpr int64_t NcclLeastBytes() {
  return kNcclFewestChannels * kNcclRing * NcclConnectionBytes();
}
constexpr int64_t NcclMuchBytes() {
  return kNcclManyChannels * (kNcclRing + kNcclTree) * NcclConnectionBytes();
}

}  // namespace onnxfit
