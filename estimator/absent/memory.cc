#include "estimator/absent/memory.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "estimator/absent/askers.h"
#include "estimator/absent/contents.h"
#include "estimator/absent/contexts.h"
#include "estimator/base/device_pages.h"

namespace onnxfit::absent {
namespace {

// More than any card has, and little enough to be rounded up: what is beyond is told as this.
constexpr uint64_t kMostAsked = uint64_t{1} << 62;

// A page of small blocks: filled from its beginning, and given back when all of them are.
struct SharedPage {
  int64_t filled = 0;
  int blocks = 0;
};

int64_t UnitsOf(int64_t bytes) { return RoundUp(bytes > 0 ? bytes : 1, kDeviceAlignment); }

class DeviceMemory {
 public:
  bool Allocate(DeviceBlock block, const std::string& asker, uint64_t& address) {
    const std::lock_guard lock(mutex_);
    const bool has_room =
        block.bytes <= kLargestSharedBlock
            ? TakeShared(block, asker, address)
            : TakePages(block.device, block.pool, RoundUp(block.bytes, kPage), asker, address);
    if (!has_room) return false;
    if (block.pool != nullptr) UsePool(*block.pool, UnitsOf(block.bytes));
    block.address = address;
    blocks_[address] = block;
    return true;
  }

  bool Free(uint64_t address) {
    const std::lock_guard lock(mutex_);
    return FreeBlock(address);
  }

  void FreeAllOf(int device) {
    const std::lock_guard lock(mutex_);
    std::vector<uint64_t> addresses;
    for (const auto& [address, block] : blocks_) {
      if (block.device == device) addresses.push_back(address);
    }
    for (const uint64_t address : addresses) FreeBlock(address);
  }

  std::optional<DeviceBlock> BlockOf(uint64_t address) {
    const std::lock_guard lock(mutex_);
    const auto after = blocks_.upper_bound(address);
    if (after == blocks_.begin()) return std::nullopt;
    const DeviceBlock& block = std::prev(after)->second;
    const bool is_inside = address < block.address + static_cast<uint64_t>(block.bytes);
    return is_inside ? std::optional(block) : std::nullopt;
  }

 private:
  // Whose small blocks share pages.
  using Owner = std::pair<int, Pool*>;

  bool FreeBlock(uint64_t address) {
    const auto found = blocks_.find(address);
    if (found == blocks_.end()) return false;
    const DeviceBlock block = found->second;
    blocks_.erase(found);
    ForgetContents(address, static_cast<uint64_t>(block.bytes));
    if (block.pool != nullptr) UsePool(*block.pool, -UnitsOf(block.bytes));
    if (block.bytes > kLargestSharedBlock) {
      GivePages(block.device, block.pool, address, RoundUp(block.bytes, kPage));
    } else {
      FreeShared(block);
    }
    return true;
  }

  bool TakeShared(const DeviceBlock& block, const std::string& asker, uint64_t& address) {
    const int64_t rounded = UnitsOf(block.bytes);
    uint64_t& page = open_[{block.device, block.pool}];
    if (page == 0 || pages_[page].filled + rounded > kPage) {
      uint64_t fresh = 0;
      if (!TakePages(block.device, block.pool, kPage, asker, fresh)) return false;
      page = fresh;
    }
    SharedPage& shared = pages_[page];
    address = page + static_cast<uint64_t>(shared.filled);
    shared.filled += rounded;
    ++shared.blocks;
    return true;
  }

  void FreeShared(const DeviceBlock& block) {
    const auto found = std::prev(pages_.upper_bound(block.address));
    if (--found->second.blocks > 0) return;
    const uint64_t page = found->first;
    pages_.erase(found);
    const auto open = open_.find({block.device, block.pool});
    if (open != open_.end() && open->second == page) open_.erase(open);
    GivePages(block.device, block.pool, page, kPage);
  }

  std::mutex mutex_;
  std::map<uint64_t, DeviceBlock> blocks_;
  std::map<uint64_t, SharedPage> pages_;
  std::map<Owner, uint64_t> open_;  // the page that is being filled
};

DeviceMemory& Memory() {
  static auto* const memory = new DeviceMemory;  // outlives destructors
  return *memory;
}

}  // namespace

Status Allocate(int device, uint64_t bytes, void** pointer, Pool* pool) {
  *pointer = nullptr;
  if (!EnsureContext(device)) return HasCard(device) ? kOutOfMemory : kNoDevice;
  const auto asked = static_cast<int64_t>(std::min(bytes, kMostAsked));
  uint64_t address = 0;
  const bool has_room =
      Memory().Allocate({.bytes = asked, .device = device, .pool = pool}, Asker(), address);
  *pointer = reinterpret_cast<void*>(address);
  return has_room ? kSuccess : kOutOfMemory;
}

bool Free(void* pointer) { return Memory().Free(reinterpret_cast<uint64_t>(pointer)); }

void FreeAllOf(int device) { Memory().FreeAllOf(device); }

std::optional<DeviceBlock> BlockOf(const void* pointer) {
  return Memory().BlockOf(reinterpret_cast<uint64_t>(pointer));
}

}  // namespace onnxfit::absent
