// What frameworks that compute with tensors say, and what is built into them.  Where a source is a
// file, its path says how the text is made; the others are messages that people published.
#include "estimator/oom/formats.h"

namespace onnxfit {
namespace {

constexpr OomRow kFrameworkRows[] = {
    // JAX and XLA.
    {"xla-bytes", "JAX/XLA", "jaxlib 0.4.31 on", OomRank::kFailure,
     "RESOURCE_EXHAUSTED: Out of memory allocating {tried} bytes", "",
     "xla/pjrt/gpu/se_gpu_pjrt_client.cc"},
    {"xla-async", "JAX/XLA", "GPU, cuda_async", OomRank::kFailure,
     "cuMemAllocAsync failed to allocate {tried} bytes", "",
     "xla/stream_executor/gpu/gpu_cudamallocasync_allocator.cc, 2025"},
    {"xla-tpu", "XLA on TPU", "", OomRank::kFailure,
     "Ran out of memory in memory space {told}. Used {plan} of {total}", "",
     "google-research/trax#270", "the whole program has to fit, as XLA has laid it out"},
    {"xla-tpu-scoped", "XLA on TPU", "", OomRank::kFailure,
     "Scoped allocation with size {tried} and limit {allowed} exceeded scoped vmem limit", "",
     "jax-ml/jax, Pallas kernels",
     "vmem is a core's own small memory, not HBM: a kernel's blocks are too large",
     OomResource::kOnChip},
    {"xla-tpu-scoped", "XLA on TPU", "", OomRank::kFailure,
     "Allocation (size={tried}) would exceed memory (size={allowed})", "",
     "jax-ml/jax, Pallas kernels",
     "that is a core's own small memory, not HBM: a kernel's blocks are too large",
     OomResource::kOnChip},
    {"xla-shared", "JAX/XLA", "GPU", OomRank::kFailure,
     "Shared memory size limit exceeded: requested {tried}, available: {allowed}", "",
     "xla/service/gpu/fusions/triton; jax-ml/jax-triton", "", OomResource::kOnChip},
    {"xla-tpu-reserve", "XLA on TPU", "", OomRank::kFailure,
     "Attempting to reserve {tried} at the bottom of memory. That was not possible. There are "
     "{free} free{?}, {n}B reserved, and {allowed} reservable || Attempting to allocate {tried}. "
     "That was not possible. There are {free} free{?}, {n}B reserved, and {allowed} reservable",
     "", "the TPU runtime's allocator; pytorch/xla#3470"},
    {"xla-remat", "JAX/XLA", "GPU and TPU", OomRank::kWarning,
     "Can't reduce memory use below {allowed} ({n} bytes) by rematerialization; only reduced to "
     "{plan} || Can't reduce memory use below {allowed} by rematerialization; only reduced to "
     "{plan}",
     "XLA's plan needs more than the device has, even with values computed twice",
     "xla/hlo/transforms/simplifiers/hlo_rematerialization.cc",
     "where the program then runs all the same, others were given back meanwhile; else it fails "
     "next"},
    {"xla-constant", "JAX/XLA", "GPU", OomRank::kFailure,
     "Failed to allocate {tried} bytes for new constant", "", "xla/service/gpu/gpu_executable.cc"},
    {"xla-dnn", "JAX/XLA", "GPU", OomRank::kDisguise, "DNN library initialization failed", "",
     "jax-ml/jax#8506", "cuDNN found no memory beside what JAX had taken at its start"},

    // TensorFlow.
    {"tensorflow-driver", "TensorFlow", "1 and 2, and JAX", OomRank::kWarning,
     "failed to allocate {n}G ({tried} bytes) from device{?}: CUDA_ERROR_OUT_OF_MEMORY{?}: out of "
     "memory || "
     "failed to allocate {n}GiB ({tried} bytes) from device{?}: CUDA_ERROR_OUT_OF_MEMORY{?}: out "
     "of memory || "
     "failed to allocate {n}M ({tried} bytes) from device{?}: CUDA_ERROR_OUT_OF_MEMORY{?}: out of "
     "memory || "
     "failed to allocate {n}MiB ({tried} bytes) from device{?}: CUDA_ERROR_OUT_OF_MEMORY{?}: out "
     "of memory || "
     "failed to allocate {n}GiB ({tried} bytes) from device: RESOURCE_EXHAUSTED: : "
     "CUDA_ERROR_OUT_OF_MEMORY{?}: out of memory || "
     "failed to allocate {n}MiB ({tried} bytes) from device: RESOURCE_EXHAUSTED: : "
     "CUDA_ERROR_OUT_OF_MEMORY{?}: out of memory",
     "", "stream_executor/cuda/cuda_driver.cc",
     "often harmless: its allocator asks for less next, and only what follows is an error"},
    {"tensorflow-pinned", "TensorFlow", "1 and 2", OomRank::kWarning,
     "failed to alloc {tried} bytes on host{?}: CUDA_ERROR_OUT_OF_MEMORY{?}: out of memory || "
     "could not allocate pinned host memory of size: "
     "{tried}",
     "", "stream_executor/cuda/cuda_driver.cc",
     "that is RAM which the card reads from (pinned), not the card's memory", OomResource::kRam},
    {"tensorflow-ram", "TensorFlow", "1 and 2", OomRank::kWarning,
     "Allocation of {tried} exceeds 10% of free system memory || Allocation of {tried} exceeds 10% "
     "of system memory",
     "", "tensorflow/core/framework/cpu_allocator_impl.cc",
     "a warning about RAM: the program goes on", OomResource::kRam},
    {"tensorflow-dst", "TensorFlow", "1 and 2", OomRank::kDisguise,
     "Dst tensor is not initialized || Src tensor is not initialized",
     "a tensor found no room on the card: out of memory, in disguise", "tensorflow/tensorflow#7025",
     "the copy's target could not be allocated: the card is full, or others hold it"},
    {"tensorflow-init", "TensorFlow", "2", OomRank::kBare,
     "CUDA runtime implicit initialization on GPU:{gpu} failed. Status: out of memory",
     "TensorFlow found no memory to start on the card",
     "tensorflow/core/common_runtime/gpu/gpu_device.cc", "others hold nearly all of the card"},
    {"tensorflow-context", "TensorFlow", "2", OomRank::kBare,
     "failed call to cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY{?}: out of memory; total "
     "memory reported: {total}",
     "TensorFlow found no memory for its context", "stream_executor/cuda/cuda_driver.cc",
     "others hold nearly all of the card"},
    {"tensorflow-cudnn", "TensorFlow", "1 and 2", OomRank::kDisguise,
     "Failed to get convolution algorithm. This is probably because cuDNN failed to initialize", "",
     "tensorflow/tensorflow#24496",
     "cuDNN found no memory for its handle beside what TensorFlow had taken"},
    {"tensorflow-blas", "TensorFlow", "1 and 2", OomRank::kDisguise,
     "Blas GEMM launch failed || Blas xGEMM launch failed || Blas SGEMM launch failed || Blas GEMV "
     "launch failed || failed to run cuBLAS routine",
     "", "tensorflow/tensorflow#9489",
     "cuBLAS found no memory for its workspace: another process, or all taken at the start"},

    // PyTorch, beside what its caching allocators say.
    {"pytorch-engine", "PyTorch", "1.8 on", OomRank::kDisguise,
     "was unable to find an engine to execute this computation || Unable to find a valid cuDNN "
     "algorithm to run convolution || unable to find an engine to execute",
     "cuDNN found no algorithm whose workspace fits: most often out of memory, in disguise",
     "aten/src/ATen/native/cudnn/Conv_v8.cpp",
     "each plan failed to allocate; types or strides that cuDNN does not have look the same"},
    {"pytorch-pinned", "PyTorch", "", OomRank::kFailure,
     ".pin_memory({}) RuntimeError: CUDA error: out of memory || .pin_memory({}) "
     "torch.AcceleratorError: CUDA error: out of memory",
     "PyTorch could not pin as much RAM", "torch/storage.py, 1.13 on; cudaHostAlloc",
     "that is RAM which the card reads from (pinned), not the card's memory; of WSL2 the Windows "
     "driver pins about half",
     OomResource::kPinned},
    {"pytorch-shm", "PyTorch", "", OomRank::kBare,
     "Unexpected bus error encountered in worker. This might be caused by insufficient shared "
     "memory",
     "a DataLoader worker found shared memory full", "torch/csrc/DataLoader.cpp", "",
     OomResource::kSharedMemory},
    {"pytorch-mmap", "PyTorch on the CPU", "", OomRank::kFailure,
     "unable to mmap {tried} bytes from file </torch_{n}_{n}_{count}>: Cannot allocate memory || "
     "unable to mmap {tried} bytes from file </torch_{n}_{n}>: Cannot allocate memory",
     "", "aten/src/ATen/MapAllocator.cpp",
     "RAM or /dev/shm, or the number of mappings that a process may have (vm.max_map_count)"},
    {"pytorch-mmap-file", "PyTorch on the CPU", "", OomRank::kFailure,
     "unable to mmap {tried} bytes from file <{told}>: Cannot allocate memory", "",
     "aten/src/ATen/MapAllocator.cpp; safetensors/safetensors#528",
     "the system does not promise as much memory as the file is long, nor does a limit of "
     "addresses allow it: no card has to do with it",
     OomResource::kPromised},
    {"pytorch-files", "PyTorch", "", OomRank::kBare,
     "unable to open shared memory object </torch_{}> in read-write mode: Too many open files || "
     "unable to open shared memory object </torch_{}> in read/write mode: Too many open files || "
     "unable to open shared memory object </torch_{}> in read-write mode || "
     "received 0 items of ancdata || Too many open files. Communication with the workers is no "
     "longer possible",
     "tensors that processes share have all files open that a process may",
     "aten/src/ATen/MapAllocator.cpp; torch/utils/data/dataloader.py",
     "each tensor that is handed over is an open file: memory is not what was short",
     OomResource::kFiles},
    {"pytorch-disk", "PyTorch", "", OomRank::kBare,
     "PytorchStreamWriter failed writing file {told}: file write failed || PytorchStreamWriter "
     "failed writing {told}: file write failed || inline_container.cc:{n}] . unexpected pos {n} vs "
     "{n}",
     "torch.save could not write: most often the disk is full",
     "caffe2/serialize/inline_container.cc",
     "that is the disk (or a quota), not memory: the file that was begun is not whole",
     OomResource::kDisk},
    {"pytorch-shm-file", "PyTorch on the CPU", "", OomRank::kBare,
     "unable to write to file </torch_{}>: No space left || unable to resize file </torch_{}> to "
     "the right size: No space left || unable to write to file </torch_{}> || unable to "
     "resize file </torch_{}> to the right size || unable to allocate shared memory(shm) for file",
     "shared memory (/dev/shm) is full", "aten/src/ATen/MapAllocator.cpp", "",
     OomResource::kSharedMemory},
    {"pytorch-cpu-old", "PyTorch on the CPU", "0.1 to 1.1", OomRank::kFailure,
     "$ Torch: not enough memory: you tried to allocate {GB tried}", "", "TH/THGeneral.c"},
    {"pytorch-mps-buffer", "PyTorch on Apple's MPS", "", OomRank::kFailure,
     "Invalid buffer size: {tried}", "", "aten/src/ATen/mps/MPSAllocator.mm",
     "Metal gives no single buffer of that size: attention's scores are the usual ones",
     OomResource::kBuffer},
    {"pytorch-mps-array", "PyTorch on Apple's MPS", "", OomRank::kBare,
     "total bytes of NDArray || NDArray dimension length",
     "an array is larger than Metal's kernels can address", "Apple's MetalPerformanceShaders",
     "that is a limit on one array, not memory: attention's scores are the usual ones",
     OomResource::kBuffer},
    {"torch-directml", "DirectML", "", OomRank::kFailure,
     "Could not allocate tensor with {tried} bytes. There is not enough GPU video memory", "",
     "microsoft/DirectML, torch-directml 0.1 on"},
    {"triton", "Triton", "2.1 on", OomRank::kFailure,
     "out of resource: shared memory, Required: {tried}, Hardware limit: {allowed} || out of "
     "resource: {told} Required: {tried} Hardware limit: {allowed}",
     "", "triton-lang/triton, python/triton/runtime/errors.py, 2.1 to 3.5",
     "that is a multiprocessor's shared memory, not the card's: a kernel's blocks are too large",
     OomResource::kOnChip},
    {"triton", "Triton", "1 and 2.0", OomRank::kFailure,
     "out of resource: shared memoryRequired: {tried}Hardware limit: {allowed}", "",
     "triton-lang/triton#384",
     "that is a multiprocessor's shared memory, not the card's: a kernel's blocks are too large",
     OomResource::kOnChip},
    {"triton-registers", "Triton", "", OomRank::kBare,
     "out of resource: registers || out of resource: threads || out of resource: tensor memory",
     "a kernel takes more of a multiprocessor than there is",
     "triton-lang/triton, python/triton/runtime/errors.py",
     "that is not the card's memory: a kernel's blocks are too large", OomResource::kOnChip},
    {"deepspeed-flushes", "DeepSpeed", "0.6 on", OomRank::kWarning,
     "pytorch allocator cache flushes since last step",
     "PyTorch gave its cache back to go on: the card is nearly full",
     "deepspeed/runtime/zero/stage3.py",
     "each flush costs time: a little less memory makes steps faster"},
    {"detectron2-retry", "detectron2", "", OomRank::kWarning,
     "Attempting to copy inputs of {told} to CPU due to CUDA OOM",
     "detectron2 goes on with the CPU, as the card is full", "detectron2/utils/memory.py",
     "a step that moves to the CPU is slow"},
    {"fairseq-recover", "fairseq", "", OomRank::kWarning,
     "attempting to recover from OOM in forward/backward pass || WARNING: ran out of memory, "
     "retrying batch || WARNING: ran out of memory in validation step, retrying batch",
     "fairseq leaves a batch out that did not fit", "fairseq/trainer.py",
     "a batch that is left out is not learned from"},
    {"accelerate-batch", "accelerate", "", OomRank::kBare,
     "No executable batch size found, reached zero", "not even a batch of 1 fits",
     "accelerate/utils/memory.py"},
    {"dispatched", "transformers", "4.30 on", OomRank::kBare,
     "Some modules are dispatched on the CPU or the disk",
     "the quantized weights do not fit on the card",
     "transformers/quantizers/quantizer_bnb_4bit.py",
     "what does not fit was to go to the CPU, where bitsandbytes cannot compute"},
    {"offload-folder", "transformers", "", OomRank::kBare,
     "had weights offloaded to the disk. Please provide an || You are trying to offload the whole "
     "model to the disk",
     "the weights fit neither on the card nor in RAM", "accelerate/big_modeling.py"},
    {"offloaded", "transformers", "", OomRank::kWarning,
     "Some parameters are on the meta device because they were offloaded to the",
     "the weights do not fit on the card: the rest is in RAM or on disk",
     "accelerate/big_modeling.py", "a warning: it runs, and each step moves the rest to the card"},
    {"bitsandbytes-managed", "bitsandbytes", "0.38 on", OomRank::kBare,
     "Error out of memory at line {n} in file {}pythonInterface",
     "bitsandbytes found no memory for a paged optimizer",
     "bitsandbytes, csrc/pythonInterface.cpp, cget_managed_ptr, 0.46",
     "its states are in memory that RAM and card share (cudaMallocManaged), which Windows and WSL "
     "hardly have: it may fail while the card has room"},
    {"bitsandbytes", "bitsandbytes", "", OomRank::kBare, "Error out of memory at line {n} in file",
     "bitsandbytes found no room on the card", "bitsandbytes, csrc/ops.cuh, CUDA_CHECK_RETURN"},
    {"torch-npu", "Ascend", "", OomRank::kBare, "EL0004: || (EL0004): Failed to allocate memory",
     "the NPU's memory is full", "Huawei CANN, error code EL0004"},

    // MXNet, Paddle, MindSpore and others.
    {"mxnet", "MXNet", "1.0 to 1.5", OomRank::kBare, "cudaMalloc retry failed: out of memory",
     "MXNet gave its cache back, asked again, and found no room",
     "src/storage/pooled_storage_manager.h"},
    {"mxnet", "MXNet", "1.6 on", OomRank::kBare,
     "Memory allocation failed out of memory || Memory allocation failed, out of memory",
     "MXNet found no room on the card", "src/storage/pooled_storage_manager.h"},
    {"mxnet-cpu", "MXNet", "", OomRank::kBare, "Failed to allocate CPU Memory",
     "the machine's RAM is full", "src/storage/cpu_device_storage.h", "", OomResource::kRam},
    {"paddle-device", "PaddlePaddle", "2 and 3", OomRank::kFailure,
     "Out of memory error on XPU {gpu}. Cannot allocate {tried} memory on XPU {n}, available "
     "memory is only {free}. || Out of memory error on NPU {gpu}. Cannot allocate {tried} memory "
     "on NPU {n}, available memory is only {free}.",
     "", "paddle/fluid/memory/allocation/npu_allocator.cc"},
    {"paddle-old", "PaddlePaddle", "before 1.3", OomRank::kFailure,
     "enforce allocating <= available failed, {tried} > {free}", "",
     "PaddlePaddle/Paddle#8992, paddle/fluid/platform/gpu_info.cc"},
    {"paddle-cpu", "PaddlePaddle", "", OomRank::kFailure, "Fail to alloc memory of {tried} size",
     "", "paddle/fluid/memory/allocation/cpu_allocator.cc", "that is RAM, not the card's memory",
     OomResource::kRam},
    {"paddle-cuda", "PaddlePaddle", "", OomRank::kBare, "Cuda error(2), out of memory",
     "Paddle found no room on the card", "paddle/fluid/platform/enforce.h"},
    {"mindspore", "MindSpore", "1.3 on", OomRank::kFailure,
     "memory isn't enough and alloc failed, kernel name: {node}, alloc size: {tried}", "",
     "mindspore/ccsrc/runtime, DeviceActor"},
    {"mindspore-total", "MindSpore", "2", OomRank::kFailure,
     "TotalUsedMemStatistics : {allocated} plus {} alloc size : {tried} is more than total mem "
     "size : {total}",
     "", "mindspore/ccsrc/backend/common/mem_reuse/mem_dynamic_allocator.cc"},
    {"mindspore-bare", "MindSpore", "1 and 2", OomRank::kBare,
     "Out of memory. Memory malloc failed", "MindSpore found no memory",
     "mindspore-ai/mindspore#172"},
    {"caffe", "Caffe", "", OomRank::kBare,
     "error == cudaSuccess (2 vs. 0) out of memory || cudaSuccess (2 vs. 0) out of memory",
     "Caffe found no room on the card", "caffe/util/device_alternate.hpp, CUDA_CHECK"},
    {"marian", "Marian", "", OomRank::kBare, "CUDA error 2 'out of memory'",
     "Marian found no room on the card", "marian, src/common/logging, CUDA_CHECK"},
    {"kaldi", "Kaldi", "5", OomRank::kFailure,
     "Failed to allocate a memory region of {tried} bytes{?}{}Memory info: free:{free}, "
     "used:{used}, total:{total}",
     "", "kaldi, src/cudamatrix/cu-allocator.cc"},
    {"arrayfire", "ArrayFire", "", OomRank::kBare, "Device out of memory:101",
     "ArrayFire found no room on the card", "arrayfire, AF_ERR_NO_MEM is 101"},
    {"darknet", "Darknet", "", OomRank::kBare,
     "check_error: Assertion `0' failed || CUDA Error: out of memory: File exists || CUDA Error: "
     "out of memory: No error || CUDA Error: out of memory: Resource temporarily unavailable || "
     "CUDA Error Prev: out of memory || CUDA status Error: file: {}CUDA Error: out of memory || "
     "Try "
     "to set subdivisions=64 in your cfg-file",
     "Darknet found no room on the card",
     "pjreddie/darknet, src/cuda.c; AlexeyAB/darknet, src/dark_cuda.c, check_error_extended"},
    {"darknet-pinned", "Darknet", "", OomRank::kBare,
     "Can't allocate CUDA-pinned memory on CPU-RAM || Can't pre-allocate CUDA-pinned buffer on "
     "CPU-RAM",
     "Darknet found no pinned RAM", "AlexeyAB/darknet, src/dark_cuda.c, cuda_make_array_pinned", "",
     OomResource::kPinned},
    {"darknet-workspace", "Darknet", "", OomRank::kNumbers,
     "used slow CUDNN algo without Workspace! Need memory: {plan}, available: {free}", "",
     "AlexeyAB/darknet, src/convolutional_layer.c"},
    {"dlib", "dlib", "19 on", OomRank::kBare,
     "Error while calling {} in file {}code: 2, reason: out of memory",
     "dlib found no room on the card", "davisking/dlib, dlib/cuda/cuda_utils.h, CHECK_CUDA"},

    // Arrays in Python, Julia, tables of trees.
    {"cupy", "CuPy", "5 on", OomRank::kFailure,
     "Out of memory allocating {tried} bytes (allocated so far: {allocated} bytes{?}, limit set "
     "to: {allowed} bytes || cupy.cuda.memory.OutOfMemoryError: Out of memory allocating {tried} "
     "bytes",
     "", "cupy/cuda/memory.pyx; cupy/cupy#2537"},
    {"cupy-old", "CuPy", "1 to 4", OomRank::kFailure,
     "out of memory to allocate {tried} bytes{?} (total {allocated} bytes", "",
     "cupy/cuda/memory.pyx; cupy/cupy#1912"},
    {"cupy-class", "CuPy", "", OomRank::kBare, "cupy.cuda.memory.OutOfMemoryError",
     "CuPy found no room on the card", "cupy/cuda/memory.pyx"},
    {"numba", "Numba", "", OomRank::kBare,
     "Call to cuMemAlloc results in || Call to cuMemHostAlloc results in || Call to "
     "cuDevicePrimaryCtxRetain results in CUDA_ERROR_OUT",
     "Numba found no room on the card", "numba/cuda/cudadrv/driver.py"},
    {"pycuda", "PyCUDA", "", OomRank::kBare,
     "cuMemAlloc failed: out of memory || cuMemAllocPitch failed: out of memory || cuMemHostAlloc "
     "failed: out of memory || cuMemAllocManaged failed: out of memory || cuCtxCreate failed: out "
     "of memory || cuModuleLoadDataEx failed: out of memory || cuArrayCreate failed: out of memory",
     "PyCUDA found no room on the card", "pycuda, src/cpp/cuda.hpp, CUDAPP_CALL_GUARDED"},
    {"rmm-pool", "RAPIDS", "", OomRank::kFailure,
     "Maximum pool size exceeded{?} (failed to allocate {tried}", "",
     "rmm/mr/device/pool_memory_resource.hpp, 23 on"},
    {"rmm", "RAPIDS", "", OomRank::kBare,
     "std::bad_alloc: out_of_memory || rmm::out_of_memory || RMM failure at: || bad_alloc: CUDA "
     "error at:",
     "RAPIDS' allocator (RMM) found no room on the card", "rmm/mr/device/cuda_memory_resource.hpp"},
    {"xgboost", "XGBoost", "1 to 3", OomRank::kFailure,
     "Memory allocation error on worker {n}: {} - Free memory: {free} - Requested memory: {tried}",
     "", "xgboost, src/common/device_helpers.cuh, 1 and 2; device_vector.cu, 3: ThrowOOMError"},
    {"lightgbm", "LightGBM", "", OomRank::kBare,
     "[LightGBM] [Fatal] [CUDA] out of memory || opencl_error: Memory Object Allocation Failure",
     "LightGBM found no room on the card", "LightGBM, include/LightGBM/cuda/cuda_utils.hu"},
    {"catboost", "CatBoost", "", OomRank::kFailure,
     "Error: Out of memory. Requested {MB tried}; Free {MB free}", "",
     "catboost/cuda/cuda_lib/memory_pool/stack_like_memory_pool.h"},
    {"cuda-jl", "CUDA.jl", "3 on", OomRank::kFailure,
     "Out of GPU memory trying to allocate {tried}{?} Effective GPU memory usage: {}% "
     "({used}/{total}){?} Memory pool usage: {allocated} ({reserved} reserved)",
     "", "JuliaGPU/CUDA.jl, src/pool.jl"},
    {"cuda-jl", "CUDA.jl", "", OomRank::kBare, "Out of GPU memory",
     "Julia's CUDA.jl found no room on the card", "JuliaGPU/CUDA.jl, src/pool.jl"},
    {"mlx-buffer", "MLX", "", OomRank::kFailure,
     "Attempting to allocate {tried} bytes which is greater than the maximum allowed buffer size "
     "of {allowed} bytes",
     "", "mlx/backend/metal/allocator.cpp",
     "that is the most that one buffer may have: an array is too large, not all together",
     OomResource::kBuffer},
    {"mlx", "MLX", "", OomRank::kFailure,
     "[malloc_or_wait] Unable to allocate {tried} bytes || "
     "[malloc] Unable to allocate {tried} bytes",
     "", "mlx/allocator.cpp"},
    {"mlx-limit", "MLX", "", OomRank::kBare, "[metal::malloc] Resource limit",
     "MLX has as many buffers as Metal allows", "mlx/backend/metal/allocator.cpp"},
    {"tinygrad", "tinygrad", "", OomRank::kFailure,
     "Cannot allocate {tried} bytes: no memory is available || out of memory - requested: {tried}, "
     "available: {free} || Allocation of {tried} failed on {told}. Used: {allocated} || "
     "Allocation of {tried} failed on",
     "", "tinygrad/runtime/ops_amd.py, tinygrad/device.py; tinygrad/tinygrad#11442"},
    {"tinygrad-bare", "tinygrad", "", OomRank::kBare,
     "CUDA Error 2, out of memory || HIP Error 2, out of memory",
     "tinygrad found no room on the card", "tinygrad/runtime/ops_cuda.py"},
    {"candle", "candle", "", OomRank::kBare, "DriverError(CUDA_ERROR_OUT_OF_MEMORY",
     "candle (cudarc) found no room on the card", "huggingface/candle#2046"},
    {"tiny-cuda-nn", "tiny-cuda-nn", "", OomRank::kBare,
     "cudaMalloc(&rawptr, n_bytes+DEBUG_GUARD_SIZE*2) failed",
     "tiny-cuda-nn found no room on the card", "tiny-cuda-nn/gpu_memory.h"},
    {"warp", "NVIDIA Warp", "", OomRank::kFailure,
     "Failed to allocate {tried} bytes on device 'cuda:{gpu}'", "", "warp/context.py"},
    {"taichi", "Taichi", "", OomRank::kBare,
     "CUDA_ERROR_OUT_OF_MEMORY: out of memory while calling", "Taichi found no room on the card",
     "taichi/rhi/cuda/cuda_driver.h"},
    {"kokkos", "Kokkos", "", OomRank::kFailure,
     "Kokkos failed to allocate memory for label \"{node}\".{}Allocation of size {tried} failed",
     "", "kokkos, core/src/impl/Kokkos_Error.cpp"},
    {"nvhpc", "NVIDIA HPC compilers", "", OomRank::kFailure,
     "Out of memory allocating {tried} bytes of device memory{?} total/free CUDA memory: "
     "{total}/{free}",
     "", "nvfortran and nvc, the OpenACC runtime"},
    {"faiss-temporary", "Faiss", "1.7 on", OomRank::kFailure,
     "alloc fail type TemporaryMemory{} dev {gpu} space {} size {tried} bytes || Faiss device "
     "allocator fail type TemporaryMemory{} dev {gpu} space {} size {tried} bytes{?}{}Device free "
     "memory: {free} bytes",
     "", "faiss/gpu/StandardGpuResources.cpp, 1.7; facebookresearch/faiss#2155, #3060",
     "that is scratch space of a search or of an index that is built, not the vectors"},
    {"faiss", "Faiss", "", OomRank::kFailure,
     "alloc fail type {told} dev {gpu} space {} size {tried} bytes || Faiss device allocator fail "
     "type {told} dev {gpu} space {} size {tried} bytes{?}{}Device free memory: {free} bytes || "
     "Failed to cudaMalloc {tried} bytes on device {gpu} (error 2 || failed to cudaMalloc {tried} "
     "bytes (error 2",
     "", "faiss/gpu/StandardGpuResources.cpp, 1.5, 1.7; facebookresearch/faiss#2179, #2020",
     "that is what the index keeps on the card: its vectors, lists or codes"},
    {"dali", "DALI", "", OomRank::kFailure, "Can't allocate {tried} on device {gpu}", "",
     "dali/core/mm, CUDABadAlloc"},
    {"mlc", "MLC-LLM", "", OomRank::kBare,
     "Insufficient GPU memory error: The available single GPU memory is {MB free}, which is less "
     "than the sum of model weight size ({n}MB) and temporary buffer size",
     "weights and temporary buffers are more than the card has free",
     "mlc-ai/mlc-llm, cpp/serve/config.cc"},
    {"isaac", "PhysX and Isaac", "", OomRank::kFailure,
     "PxgCudaDeviceMemoryAllocator fail to allocate memory {tried} bytes", "",
     "PhysX 5, PxgCudaMemoryAllocator.cpp"},
};

}  // namespace

std::span<const OomRow> FrameworkRows() { return kFrameworkRows; }

}  // namespace onnxfit
