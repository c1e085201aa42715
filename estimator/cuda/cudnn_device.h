// cuDNN's backend API: descriptors with attributes, from which plans are made, and the card that
// they are for.  Internal to the room cuda/.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimator/cuda/libraries.h"
#include "estimator/cuda/shared_library.h"

namespace onnxfit {

struct CudnnCalls {
  decltype(&cudnnGetVersion) version = nullptr;
  decltype(&cudnnGetCudartVersion) cuda_version = nullptr;
  decltype(&cudnnGetErrorString) error_string = nullptr;
  decltype(&cudnnGetLastErrorString) last_error = nullptr;
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnDestroy) destroy = nullptr;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor = nullptr;
  decltype(&cudnnBackendSetAttribute) set = nullptr;
  decltype(&cudnnBackendGetAttribute) get = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;

  // Throws Error where `status` is none of success: what was tried and what cuDNN says.
  void MustSucceed(cudnnStatus_t status, const char* call) const;
};

// Throws Error where the library lacks one of them: it is no cuDNN 9.
CudnnCalls LoadCudnnCalls(const SharedLibrary& cudnn);

// How cuDNN names the type of an attribute.
template <typename Value>
extern const cudnnBackendAttributeType_t kAttributeType;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<cudnnHandle_t> = CUDNN_TYPE_HANDLE;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<cudnnDataType_t> = CUDNN_TYPE_DATA_TYPE;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<int64_t> = CUDNN_TYPE_INT64;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<float> = CUDNN_TYPE_FLOAT;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<double> = CUDNN_TYPE_DOUBLE;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<char> = CUDNN_TYPE_CHAR;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<void*> = CUDNN_TYPE_VOID_PTR;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<cudnnConvolutionMode_t> =
    CUDNN_TYPE_CONVOLUTION_MODE;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<cudnnBackendHeurMode_t> =
    CUDNN_TYPE_HEUR_MODE;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<cudnnBackendNumericalNote_t> =
    CUDNN_TYPE_NUMERICAL_NOTE;
template <>
inline constexpr cudnnBackendAttributeType_t kAttributeType<cudnnBackendBehaviorNote_t> =
    CUDNN_TYPE_BEHAVIOR_NOTE;

// One descriptor.  Those that it refers to must live until it is gone.  All throw Error where
// cuDNN refuses.
class CudnnDescriptor {
 public:
  CudnnDescriptor(const CudnnCalls& calls, cudnnBackendDescriptorType_t type);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept;
  CudnnDescriptor(const CudnnDescriptor&) = delete;
  CudnnDescriptor& operator=(const CudnnDescriptor&) = delete;

  template <typename Value>
  void Set(cudnnBackendAttributeName_t name, const Value& value) {
    SetRaw(name, kAttributeType<Value>, 1, &value);
  }
  template <typename Value>
  void Set(cudnnBackendAttributeName_t name, const std::vector<Value>& values) {
    SetRaw(name, kAttributeType<Value>, static_cast<int64_t>(values.size()), values.data());
  }
  void Set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
    SetRaw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.descriptor_);
  }

  int64_t GetNumber(cudnnBackendAttributeName_t name) const;
  std::optional<int64_t> TryGetNumber(cudnnBackendAttributeName_t name) const;  // nullopt: refused

  // At most `most` of them.
  template <typename Value>
  std::vector<Value> Get(cudnnBackendAttributeName_t name, size_t most) const {
    std::vector<Value> values(most);
    values.resize(GetRaw(name, kAttributeType<Value>, most, values.data()));
    return values;
  }

  // All of them, each a descriptor of that type.
  std::vector<CudnnDescriptor> GetDescriptors(cudnnBackendAttributeName_t name,
                                              cudnnBackendDescriptorType_t type) const;

  void Finalize(const char* what);
  [[nodiscard]] bool TryFinalize();  // false where cuDNN cannot do what is asked

  // Of a plan.  REQUIRES: this is one, `pointers` are the memory of its tensors.
  void Execute(cudnnHandle_t handle, const CudnnDescriptor& pointers) const;

 private:
  void SetRaw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
              const void* values);
  size_t GetRaw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, size_t most,
                void* values) const;

  const CudnnCalls* calls_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

// What follows is whose plans cuDNN makes: those of the current device, or of a card that is only
// described.

class CudnnDevice {
 public:
  // The current device.  Throws Error where there is none.
  CudnnDevice(const CudnnCalls& calls, bool compiles);

  // Takes cuDNN 9.8 or later, for capability 10.0 9.19; throws Error with an older one.  Compiles
  // nothing; without any driver's library cuDNN passes over engines that would.
  CudnnDevice(const CudnnCalls& calls, const DescribedCard& card, bool has_driver);

  ~CudnnDevice();
  CudnnDevice(const CudnnDevice&) = delete;
  CudnnDevice& operator=(const CudnnDevice&) = delete;

  const CudnnCalls& calls() const { return calls_; }
  cudnnHandle_t handle() const { return handle_; }  // null for a described card
  // Whether engines that compile their kernels do so when a plan is made, which takes up to a
  // second and a card to load them onto; else such an engine is taken as cuDNN configures it.  Both
  // have the same workspace (4,000 convolutions on an H200, cuDNN 9.1.0 and 9.19.0).
  bool compiles() const { return compiles_; }

  // Tell a graph, heuristics or a plan whose they are.
  void OwnGraph(CudnnDescriptor& graph) const;
  void OwnHeuristics(CudnnDescriptor& heuristics) const;
  void OwnPlan(CudnnDescriptor& plan) const;

 private:
  const CudnnCalls& calls_;
  cudnnHandle_t handle_ = nullptr;
  std::optional<CudnnDescriptor> properties_;
  bool compiles_ = true;
};

}  // namespace onnxfit
