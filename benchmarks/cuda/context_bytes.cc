#include <memory>

#include "benchmarks/cuda/cuda_call.h"
#include "benchmarks/cuda/driver_calls.h"
#include "benchmarks/cuda/loaded_bytes.h"
#include "estimator/base/error.h"

namespace onnxfit {

void MeasureContext(MemoryMeter& meter) {
  const ContextCalls calls = LoadContextCalls();
  int device = 0;
  MustSucceed(cudaGetDevice(&device), "cudaGetDevice");
  meter.Restart();
  CUcontext context = nullptr;
  if (calls.create(&context, 0, device) != CUDA_SUCCESS) {
    throw Error({.where = "CUDA", .text = "cuCtxCreate failed"});
  }
  const std::unique_ptr<CUctx_st, decltype(calls.destroy)> owner(context, calls.destroy);
  calls.pop(&context);  // the first is the current one again
  meter.Read("context");
}

}  // namespace onnxfit
