#include "estimator/fit/oom_formats.h"

#include <algorithm>
#include <iterator>

namespace onnxfit {
namespace {

constexpr std::string_view kFamilies[] = {
    "PyTorch",
    "PyTorch on Apple's MPS",
    "PyTorch on the CPU",
    "TensorFlow",
    "Theano",
    "JAX/XLA",
    "ONNX Runtime",
    "TensorRT",
    "Jetson",
    "CUDA",
    "PyTorch with cudaMallocAsync",
    "vLLM",
    "llama.cpp",
    "the machine's RAM",
};

// Where a source is a repository's file, its path says how the text is made; the others are
// messages that people published.
constexpr OomFormat kFormats[] = {
    {"pytorch-cpu", OomFamily::kHost, "", OomRank::kFailure, "youtriedtoallocate",
     "defaultcpuallocator", "c10/core/impl/alloc_cpu.cpp"},
    {"pytorch-async", OomFamily::kTorchAsync, "", OomRank::kFailure, "allocationondevice",
     "wouldexceedallowedmemory", "c10/cuda/CUDAMallocAsyncAllocator.cpp, 2.0 on"},
    {"pytorch-async-bare", OomFamily::kTorchAsync, "", OomRank::kBare, "wouldexceedallowedmemory",
     "", "ComfyUI, which quotes its first line"},
    {"vllm-start", OomFamily::kVllm, "0.9 on", OomRank::kFailure, "freememoryondevice",
     "islessthandesiredgpumemoryutilization", "vllm/v1/worker/gpu_worker.py, 0.9, 0.11"},
    {"vllm-request", OomFamily::kVllm, "0.8 on", OomRank::kFailure,
     "toserveatleastonerequestwiththemodel", "kvcacheisneeded",
     "vllm/v1/core/kv_cache_utils.py, 0.9, 0.11"},
    {"vllm-length", OomFamily::kVllm, "0.2 to 0.8", OomRank::kBare,
     "islargerthanthemaximumnumberoftokensthatcanbestoredinkvcache", "",
     "vllm/worker/worker.py, 0.6"},
    {"vllm-blocks", OomFamily::kVllm, "", OomRank::kBare, "noavailablememoryforthecacheblocks", "",
     "vllm/worker/worker.py, 0.6; vllm/v1/core/kv_cache_utils.py, 0.9"},
    {"llamacpp-cuda", OomFamily::kLlamaCpp, "", OomRank::kFailure, "alloc_buffer:allocating",
     "cudamallocfailed:outofmemory", "ggml/src/ggml-cuda/ggml-cuda.cu, b4000"},
    {"llamacpp-cpu", OomFamily::kRam, "", OomRank::kFailure, "failedtoallocatecpubufferofsize", "",
     "ggml/src/ggml-alloc.c, alloc_tensor_range, b5000"},
    {"llamacpp-buffer", OomFamily::kLlamaCpp, "", OomRank::kFailure, "failedtoallocatecuda",
     "bufferofsize", "ggml/src/ggml-alloc.c, ggml_gallocr_reserve_n, b5000"},
    {"llamacpp-buffer", OomFamily::kLlamaCpp, "", OomRank::kFailure, "failedtoallocaterocm",
     "bufferofsize", "ggml/src/ggml-alloc.c"},
    {"llamacpp-buffer", OomFamily::kLlamaCpp, "", OomRank::kFailure, "failedtoallocatevulkan",
     "bufferofsize", "ggml/src/ggml-alloc.c"},
    {"llamacpp-load", OomFamily::kLlamaCpp, "", OomRank::kBare, "unabletoallocatecuda", "buffer",
     "src/llama-model.cpp, b4000"},
    {"llamacpp-kv", OomFamily::kLlamaCpp, "", OomRank::kBare, "failedtoallocatebufferforkvcache",
     "", "src/llama-kv-cache.cpp, b4000"},
    {"numpy", OomFamily::kRam, "1.17 on", OomRank::kFailure, "unabletoallocate",
     "foranarraywithshape", "numpy/core/_exceptions.py, _ArrayMemoryError"},
    {"kernel-oom", OomFamily::kRam, "", OomRank::kBare, "outofmemory:killedprocess", "",
     "Linux 5.2 on, mm/oom_kill.c; also \"Memory cgroup out of memory\""},
    {"kernel-oom", OomFamily::kRam, "", OomRank::kBare, "outofmemory:killprocess", "",
     "Linux before 5.2, mm/oom_kill.c"},
    {"slurm-oom", OomFamily::kRam, "", OomRank::kBare, "oom-killevent", "",
     "slurmstepd, 18 to 22, src/plugins/task/cgroup"},
    {"slurm-oom", OomFamily::kRam, "", OomRank::kBare, "oom_killevent", "", "slurmstepd, 23 on"},
    {"slurm-oom", OomFamily::kRam, "", OomRank::kBare, "memorylimitatsomepoint", "",
     "slurmstepd before 18: \"Exceeded step memory limit at some point\""},
    {"kubernetes-oom", OomFamily::kRam, "", OomRank::kBare, "reason:oomkilled", "",
     "kubectl describe pod"},
    {"kubernetes-oom", OomFamily::kRam, "", OomRank::kBare, "\"oomkilled\":true", "",
     "docker inspect"},
    {"colab-ram", OomFamily::kRam, "", OomRank::kBare, "crashedafterusingallavailableram", "",
     "Google Colab's dialogue"},
    {"dataloader-shm", OomFamily::kRam, "", OomRank::kSign, "iskilledbysignal:buserror", "",
     "torch/csrc/DataLoader.cpp"},
    {"dataloader-killed", OomFamily::kRam, "", OomRank::kSign, "iskilledbysignal:killed", "",
     "torch/csrc/DataLoader.cpp"},
    {"dataloader-exited", OomFamily::kRam, "", OomRank::kSign, "exitedunexpectedly", "",
     "torch/utils/data/dataloader.py: \"DataLoader worker (pid(s) 7) exited unexpectedly\""},
    {"exit-137", OomFamily::kRam, "", OomRank::kSign, "exitcode137", "", "docker, CI services"},
    {"exit-137", OomFamily::kRam, "", OomRank::kSign, "exitedwithcode137", "", "docker compose"},
    {"exit-137", OomFamily::kRam, "", OomRank::kSign, "exitstatus137", "", "make, Go"},
    {"exit-137", OomFamily::kRam, "", OomRank::kSign, "exitcode:137", "", "docker, kubectl"},
    {"exit-137", OomFamily::kRam, "", OomRank::kSign, "signal9(sigkill)received", "",
     "torch/distributed/elastic/agent"},
    {"killed", OomFamily::kRam, "", OomRank::kSign, "killed", "", "bash, as a line of its own"},
    {"tegrastats", OomFamily::kJetson, "", OomRank::kState, "(lfb", "",
     "docs.nvidia.com/jetson, Tegrastats Utility, r32 to r36"},
    {"mps", OomFamily::kMps, "", OomRank::kFailure, "mpsbackendoutofmemory", "",
     "aten/src/ATen/mps/MPSAllocator.mm"},
    {"xpu", OomFamily::kPyTorch, "", OomRank::kFailure, "triedtoallocate", "xpuoutofmemory",
     "c10/xpu/XPUCachingAllocator.cpp"},
    {"pytorch-2.9", OomFamily::kPyTorch, "2.9 on", OomRank::kFailure, "triedtoallocate",
     "pytorch_alloc_conf", "c10/cuda/CUDACachingAllocator.cpp"},
    {"pytorch-2.2", OomFamily::kPyTorch, "2.2 to 2.8", OomRank::kFailure, "triedtoallocate",
     "pytorch_cuda_alloc_conf=expandable_segments", "c10/cuda/CUDACachingAllocator.cpp, 2.4, 2.6"},
    {"pytorch-2.1", OomFamily::kPyTorch, "2.1", OomRank::kFailure, "triedtoallocate",
     "hasatotalcapactyof", "light-and-ray/sd-webui-replacer#74"},
    {"pytorch-2", OomFamily::kPyTorch, "2.2 on", OomRank::kFailure, "triedtoallocate",
     "hasatotalcapacityof", "c10/cuda/CUDACachingAllocator.cpp, the hint cut off"},
    {"pytorch-1.10", OomFamily::kPyTorch, "1.10 to 2.0", OomRank::kFailure, "triedtoallocate",
     "trysettingmax_split_size_mb", "c10/cuda/CUDACachingAllocator.cpp"},
    {"pytorch-1.4", OomFamily::kPyTorch, "1.4 to 1.9", OomRank::kFailure, "triedtoallocate",
     "reservedintotal", "c10/cuda/CUDACachingAllocator.cpp"},
    {"pytorch-0.4.1", OomFamily::kPyTorch, "0.4.1 to 1.3", OomRank::kFailure, "triedtoallocate",
     "cached)", "pytorch/pytorch#29198"},
    {"tensorflow-op", OomFamily::kTensorFlow, "1 and 2", OomRank::kFailure,
     "oomwhenallocatingtensor", "", "tensorflow/core/framework/op_kernel.cc"},
    {"tensorflow-warning", OomFamily::kTensorFlow, "1 and 2", OomRank::kWarning,
     "ranoutofmemorytryingtoallocate", "notafailure",
     "tensorflow/core/common_runtime/bfc_allocator.cc"},
    {"tensorflow-allocator", OomFamily::kTensorFlow, "1 and 2", OomRank::kFailure,
     "ranoutofmemorytryingtoallocate", "", "tensorflow/core/common_runtime/bfc_allocator.cc"},
    {"tensorflow-stats", OomFamily::kTensorFlow, "1 and 2", OomRank::kNumbers, "stats:limit:", "",
     "tensorflow/core/framework/allocator.cc"},
    {"tensorflow-eager", OomFamily::kTensorFlow, "2", OomRank::kBare,
     "failedtoallocatememory[op:", "", "Keras, eager"},
    {"theano", OomFamily::kTheano, "", OomRank::kFailure, "errorallocating", "ofdevicememory",
     "Theano/Theano#3748"},
    {"theano-gpuarray", OomFamily::kTheano, "", OomRank::kBare, "gpudata_alloc:cumemalloc", "",
     "libgpuarray"},
    {"xla", OomFamily::kXla, "", OomRank::kFailure, "outofmemorywhiletryingtoallocate", "",
     "jax-ml/jax#13428"},
    {"xla-allocator", OomFamily::kXla, "", OomRank::kFailure, "failedtoallocaterequestfor", "",
     "xla/stream_executor/integrations/tf_allocator_adapter.h"},
    {"onnxruntime", OomFamily::kOnnxRuntime, "", OomRank::kFailure, "requestedbufferofsize", "",
     "onnxruntime/core/framework/bfc_arena.cc, microsoft/onnxruntime#20038"},
    {"onnxruntime-limit", OomFamily::kOnnxRuntime, "", OomRank::kFailure, "availablememoryof",
     "issmallerthanrequestedbytesof", "onnxruntime/core/framework/bfc_arena.cc"},
    {"onnxruntime-cuda", OomFamily::kOnnxRuntime, "", OomRank::kBare, "cudafailure2:outofmemory",
     "", "onnxruntime/core/providers/cuda/cuda_call.cc"},
    {"tensorrt", OomFamily::kTensorRt, "7 on", OomRank::kFailure, "requestedamountofgpumemory(", "",
     "a published log of TensorRT 8"},
    {"tensorrt-7", OomFamily::kTensorRt, "7", OomRank::kFailure, "requestedamountofmemory(", "",
     "NVIDIA-AI-IOT/torch2trt#661"},
    {"jetson-nvml", OomFamily::kJetson, "", OomRank::kDisguise, "nvml_success==rinternalassert", "",
     "pytorch/pytorch#185240; also on slices of a card (MIG)"},
    {"jetson-nvmap", OomFamily::kJetson, "", OomRank::kDisguise, "nvmapmemallocinternaltagged", "",
     "pytorch/pytorch#185240"},
    // Cut off in the middle: too little is left to say which version it was.
    {"pytorch-old", OomFamily::kPyTorch, "0.4.1 to 2.0", OomRank::kFailure, "triedtoallocate",
     "totalcapacity", "c10/cuda/CUDACachingAllocator.cpp, cut off"},
    {"pytorch-cut", OomFamily::kPyTorch, "", OomRank::kFailure, "outofmemory.triedtoallocate", "",
     "c10/cuda/CUDACachingAllocator.cpp, cut off"},
    {"pytorch-0.1", OomFamily::kPyTorch, "0.1 to 0.4.0", OomRank::kBare,
     "cudaruntimeerror(2):outofmemory", "", "THC/generic/THCStorage.cu"},
    {"pytorch-bare", OomFamily::kPyTorch, "", OomRank::kBare, "cudaoutofmemory", "",
     "PyTorch, without its numbers"},
    {"pytorch-bare", OomFamily::kPyTorch, "", OomRank::kBare, "hipoutofmemory", "",
     "PyTorch for ROCm, without its numbers"},
    {"pytorch-class", OomFamily::kPyTorch, "1.13 on", OomRank::kBare, "torch.outofmemoryerror", "",
     "torch/csrc/Exceptions.cpp"},
    {"pytorch-class", OomFamily::kPyTorch, "1.13 to 2.4", OomRank::kBare,
     "torch.cuda.outofmemoryerror", "", "torch/csrc/Exceptions.cpp"},
    {"cuda", OomFamily::kCuda, "", OomRank::kBare, "cudaerror:outofmemory", "",
     "c10/cuda/CUDAException.cpp"},
    {"cuda-malloc", OomFamily::kCuda, "", OomRank::kBare, "cudamallocfailed:outofmemory", "",
     "ggml, and others that print cudaGetErrorString"},
    {"cuda-driver", OomFamily::kCuda, "", OomRank::kBare, "cuda_error_out_of_memory", "",
     "CUDA driver API, error 2"},
    {"cuda-runtime", OomFamily::kCuda, "", OomRank::kBare, "cudaerrormemoryallocation", "",
     "CUDA runtime API, error 2"},
    {"cublas-alloc", OomFamily::kCuda, "", OomRank::kDisguise, "cublas_status_alloc_failed", "",
     "karpathy/llama2.c#279"},
    {"cublas-init", OomFamily::kCuda, "", OomRank::kDisguise, "cublas_status_not_initialized", "",
     "haotian-liu/LLaVA#392; EleutherAI/lm-evaluation-harness#1689, an index out of range"},
    {"cudnn-alloc", OomFamily::kCuda, "", OomRank::kDisguise, "cudnn_status_alloc_failed", "",
     "tensorflow/tensorflow#9489"},
    {"cudnn-init", OomFamily::kCuda, "", OomRank::kDisguise, "cudnn_status_not_initialized", "",
     "IBM/aihwkit#479"},
    {"cudnn-internal", OomFamily::kCuda, "", OomRank::kDisguise, "cudnn_status_internal_error", "",
     "tensorflow/tensorflow#9489"},
};

constexpr auto kSize = OomPhrase::Value::kSize;
constexpr auto kNothing = OomPhrase::Value::kNothing;

constexpr OomPhrase kPhrases[] = {
    // PyTorch, c10/cuda/CUDACachingAllocator.cpp: all versions.
    {OomFamily::kPyTorch, kSize, OomField::kTried, "triedtoallocate", ""},
    {OomFamily::kPyTorch, OomPhrase::Value::kGpu, {}, "(gpu", ""},
    {OomFamily::kPyTorch, OomPhrase::Value::kGpu, {}, "(npu", ""},
    {OomFamily::kPyTorch, OomPhrase::Value::kGpu, {}, ".gpu", ""},
    {OomFamily::kPyTorch, kSize, OomField::kTotal, "", "totalcapacity"},
    {OomFamily::kPyTorch, kSize, OomField::kTotal, "totalcapacityof", ""},
    {OomFamily::kPyTorch, kSize, OomField::kTotal, "totalcapactyof", ""},
    {OomFamily::kPyTorch, kSize, OomField::kAllocated, "", "alreadyallocated"},
    {OomFamily::kPyTorch, kSize, OomField::kAllocated, "allocatedmemory", "isallocatedbypytorch"},
    {OomFamily::kPyTorch, kSize, OomField::kPrivatePools, "with", "allocatedinprivatepools"},
    {OomFamily::kPyTorch, kNothing, {}, "", "currentactive"},
    {OomFamily::kPyTorch, kSize, OomField::kFree, "", "free"},
    {OomFamily::kPyTorch, kSize, OomField::kFree, "ofwhich", "isfree"},
    {OomFamily::kPyTorch, kSize, OomField::kAllowed, "", "allowed"},
    {OomFamily::kPyTorch, kSize, OomField::kReserved, "", "reservedintotalbypytorch"},
    {OomFamily::kPyTorch, kSize, OomField::kCached, "", "cached"},
    {OomFamily::kPyTorch, kSize, OomField::kCached, "and", "isreservedbypytorchbutunallocated"},
    {OomFamily::kPyTorch, kSize, OomField::kProcess, "thisprocesshas", "memoryinuse"},
    {OomFamily::kPyTorch, OomPhrase::Value::kPid, {}, "process", "has"},
    {OomFamily::kPyTorch, OomPhrase::Value::kListed, {}, "has", "memoryinuse"},
    // aten/src/ATen/mps/MPSAllocator.mm.
    {OomFamily::kMps, kSize, OomField::kAllocated, "mpsallocated:", ""},
    {OomFamily::kMps, kSize, OomField::kOther, "otherallocations:", ""},
    {OomFamily::kMps, kSize, OomField::kAllowed, "maxallowed:", ""},
    {OomFamily::kMps, kSize, OomField::kTried, "triedtoallocate", ""},
    // c10/core/impl/alloc_cpu.cpp.
    {OomFamily::kHost, kSize, OomField::kTried, "youtriedtoallocate", ""},
    // tensorflow/core/common_runtime/bfc_allocator.cc, allocator_stats.cc.
    {OomFamily::kTensorFlow, kSize, OomField::kTried, "tryingtoallocate", ""},
    {OomFamily::kTensorFlow, kNothing, {}, "maxinuse:", ""},
    {OomFamily::kTensorFlow, kSize, OomField::kAllowed, "stats:limit:", ""},
    {OomFamily::kTensorFlow, kSize, OomField::kAllocated, "inuse:", ""},
    // theano/sandbox/cuda/cuda_ndarray.cu.
    {OomFamily::kTheano, kSize, OomField::kTried, "errorallocating", ""},
    {OomFamily::kTheano, kSize, OomField::kFree, "driverreport", ""},
    {OomFamily::kTheano, kSize, OomField::kTotal, "freeand", ""},
    // xla/service/buffer_assignment.cc; the rounded size of the allocator is told exactly, too.
    {OomFamily::kXla, kSize, OomField::kTried, "(", ")ondeviceordinal"},
    {OomFamily::kXla, kNothing, {}, "failedtoallocaterequestfor", ""},
    {OomFamily::kXla, kSize, OomField::kTried, "whiletryingtoallocate", ""},
    {OomFamily::kXla, kSize, OomField::kParameters, "parameterallocation:", ""},
    {OomFamily::kXla, kSize, OomField::kTemporaries, "tempallocation:", ""},
    {OomFamily::kXla, kSize, OomField::kPlan, "totalallocation:", ""},
    // onnxruntime/core/framework/bfc_arena.cc.
    {OomFamily::kOnnxRuntime, kSize, OomField::kTried, "requestedbufferofsize", ""},
    {OomFamily::kOnnxRuntime, kSize, OomField::kFree, "availablememoryof", "issmallerthan"},
    {OomFamily::kOnnxRuntime, kSize, OomField::kTried, "thanrequestedbytesof", ""},
    {OomFamily::kTensorRt, kSize, OomField::kTried, "memory(", ""},
    // c10/cuda/CUDAMallocAsyncAllocator.cpp.
    {OomFamily::kTorchAsync, OomPhrase::Value::kGpu, {}, "allocationondevice", ""},
    {OomFamily::kTorchAsync, kSize, OomField::kAllocated, "currentlyallocated:", ""},
    {OomFamily::kTorchAsync, kSize, OomField::kTried, "requested:", ""},
    {OomFamily::kTorchAsync, kSize, OomField::kTotal, "devicelimit:", ""},
    {OomFamily::kTorchAsync, kSize, OomField::kFree, "free(accordingtocuda):", ""},
    {OomFamily::kTorchAsync, kSize, OomField::kAllowed,
     "pytorchlimit(setbyuser-suppliedmemoryfraction):", ""},
    {OomFamily::kVllm, kSize, OomField::kTried, "", "kvcacheisneeded"},
    {OomFamily::kVllm, kSize, OomField::kFree, "theavailablekvcachememory(", ""},
    // ggml-cuda.cu, ggml-alloc.c.
    {OomFamily::kLlamaCpp, kSize, OomField::kTried, "alloc_buffer:allocating", ""},
    {OomFamily::kLlamaCpp, OomPhrase::Value::kGpu, {}, "mibondevice", ""},
    {OomFamily::kLlamaCpp, OomPhrase::Value::kGpu, {}, "failedtoallocatecuda", "buffer"},
    {OomFamily::kLlamaCpp, OomPhrase::Value::kGpu, {}, "failedtoallocaterocm", "buffer"},
    {OomFamily::kLlamaCpp, OomPhrase::Value::kGpu, {}, "failedtoallocatevulkan", "buffer"},
    {OomFamily::kLlamaCpp, kSize, OomField::kTried, "bufferofsize", ""},
    {OomFamily::kRam, kSize, OomField::kTried, "bufferofsize", ""},
    {OomFamily::kRam, kSize, OomField::kTried, "unabletoallocate", "foranarray"},
    {OomFamily::kRam, kSize, OomField::kAllocated, "anon-rss:", ""},
};

constexpr OomReading kReadings[] = {
    {"pytorch-async-bare", true, "PyTorch ran out of memory, without numbers",
     "CUDA's own allocator (cudaMallocAsync) found no room: the numbers are in the lines below it"},
    {"vllm-start", true, "", "vLLM takes its share of the card at once: so much has to be free", "",
     ""},
    {"vllm-request", true, "", "the KV cache does not hold one sequence of this length",
     " of KV cache asked", "left for it"},
    {"vllm-length", true, "vLLM's KV cache does not hold one sequence",
     "what weights and activations leave of vLLM's share is too little for this length"},
    {"vllm-blocks", true, "vLLM has no memory left for its KV cache",
     "weights and activations take all of its share of the card (gpu_memory_utilization)"},
    {"llamacpp-cuda", true, "",
     "the card has no room for this buffer: of weights, of the KV cache, or of computing"},
    {"llamacpp-buffer", true, "",
     "the card has no room for this buffer: of weights, of the KV cache, or of computing"},
    {"llamacpp-load", true, "llama.cpp found no room on the card for the weights",
     "what of the weights goes to the card is the number of layers (-ngl)"},
    {"llamacpp-kv", true, "llama.cpp found no room for the KV cache",
     "it grows with the context (-c): by default all that the model was trained for"},
    {"kernel-oom", true, "the kernel ended a process, for want of RAM",
     "the RAM of the machine, or of its container or job, is full: not the card's memory"},
    {"slurm-oom", true, "slurm ended a process: the job took more RAM than it may",
     "that is RAM of the machine (--mem), not the card's memory"},
    {"kubernetes-oom", true, "the container took more RAM than it may, and was ended",
     "that is RAM of the machine, not the card's memory"},
    {"colab-ram", true, "Colab's RAM is full",
     "that is RAM of the machine, not the card's memory: a smaller batch on the GPU frees none"},
    {"dataloader-shm", false,
     "a DataLoader worker died of a bus error: most often shared memory is full",
     "workers hand their batches over in /dev/shm, of which a container has 64 MiB unless told"},
    {"dataloader-killed", false,
     "a DataLoader worker was killed: most often the machine's RAM is full",
     "the system ends a process that way for want of RAM, not for the card's memory"},
    {"dataloader-exited", false,
     "a DataLoader worker ended: of an error of its own, or for want of RAM",
     "with num_workers=0 an error of its own is shown; the kernel's log tells of RAM"},
    {"exit-137", false, "a process was killed (signal 9): most often the machine's RAM is full",
     "137 is 128 + 9, SIGKILL: what the system sends for want of RAM, not for the card's memory"},
    {"killed", false, "a process was killed: most often the machine's RAM is full",
     "the system ends a process that way for want of RAM, not for the card's memory"},
    {"llamacpp-cpu", true, "", "the machine's RAM is full, not a card"},
    {"numpy", true, "", "the machine's RAM is full, not a card"},
    {"pytorch-cpu", true, "", "the machine's RAM is full, not a card"},
    {"tegrastats", false, "no failure, but a Jetson's state",
     "CPU and GPU share this memory: what is free is all that either can still have"},
    {"cuda", false, "CUDA ran out of memory, without numbers",
     "a call beside PyTorch's allocator failed, often the first one: then others hold the card"},
};

// tensorflow/core/framework/types.cc; XLA's in xla/primitive_util.cc.
constexpr DTypeSpelling kDTypes[] = {
    {"float", DType::kFloat32},  {"half", DType::kFloat16}, {"bfloat16", DType::kBFloat16},
    {"double", DType::kFloat64}, {"int64", DType::kInt64},  {"int32", DType::kInt32},
    {"uint8", DType::kUint8},    {"int8", DType::kInt8},    {"bool", DType::kBool},
    {"f32", DType::kFloat32},    {"f16", DType::kFloat16},  {"bf16", DType::kBFloat16},
    {"f64", DType::kFloat64},    {"s64", DType::kInt64},    {"s32", DType::kInt32},
    {"u8", DType::kUint8},       {"s8", DType::kInt8},      {"pred", DType::kBool},
};

}  // namespace

std::string_view ToString(OomFamily family) { return kFamilies[static_cast<size_t>(family)]; }

const OomReading* ReadingOf(const OomFormat& format) {
  const auto found = std::find_if(std::begin(kReadings), std::end(kReadings),
                                  [&](const OomReading& r) { return r.format == format.name; });
  return found == std::end(kReadings) ? nullptr : found;
}

bool IsHostMemory(OomFamily family) {
  return family == OomFamily::kHost || family == OomFamily::kRam;
}

std::span<const OomFormat> OomFormats() { return kFormats; }
std::span<const OomPhrase> OomPhrases() { return kPhrases; }
std::span<const DTypeSpelling> OomDTypes() { return kDTypes; }

std::vector<std::string_view> OomHeads() {
  std::vector<std::string_view> heads;
  for (const OomFormat& format : kFormats) {
    if (std::find(heads.begin(), heads.end(), format.head) == heads.end()) {
      heads.push_back(format.head);
    }
  }
  return heads;
}

}  // namespace onnxfit
