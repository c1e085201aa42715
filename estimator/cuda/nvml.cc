// Functions, structs and constants: NVIDIA's NVML API Reference Guide, and as
// nvidia-ml-py 13.615.71 (NVIDIA's binding) declares them.  Those with a version at the end are of
// driver 510 or later.
#include "estimator/cuda/nvml.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <utility>

namespace onnxfit {
namespace {

using Status = int;    // nvmlReturn_t
using Device = void*;  // nvmlDevice_t

constexpr Status kSuccess = 0;
constexpr Status kInsufficientSize = 7;

constexpr size_t kDriverVersionBytes = 80;  // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE
constexpr size_t kProcessNameBytes = 1024;  // what nvidia-ml-py gives
constexpr uint64_t kNotAvailable = ~0ull;   // NVML_VALUE_NOT_AVAILABLE
constexpr unsigned int kGrowth = 16;        // processes that may start between two calls
constexpr int kTries = 4;

struct Memory {  // nvmlMemory_t, the first
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct Process {  // nvmlProcessInfo_v2_t
  unsigned int pid;
  unsigned long long used_bytes;  // kNotAvailable under WDDM
  unsigned int gpu_instance;      // of MIG, else ~0
  unsigned int compute_instance;
};
static_assert(sizeof(Process) == 24);

// Some drivers (535.54, say) write 8 bytes more for each, under the same version of the call
// (XuehaiPan/nvitop#79, gpuopenanalytics/pynvml#48).
constexpr size_t kLongProcessBytes = 32;
constexpr unsigned char kUnwritten = 0xAA;

using ListCall = Status (*)(Device, unsigned int* count, void* processes);

template <typename Function>
void Load(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));  // NOLINT: as dlsym is used
}

std::vector<Process> ReadList(const std::vector<unsigned char>& bytes, size_t count) {
  const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(count * kLongProcessBytes);
  const bool is_long =
      std::any_of(bytes.begin() + static_cast<std::ptrdiff_t>(count * sizeof(Process)), end,
                  [](unsigned char byte) { return byte != kUnwritten; });
  const size_t step = is_long ? kLongProcessBytes : sizeof(Process);
  std::vector<Process> processes(count);
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(&processes[i], bytes.data() + i * step, sizeof(Process));
  }
  return processes;
}

// Empty where it is not told.  It may grow while it is asked for.
std::vector<Process> List(ListCall call, Device device) {
  unsigned int count = 0;
  if (call == nullptr || call(device, &count, nullptr) != kInsufficientSize) return {};
  for (int i = 0; i < kTries; ++i) {
    const unsigned int room = count + kGrowth;
    std::vector<unsigned char> bytes(room * kLongProcessBytes, kUnwritten);
    count = room;
    const Status status = call(device, &count, bytes.data());
    if (status == kSuccess) return ReadList(bytes, std::min(count, room));
    if (status != kInsufficientSize) return {};
  }
  return {};
}

std::optional<int64_t> BytesOf(const Process& process) {
  if (process.used_bytes == kNotAvailable) return std::nullopt;
  return static_cast<int64_t>(process.used_bytes);
}

// "python3" of "/usr/bin/python3".
std::string LastPart(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string NameInProc(unsigned int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

bool IsThisProcess(const Process& process) {
  return process.pid == static_cast<unsigned int>(getpid());
}

}  // namespace

struct Nvml::Library {
  ~Library() {
    if (is_initialized && shutdown != nullptr) shutdown();
    if (handle != nullptr) dlclose(handle);
  }

  bool Open(const char* name) {
    handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return false;
    Status (*init)() = nullptr;
    Load(handle, "nvmlInit_v2", init);
    Load(handle, "nvmlShutdown", shutdown);
    Load(handle, "nvmlSystemGetDriverVersion", driver_version);
    Load(handle, "nvmlSystemGetProcessName", process_name);
    Load(handle, "nvmlDeviceGetHandleByPciBusId_v2", device_by_bus_id);
    Load(handle, "nvmlDeviceGetMemoryInfo", memory);
    Load(handle, "nvmlDeviceGetComputeRunningProcesses_v3", compute_processes);
    Load(handle, "nvmlDeviceGetGraphicsRunningProcesses_v3", graphics_processes);
    is_initialized = init != nullptr && init() == kSuccess;
    return is_initialized;
  }

  // Null where there is none.
  Device Find(const std::string& bus_id) const {
    Device device = nullptr;
    const bool is_found =
        device_by_bus_id != nullptr && device_by_bus_id(bus_id.c_str(), &device) == kSuccess;
    return is_found ? device : nullptr;
  }

  // Each process once: one that computes and draws is in both lists, with all that it has.
  std::vector<Process> All(const std::string& bus_id) const {
    const Device device = Find(bus_id);
    if (device == nullptr) return {};
    std::vector<Process> all = List(compute_processes, device);
    for (const Process& process : List(graphics_processes, device)) {
      const auto is_same = [&](const Process& other) { return other.pid == process.pid; };
      if (std::none_of(all.begin(), all.end(), is_same)) all.push_back(process);
    }
    return all;
  }

  // "" where nobody may see it.
  std::string NameOf(unsigned int pid) const {
    std::array<char, kProcessNameBytes> name = {};
    const bool is_told =
        process_name != nullptr && process_name(pid, name.data(), name.size() - 1) == kSuccess;
    return is_told && name[0] != '\0' ? LastPart(name.data()) : NameInProc(pid);
  }

  void* handle = nullptr;
  bool is_initialized = false;
  Status (*shutdown)() = nullptr;
  Status (*driver_version)(char*, unsigned int) = nullptr;
  Status (*process_name)(unsigned int, char*, unsigned int) = nullptr;
  Status (*device_by_bus_id)(const char*, Device*) = nullptr;
  Status (*memory)(Device, Memory*) = nullptr;
  ListCall compute_processes = nullptr;
  ListCall graphics_processes = nullptr;
};

Nvml::Nvml(const char* library) {
  auto opened = std::make_unique<Library>();
  if (opened->Open(library)) library_ = std::move(opened);
}

Nvml::~Nvml() = default;

std::string Nvml::DriverVersion() const {
  std::array<char, kDriverVersionBytes> version = {};
  const bool is_told = library_ && library_->driver_version != nullptr &&
                       library_->driver_version(version.data(), version.size() - 1) == kSuccess;
  return is_told ? version.data() : "";
}

std::optional<int64_t> Nvml::TotalBytes(const std::string& bus_id) const {
  const Device device = library_ ? library_->Find(bus_id) : nullptr;
  Memory memory = {};
  const bool is_told = device != nullptr && library_->memory != nullptr &&
                       library_->memory(device, &memory) == kSuccess && memory.total > 0;
  return is_told ? std::optional(static_cast<int64_t>(memory.total)) : std::nullopt;
}

std::optional<int64_t> Nvml::OwnBytes(const std::string& bus_id) const {
  if (!library_) return std::nullopt;
  for (const Process& process : library_->All(bus_id)) {
    if (IsThisProcess(process)) return BytesOf(process);
  }
  return std::nullopt;
}

NvmlProcesses Nvml::Processes(const std::string& bus_id) const {
  if (!library_) return {};
  const std::vector<Process> all = library_->All(bus_id);
  const auto own = std::find_if(all.begin(), all.end(), IsThisProcess);
  NvmlProcesses found = {.has_this_process = own != all.end()};
  if (found.has_this_process) found.own_bytes = BytesOf(*own);
  for (const Process& process : all) {
    const bool is_here = own == all.end() || process.gpu_instance == own->gpu_instance;
    if (IsThisProcess(process) || !is_here) continue;
    found.others.push_back({process.pid, library_->NameOf(process.pid), BytesOf(process)});
  }
  std::stable_sort(found.others.begin(), found.others.end(),
                   [](const GpuProcess& a, const GpuProcess& b) {
                     return a.bytes.value_or(0) > b.bytes.value_or(0);
                   });
  return found;
}

}  // namespace onnxfit
