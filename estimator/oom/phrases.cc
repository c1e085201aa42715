// What numbers of messages mean, and words that stand for types.
#include "estimator/oom/formats.h"

namespace onnxfit {
namespace {

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
    // paddle/fluid/memory/allocation/cuda_allocator.cc: what is allocated is total - free.
    {OomFamily::kPaddle, OomPhrase::Value::kGpu, {}, "outofmemoryerrorongpu", ""},
    {OomFamily::kPaddle, kSize, OomField::kTried, "cannotallocate", ""},
    {OomFamily::kPaddle, kSize, OomField::kUsed, "", "memoryhasbeenallocated"},
    {OomFamily::kPaddle, kSize, OomField::kFree, "availablememoryisonly", ""},
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

std::span<const OomPhrase> OomPhrases() { return kPhrases; }
std::span<const DTypeSpelling> OomDTypes() { return kDTypes; }

}  // namespace onnxfit
