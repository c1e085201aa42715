// Whose plans cuDNN makes: those of the current device, or of a card that is only described.
// Internal to benchmarks/cuda/.
#pragma once

#include <optional>

#include "benchmarks/cuda/cudnn_descriptor.h"
#include "benchmarks/cuda/libraries.h"

namespace onnxfit {

class CudnnDevice {
 public:
  // The current device.  Throws Error where there is none.
  explicit CudnnDevice(const CudnnCalls& calls);

  // Takes cuDNN 9.8 or later, for capability 10.0 9.19; throws Error with an older one.
  CudnnDevice(const CudnnCalls& calls, const DescribedCard& card, bool has_driver);

  ~CudnnDevice();
  CudnnDevice(const CudnnDevice&) = delete;
  CudnnDevice& operator=(const CudnnDevice&) = delete;

  const CudnnCalls& calls() const { return calls_; }
  cudnnHandle_t handle() const { return handle_; }  // null for a described card
  // Whether an engine whose kernels are compiled is taken as cuDNN configures it: there is no card
  // to load them onto, but a driver's library, without which cuDNN does not try.
  bool plans_without_compiling() const { return properties_ && has_driver_; }

  // Tell a graph, heuristics or a plan whose they are.
  void OwnGraph(CudnnDescriptor& graph) const;
  void OwnHeuristics(CudnnDescriptor& heuristics) const;
  void OwnPlan(CudnnDescriptor& plan) const;

 private:
  const CudnnCalls& calls_;
  cudnnHandle_t handle_ = nullptr;
  std::optional<CudnnDescriptor> properties_;
  bool has_driver_ = true;
};

}  // namespace onnxfit
