#include "estimator/absent/host_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <map>
#include <mutex>

#include "estimator/absent/counts.h"

namespace onnxfit::absent {
namespace {

constexpr size_t kHostPage = 4096;

class Mappings {
 public:
  explicit Mappings(HostMemory kind) : kind_(kind) {}

  void* Map(size_t bytes) {
    const size_t rounded = (bytes + kHostPage - (bytes > 0)) / kHostPage * kHostPage;
    void* const at = mmap(nullptr, rounded, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return nullptr;
    const std::lock_guard lock(mutex_);
    mapped_[reinterpret_cast<uint64_t>(at)] = rounded;
    Tell(static_cast<int64_t>(rounded));
    return at;
  }

  bool Unmap(void* pointer) {
    const size_t bytes = Remove(pointer);
    if (bytes > 0) munmap(pointer, bytes);
    return bytes > 0;
  }

  bool Add(void* pointer, size_t bytes) {
    const auto address = reinterpret_cast<uint64_t>(pointer);
    const std::lock_guard lock(mutex_);
    const auto after = mapped_.upper_bound(address);
    const bool is_before_free =
        after == mapped_.begin() || std::prev(after)->first + std::prev(after)->second <= address;
    const bool is_free =
        is_before_free && (after == mapped_.end() || after->first >= address + bytes);
    if (is_free) mapped_[address] = bytes;
    if (is_free) Tell(static_cast<int64_t>(bytes));
    return is_free;
  }

  // How large it was; 0 where there is none.
  size_t Remove(void* pointer) {
    const std::lock_guard lock(mutex_);
    const auto found = mapped_.find(reinterpret_cast<uint64_t>(pointer));
    if (found == mapped_.end()) return 0;
    const size_t bytes = found->second;
    mapped_.erase(found);
    Tell(-static_cast<int64_t>(bytes));
    return bytes;
  }

  bool Has(const void* pointer) {
    const auto address = reinterpret_cast<uint64_t>(pointer);
    const std::lock_guard lock(mutex_);
    const auto after = mapped_.upper_bound(address);
    if (after == mapped_.begin()) return false;
    const auto before = std::prev(after);
    return address < before->first + before->second;
  }

 private:
  void Tell(int64_t more) const { CountHost(kind_, more); }

  const HostMemory kind_;
  std::mutex mutex_;
  std::map<uint64_t, size_t> mapped_;
};

Mappings& Pinned() {
  static auto* const mappings = new Mappings(kPinnedMemory);  // outlives destructors
  return *mappings;
}

Mappings& Registered() {
  static auto* const mappings = new Mappings(kPinnedMemory);
  return *mappings;
}

Mappings& Managed() {
  static auto* const mappings = new Mappings(kManagedMemory);
  return *mappings;
}

}  // namespace

void* AllocatePinned(size_t bytes) { return Pinned().Map(bytes); }
bool FreePinned(void* pointer) { return Pinned().Unmap(pointer); }
bool IsPinned(const void* pointer) { return Pinned().Has(pointer) || Registered().Has(pointer); }

bool RegisterPinned(void* pointer, size_t bytes) { return Registered().Add(pointer, bytes); }
bool UnregisterPinned(void* pointer) { return Registered().Remove(pointer) > 0; }

void* AllocateManaged(size_t bytes) { return Managed().Map(bytes); }
bool FreeManaged(void* pointer) { return Managed().Unmap(pointer); }
bool IsManaged(const void* pointer) { return Managed().Has(pointer); }

}  // namespace onnxfit::absent
