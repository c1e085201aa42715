// What programs that serve or draw with a model say.
#include "estimator/oom/formats.h"

namespace onnxfit {
namespace {

constexpr OomRow kServerRows[] = {
    // CTranslate2 says CUDA's words alone.
    {"ctranslate2", "CTranslate2", "", OomRank::kBare, "CUDA failed with error out of memory",
     "CTranslate2 found no room on the card", "SYSTRAN/faster-whisper#442",
     "weights, beams and audio are more than the card has left"},

    {"ctranslate2-ram", "CTranslate2", "", OomRank::kBare,
     "mkl_malloc: failed to allocate memory || aligned_alloc: failed to allocate memory",
     "CTranslate2 found no RAM", "SYSTRAN/faster-whisper#797, Purfview/whisper-standalone-win#511",
     "that is RAM, which loading a model takes with device=\"cuda\", too", OomResource::kRam},

    // ggml: llama.cpp and what is built on it.
    {"ggml-vulkan", "llama.cpp", "Vulkan", OomRank::kFailure,
     "ggml_vulkan: Device memory allocation of size {tried} failed", "",
     "ggml/src/ggml-vulkan; ggml-org/llama.cpp#15256",
     "the card has no room for this buffer, or Vulkan gives none as large as this"},
    {"ggml-cuda", "llama.cpp", "b2000 on", OomRank::kBare,
     "CUDA error: out of memory current device: {gpu}, in function || ROCm error: out of memory "
     "current device: {gpu}, in function || MUSA error: out of memory current device: {gpu}, in "
     "function || CUDA error: out of memory; device={gpu}; function || ROCm error: out of memory; "
     "device={gpu}; function",
     "llama.cpp found no room on the card while it computed",
     "ggml/src/ggml-cuda/ggml-cuda.cu, ggml_cuda_error, 2024 and 2026; ollama/ollama#738",
     "a buffer of computing, or a pool that grew with the prompt: weights and cache leave too "
     "little"},
    {"ggml-vulkan-pinned", "llama.cpp", "Vulkan", OomRank::kWarning,
     "ggml_vulkan: Failed to allocate pinned memory", "llama.cpp found no pinned RAM",
     "ggml-org/llama.cpp#9271",
     "that is RAM which the card reads from (pinned): it goes on with ordinary RAM",
     OomResource::kPinned},
    {"ggml-vulkan-device", "llama.cpp", "Vulkan", OomRank::kBare,
     "ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory",
     "llama.cpp found no room on the card", "ggml-org/llama.cpp#9271"},
    {"ggml-metal", "llama.cpp", "Metal", OomRank::kFailure,
     "failed to allocate '{node}' buffer, size = {MiB tried} || ggml_metal_buffer_init: error: "
     "failed to allocate buffer, size = {MiB tried} || "
     "ggml_backend_metal_buffer_type_alloc_buffer: "
     "error: failed to allocate buffer, size = {MiB tried}",
     "", "ggml/src/ggml-metal"},
    {"ggml-metal-largest", "llama.cpp", "Metal, 2023", OomRank::kFailure,

     "ggml_metal_add_buffer: buffer '{told}' size {tried} is larger than buffer maximum of "
     "{allowed}",
     "", "ggml-org/llama.cpp#1815", "that is the most that one buffer may have on this Mac",
     OomResource::kBuffer},
    {"ggml-pinned", "llama.cpp", "", OomRank::kWarning,
     "failed to allocate {tried} of pinned memory", "",
     "ggml/src/ggml-cuda/ggml-cuda.cu, ggml_cuda_host_malloc, 2023 on; ollama/ollama#8964",
     "that is RAM which the card reads from (pinned): it goes on with ordinary RAM, and loads "
     "more slowly",
     OomResource::kPinned},
    {"ggml-metal-working-set", "llama.cpp", "Metal", OomRank::kWarning,
     "current allocated size is greater than the recommended max working set size",
     "llama.cpp takes more than macOS recommends for the GPU", "ggml/src/ggml-metal",
     "macOS may end it, or it computes slowly"},
    {"ggml-sycl", "llama.cpp", "SYCL", OomRank::kFailure,
     "can't allocate {tried} bytes of memory on device || can't malloc {tried} Bytes memory on "
     "device",
     "", "ggml/src/ggml-sycl"},
    {"ggml-buffer", "llama.cpp", "", OomRank::kFailure,
     "alloc_tensor_range: failed to allocate {told} buffer of size {tried} || "
     "ggml_gallocr_reserve_n: failed to allocate {told} buffer of size {tried} || "
     "ggml_gallocr_reserve_n_impl: failed to allocate {told} buffer of size {tried}",
     "", "ggml/src/ggml-alloc.c, b3000 on",
     "the device has no room for this buffer: of weights, of the KV cache, or of computing"},
    {"ggml-load", "llama.cpp", "", OomRank::kBare, "unable to allocate {told} buffer",
     "llama.cpp found no room for the weights", "src/llama-model.cpp, b4000"},
    {"ggml-compute", "llama.cpp", "", OomRank::kBare,
     "failed to allocate compute pp buffers || failed to allocate compute buffers || failed to "
     "allocate compute tg buffers || graph_reserve: failed to allocate compute buffers",
     "llama.cpp found no room for the buffers of computing", "src/llama-context.cpp",
     "they grow with the micro-batch (-ub) and the context (-c)"},
    {"ggml-fit", "llama.cpp", "", OomRank::kBare, "failed to fit params to free device memory",
     "llama.cpp found no settings that fit the card's free memory", "src/llama.cpp, --fit"},
    {"ggml-cpu", "llama.cpp", "CPU", OomRank::kFailure,
     "insufficient memory (attempted to allocate {MB tried}", "", "ggml/src/ggml.c",
     "that is RAM, not a card's memory", OomResource::kRam},
    {"ggml-context", "llama.cpp", "CPU", OomRank::kFailure,
     "not enough space in the context's memory pool (needed {plan}, available {free})", "",
     "ggml/src/ggml.c",
     "that is a pool of fixed size within the program: its batch or context is too long for it",
     OomResource::kRam},
    {"ggml-mlock", "llama.cpp", "CPU", OomRank::kWarning,
     "failed to mlock {tried}-byte buffer (after previously locking {n} bytes)", "",
     "src/llama-mmap.cpp", "what may be locked in RAM is limited (ulimit -l): it goes on without",
     OomResource::kRam},
    {"ollama", "Ollama", "0.1.40 on", OomRank::kFailure,
     "model requires more system memory ({plan}) than is available ({free})", "",
     "ollama/ollama#10920, llm/server.go", "that is RAM: what of the model is not on a card",
     OomResource::kRam},
    {"ollama-recover", "Ollama", "0.1.40 on", OomRank::kWarning,
     "gpu VRAM usage didn't recover within timeout",
     "Ollama did not see the memory of the last model come back", "ollama, server/sched.go",
     "others may hold it, or the driver says it late"},
    {"ollama-layout", "Ollama", "0.9 on", OomRank::kBare,
     "memory layout cannot be allocated || model request too large for system || insufficient "
     "VRAM to load any model layers || unable to load full model on GPU",
     "Ollama found no way to lay the model out in memory", "ollama, llm/server.go"},
    {"lm-studio", "LM Studio", "0.3", OomRank::kBare,
     "Model loading was stopped due to insufficient system resources{?}{}requires approximately "
     "{plan}",
     "LM Studio stopped loading the model", "lmstudio-ai/lmstudio-bug-tracker",
     "its guardrail reckons that the machine's memory would not do", OomResource::kRam},

    // Servers of language models.
    {"sglang", "SGLang", "", OomRank::kBare,
     "Not enough memory. Please try to increase --mem-fraction-static || Not enough memory. Please "
     "try increasing --mem-fraction-static",
     "SGLang has no memory left for its KV cache", "sgl-project/sglang#4330, init_memory_pool",
     "what --mem-fraction-static gives weights and cache is less than the weights take"},
    {"sglang-state", "SGLang", "", OomRank::kNumbers, "avail mem={free}{?}, mem usage={allocated}",
     "", "sglang/srt/model_executor/model_runner.py"},
    {"sglang-run", "SGLang", "", OomRank::kBare,
     "Prefill out of memory. Try to lower your batch size || Decode out of memory. Try to lower "
     "your batch size",
     "SGLang's KV cache is full", "sglang/srt/managers/schedule_batch.py"},
    {"sglang-unbalanced", "SGLang", "", OomRank::kBare,
     "The memory capacity is unbalanced. Some GPUs may be occupied by other processes",
     "others hold some of the cards", "sglang/srt/model_executor/model_runner.py"},
    {"sglang-graph", "SGLang", "0.4 on", OomRank::kBare,
     "Capture cuda graph failed: {}out of memory || Capture CUDA graph failed: {}out of memory",
     "SGLang has no memory left for CUDA's graphs",
     "sglang/srt/model_executor/cuda_graph_runner.py",
     "weights and KV cache (--mem-fraction-static) leave too little beside them"},
    {"sglang-retract", "SGLang", "0.4 on", OomRank::kWarning,
     "KV cache pool is full. Retract requests || Decode out of memory happened",
     "SGLang's KV cache is full: requests wait and are computed again",
     "sglang/srt/managers/scheduler.py", "it serves on, slowly: fewer at once, or a larger cache"},
    {"tgi-total", "TGI", "", OomRank::kBare,
     "Not enough memory to handle {told}. You need to decrease `--max-batch-total-tokens || Not "
     "enough memory to handle {told} total tokens || Not enough memory to run with",
     "TGI's KV cache does not fit", "huggingface/text-generation-inference#710"},
    {"tgi", "TGI", "", OomRank::kBare, "Not enough memory to handle {told}. You need to decrease",
     "TGI's warm-up does not fit", "huggingface/text-generation-inference#755, #710",
     "it runs the longest prefill that it may get, and that does not fit beside the weights"},
    {"lmdeploy", "LMDeploy", "", OomRank::kBare,
     "[TM][ERROR] CUDA runtime error: out of memory || [TM][FATAL] out of memory || [TM][ERROR] "
     "CUDA runtime error: CUDA out of memory",
     "LMDeploy's TurboMind found no room on the card", "InternLM/lmdeploy#2236"},
    {"lmdeploy-blocks", "LMDeploy", "", OomRank::kBare,
     "No enough gpu memory for runtime || No enough gpu memory for kv cache || "
     "cache_max_entry_count "
     "is too small",
     "LMDeploy has no memory left for its KV cache", "lmdeploy/pytorch/engine"},
    {"tensorrt-llm", "TensorRT-LLM", "", OomRank::kBare,
     "[TensorRT-LLM][ERROR] CUDA runtime error in {}: out of memory || [TensorRT-LLM][ERROR] CUDA "
     "driver error in {}: out of memory",
     "TensorRT-LLM found no room on the card", "NVIDIA/TensorRT-LLM#401"},
    {"tensorrt-llm-executor", "TensorRT-LLM", "1 on", OomRank::kBare,
     "Executor creation failed due to insufficient GPU memory || No enough free memory to allocate "
     "KV cache || Free memory is not enough to allocate KV cache",
     "TensorRT-LLM's engine and KV cache do not fit", "tensorrt_llm/_torch/pyexecutor"},
    {"triton-server", "Triton Inference Server", "", OomRank::kDisguise,
     "failed to allocate CUDA memory with byte size {tried}{?} on GPU {gpu}: "
     "CNMEM_STATUS_OUT_OF_MEMORY || unable to allocate CUDA memory || "
     "failed to allocate pinned system memory",
     "Triton found no room in its own pools", "triton-inference-server/core",
     "its pools have a fixed size: --cuda-memory-pool-byte-size, --pinned-memory-pool-byte-size"},
    {"exllama", "ExLlama", "", OomRank::kBare,
     "Insufficient VRAM for model and cache || Insufficient VRAM in split for model and cache || "
     "Insufficient space on device || Insufficient VRAM for",
     "weights and cache do not fit on the cards", "turboderp-org/exllamav2#383, exllamav3#50"},
    {"vllm-warmup", "vLLM", "0.6 on", OomRank::kBare,
     "CUDA out of memory occurred when warming up sampler with {told} dummy requests",
     "vLLM's warm-up does not fit", "vllm/v1/worker/gpu_model_runner.py",
     "logits of as many sequences as --max-num-seqs allows do not fit beside the weights"},
    {"vllm-preempted", "vLLM", "0.2 on", OomRank::kWarning,
     "is preempted by {} because there is not enough KV cache space",
     "vLLM's KV cache is full: a request waits and is computed again",
     "vllm/core/scheduler.py, 0.4 to 0.8",
     "it serves on, slowly: fewer at once (--max-num-seqs), or a larger cache"},
    {"vllm-profile", "vLLM", "", OomRank::kDisguise,
     "Error in memory profiling{}Initial free memory {free}",
     "memory of the card was freed or taken while vLLM measured it", "vllm/worker/worker.py",
     "another process came or went on this card: start one server after the other"},

    // Pictures.
    {"sd.cpp", "stable-diffusion.cpp", "", OomRank::kFailure,
     "compute buffer failed: {tried}(VRAM) || compute buffer failed: {tried}(RAM) || alloc params "
     "backend buffer failed",
     "", "leejet/stable-diffusion.cpp, ggml_extend.hpp"},
    {"comfyui", "ComfyUI", "", OomRank::kBare,
     "This error means you ran out of memory on your GPU || Got an OOM, unloading all loaded "
     "models || OutOfMemoryError: Allocation on device || Allocation on device This error || Error "
     "occurred when executing {told}: Allocation on device",
     "ComfyUI found no room on the card", "ComfyUI, execution.py; Comfy-Org/ComfyUI#9733"},
    {"comfyui-tiled", "ComfyUI", "", OomRank::kWarning,
     "Ran out of memory when regular VAE || Warning: Ran out of memory when regular",
     "ComfyUI's VAE did not fit as a whole", "ComfyUI, comfy/sd.py", "it goes on in tiles"},
    {"webui", "Stable Diffusion web UI", "", OomRank::kFailure,
     "Not enough memory, use lower resolution (max approx. {told}). Need: {tried} free, "
     "Have:{free} free",
     "", "AUTOMATIC1111/stable-diffusion-webui#12703, modules/sd_hijack_optimizations.py",
     "attention's scores at this resolution do not fit"},
    {"forge", "Stable Diffusion web UI", "Forge", OomRank::kWarning,
     "[Low GPU VRAM Warning] Your current GPU free memory is {MB free}",
     "Forge has little of the card left", "stable-diffusion-webui-forge, backend",
     "a warning: it goes on, slowly, and a larger GPU Weights setting is why"},
};

}  // namespace

std::span<const OomRow> ServerRows() { return kServerRows; }

}  // namespace onnxfit
