#include "estimator/fit/oom_formats.h"

#include <algorithm>
#include <iterator>

namespace onnxfit {
namespace {

constexpr std::string_view kFamilies[] = {
    "PyTorch", "PyTorch on Apple's MPS", "PyTorch on the CPU", "TensorFlow", "Theano",
    "JAX/XLA", "ONNX Runtime",           "TensorRT",           "Jetson",     "CUDA",
};

// Where a source is a repository's file, its path says how the text is made; the others are
// messages that people published.
constexpr OomFormat kFormats[] = {
    {"pytorch-cpu", OomFamily::kHost, "", OomRank::kFailure, "youtriedtoallocate",
     "defaultcpuallocator", "c10/core/impl/alloc_cpu.cpp"},
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
