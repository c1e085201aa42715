// What handles and first kernels take of the current device.  Internal to benchmarks/cuda/.  All
// throw Error where CUDA or the library fails; what a card cannot do is left out.
#pragma once

#include "benchmarks/cuda/memory_meter.h"
#include "benchmarks/cuda/shared_library.h"

namespace onnxfit {

// "context": a second one of this process, since what was there before the first cannot be read.
void MeasureContext(MemoryMeter& meter);

// "cublasLt handle".
void MeasureCublasLt(const SharedLibrary& cublas_lt, MemoryMeter& meter);

// "cublas handle", "kernels of fp32 products", "… fp16 …", "… bf16 …".  The workspace is ours, as
// it is PyTorch's.
void MeasureCublas(const SharedLibrary& cublas, MemoryMeter& meter);

}  // namespace onnxfit
