// What programs call that were built for a default stream of each thread's own (nvcc
// --default-stream per-thread): the same functions, since no stream waits for another here.

// NOLINTBEGIN
#define ABSENT_SAME(name, other)           \
  asm(".globl " #name                      \
      "\n"                                 \
      ".type " #name ", @function\n" #name \
      ":\n"                                \
      "  jmp " #other "@PLT\n");
ABSENT_SAME(__cudaLaunchKernel_ptsz, __cudaLaunchKernel)
ABSENT_SAME(cuGetProcAddress_v2_ptsz, cuGetProcAddress_v2)
ABSENT_SAME(cuLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel)
ABSENT_SAME(cuLaunchHostFunc_ptsz, cuLaunchHostFunc)
ABSENT_SAME(cuLaunchKernelEx_ptsz, cuLaunchKernelEx)
ABSENT_SAME(cuLaunchKernel_ptsz, cuLaunchKernel)
ABSENT_SAME(cuMemAllocAsync_ptsz, cuMemAllocAsync)
ABSENT_SAME(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync)
ABSENT_SAME(cuMemFreeAsync_ptsz, cuMemFreeAsync)
ABSENT_SAME(cuMemcpyAsync_ptsz, cuMemcpyAsync)
ABSENT_SAME(cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyDtoDAsync_v2)
ABSENT_SAME(cuMemcpyDtoD_v2_ptds, cuMemcpyDtoD_v2)
ABSENT_SAME(cuMemcpyDtoHAsync_v2_ptsz, cuMemcpyDtoHAsync_v2)
ABSENT_SAME(cuMemcpyDtoH_v2_ptds, cuMemcpyDtoH_v2)
ABSENT_SAME(cuMemcpyHtoDAsync_v2_ptsz, cuMemcpyHtoDAsync_v2)
ABSENT_SAME(cuMemcpyHtoD_v2_ptds, cuMemcpyHtoD_v2)
ABSENT_SAME(cuMemcpy_ptds, cuMemcpy)
ABSENT_SAME(cuMemsetD16Async_ptsz, cuMemsetD16Async)
ABSENT_SAME(cuMemsetD16_v2_ptds, cuMemsetD16_v2)
ABSENT_SAME(cuMemsetD32Async_ptsz, cuMemsetD32Async)
ABSENT_SAME(cuMemsetD32_v2_ptds, cuMemsetD32_v2)
ABSENT_SAME(cuMemsetD8Async_ptsz, cuMemsetD8Async)
ABSENT_SAME(cuMemsetD8_v2_ptds, cuMemsetD8_v2)
ABSENT_SAME(cuStreamAddCallback_ptsz, cuStreamAddCallback)
ABSENT_SAME(cuStreamGetCaptureInfo_v2_ptsz, cuStreamGetCaptureInfo_v2)
ABSENT_SAME(cuStreamGetCaptureInfo_v3_ptsz, cuStreamGetCaptureInfo_v3)
ABSENT_SAME(cuStreamGetCaptureInfo_ptsz, cuStreamGetCaptureInfo)
ABSENT_SAME(cuStreamGetCtx_ptsz, cuStreamGetCtx)
ABSENT_SAME(cuStreamIsCapturing_ptsz, cuStreamIsCapturing)
ABSENT_SAME(cudaFreeAsync_ptsz, cudaFreeAsync)
ABSENT_SAME(cudaGetDriverEntryPointByVersion_ptsz, cudaGetDriverEntryPointByVersion)
ABSENT_SAME(cudaGetDriverEntryPoint_ptsz, cudaGetDriverEntryPoint)
ABSENT_SAME(cudaLaunchCooperativeKernel_ptsz, cudaLaunchCooperativeKernel)
ABSENT_SAME(cudaLaunchHostFunc_ptsz, cudaLaunchHostFunc)
ABSENT_SAME(cudaLaunchKernelExC_ptsz, cudaLaunchKernelExC)
ABSENT_SAME(cudaLaunchKernel_ptsz, cudaLaunchKernel)
ABSENT_SAME(cudaMallocAsync_ptsz, cudaMallocAsync)
ABSENT_SAME(cudaMallocFromPoolAsync_ptsz, cudaMallocFromPoolAsync)
ABSENT_SAME(cudaMemcpy2DAsync_ptsz, cudaMemcpy2DAsync)
ABSENT_SAME(cudaMemcpy2D_ptds, cudaMemcpy2D)
ABSENT_SAME(cudaMemcpyAsync_ptsz, cudaMemcpyAsync)
ABSENT_SAME(cudaMemcpy_ptds, cudaMemcpy)
ABSENT_SAME(cudaMemsetAsync_ptsz, cudaMemsetAsync)
ABSENT_SAME(cudaMemset_ptds, cudaMemset)
ABSENT_SAME(cudaStreamAddCallback_ptsz, cudaStreamAddCallback)
ABSENT_SAME(cudaStreamBeginCapture_ptsz, cudaStreamBeginCapture)
ABSENT_SAME(cudaStreamEndCapture_ptsz, cudaStreamEndCapture)
ABSENT_SAME(cudaStreamGetCaptureInfo_v2_ptsz, cudaStreamGetCaptureInfo_v2)
ABSENT_SAME(cudaStreamGetCaptureInfo_v3_ptsz, cudaStreamGetCaptureInfo_v3)
ABSENT_SAME(cudaStreamIsCapturing_ptsz, cudaStreamIsCapturing)
#undef ABSENT_SAME
// NOLINTEND
