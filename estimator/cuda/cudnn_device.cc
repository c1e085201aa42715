#include "estimator/cuda/cudnn_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "estimator/base/cudnn_card.h"
#include "estimator/base/device.h"
#include "estimator/base/error.h"

namespace onnxfit {

void CudnnCalls::MustSucceed(cudnnStatus_t status, const char* call) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 512> reason = {};
  last_error(reason.data(), reason.size());
  std::string text = fmt::format("{}: {}", call, error_string(status));
  if (reason[0] != '\0') text += fmt::format(", {}", reason.data());
  throw Error({.where = "cuDNN", .text = text});
}

CudnnCalls LoadCudnnCalls(const SharedLibrary& cudnn) {
  CudnnCalls calls;
  cudnn.Load("cudnnGetVersion", calls.version);
  cudnn.Load("cudnnGetCudartVersion", calls.cuda_version);
  cudnn.Load("cudnnGetErrorString", calls.error_string);
  cudnn.Load("cudnnGetLastErrorString", calls.last_error);
  cudnn.Load("cudnnCreate", calls.create);
  cudnn.Load("cudnnDestroy", calls.destroy);
  cudnn.Load("cudnnBackendCreateDescriptor", calls.create_descriptor);
  cudnn.Load("cudnnBackendDestroyDescriptor", calls.destroy_descriptor);
  cudnn.Load("cudnnBackendSetAttribute", calls.set);
  cudnn.Load("cudnnBackendGetAttribute", calls.get);
  cudnn.Load("cudnnBackendFinalize", calls.finalize);
  cudnn.Load("cudnnBackendExecute", calls.execute);
  return calls;
}

CudnnDescriptor::CudnnDescriptor(const CudnnCalls& calls, cudnnBackendDescriptorType_t type)
    : calls_(&calls) {
  calls.MustSucceed(calls.create_descriptor(type, &descriptor_), "cudnnBackendCreateDescriptor");
}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) calls_->destroy_descriptor(descriptor_);
}

CudnnDescriptor::CudnnDescriptor(CudnnDescriptor&& other) noexcept
    : calls_(other.calls_), descriptor_(std::exchange(other.descriptor_, nullptr)) {}

void CudnnDescriptor::Finalize(const char* what) {
  calls_->MustSucceed(calls_->finalize(descriptor_), what);
}

bool CudnnDescriptor::TryFinalize() {
  return calls_->finalize(descriptor_) == CUDNN_STATUS_SUCCESS;
}

void CudnnDescriptor::SetRaw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                             int64_t count, const void* values) {
  calls_->MustSucceed(calls_->set(descriptor_, name, type, count, values),
                      "cudnnBackendSetAttribute");
}

size_t CudnnDescriptor::GetRaw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                               size_t most, void* values) const {
  int64_t count = 0;
  calls_->MustSucceed(
      calls_->get(descriptor_, name, type, static_cast<int64_t>(most), &count, values),
      "cudnnBackendGetAttribute");
  // Asked for 0, cuDNN says how many there are.
  return most == 0 ? static_cast<size_t>(count) : std::min(static_cast<size_t>(count), most);
}

int64_t CudnnDescriptor::GetNumber(cudnnBackendAttributeName_t name) const {
  int64_t number = 0;
  GetRaw(name, CUDNN_TYPE_INT64, 1, &number);
  return number;
}

std::optional<int64_t> CudnnDescriptor::TryGetNumber(cudnnBackendAttributeName_t name) const {
  int64_t number = 0;
  int64_t count = 0;
  const cudnnStatus_t status = calls_->get(descriptor_, name, CUDNN_TYPE_INT64, 1, &count, &number);
  return status == CUDNN_STATUS_SUCCESS ? std::optional(number) : std::nullopt;
}

std::vector<CudnnDescriptor> CudnnDescriptor::GetDescriptors(
    cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type) const {
  const size_t count = GetRaw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::vector<CudnnDescriptor> found;
  std::vector<cudnnBackendDescriptor_t> raw;  // cuDNN fills what they point to
  for (size_t i = 0; i < count; ++i) {
    found.emplace_back(*calls_, type);
    raw.push_back(found.back().descriptor_);
  }
  if (count == 0) return found;
  // Those announced may be more than there are.
  const size_t filled = GetRaw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, raw.data());
  while (found.size() > filled) found.pop_back();
  return found;
}

void CudnnDescriptor::Execute(cudnnHandle_t handle, const CudnnDescriptor& pointers) const {
  calls_->MustSucceed(calls_->execute(handle, descriptor_, pointers.descriptor_),
                      "cudnnBackendExecute");
}

namespace {

std::string VersionText(size_t version) { return CudnnVersionText(static_cast<int>(version)); }

CudnnCard CardOf(const DescribedCard& card) {
  return {.capability = card.compute_capability,
          .multiprocessors = card.multiprocessors,
          .threads_per_multiprocessor = card.threads_per_multiprocessor,
          .clock_khz = card.clock_khz,
          .memory_clock_khz = card.memory_clock_khz};
}

}  // namespace

CudnnDevice::CudnnDevice(const CudnnCalls& calls, bool compiles)
    : calls_(calls), compiles_(compiles) {
  calls.MustSucceed(calls.create(&handle_), "cudnnCreate");
}

CudnnDevice::CudnnDevice(const CudnnCalls& calls, const DescribedCard& card, bool has_driver)
    : calls_(calls), compiles_(!has_driver) {
  if (calls.version() < FirstCudnnVersion(card.compute_capability)) {
    throw Error({.where = "cuDNN",
                 .text = fmt::format("planning for a card that is not there: expected {} or "
                                     "later, found {}",
                                     VersionText(FirstCudnnVersion(card.compute_capability)),
                                     VersionText(calls.version())),
                 .hint = "pip install --upgrade nvidia-cudnn-cu12"});
  }
  if (card.compute_capability < LeastCapabilityOf(calls.cuda_version())) {
    throw Error({.where = "cuDNN",
                 .text = fmt::format("expected a card of compute capability {:.1f} or later, found "
                                     "{:.1f}",
                                     LeastCapabilityOf(calls.cuda_version()) / 10.0,
                                     card.compute_capability / 10.0)});
  }
  const std::string json = CudnnPropertiesOf(CardOf(card), calls.cuda_version());
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
