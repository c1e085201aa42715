#include "benchmarks/cuda/cudnn_device.h"

#include <fmt/format.h>

#include <iterator>

#include "estimator/base/error.h"

namespace onnxfit {
namespace {

// The first cuDNN that can be asked for such a card: 9.8.0 brought device properties; with those
// of capability 10.0, 9.10.2 ends the process, and those between were not tried.
size_t FirstVersion(const DescribedCard& card) {
  return card.compute_capability == 100 ? 91900 : 90800;
}

// cuDNN's support matrix: builds for CUDA 13 begin with Turing.  Those for CUDA 12 began earlier,
// but limits of cards before Volta are not in the table below.
int LeastCapability(size_t cuda_version) { return cuda_version >= 13000 ? 75 : 70; }

// 91900 is "9.19.0".
std::string VersionText(size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

// CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute Capability".
struct Limits {
  int compute_capability;    // times ten
  int shared_kib_per_block;  // that a kernel may opt in to
  int blocks_per_multiprocessor;
};
constexpr Limits kLimits[] = {
    {.compute_capability = 70, .shared_kib_per_block = 96, .blocks_per_multiprocessor = 32},
    {.compute_capability = 75, .shared_kib_per_block = 64, .blocks_per_multiprocessor = 16},
    {.compute_capability = 80, .shared_kib_per_block = 163, .blocks_per_multiprocessor = 32},
    {.compute_capability = 86, .shared_kib_per_block = 99, .blocks_per_multiprocessor = 16},
    {.compute_capability = 87, .shared_kib_per_block = 163, .blocks_per_multiprocessor = 16},
    {.compute_capability = 89, .shared_kib_per_block = 99, .blocks_per_multiprocessor = 24},
    {.compute_capability = 90, .shared_kib_per_block = 227, .blocks_per_multiprocessor = 32},
    {.compute_capability = 120, .shared_kib_per_block = 99, .blocks_per_multiprocessor = 24},
};

// Those of the newest that is no newer.
const Limits& LimitsOf(int compute_capability) {
  const Limits* best = &kLimits[0];
  for (const Limits& limits : kLimits) {
    if (limits.compute_capability <= compute_capability) best = &limits;
  }
  return *best;
}

// What cuDNN writes and reads as CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION; it names what it
// misses (9.19.0).  What is the same for all cards, or was seen not to matter, is constant.
std::string PropertiesOf(const DescribedCard& card, size_t cuda_version) {
  const Limits& limits = LimitsOf(card.compute_capability);
  return fmt::format(
      R"({{"deviceVer":{},"multiProcessorCount":{},"maxThreadsPerSM":{},"smClockRateKHz":{},)"
      R"("memClockRateKHz":{},"maxSharedMemoryPerBlockOptin":{},"maxCtasPerSM":{},"driverVer":{},)"
      R"("maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"
      R"("maxThreadsPerBlock":1024,"warpSize":32,"regsPerBlock":65536,"maxRegistersPerSM":65536,)"
      R"("maxSharedMemoryPerBlock":49152,"reservedSharedMemoryPerBlock":1024,)"
      R"("supportCoopLaunch":1,"isTccDriver":0,"pciDeviceId":0,"cudaDeviceId":0,"deviceName":"",)"
      R"("totalGlobalMem":0,"l2CacheSize":0}})",
      card.compute_capability * 10, card.multiprocessors, card.threads_per_multiprocessor,
      card.clock_khz, card.memory_clock_khz, limits.shared_kib_per_block * 1024,
      limits.blocks_per_multiprocessor, cuda_version);
}

}  // namespace

CudnnDevice::CudnnDevice(const CudnnCalls& calls) : calls_(calls) {
  calls.MustSucceed(calls.create(&handle_), "cudnnCreate");
}

CudnnDevice::CudnnDevice(const CudnnCalls& calls, const DescribedCard& card, bool has_driver)
    : calls_(calls), has_driver_(has_driver) {
  if (calls.version() < FirstVersion(card)) {
    throw Error({.where = "cuDNN",
                 .text = fmt::format("planning for a card that is not there: expected {} or "
                                     "later, found {}",
                                     VersionText(FirstVersion(card)), VersionText(calls.version())),
                 .hint = "pip install --upgrade nvidia-cudnn-cu12"});
  }
  if (card.compute_capability < LeastCapability(calls.cuda_version())) {
    throw Error({.where = "cuDNN",
                 .text = fmt::format("expected a card of compute capability {:.1f} or later, found "
                                     "{:.1f}",
                                     LeastCapability(calls.cuda_version()) / 10.0,
                                     card.compute_capability / 10.0)});
  }
  const std::string json = PropertiesOf(card, calls.cuda_version());
  properties_.emplace(calls, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties_->Set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                   std::vector<char>(json.begin(), json.end()));
  properties_->Finalize("describing a card");
}

CudnnDevice::~CudnnDevice() {
  if (handle_ != nullptr) calls_.destroy(handle_);
}

void CudnnDevice::OwnGraph(CudnnDescriptor& graph) const {
  if (!properties_) graph.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle_);
}

void CudnnDevice::OwnHeuristics(CudnnDescriptor& heuristics) const {
  if (properties_) heuristics.Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *properties_);
}

void CudnnDevice::OwnPlan(CudnnDescriptor& plan) const {
  if (properties_) {
    plan.Set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *properties_);
  } else {
    plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle_);
  }
}

}  // namespace onnxfit
