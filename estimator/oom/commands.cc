// What to type after an out-of-memory message: an option of the allocator, or what shows who holds
// what.
#include <fmt/format.h>

#include <algorithm>

#include "estimator/oom/remedy_case.h"

namespace onnxfit {
namespace {

// 2.9 took the device out of the variable's name, and still reads the old one.
std::string_view VariableOf(const OomMessage& message) {
  if (message.text.find("PYTORCH_HIP_ALLOC_CONF") != std::string::npos) {
    return "PYTORCH_HIP_ALLOC_CONF";
  }
  return message.format->name == "pytorch-2.9" ? "PYTORCH_ALLOC_CONF" : "PYTORCH_CUDA_ALLOC_CONF";
}

// What shows who holds what, in the place of nvidia-smi or free.
struct Look {
  std::string_view program;
  std::string_view command;
};
constexpr Look kLooks[] = {
    {"slurm", "sacct -j JOB --format=JobID,State,ReqMem,MaxRSS"},
    {"slurm", "free -h"},
    {"PBS", "qstat -xf JOB | grep resources_used.mem"},
    {"LSF", "bjobs -l JOB"},
    {"Grid Engine", "qacct -j JOB | grep maxvmem"},
    {"HTCondor", "condor_q -hold JOB -af HoldReason MemoryUsage RequestMemory"},
    {"Kubernetes", "kubectl describe pod POD"},
    {"Kubernetes", "kubectl top pod POD --containers"},
    {"Ray", "ray memory"},
    {"Ray", "free -h"},
    {"systemd-oomd", "oomctl"},
    {"Windows", "Get-CimInstance Win32_PageFileUsage"},
    {"WSL", "free -h"},
    {"macOS", "sysctl vm.swapusage"},
    {"Ollama", "ollama ps"},
    {"MLX", "sysctl iogpu.wired_limit_mb"},
    {"Metal", "sysctl iogpu.wired_limit_mb"},
    {"ROCm", "rocm-smi --showmeminfo vram --showpids"},
    {"Ascend", "npu-smi info"},
    {"Gaudi", "hl-smi"},
    {"AWS Neuron", "neuron-ls"},
    {"AWS Neuron", "neuron-top"},
    {"Intel's GPU", "clinfo | grep -i 'max memory allocation\\|global memory size'"},
    {"OpenVINO", "clinfo | grep -i 'max memory allocation\\|global memory size'"},
    {"OpenCL", "clinfo | grep -i 'max memory allocation\\|global memory size'"},
    {"Vulkan", "vulkaninfo | grep -i 'heap\\|maxMemoryAllocationSize'"},
    {"Direct3D", "nvidia-smi"},
};

std::vector<std::string> LooksOf(std::string_view program) {
  std::vector<std::string> looks;
  for (const Look& look : kLooks) {
    if (look.program == program) looks.emplace_back(look.command);
  }
  return looks;
}

// Those that show what a message of the machine's RAM does not.
std::vector<std::string> HostCommands(const RemedyCase& c) {
  if (c.facts.resource == OomResource::kSharedMemory) return {"df -h /dev/shm"};
  if (c.facts.resource == OomResource::kDisk) return {"df -h", "df -i  # files, too, are counted"};
  if (c.Is("inotify")) {
    return {"sysctl fs.inotify.max_user_watches fs.inotify.max_user_instances"};
  }
  if (c.Is("threads")) return {"ulimit -u", "cat /sys/fs/cgroup/pids.max"};
  if (c.facts.resource == OomResource::kFiles) return {"ulimit -n"};
  if (c.facts.resource == OomResource::kMappings) return {"sysctl vm.max_map_count"};
  if (c.facts.resource == OomResource::kPromised)
    return {"sysctl vm.overcommit_memory", "ulimit -v"};
  if (c.facts.resource == OomResource::kPinned || c.facts.resource == OomResource::kRequest) {
    return {};
  }
  if (c.IsOwnRam()) return {};
  std::vector<std::string> checks = {"free -h", "dmesg -T | grep -i 'killed process'"};
  if (c.Is("slurm-oom")) {
    checks.emplace_back("sacct -j JOB --format=JobID,State,ReqMem,MaxRSS");
  }
  return checks;
}

// Where PyTorch asked: CUDA's words do not say who called it, the lines around them do.
bool MayBeTorch(const OomMessage& message) {
  const OomFamily family = message.format->family;
  return family == OomFamily::kPyTorch || family == OomFamily::kTorchAsync ||
         message.app == "PyTorch" || message.app == "transformers";
}

std::vector<std::string> CardCommands(const OomMessage& message) {
  std::vector<std::string> checks = {
      "nvidia-smi --query-compute-apps=pid,used_memory --format=csv -l 1",
      "nvidia-smi -L               # the card you mean, or a slice of one (MIG)?",
      "echo $CUDA_VISIBLE_DEVICES  # GPU 0 is the first of these"};
  if (message.IsOfHip()) {
    checks = {"rocm-smi --showmeminfo vram --showpids",
              "echo $HIP_VISIBLE_DEVICES   # GPU 0 is the first of these"};
  }
  if (MayBeTorch(message)) {
    checks.emplace_back("grep -rn set_per_process_memory_fraction .");
    checks.emplace_back("print(torch.cuda.memory_summary())  # just before it fails");
  }
  return checks;
}

}  // namespace

std::string_view OptionOf(const OomMessage& message) {
  constexpr std::string_view kWithout[] = {"pytorch-0.4.1", "pytorch-1.4", "pytorch-old", "xpu",
                                           "xpu-block"};
  const std::string_view name = message.format->name;
  if (std::find(std::begin(kWithout), std::end(kWithout), name) != std::end(kWithout)) return "";
  return name == "pytorch-1.10" ? "max_split_size_mb:128" : "expandable_segments:True";
}

std::vector<std::string> CommandsFor(const OomMessage& message, const OomFacts& facts,
                                     const OomJudgement& judgement) {
  if (facts.resource == OomResource::kBuffer || facts.resource == OomResource::kOnChip ||
      facts.resource == OomResource::kSessions) {
    return {};
  }
  const bool is_its = IsAllMemory(facts.resource);
  auto looks = !is_its ? std::vector<std::string>() : LooksOf(ProgramOf(*message.format));
  if (looks.empty() && is_its) looks = LooksOf(message.app);
  if (!looks.empty()) return looks;
  const RemedyCase c = {message, facts, judgement};
  if (c.IsOfHost()) return HostCommands(c);
  if (judgement.verdict == OomVerdict::kFragmented) {
    const std::string_view option = OptionOf(message);
    if (option.empty()) return {};
    const std::string_view variable = VariableOf(message);
    return {fmt::format("export {}={}", variable, option),
            fmt::format("$env:{} = \"{}\"", variable, option),
            fmt::format("os.environ[\"{}\"] = \"{}\"", variable, option)};
  }
  const bool is_bare = message.format->rank == OomRank::kBare && !facts.tried && !c.Serves() &&
                       message.format->pattern == nullptr;
  const bool wants_look = is_bare || judgement.verdict == OomVerdict::kContradictory ||
                          judgement.verdict == OomVerdict::kUnknown ||
                          judgement.verdict == OomVerdict::kOtherProcess;
  const bool has_nvidia_smi =
      message.format->family != OomFamily::kMps && message.format->family != OomFamily::kJetson &&
      !message.format->name.starts_with("xpu") && !message.format->name.starts_with("xla-tpu");
  return wants_look && has_nvidia_smi ? CardCommands(message) : std::vector<std::string>();
}

}  // namespace onnxfit
