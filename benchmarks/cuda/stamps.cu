#include <algorithm>

#include "benchmarks/cuda/stamps.h"

namespace onnxfit {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostGroups = 2048;  // some for each multiprocessor of any card; they go round

__device__ int WrongOf(unsigned int word, unsigned int expected) {
  // All ones where two bytes differ.
  return __popc(__vcmpne4(word, expected)) / 8;
}

__global__ void Count(const uint4* words, int64_t count, unsigned int expected,
                      unsigned long long* wrong) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  int found = 0;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    const uint4 word = words[i];
    found += WrongOf(word.x, expected) + WrongOf(word.y, expected) + WrongOf(word.z, expected) +
             WrongOf(word.w, expected);
  }
  if (found > 0) atomicAdd(wrong, static_cast<unsigned long long>(found));
}

}  // namespace

cudaError_t CountWrongBytes(const void* block, int64_t bytes, uint8_t stamp,
                            unsigned long long* wrong, cudaStream_t stream) {
  const int64_t count = bytes / static_cast<int64_t>(sizeof(uint4));
  const int64_t groups = std::min(kMostGroups, (count + kThreads - 1) / kThreads);
  if (groups == 0) return cudaSuccess;
  Count<<<static_cast<unsigned int>(groups), kThreads, 0, stream>>>(
      static_cast<const uint4*>(block), count, stamp * 0x01010101u, wrong);
  return cudaGetLastError();
}

}  // namespace onnxfit
