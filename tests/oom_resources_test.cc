// What ran out where it is not all of a card's memory or RAM, and what is told first of it.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "estimator/oom/explanation.h"
#include "estimator/oom/formats.h"
#include "estimator/oom/log.h"
#include "estimator/oom/programs.h"

namespace onnxfit::oom_resources_test {
namespace {

OomExplanation Explained(const std::string& log) {
  const OomLog read = ReadOomLog(log);
  REQUIRE(read.processes.size() == 1);
  return ExplainOom(read.processes[0]);
}

// "yes the tensor in parts", as the first one is.
std::string FirstHelp(const OomExplanation& e) {
  REQUIRE(!e.remedies.empty());
  return std::string(ToString(e.remedies[0].help)) + " " + e.remedies[0].what;
}

bool Advises(const OomExplanation& e, const std::string& words) {
  return std::ranges::any_of(e.remedies, [&](const OomRemedy& remedy) {
    return (remedy.what + ": " + remedy.why).find(words) != std::string::npos;
  });
}

constexpr char kXpuBlock[] =
    "RuntimeError: Current platform can NOT allocate memory block with size larger than 4GB! Tried "
    "to allocate 5.96 GiB (GPU  0; 15.56 GiB total capacity; 0 bytes already allocated; 0 bytes "
    "reserved in total by PyTorch)\n";
constexpr char kXpuLarge[] =
    "XPU out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 15.11 GiB. Of "
    "the allocated memory 512.00 MiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch "
    "but unallocated.\n";
constexpr char kXpuFull[] =
    "XPU out of memory. Tried to allocate 4.50 GiB. GPU 0 has a total capacity of 15.11 GiB. Of "
    "the allocated memory 12.50 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch "
    "but unallocated.\n";
constexpr char kManyMappings[] =
    "RuntimeError: unable to mmap 8192 bytes from file </torch_2231_1906775511_64012>: Cannot "
    "allocate memory (12)\n";
constexpr char kLargeMapping[] =
    "RuntimeError: unable to mmap 134217728 bytes from file </torch_88_3197543210_12>: Cannot "
    "allocate memory (12)\n";
constexpr char kFileMapping[] =
    "RuntimeError: unable to mmap 13851234304 bytes from file <models/unet.safetensors>: Cannot "
    "allocate memory (12)\n";
constexpr char kBusError[] =
    "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient "
    "shared memory (shm).\n";

TEST_CASE("what ran out, and what is advised first") {
  struct Row {
    const char* log;
    const char* ran_out;
    const char* first;
  };
  const Row rows[] = {
      {kXpuBlock, "one_allocation", "yes UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1"},
      {kXpuLarge, "one_allocation", "yes UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1"},
      {kXpuFull, "card", "yes a smaller batch"},
      {kManyMappings, "mappings",
       "yes a higher vm.max_map_count (sysctl -w vm.max_map_count=262144)"},
      {kLargeMapping, "card", "yes more RAM"},
      {kFileMapping, "promised", "yes vm.overcommit_memory=1, or more swap"},
      {kBusError, "shared_memory", "yes more shared memory"},
      {"RuntimeError: received 0 items of ancdata\n", "files",
       "yes torch.multiprocessing.set_sharing_strategy(\"file_system\")"},
      {"[enforce fail at inline_container.cc:595] . PytorchStreamWriter failed writing file "
       "data/41: file write failed\n",
       "disk", "yes more room on the disk, or another folder"},
      {"OSError: [Errno 28] No space left on device\n", "disk",
       "yes more room on the disk, or another folder"},
      {"out of resource: shared memory, Required: 147456, Hardware limit: 101376.\n", "on_chip",
       "yes smaller blocks, or fewer num_stages"},
      {"[h264_nvenc @ 0x5] OpenEncodeSessionEx failed: out of memory (10): (no details)\n",
       "sessions", "yes fewer encoding sessions at once"},
      {"ggml_cuda_host_malloc: failed to allocate 20480.00 MiB of pinned memory: out of memory\n",
       "pinned", "yes nothing, if it runs: weights are then in ordinary RAM"},
      {"RuntimeError: [metal::malloc] Attempting to allocate 48318382080 bytes which is greater "
       "than the maximum allowed buffer size of 30150672384 bytes.\n",
       "one_allocation", "yes a shorter context, a smaller --prefill-step-size"},
      {"slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.\n", "limit",
       "yes a higher --mem, or --mem-per-cpu"},
      {"0/5 nodes are available: 5 Insufficient memory.\n", "request",
       "yes a lower resources.requests.memory, or a larger node"},
      {"    Last State: Terminated\n      Reason: OOMKilled\n", "limit",
       "yes a higher resources.limits.memory, and requests as high"},
      {"Container killed by YARN for exceeding memory limits. 5.1 GB of 4.2 GB virtual memory "
       "used.\n",
       "limit", "yes yarn.nodemanager.vmem-check-enabled=false"},
      {"RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n", "card",
       "yes a higher --mem-fraction-static"},
      {"Exception: Capture cuda graph failed: CUDA out of memory\n", "card",
       "yes a lower --mem-fraction-static (0.8, 0.7)"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.log);
    const OomExplanation e = Explained(row.log);
    CHECK(ToString(e.facts.resource) == row.ran_out);
    CHECK(FirstHelp(e) == row.first);
  }
}

// Nobody is sent for more RAM, a smaller batch or other processes where those are not short.
TEST_CASE("advice for a full memory is not told where another thing was short") {
  for (const char* log :
       {kXpuBlock, kManyMappings, kBusError, "RuntimeError: received 0 items of ancdata\n",
        "OSError: [Errno 28] No space left on device\n",
        "[h264_nvenc @ 0x5] OpenEncodeSessionEx failed: out of memory (10)\n"}) {
    CAPTURE(log);
    const OomExplanation e = Explained(log);
    CHECK_FALSE(Advises(e, "more RAM"));
    CHECK_FALSE(Advises(e, "ending other processes"));
    CHECK_FALSE(Advises(e, "checkpointing"));
  }
}

TEST_CASE("what is no memory is said not to be") {
  for (const char* log :
       {"RuntimeError: received 0 items of ancdata\n", "RuntimeError: can't start new thread\n",
        "tar: a: Cannot write: No space left on device\n",
        "OpenEncodeSessionEx failed: out of memory (10)\n"}) {
    CAPTURE(log);
    const OomExplanation e = Explained(log);
    CHECK(e.summary[0].starts_with("NOT MEMORY: "));
    CHECK(e.summary[1] == "No memory ran out.");
    CHECK(!e.request);
  }
}

// NVIDIA/TensorRT's builder says OutOfMemory of each way to compute a layer that it skips.
constexpr char kSkipped[] =
    "[TRT] [E] 2: [virtualMemoryBuffer.cpp::resizePhysical::145] Error Code 2: OutOfMemory (no "
    "further information)\n"
    "[TRT] [W] Requested amount of GPU memory (8589934592 bytes) could not be allocated.\n"
    "[TRT] [W] Skipping tactic 8 due to insufficient memory on requested size of 8589934592 "
    "detected for tactic 0x3c.\n";

TEST_CASE("a failure that a program goes on from is a warning") {
  const OomExplanation skipped = Explained(kSkipped);
  CHECK(skipped.message.format->rank == OomRank::kWarning);
  CHECK(skipped.summary[0] == "CAPACITY: 8.00 GiB asked (a warning: it went on)");
  CHECK(!skipped.request);
  std::string twenty;
  for (int i = 0; i < 20; ++i) twenty += kSkipped;
  CHECK(Explained(twenty).message.format->rank == OomRank::kWarning);
  const OomExplanation ended = Explained(
      std::string(kSkipped) +
      "[TRT] [E] 2: [executionContext.cpp::ExecutionContext::1] Error Code 2: OutOfMemory (no "
      "further information)\n");
  CHECK(ended.message.format->name == "tensorrt-oom");
}

TEST_CASE("another line of llama.cpp says what the buffer was for") {
  const std::string asked =
      "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9000.00 MiB on device 0: cudaMalloc "
      "failed: out of memory\n";
  CHECK(FirstHelp(Explained(asked)) == "yes fewer layers on the card (-ngl)");
  const OomExplanation computing =
      Explained(asked + "graph_reserve: failed to allocate compute buffers\n");
  CHECK(FirstHelp(computing) == "yes a smaller micro-batch (-ub), flash attention");
  CHECK(computing.summary[2].find("micro-batch (-ub)") != std::string::npos);
}

TEST_CASE("a program's own words go before the system's, and those with numbers first") {
  CHECK(Explained("Error opening encoder: Cannot allocate memory\n\n\n\n\n"
                  "[h264_nvenc @ 0x5] OpenEncodeSessionEx failed: out of memory (10)\n")
            .message.format->name == "nvenc");
  const OomExplanation kernel = Explained(
      "[9.1] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task=python,pid=9,uid=1\n"
      "[9.2] Out of memory: Killed process 9 (python) total-vm:9kB, anon-rss:8388608kB\n");
  CHECK(kernel.summary[1] == "The process held 8.00 GiB.");
  CHECK(Explained("distributed.worker.memory - WARNING - Unmanaged memory use is high. -- "
                  "Unmanaged memory: 1.10 GiB -- Worker memory limit: 2.00 GiB\n"
                  "distributed.worker.memory - WARNING - Worker is at 89% memory usage. Pausing "
                  "worker.  Process memory: 1.78 GiB -- Worker memory limit: 2.00 GiB\n")
            .message.format->name == "dask-paused");
}

TEST_CASE("how many mappings there are is told, and who holds the memory goes first") {
  CHECK(Explained(kManyMappings).summary[0] ==
        "CAPACITY: 8.00 KiB asked as mapping 64012 of this process, which may have 65530 "
        "(vm.max_map_count)");
  const OomExplanation mps = Explained(
      "MPS backend out of memory (MPS allocated: 9.57 GiB, other allocations: 17.35 GiB, max "
      "allowed: 27.20 GiB). Tried to allocate 292.50 MiB on private pool.\n");
  CHECK(FirstHelp(mps) == "yes ending other processes");
  const OomExplanation tiles = Explained(
      "Error DefaultCPUAllocator: can't allocate memory: you tried to allocate 264896512 bytes.\n"
      "If you encounter CUDA out of memory, try to set --tile with a smaller number.\n");
  CHECK(FirstHelp(tiles) == "yes a smaller --tile (-t 400, or 200), a smaller picture");
  CHECK(Advises(tiles, "more RAM"));
}

// pytorch/xla#3470: what is free need not lie in one piece.
TEST_CASE("a TPU's memory in pieces is no contradiction, and a full one no pieces") {
  const std::string asked =
      "Attempting to reserve 6.48G at the bottom of memory. That was not possible. There are ";
  const OomExplanation pieces = Explained(asked + "6.78G free, 0B reserved, and 3.33G reservable.");
  CHECK(pieces.summary[0] ==
        "CAPACITY: 6.48 GiB asked, 3.33 GiB allowed in one piece: 3.15 GiB too much");
  CHECK(pieces.summary[2] == "6.78 GiB are free in all, but in pieces: at most 3.33 GiB at once.");
  CHECK(pieces.commands.empty());
  const OomExplanation full = Explained(asked + "2.36G free, 0B reserved, and 2.36G reservable.");
  CHECK(full.summary[0] == "CAPACITY: 6.48 GiB asked, 2.36 GiB free: 4.12 GiB short");
}

TEST_CASE("who ended a process is asked first, and its program's own advice stays") {
  const OomExplanation e = Explained(
      "Loading checkpoint shards:  57%\nERROR:torch.distributed.elastic.multiprocessing.api:failed "
      "(exitcode: -9) local_rank: 0 (pid: 8180) of binary: /usr/bin/python3\n");
  CHECK(e.message.app == "transformers");
  CHECK(FirstHelp(e) == "yes looking who ended it");
  CHECK(e.remedies[1].help == Help::kYes);
  CHECK(e.remedies[1].what.starts_with("dtype=torch.bfloat16"));
}

TEST_CASE("a server that runs llama.cpp is told its own settings, not llama.cpp's flags") {
  const std::string asked =
      "CUDA error: out of memory\n  current device: 1, in function alloc at "
      "/src/ggml-cuda.cu:358\n";
  CHECK(Advises(Explained(asked), "(-ngl)"));
  const OomExplanation ollama = Explained("ollama serve\n" + asked);
  CHECK(ollama.message.app == "Ollama");
  CHECK_FALSE(Advises(ollama, "-ngl"));
  CHECK(Advises(ollama, "num_gpu"));
}

TEST_CASE("the node of a builder's last message belongs to the size that it asked for") {
  const OomExplanation e = Explained(
      "[W] [TRT] Requested amount of GPU memory (15485030400 bytes) could not be allocated.\n\n"
      "[E] Error Code 10: Internal Error (Could not find any implementation for node "
      "{Foreign[a]}.)\n");
  CHECK(e.summary[0] == "CAPACITY: 14.4 GiB asked");
  CHECK(std::ranges::find(e.notes, "It was for {Foreign[a]}.") != e.notes.end());
}

TEST_CASE("what a job asked for is read from its script") {
  const OomExplanation e =
      Explained("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.\n#SBATCH --mem=48G\n");
  CHECK(e.summary[0].ends_with("the job took more RAM than it may: 48 GiB allowed"));
}

// Python's repr() of an exception, as Dask and Ray quote those of workers.
TEST_CASE("quoted line breaks are line breaks, paths are not") {
  const char* logs[] = {"MemoryError('x\\\\n- Free memory: 20.5GB\\\\n- Requested memory: 32GB')",
                        "MemoryError('x\\n- Free memory: 20.5GB\\n- Requested memory: 32GB')"};
  for (const char* log : logs) {
    CAPTURE(log);
    const OomExplanation e =
        Explained(std::string("XGBoostError('Memory allocation error on worker 0: ") + log);
    CHECK(e.summary[0] == "CAPACITY: 32 GiB asked, 20.5 GiB free: 11.5 GiB short");
  }
  CHECK(Explained("OSError: [WinError 1455] The paging file is too small. Error loading "
                  "\"C:\\new\\torch.dll\"\n")
            .message.format->name == "windows-commit");
}

constexpr char kFree[] =
    "RuntimeError: CUDA out of memory. Tried to allocate 12.50 MiB (GPU 0; 10.92 GiB total "
    "capacity; 8.57 MiB already allocated; 9.28 GiB free; 4.68 MiB cached)\n";
constexpr char kLimited[] =
    "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total "
    "capacity of 255.98 GiB of which 244.65 GiB is free. 1.05 GiB allowed; Of the allocated memory "
    "1017.01 MiB is allocated by PyTorch, and 54.99 MiB is reserved by PyTorch but unallocated.\n";
constexpr char kRanks[] =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total "
    "capacity of 39.49 GiB of which 301.31 MiB is free. Process 71 has 414.00 MiB memory in use. "
    "Including non-PyTorch memory, this process has 37.46 GiB memory in use. Process 72 has 414.00 "
    "MiB memory in use. Of the allocated memory 36.04 GiB is allocated by PyTorch, and 321.37 MiB "
    "is reserved by PyTorch but unallocated.\n";

TEST_CASE("PyTorch's numbers decide what is told") {
  for (const OomRemedy& remedy : Explained(kFree).remedies) {
    if (remedy.what == "expandable_segments:True") CHECK(remedy.help == Help::kNo);
  }
  CHECK(Advises(Explained(kLimited), "torch.cuda.set_per_process_memory_fraction(1.0)"));
  const OomExplanation ranks = Explained(kRanks);
  CHECK(std::ranges::any_of(ranks.notes, [](const std::string& note) {
    return note.find("2 others hold little more than a context each") != std::string::npos;
  }));
  CHECK(Explained("XPU out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of "
                  "15.11 GiB. Of the allocated memory 512.00 MiB is allocated by PyTorch, and 0 "
                  "bytes is reserved by PyTorch but unallocated.\n")
            .summary[2] == "It is not this process that fills the card: others, or pieces, may.");
}

TEST_CASE("errors of other kinds are no message") {
  for (const char* log :
       {"ModuleNotFoundError: No module named 'torch'\n",
        "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory\n",
        "ZeroDivisionError: division by zero\n", "RuntimeError: CUDA error: device-side assert\n",
        "FileNotFoundError: [Errno 2] No such file or directory: 'model.bin'\n",
        "RuntimeError: Expected all tensors to be on the same device, but found cuda:0 and cpu!\n",
        "#SBATCH --mem=48G\n"}) {
    CAPTURE(log);
    CHECK(ReadOomLog(log).processes.empty());
  }
}

TEST_CASE("advice on a message is for a message that is known") {
  for (const OomMessageAdvice& row : MessageAdvice()) {
    CAPTURE(row.messages);
    const bool is_known = std::ranges::any_of(
        OomFormats(), [&](const OomFormat& format) { return IsListed(row.messages, format.name); });
    CHECK(is_known);
  }
  CHECK(IsListed("a|bc|d", "bc"));
  CHECK_FALSE(IsListed("a|bc|d", "b"));
}

}  // namespace
}  // namespace onnxfit::oom_resources_test
