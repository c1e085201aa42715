#include <map>

#include "benchmarks/cuda/cuda_call.h"
#include "benchmarks/cuda/segment_memory.h"

namespace onnxfit {
namespace {

class WholeSegments : public CudaSegments {
 public:
  ~WholeSegments() override {
    for (const auto& [segment, begin] : begins_) cudaFree(begin);
  }

  bool Take(int32_t segment, int64_t /*offset*/, int64_t bytes) override {
    void* begin = nullptr;
    const cudaError_t status = cudaMalloc(&begin, static_cast<size_t>(bytes));
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return false;
    }
    MustSucceed(status, "cudaMalloc");
    begins_[segment] = static_cast<char*>(begin);
    return true;
  }

  void GiveBack(int32_t segment, int64_t /*offset*/, int64_t /*bytes*/) override {
    const auto at = begins_.find(segment);
    char* begin = at->second;
    begins_.erase(at);
    MustSucceed(cudaFree(begin), "cudaFree");
  }

  char* Begin(int32_t segment) override { return begins_.at(segment); }

 private:
  std::map<int32_t, char*> begins_;
};

}  // namespace

std::unique_ptr<CudaSegments> NewWholeSegments() { return std::make_unique<WholeSegments>(); }

}  // namespace onnxfit
