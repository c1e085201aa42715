#include "estimator/cuda/loaded_bytes.h"

#include <cublasLt.h>
#include <cublas_v2.h>
#include <fmt/format.h>

#include <memory>

#include "estimator/base/error.h"
#include "estimator/cuda/cuda_calls.h"

namespace onnxfit {

void MemoryMeter::Restart() { free_bytes_ = ReadCardMemory().free_bytes; }

void MemoryMeter::Read(const std::string& what) {
  MustSucceed(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  const int64_t free_bytes = ReadCardMemory().free_bytes;
  if (loaded_.empty() || loaded_.back().what != what) loaded_.push_back({.what = what});
  loaded_.back().bytes += free_bytes_ - free_bytes;
  free_bytes_ = free_bytes;
}

DeviceBuffer::DeviceBuffer(int64_t bytes) {
  if (bytes > 0) MustSucceed(cudaMalloc(&begin_, static_cast<size_t>(bytes)), "cudaMalloc");
}

DeviceBuffer::~DeviceBuffer() { cudaFree(begin_); }

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

namespace {

constexpr int kRows = 256;  // of a square matrix
constexpr int64_t kMatrixBytes = int64_t{kRows} * kRows * 4;
constexpr int64_t kWorkspaceBytes = 32 << 20;  // PyTorch's on Hopper, the largest of its defaults

struct CublasPrecision {
  const char* name;
  cudaDataType_t type;
};
constexpr CublasPrecision kCublasPrecisions[] = {
    {.name = "fp32", .type = CUDA_R_32F},
    {.name = "fp16", .type = CUDA_R_16F},
    {.name = "bf16", .type = CUDA_R_16BF},
};

// cublasGemmEx, which the header overloads.
using GemmEx = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                              const void*, const void*, cudaDataType, int, const void*,
                              cudaDataType, int, const void*, void*, cudaDataType, int,
                              cublasComputeType_t, cublasGemmAlgo_t);

struct CublasCalls {
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasSetWorkspace_v2) set_workspace = nullptr;
  GemmEx* multiply = nullptr;
  decltype(&cublasGetStatusString) text = nullptr;

  void MustSucceed(cublasStatus_t status, const char* call) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    throw Error({.where = "cuBLAS", .text = fmt::format("{}: {}", call, text(status))});
  }
};

CublasCalls LoadCublasCalls(const SharedLibrary& cublas) {
  CublasCalls calls;
  cublas.Load("cublasCreate_v2", calls.create);
  cublas.Load("cublasDestroy_v2", calls.destroy);
  cublas.Load("cublasSetWorkspace_v2", calls.set_workspace);
  cublas.Load("cublasGemmEx", calls.multiply);
  cublas.Load("cublasGetStatusString", calls.text);
  return calls;
}

bool IsUnable(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH;
}

cublasStatus_t Multiply(const CublasCalls& calls, cublasHandle_t handle, cudaDataType_t type,
                        const DeviceBuffer (&matrices)[3]) {
  const float one = 1;
  const float zero = 0;
  return calls.multiply(handle, CUBLAS_OP_N, CUBLAS_OP_N, kRows, kRows, kRows, &one,
                        matrices[0].get(), type, kRows, matrices[1].get(), type, kRows, &zero,
                        matrices[2].get(), type, kRows, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

}  // namespace

void MeasureCublasLt(const SharedLibrary& cublas_lt, MemoryMeter& meter) {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  cublas_lt.Load("cublasLtCreate", create);
  cublas_lt.Load("cublasLtDestroy", destroy);
  meter.Restart();
  cublasLtHandle_t handle = nullptr;
  if (create(&handle) != CUBLAS_STATUS_SUCCESS) {
    throw Error({.where = "cublasLt", .text = "cublasLtCreate failed"});
  }
  const std::unique_ptr<cublasLtContext, decltype(destroy)> owner(handle, destroy);
  meter.Read("cublasLt handle");
}

void MeasureCublas(const SharedLibrary& cublas, MemoryMeter& meter) {
  const CublasCalls calls = LoadCublasCalls(cublas);
  const DeviceBuffer workspace(kWorkspaceBytes);
  const DeviceBuffer matrices[] = {DeviceBuffer(kMatrixBytes), DeviceBuffer(kMatrixBytes),
                                   DeviceBuffer(kMatrixBytes)};
  meter.Restart();
  cublasHandle_t handle = nullptr;
  calls.MustSucceed(calls.create(&handle), "cublasCreate");
  const std::unique_ptr<cublasContext, decltype(calls.destroy)> owner(handle, calls.destroy);
  meter.Read("cublas handle");
  calls.MustSucceed(calls.set_workspace(handle, workspace.get(), kWorkspaceBytes),
                    "cublasSetWorkspace");
  for (const CublasPrecision& precision : kCublasPrecisions) {
    const cublasStatus_t status = Multiply(calls, handle, precision.type, matrices);
    if (IsUnable(status)) continue;
    calls.MustSucceed(status, "cublasGemmEx");
    meter.Read(fmt::format("kernels of {} products", precision.name));
  }
}

}  // namespace onnxfit
