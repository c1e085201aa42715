// The CUDA driver: virtual memory.  What cuMemCreate took is given back once its handle is released
// as often as it was made or retained, and nothing maps it any more (cuda.h, cuMemRelease).
#include "estimator/absent/virtual_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "estimator/absent/askers.h"
#include "estimator/absent/contents.h"
#include "estimator/absent/contexts.h"
#include "estimator/absent/counts.h"
#include "estimator/absent/events.h"
#include "estimator/absent/memory.h"
#include "estimator/absent/status.h"

namespace onnxfit::absent {
namespace {

using DevicePointer = uint64_t;

// CUmemAllocationProp (cuda.h, CUDA 10.2 to 13.0).
struct AllocationProperties {
  int type;
  int handle_types;
  int location_type;
  int location;  // the device
  void* rest[2];
};
constexpr int kOnCard = 1;
constexpr int kAsFile = 1;
constexpr int kAsFabric = 8;

// Memory without an address.
struct Physical {
  AllocationProperties properties = {};
  int64_t bytes = 0;
  bool is_counted = false;  // not the host's, nor another process's
  int references = 1;
  int mappings = 0;
};

struct Mapping {
  uint64_t bytes = 0;
  Physical* memory = nullptr;
};

// What another process is told of it, in a file or in a handle of 64 bytes.
struct Shared {
  char mark[8] = {'o', 'n', 'n', 'x', 'f', 'i', 't', '\0'};
  AllocationProperties properties = {};
  int64_t bytes = 0;
};

bool IsWhole(uint64_t bytes) { return bytes > 0 && bytes % kPage == 0; }

int PlaceOf(const Physical& memory) {
  return Machine().cards[static_cast<size_t>(memory.properties.location)].place;
}

void GiveBack(const Physical& memory) {
  if (!memory.is_counted) return;
  GiveBytes(PlaceOf(memory), memory.bytes);
  WriteEvent({"give", PlaceOf(memory), reinterpret_cast<uint64_t>(&memory), memory.bytes, {}});
}

class VirtualMemory {
 public:
  Physical* Add(const Physical& memory) {
    const std::lock_guard lock(mutex_);
    return *handles_.insert(new Physical(memory)).first;
  }

  Status Release(Physical* memory) {
    const std::lock_guard lock(mutex_);
    if (handles_.count(memory) == 0 || memory->references == 0) return kInvalidValue;
    --memory->references;
    RemoveUnused(memory);
    return kSuccess;
  }

  Status Retain(uint64_t address, Physical** memory) {
    const std::lock_guard lock(mutex_);
    const auto found = MappingAt(address);
    if (found == mappings_.end()) return kInvalidValue;
    *memory = found->second.memory;
    ++(*memory)->references;
    return kSuccess;
  }

  Status Read(Physical* memory, Shared& shared) {
    const std::lock_guard lock(mutex_);
    if (handles_.count(memory) == 0) return kInvalidValue;
    shared.properties = memory->properties;
    shared.bytes = memory->bytes;
    return kSuccess;
  }

  void Reserve(uint64_t address, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    reserved_[address] = bytes;
  }

  Status FreeReserved(uint64_t address, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = reserved_.find(address);
    const bool is_whole = found != reserved_.end() && found->second == bytes;
    if (!is_whole || IsAnyMapped(address, bytes)) return kInvalidValue;
    reserved_.erase(found);
    FreeAddresses(address, bytes);
    return kSuccess;
  }

  Status Map(uint64_t address, uint64_t bytes, uint64_t offset, Physical* memory) {
    const std::lock_guard lock(mutex_);
    if (handles_.count(memory) == 0 || !IsWhole(bytes) || address % kPage != 0)
      return kInvalidValue;
    const auto most = static_cast<uint64_t>(memory->bytes);
    const bool is_inside = offset % kPage == 0 && offset <= most && bytes <= most - offset;
    if (!is_inside || !IsReserved(address, bytes) || IsAnyMapped(address, bytes))
      return kInvalidValue;
    mappings_[address] = {bytes, memory};
    ++memory->mappings;
    return kSuccess;
  }

  // Whole mappings alone, without a gap between.
  Status Unmap(uint64_t address, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    std::vector<uint64_t> found;
    uint64_t at = address;
    while (at < address + bytes) {
      const auto mapping = mappings_.find(at);
      if (mapping == mappings_.end()) return kInvalidValue;
      found.push_back(at);
      at += mapping->second.bytes;
    }
    if (at != address + bytes || bytes == 0) return kInvalidValue;
    for (const uint64_t mapping : found) RemoveMapping(mapping);
    return kSuccess;
  }

  std::optional<int> DeviceOf(uint64_t address) {
    const std::lock_guard lock(mutex_);
    const auto found = MappingAt(address);
    if (found == mappings_.end()) return std::nullopt;
    const AllocationProperties& properties = found->second.memory->properties;
    return properties.location_type == kOnCard ? std::optional(properties.location) : std::nullopt;
  }

 private:
  using Mappings = std::map<uint64_t, Mapping>;

  Mappings::iterator MappingAt(uint64_t address) {
    const auto after = mappings_.upper_bound(address);
    if (after == mappings_.begin()) return mappings_.end();
    const auto before = std::prev(after);
    return address < before->first + before->second.bytes ? before : mappings_.end();
  }

  bool IsAnyMapped(uint64_t address, uint64_t bytes) {
    const auto after = mappings_.lower_bound(address);
    return MappingAt(address) != mappings_.end() ||
           (after != mappings_.end() && after->first < address + bytes);
  }

  bool IsReserved(uint64_t address, uint64_t bytes) {
    const auto after = reserved_.upper_bound(address);
    if (after == reserved_.begin()) return false;
    const auto& [first, length] = *std::prev(after);
    return address + bytes <= first + length;
  }

  void RemoveMapping(uint64_t address) {
    const auto found = mappings_.find(address);
    Physical* const memory = found->second.memory;
    ForgetContents(address, found->second.bytes);
    mappings_.erase(found);
    --memory->mappings;
    RemoveUnused(memory);
  }

  void RemoveUnused(Physical* memory) {
    if (memory->references > 0 || memory->mappings > 0) return;
    GiveBack(*memory);
    handles_.erase(memory);
    delete memory;
  }

  std::mutex mutex_;
  std::set<Physical*> handles_;
  std::map<uint64_t, uint64_t> reserved_;  // address to bytes
  Mappings mappings_;
};

VirtualMemory& All() {
  static auto* const memory = new VirtualMemory;  // outlives destructors
  return *memory;
}

bool TakeFor(const Physical& memory, const std::string& asker) {
  const int place = PlaceOf(memory);
  const bool has_room = EnsureContext(memory.properties.location) && TakeBytes(place, memory.bytes);
  if (!has_room) WriteEvent({"full", place, 0, memory.bytes, asker});
  return has_room;
}

}  // namespace

std::optional<int> DeviceOf(const void* pointer) {
  const auto block = BlockOf(pointer);
  return block ? std::optional(block->device) : All().DeviceOf(reinterpret_cast<uint64_t>(pointer));
}

ABSENT_API Status cuMemGetAllocationGranularity(size_t* bytes, const void*, int) {
  *bytes = static_cast<size_t>(kPage);
  return kSuccess;
}

ABSENT_API Status cuMemAddressReserve(DevicePointer* pointer, size_t bytes, size_t alignment,
                                      DevicePointer, unsigned long long) {
  if (!IsWhole(bytes)) return kInvalidValue;
  *pointer = ReserveAddresses(bytes, alignment);
  if (*pointer == 0) return kOutOfMemory;
  All().Reserve(*pointer, bytes);
  return kSuccess;
}

ABSENT_API Status cuMemAddressFree(DevicePointer pointer, size_t bytes) {
  return All().FreeReserved(pointer, bytes);
}

ABSENT_API Status cuMemCreate(Physical** handle, size_t bytes,
                              const AllocationProperties* properties, unsigned long long) {
  if (properties == nullptr || !IsWhole(bytes)) return kInvalidValue;
  Physical memory = {.properties = *properties,
                     .bytes = static_cast<int64_t>(bytes & INT64_MAX),
                     .is_counted = properties->location_type == kOnCard};
  if (memory.is_counted && !HasCard(properties->location)) return kInvalidDevice;
  const std::string asker = Asker();
  if (memory.is_counted && !TakeFor(memory, asker)) return kOutOfMemory;
  *handle = All().Add(memory);
  if (memory.is_counted)
    WriteEvent({"take", PlaceOf(memory), reinterpret_cast<uint64_t>(*handle), memory.bytes, asker});
  return kSuccess;
}

ABSENT_API Status cuMemRelease(Physical* handle) { return All().Release(handle); }

ABSENT_API Status cuMemRetainAllocationHandle(Physical** handle, DevicePointer pointer) {
  return All().Retain(pointer, handle);
}

ABSENT_API Status cuMemMap(DevicePointer pointer, size_t bytes, size_t offset, Physical* handle,
                           unsigned long long) {
  return All().Map(pointer, bytes, offset, handle);
}

ABSENT_API Status cuMemUnmap(DevicePointer pointer, size_t bytes) {
  return All().Unmap(pointer, bytes);
}

ABSENT_API Status cuMemGetAllocationPropertiesFromHandle(AllocationProperties* properties,
                                                         Physical* handle) {
  Shared shared;
  const Status status = All().Read(handle, shared);
  if (status == kSuccess) *properties = shared.properties;
  return status;
}

// --- To another process, where it is mapped and not counted again ------------------------

namespace {

Status ToFile(const Shared& shared, void* number) {
  const int file = memfd_create("onnxfit-memory", MFD_CLOEXEC);
  if (file < 0 || pwrite(file, &shared, sizeof shared, 0) != sizeof shared) return kNotSupported;
  std::memcpy(number, &file, sizeof file);
  return kSuccess;
}

bool FromFile(const void* number, Shared& shared) {
  const int file = static_cast<int>(reinterpret_cast<intptr_t>(number));
  return pread(file, &shared, sizeof shared, 0) == sizeof shared;
}

}  // namespace

ABSENT_API Status cuMemExportToShareableHandle(void* shareable, Physical* handle, int type,
                                               unsigned long long) {
  Shared shared;
  const Status status = All().Read(handle, shared);
  if (status != kSuccess) return status;
  if (type == kAsFile) return ToFile(shared, shareable);
  if (type != kAsFabric) return kNotSupported;
  static_assert(sizeof shared <= 64);
  std::memcpy(shareable, &shared, sizeof shared);
  return kSuccess;
}

ABSENT_API Status cuMemImportFromShareableHandle(Physical** handle, void* shareable, int type) {
  Shared shared;
  shared.mark[0] = '\0';
  if (type == kAsFile && !FromFile(shareable, shared)) return kInvalidValue;
  if (type == kAsFabric) std::memcpy(&shared, shareable, sizeof shared);
  if (std::memcmp(shared.mark, Shared().mark, sizeof shared.mark) != 0) return kInvalidValue;
  *handle = All().Add({.properties = shared.properties, .bytes = shared.bytes});
  return kSuccess;
}

}  // namespace onnxfit::absent
