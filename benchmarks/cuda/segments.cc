#include "benchmarks/cuda/segments.h"

#include <fmt/format.h>

#include <map>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/cuda/cuda_calls.h"

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

// What follows takes memory page by page.
namespace {

// Pages of one size keep each their own handle, so that they can go back one by one: the
// allocator takes several at once and gives back others.
class PagedSegments : public CudaSegments {
 public:
  PagedSegments(int device, int64_t total_bytes)
      : calls_(LoadDriverCalls()), address_bytes_(total_bytes + total_bytes / 8) {
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    size_t bytes = 0;
    Must(calls_.granularity(&bytes, &properties_, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
         "cuMemGetAllocationGranularity");
    page_bytes_ = static_cast<int64_t>(bytes);
    address_bytes_ = RoundUp(address_bytes_, page_bytes_);
  }

  ~PagedSegments() override {
    for (const auto& [segment, range] : ranges_) {
      for (const auto& [offset, page] : range.pages) DropPage(range.begin + offset, page);
      calls_.free_addresses(range.begin, static_cast<size_t>(address_bytes_));
    }
  }

  bool Take(int32_t segment, int64_t offset, int64_t bytes) override {
    Range& range = RangeOf(segment);
    for (int64_t at = offset; at < offset + bytes; at += page_bytes_) {
      if (TakePage(range, at)) continue;
      GiveBack(segment, offset, at - offset);
      return false;
    }
    AllowAccess(range.begin + static_cast<CUdeviceptr>(offset), bytes);
    return true;
  }

  void GiveBack(int32_t segment, int64_t offset, int64_t bytes) override {
    Range& range = ranges_.at(segment);
    for (int64_t at = offset; at < offset + bytes; at += page_bytes_) {
      const auto found = range.pages.find(static_cast<CUdeviceptr>(at));
      DropPage(range.begin + found->first, found->second);
      range.pages.erase(found);
    }
  }

  char* Begin(int32_t segment) override {
    return reinterpret_cast<char*>(ranges_.at(segment).begin);  // NOLINT: an address, by design
  }

 private:
  using Page = CUmemGenericAllocationHandle;

  struct Range {
    CUdeviceptr begin = 0;
    std::map<CUdeviceptr, Page> pages = {};  // by offset
  };

  void Must(CUresult status, const char* call) const {
    if (status == CUDA_SUCCESS) return;
    const char* text = "unknown error";
    calls_.error_string(status, &text);
    throw Error({.where = "CUDA", .text = fmt::format("{}: {}", call, text)});
  }

  Range& RangeOf(int32_t segment) {
    const auto [at, is_new] = ranges_.try_emplace(segment);
    if (!is_new) return at->second;
    const CUresult status =
        calls_.reserve(&at->second.begin, static_cast<size_t>(address_bytes_), 0, 0, 0);
    if (status != CUDA_SUCCESS) ranges_.erase(at);
    Must(status, "cuMemAddressReserve");
    return ranges_.at(segment);
  }

  // False where the card is full.
  bool TakePage(Range& range, int64_t offset) {
    Page page = 0;
    const CUresult status = calls_.create(&page, static_cast<size_t>(page_bytes_), &properties_, 0);
    if (status == CUDA_ERROR_OUT_OF_MEMORY) return false;
    Must(status, "cuMemCreate");
    const auto at = static_cast<CUdeviceptr>(offset);
    const CUresult mapped =
        calls_.map(range.begin + at, static_cast<size_t>(page_bytes_), 0, page, 0);
    if (mapped != CUDA_SUCCESS) calls_.release(page);
    Must(mapped, "cuMemMap");
    range.pages[at] = page;
    return true;
  }

  void DropPage(CUdeviceptr address, Page page) const {
    calls_.unmap(address, static_cast<size_t>(page_bytes_));
    calls_.release(page);
  }

  void AllowAccess(CUdeviceptr address, int64_t bytes) const {
    const CUmemAccessDesc access = {.location = properties_.location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    Must(calls_.set_access(address, static_cast<size_t>(bytes), &access, 1), "cuMemSetAccess");
  }

  const DriverCalls calls_;
  CUmemAllocationProp properties_ = {};
  int64_t page_bytes_ = 0;
  int64_t address_bytes_;
  std::map<int32_t, Range> ranges_;
};

}  // namespace

std::unique_ptr<CudaSegments> NewPagedSegments(int device, int64_t total_bytes) {
  return std::make_unique<PagedSegments>(device, total_bytes);
}

}  // namespace onnxfit
