// What libraries and drivers beneath frameworks say: CUDA's, ROCm's, Intel's, TensorRT, OpenVINO,
// NCCL, compilers of CUDA.  Where nothing else is named the source is the vendor's list of errors.
#include "estimator/oom/formats.h"

namespace onnxfit {
namespace {

constexpr OomRow kLibraryRows[] = {
    // TensorRT.
    {"tensorrt-tactic", "TensorRT", "8 on", OomRank::kWarning,
     "Tactic Device request: {tried} Available: {free} || insufficient memory on requested size "
     "of {tried} detected for tactic",
     "", "NVIDIA/TensorRT#2198, the builder's log",
     "a warning of the builder: it skips this way to compute a layer, and tries others"},
    {"tensorrt-oom", "TensorRT", "8 on", OomRank::kBare,
     "Error Code 2: OutOfMemory{?} (Requested size was {tried} bytes",
     "TensorRT found no room on the card", "NVIDIA/TensorRT#2198, virtualMemoryBuffer.cpp"},
    {"tensorrt-allocator", "TensorRT", "10 on", OomRank::kFailure,
     "User allocator error allocating {tried}-byte buffer", "",
     "NVIDIA/TensorRT#4258, tunable_graph.cpp, 10.3",
     "the builder found no room to try a way to compute a layer: it fails if none of them fits"},
    {"tensorrt-runtime", "TensorRT", "7 on", OomRank::kBare,
     "Error Code 1: Cuda Runtime (out of memory) || Cuda Error in {}: 2 (out of memory) || Cuda "
     "failure: out of memory || Error Code 1: Cuda Driver (out of memory)",
     "TensorRT found no room on the card", "NVIDIA/TensorRT#840, #948"},
    {"tensorrt-build", "TensorRT", "", OomRank::kWarning,
     "GPU memory allocation error during getBestTactic",
     "TensorRT's builder found no room to try ways to compute a layer", "NVIDIA/TensorRT#948",
     "a warning of the builder: it tries others, and fails if none of them fits"},
    {"tensorrt-workspace", "TensorRT", "", OomRank::kDisguise,
     "Could not find any implementation for node {node} due to insufficient workspace{?}. See "
     "verbose log for requested sizes.) || Could not find any implementation for node {node}.) || "
     "Could not find any implementation for node "
     "|| "
     "Try increasing the workspace size with",
     "TensorRT's builder found no way to compute a layer in the memory that it may use",
     "NVIDIA/TensorRT, the builder's log",
     "its workspace limit or the card is too small; an operator that it does not have looks the "
     "same"},

    // Libraries of CUDA: a handle or a workspace found no memory.
    {"cudnn-not-supported", "CUDA", "", OomRank::kDisguise, "CUDNN_STATUS_NOT_SUPPORTED", "",
     "cuDNN, cudnnStatus_t",
     "no plan of cuDNN's fits: its workspace found no memory, or strides or types are not its own"},
    {"cudnn-execution", "CUDA", "", OomRank::kDisguise,
     "CUDNN_STATUS_EXECUTION_FAILED || CUDNN_STATUS_MAPPING_ERROR || "
     "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED || "
     "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
     "", "cuDNN, cudnnStatus_t"},
    {"cufft-alloc", "CUDA", "", OomRank::kDisguise,
     "CUFFT_ALLOC_FAILED || CUFFT_INTERNAL_ERROR || CUFFT_SETUP_FAILED",
     "cuFFT found no memory for its plan: most often out of memory, in disguise",
     "cuFFT, cufftResult",
     "plans keep their workspace beside PyTorch's memory: torch.backends.cuda.cufft_plan_cache"},
    {"cusolver", "CUDA", "", OomRank::kDisguise,
     "CUSOLVER_STATUS_ALLOC_FAILED || CUSOLVER_STATUS_INTERNAL_ERROR || "
     "CUSOLVER_STATUS_NOT_INITIALIZED || cuSolver internal error || cusolver error: 7",
     "cuSOLVER found no memory for its handle or workspace: most often out of memory, in disguise",
     "cuSOLVER, cusolverStatus_t; jax-ml/jax#4497"},
    {"cusparse", "CUDA", "", OomRank::kDisguise,
     "CUSPARSE_STATUS_ALLOC_FAILED || CUSPARSE_STATUS_INSUFFICIENT_RESOURCES || "
     "CUSPARSE_STATUS_INTERNAL_ERROR",
     "cuSPARSE found no memory for its workspace: most often out of memory, in disguise",
     "cuSPARSE, cusparseStatus_t"},
    {"curand", "CUDA", "", OomRank::kDisguise,
     "CURAND_STATUS_ALLOCATION_FAILED || CURAND_STATUS_INITIALIZATION_FAILED", "",
     "cuRAND, curandStatus_t"},
    {"cublas-execution", "CUDA", "", OomRank::kDisguise,
     "CUBLAS_STATUS_EXECUTION_FAILED || CUBLAS_STATUS_INTERNAL_ERROR", "", "cuBLAS, cublasStatus_t",
     "a full card, or a kernel that failed before it: an index out of range looks the same"},
    {"nvrtc", "CUDA", "", OomRank::kDisguise, "NVRTC_ERROR_OUT_OF_MEMORY", "", "NVRTC, nvrtcResult",
     "the compiler ran out of the machine's RAM, not of the card's memory", OomResource::kRam},
    {"nvidia-alloc", "CUDA", "", OomRank::kDisguise,
     "CUTENSOR_STATUS_ALLOC_FAILED || CUTENSORNET_STATUS_ALLOC_FAILED || "
     "CUSTATEVEC_STATUS_ALLOC_FAILED || CUDSS_STATUS_ALLOC_FAILED || "
     "NVJPEG_STATUS_ALLOCATOR_FAILURE || NPP_MEMORY_ALLOCATION_ERR || AMGX_RC_NO_MEMORY",
     "a library of CUDA found no memory", "NVIDIA's libraries"},
    {"cnmem", "CUDA", "", OomRank::kBare, "CNMEM_STATUS_OUT_OF_MEMORY",
     "a pool on the card (CNMeM) is full", "NVIDIA/cnmem, include/cnmem.h"},
    {"nccl-shm", "NCCL", "", OomRank::kBare,
     "Error while creating shared memory segment{?} {node} (size {tried} || Call to "
     "posix_fallocate failed : No space left on device || ncclShmOpen failed",
     "NCCL found shared memory (/dev/shm) full", "NCCL, src/include/shm.h, src/misc/shmutils.cc",
     "ranks of one machine talk by /dev/shm, of which a container has 64 MiB unless told",
     OomResource::kSharedMemory},
    {"nccl-calloc", "NCCL", "2.7 on", OomRank::kFailure,
     "Failed to CUDA calloc {tried} bytes || Failed to CUDA calloc async {tried} bytes || "
     "Failed to CUDA malloc {tried} bytes || Failed to CUDA host alloc {tried} bytes",
     "", "NCCL, src/include/alloc.h",
     "that is beside PyTorch's memory: what PyTorch has cached is not there for NCCL"},
    {"cuda-launch", "CUDA", "", OomRank::kBare,
     "too many resources requested for launch || CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES || "
     "cudaErrorLaunchOutOfResources",
     "a kernel takes more of a multiprocessor than there is", "CUDA Runtime API, error 701",
     "that is registers or threads, not the card's memory: a kernel's blocks are too large",
     OomResource::kOnChip},

    {"mxnet-workspace", "MXNet", "to 1.9", OomRank::kFailure,
     "Minimum workspace size: {tried} Bytes Given: {allowed}", "",
     "apache/mxnet, src/operator/nn/convolution-inl.h, 1.x",
     "that is the operator's workspace, a parameter of it, and not the card's memory",
     OomResource::kBuffer},

    // AMD and Intel.
    {"rocm-libraries", "ROCm", "", OomRank::kDisguise,
     "miopenStatusAllocFailed || rocblas_status_memory_error || HIPBLAS_STATUS_ALLOC_FAILED || "
     "rocsparse_status_memory_error || HIPFFT_ALLOC_FAILED",
     "a library of ROCm found no memory", "ROCm's libraries"},
    {"miopen-workspace", "ROCm", "5 on", OomRank::kWarning,
     "[IsEnoughWorkspace]{}workspace required: {tried}, provided ptr", "",
     "ROCm/MIOpen, IsEnoughWorkspace",
     "MIOpen takes another way to compute the convolution, which may be slower"},
    {"hip-runtime", "ROCm", "", OomRank::kBare, "hipErrorOutOfMemory || hipErrorMemoryAllocation",
     "ROCm found no room on the card", "HIP, hipError_t 2"},
    {"hip-malloc", "ROCm", "", OomRank::kBare, "hipMalloc failed: out of memory",
     "ROCm found no room on the card", "HIP, hipGetErrorString"},
    {"hsa", "ROCm", "", OomRank::kBare,
     "HSA_STATUS_ERROR_OUT_OF_RESOURCES || Available Free mem : {MB free}", "ROCm found no memory",
     "ROCR-Runtime, hsa_status_t"},
    {"sycl", "Intel's GPU", "", OomRank::kBare,
     "UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY || UR_RESULT_ERROR_OUT_OF_RESOURCES || "
     "PI_ERROR_OUT_OF_RESOURCES || ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY || "
     "PI_ERROR_MEM_OBJECT_ALLOCATION_FAILURE || UR_RESULT_ERROR_MEM_OBJECT_ALLOCATION_FAILURE || "
     "PI_ERROR_OUT_OF_HOST_MEMORY || UR_RESULT_ERROR_OUT_OF_HOST_MEMORY",
     "Intel's GPU runtime found no memory", "Level Zero and SYCL, ur_result_t"},

    // Accelerators that are no GPUs.
    {"gaudi", "Gaudi", "", OomRank::kFailure, "Allocation failed for size::{tried}{?}(", "",
     "HabanaAI/gaudi-pytorch-bridge, device_memory.cpp, PT_SYNHELPER_FATAL",
     "the memory of the Gaudi card (HPU) is full"},
    {"neuron", "AWS Neuron", "2.x", OomRank::kFailure,
     "Failed to allocate DEVICE memory ({tried} bytes){?} HBM {n} | {used} | || Failed to alloc "
     "DEVICE memory: {tried}",
     "", "aws-neuron-sdk#302, the runtime's TDRV:dmem_alloc_internal",
     "that is the HBM of one NeuronCore: weights, its program's code and scratchpad lie there"},
    {"neuron-host", "AWS Neuron", "2.x", OomRank::kFailure,
     "Failed to allocate HOST memory ({tried} bytes) || Failed to alloc HOST memory: {tried}", "",
     "the Neuron runtime's TDRV:dmem_alloc_internal",
     "that is RAM which the runtime shares with the device: a process that was killed and others "
     "of its job may hold it still",
     OomResource::kRam},
    {"neuron-bare", "AWS Neuron", "2.x", OomRank::kBare,
     "nrt_tensor_allocate status=4 || nrt_load status=4 || nrt_load_collectives status=4 || "
     "nrt_allocate_tensor status=4 || NERR_RESOURCE",
     "the Neuron runtime found no room on the device", "libnrt, nrt_status.h: 4 is NRT_RESOURCE"},
    {"neuron-bare-host", "AWS Neuron", "2.x", OomRank::kBare, "NRT_FAIL_HOST_MEM_ALLOC",
     "the Neuron runtime found no RAM", "libnrt, nrt_status.h", "", OomResource::kRam},
    {"ascend-hccl", "Ascend", "", OomRank::kFailure,
     "Failed to allocate [size:{tried}] bytes of NPU memory || Failed to allocate {n}~{tried} "
     "bytes "
     "of NPU memory || Failed to allocate [{tried}] bytes of NPU memory || Failed to allocate "
     "{tried} bytes of NPU memory",
     "", "Huawei CANN, error code EI0011",
     "a buffer of HCCL, with which devices talk: it is beside what PyTorch has cached"},
    {"ascend-device", "Ascend", "", OomRank::kBare,
     "Resource_Error_Insufficient_Device_Memory || EL0019: || (EL0019) || (EI0011) || EI0011:",
     "the NPU's memory is full", "Huawei CANN, error codes EI0011, EL0019, EN0012"},
    {"ascend-host", "Ascend", "", OomRank::kBare, "Resource_Error_Insufficient_Host_Memory",
     "the machine's RAM is full", "Huawei CANN, error code EN0011", "", OomResource::kRam},
    {"openvino-buffer", "OpenVINO", "2022 on", OomRank::kFailure,
     "Exceeded max size of memory object allocation: {?}requested {tried} bytes, but max alloc "
     "size supported by device is {allowed}",
     "", "openvino, src/plugins/intel_gpu/src/runtime/engine.cpp",
     "that is the most that one buffer may have on this GPU: a tensor is too large",
     OomResource::kBuffer},
    {"openvino-memory", "OpenVINO", "2022 on", OomRank::kFailure,
     "Exceeded max size of memory allocation: Required {tried} bytes, already occupied : "
     "{allocated} bytes, but available memory size is {total} bytes",
     "", "openvino, src/plugins/intel_gpu/src/runtime/engine.cpp"},
    {"openvino", "OpenVINO", "", OomRank::kBare,
     "[GPU] out of GPU resources || [GPU] CL_OUT_OF_RESOURCES || [GPU] clEnqueue",
     "OpenVINO's GPU plugin found no memory", "openvino, src/plugins/intel_gpu"},

    // What only the driver's words say: who asked is told by the lines around it.
    {"cuda-mshadow", "CUDA", "", OomRank::kBare,
     "cudaErrorCudartUnloading: CUDA: out of memory || cudaErrorCudartUnloading CUDA: out of "
     "memory",
     "the card has no room for what was asked", "mshadow and TVM, CUDA_CALL"},
    {"thrust", "CUDA", "", OomRank::kBare,
     "std::bad_alloc: cudaErrorMemoryAllocation || get_temporary_buffer failed || "
     "thrust::system::detail::bad_alloc || bad allocation: cudaErrorMemoryAllocation",
     "Thrust found no room on the card", "NVIDIA/cccl, thrust/system/detail/bad_alloc.h"},
    {"cuda-words", "CUDA", "", OomRank::kBare,
     "CUDA failed with error out of memory || CUDA runtime error: out of memory || CUDA out of "
     "memory error || cudaGetLastError() out of memory || CUDA runtime API error: out of memory || "
     "CUDA Runtime Error: out of memory || cudaMallocAsync failed: out of memory || CUDA driver "
     "error: 2 || cudaMallocManaged failed: out of memory",
     "the card has no room for what was asked", "cudaGetErrorString of error 2"},
    {"cuda-call", "CUDA", "", OomRank::kBare,
     "CUDA Runtime API call failed{}out of memory || CUDA runtime error in {}: out of memory || "
     "CUDA error in {}: out of memory || CUDA error at {}out of memory || CUDA error in func "
     "{}: out of memory || cudaMalloc failed with error out of memory || failed with error out of "
     "memory || Triton Error [CUDA]: out of memory",
     "the card has no room for what was asked", "cudaGetErrorString of error 2"},
    {"cuda-description", "CUDA", "", OomRank::kBare,
     "The API call failed because it was unable to allocate enough memory || unable to allocate "
     "enough memory or other resources to perform the requested operation",
     "the card has no room for what was asked", "CUDA Runtime API, cudaErrorMemoryAllocation",
     "the program prints CUDA's description of error 2"},
    {"nvidia-uvm", "CUDA", "", OomRank::kDisguise,
     "NVRM: Out of memory || NV_ERR_NO_MEMORY || Failed to allocate NVKMS memory",
     "NVIDIA's driver found no memory", "NVIDIA's kernel module"},
};

}  // namespace

std::span<const OomRow> LibraryRows() { return kLibraryRows; }

}  // namespace onnxfit
