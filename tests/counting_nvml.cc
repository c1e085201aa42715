#include "tests/counting_nvml.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace {

constexpr int kSuccess = 0;
constexpr int kNotFound = 6;
constexpr int kInsufficientSize = 7;

onnxfit::NvmlScene& Scene() { return *TheNvmlScene(); }

int CopyText(const std::string& text, char* to, unsigned int length) {
  if (text.size() >= length) return kInsufficientSize;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return kSuccess;
}

void WriteEntry(const onnxfit::NvmlEntry& entry, char* to) {
  const uint32_t compute_instance = entry.gpu_instance;
  std::memcpy(to, &entry.pid, 4);
  std::memcpy(to + 8, &entry.bytes, 8);
  std::memcpy(to + 16, &entry.gpu_instance, 4);
  std::memcpy(to + 20, &compute_instance, 4);
  if (Scene().long_entries) std::memset(to + 24, 0, 8);
}

[[maybe_unused]] int List(std::vector<onnxfit::NvmlEntry>& entries, unsigned int* count, void* to) {
  if (Scene().list_status != kSuccess) return Scene().list_status;
  if (to != nullptr && Scene().growing > 0) {
    --Scene().growing;
    entries.insert(entries.end(), 100, {.pid = 1000});
  }
  const unsigned int room = *count;
  *count = static_cast<unsigned int>(entries.size());
  if (room < entries.size()) return kInsufficientSize;
  const size_t step = Scene().long_entries ? 32 : 24;
  for (size_t i = 0; i < entries.size(); ++i) {
    WriteEntry(entries[i], static_cast<char*>(to) + i * step);
  }
  return kSuccess;
}

}  // namespace

extern "C" {

onnxfit::NvmlScene* TheNvmlScene() {
  static onnxfit::NvmlScene scene;
  return &scene;
}

int nvmlInit_v2() {
  if (Scene().init_status == kSuccess) ++Scene().open;
  return Scene().init_status;
}

int nvmlShutdown() {
  --Scene().open;
  return kSuccess;
}

int nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  return CopyText(Scene().driver, version, length);
}

int nvmlSystemGetProcessName(unsigned int pid, char* name, unsigned int length) {
  ++Scene().named;
  if (Scene().name_status != kSuccess) return Scene().name_status;
  return CopyText(Scene().name_prefix + std::to_string(pid), name, length);
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  if (bus_id != Scene().bus_id) return kNotFound;
  *device = TheNvmlScene();
  return kSuccess;
}

int nvmlDeviceGetMemoryInfo(void* /*device*/, unsigned long long memory[3]) {
  memory[0] = Scene().total_bytes;
  return kSuccess;
}

// As before driver 510.
#ifndef ONNXFIT_OLD_NVML
int nvmlDeviceGetComputeRunningProcesses_v3(void* /*device*/, unsigned int* count, void* to) {
  return List(Scene().compute, count, to);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(void* /*device*/, unsigned int* count, void* to) {
  return List(Scene().graphics, count, to);
}
#endif

}  // extern "C"
