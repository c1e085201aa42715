// What messages mean that their numbers do not say.
#include <algorithm>
#include <iterator>

#include "estimator/oom/formats.h"
#include "estimator/oom/programs.h"

namespace onnxfit {
namespace {

struct PhraseReading {
  std::string_view format;  // its name
  OomReading reading;
};

constexpr std::string_view kOfKiller =
    "the kernel ends a process that way for want of RAM (not of the card's memory) and says so in "
    "its log alone; a time limit, docker stop and kill -9 look the same";
constexpr std::string_view kWithoutNumbers =
    "the numbers are not in this log: nvidia-smi shows the card, and --model FILE --gpu NAME what "
    "a "
    "step takes of it";

// Signs that a process was ended by signal 9, in rows of words.
constexpr std::string_view kKilled = "sigkill|ray-sigkill|gunicorn";

constexpr PhraseReading kReadings[] = {
    {"pytorch-async-bare",
     {true, "PyTorch ran out of memory, without numbers",
      "CUDA's own allocator (cudaMallocAsync) found no room: the numbers are in the lines below "
      "it"}},
    {"vllm-start",
     {true, "", "vLLM takes its share of the card at once: so much has to be free", "", ""}},
    {"vllm-request",
     {true, "", "the KV cache does not hold one sequence of this length", " of KV cache asked",
      "left for it"}},
    {"vllm-length",
     {true, "vLLM's KV cache does not hold one sequence",
      "what weights and activations leave of vLLM's share is too little for this length"}},
    {"vllm-blocks",
     {true, "vLLM has no memory left for its KV cache",
      "weights and activations take all of its share of the card (gpu_memory_utilization)"}},
    {"llamacpp-cuda",
     {true, "",
      "the card has no room for this buffer: of weights, of the KV cache, or of computing"}},
    {"llamacpp-buffer",
     {true, "",
      "the card has no room for this buffer: of weights, of the KV cache, or of computing"}},
    {"llamacpp-load",
     {true, "llama.cpp found no room on the card for the weights",
      "what of the weights goes to the card is the number of layers (-ngl)"}},
    {"llamacpp-kv",
     {true, "llama.cpp found no room for the KV cache",
      "it grows with the context (-c): by default all that the model was trained for"}},
    {"kernel-oom",
     {true, "the kernel ended a process, for want of RAM",
      "the RAM of the machine, or of its container or job, is full: not the card's memory"}},
    {"kernel-cgroup-oom",
     {true, "the kernel ended a process of a container or job, which took more RAM than it may",
      "that is a limit (of a cgroup), not all of the machine's RAM, nor the card's memory", "", "",
      OomResource::kLimit}},
    {"xpu-block", {true, "", "", "", "", OomResource::kBuffer}},
    {"slurm-oom",
     {true, "slurm ended a process: the job took more RAM than it may",
      "that is RAM of the machine (--mem), not the card's memory", "", "", OomResource::kLimit}},
    {"kubernetes-oom",
     {true, "the container took more RAM than it may, and was ended",
      "that is RAM of the machine, not the card's memory", "", "", OomResource::kLimit}},
    {"colab-ram",
     {true, "Colab's RAM is full", "that is RAM of the machine, not the card's memory", "", "",
      OomResource::kLimit}},
    {"dataloader-shm",
     {true, "a DataLoader worker died of a bus error: most often shared memory is full",
      "workers hand their batches over in /dev/shm, of which a container has 64 MiB unless told",
      "", "", OomResource::kSharedMemory}},
    {"dataloader-killed",
     {true, "a DataLoader worker was killed: most often the machine's RAM is full", kOfKiller}},
    {"dataloader-exited",
     {false, "a DataLoader worker ended: of an error of its own, or for want of RAM",
      "with num_workers=0 an error of its own is shown; the kernel's log tells of RAM"}},
    {"exit-137",
     {true, "a process was killed (signal 9): most often the machine's RAM is full",
      "137 is 128 + 9: the kernel sends signal 9 for want of RAM (not of the card's memory) and "
      "says "
      "so in its log alone; a time limit, docker stop and kill -9 look the same"}},
    {"killed", {true, "a process was killed: most often the machine's RAM is full", kOfKiller}},
    {"pytorch-bare", {true, "PyTorch found no room on the card", kWithoutNumbers}},
    {"pytorch-class", {true, "PyTorch found no room on the card", kWithoutNumbers}},
    {"pytorch-0.1",
     {true, "PyTorch found no room on the card", "versions before 0.4.1 print no numbers"}},
    {"tensorflow-eager", {true, "TensorFlow found no room on the card", kWithoutNumbers}},
    {"theano-gpuarray", {true, "Theano found no room on the card", kWithoutNumbers}},
    {"onnxruntime-cuda",
     {true, "ONNX Runtime found no room on the card", "CUDA's words alone, which have no numbers"}},
    {"llamacpp-cpu", {true, "", "the machine's RAM is full, not a card"}},
    {"numpy", {true, "", "the machine's RAM is full, not a card"}},
    {"pytorch-cpu", {true, "", "the machine's RAM is full, not a card"}},
    {"tegrastats",
     {false, "no failure, but a Jetson's state",
      "CPU and GPU share this memory: what is free is all that either can still have"}},
    {"nccl",
     {true, "NCCL found no memory for its buffers",
      "they are beside PyTorch's memory: what PyTorch has cached is not there for them"}},
    {"cuda-driver",
     {true, "CUDA found no room on the card",
      "the program prints CUDA's words alone: neither how much it asked for nor what is free"}},
    {"cuda-runtime",
     {true, "CUDA found no room on the card",
      "the program prints CUDA's words alone: neither how much it asked for nor what is free"}},
    {"cuda-malloc",
     {true, "cudaMalloc found no room on the card",
      "the program prints CUDA's words alone: neither how much it asked for nor what is free"}},
    {"cuda",
     {true, "CUDA found no room on the card",
      "a call beside PyTorch's allocator failed, often the first one: then others hold the card"}},
    {"hip",
     {true, "ROCm found no room on the card",
      "a call beside PyTorch's allocator failed, often the first one: then others hold the card"}},
};

}  // namespace

OomReading ReadingOf(const OomFormat& format) {
  if (format.pattern != nullptr) {
    const bool is_full = format.rank == OomRank::kFailure || format.rank == OomRank::kBare ||
                         IsListed(kKilled, format.name);
    return {is_full, format.headline, format.meaning, "", "", format.resource};
  }
  if (format.rank == OomRank::kLoose) {
    return {true, "",
            "words of a program that is not known here: its manual says what it keeps in memory"};
  }
  const auto* found = std::ranges::find(kReadings, format.name, &PhraseReading::format);
  return found == std::end(kReadings) ? OomReading() : found->reading;
}

}  // namespace onnxfit
