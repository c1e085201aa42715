#include "estimator/absent/memory.h"

#include <map>
#include <mutex>
#include <string>

#include "estimator/absent/addresses.h"
#include "estimator/absent/askers.h"
#include "estimator/absent/card.h"
#include "estimator/absent/contents.h"
#include "estimator/absent/counts.h"
#include "estimator/absent/events.h"

namespace onnxfit::absent {
namespace {

constexpr int64_t kLargestShared = kPage / 2;  // smaller ones lie in a page with others
constexpr int64_t kAlignment = 512;
constexpr uint64_t kOfCard = uint64_t{1}
                             << 41;  // addresses of each card; others are without memory

// A page of small blocks: filled from its beginning, and given back when all of them are.
struct SharedPage {
  int64_t filled = 0;
  int blocks = 0;
};

int64_t RoundUp(int64_t bytes, int64_t to) { return (bytes + to - 1) / to * to; }

class DeviceMemory {
 public:
  Status Allocate(int device, int64_t bytes, const std::string& asker, uint64_t& address) {
    const std::lock_guard lock(mutex_);
    const bool is_small = bytes <= kLargestShared;
    const bool has_room = is_small ? TakeShared(device, bytes, asker, address)
                                   : TakePages(device, RoundUp(bytes, kPage), asker, address);
    if (!has_room) return kOutOfMemory;
    blocks_[address] = {address, bytes, device};
    return kSuccess;
  }

  bool Free(uint64_t address) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(address);
    if (found == blocks_.end()) return false;
    const DeviceBlock block = found->second;
    blocks_.erase(found);
    ForgetContents(address, static_cast<uint64_t>(block.bytes));
    if (block.bytes > kLargestShared) {
      GivePages(block.device, address, RoundUp(block.bytes, kPage));
    } else {
      FreeShared(block);
    }
    return true;
  }

  std::optional<DeviceBlock> BlockOf(uint64_t address) {
    const std::lock_guard lock(mutex_);
    const auto after = blocks_.upper_bound(address);
    if (after == blocks_.begin()) return std::nullopt;
    const DeviceBlock& block = std::prev(after)->second;
    const bool is_inside = address < block.address + static_cast<uint64_t>(block.bytes);
    return is_inside ? std::optional(block) : std::nullopt;
  }

  uint64_t Reserve(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    const uint64_t address = reserved_;
    reserved_ += static_cast<uint64_t>(RoundUp(static_cast<int64_t>(bytes), kPage) + kPage);
    return address;
  }

 private:
  static int PlaceOf(int device) { return Machine().cards[static_cast<size_t>(device)].place; }

  Addresses& AddressesOf(int device) {
    const auto found = addresses_.find(device);
    if (found != addresses_.end()) return found->second;
    const uint64_t first = kFirstAddress + kOfCard * static_cast<uint64_t>(device);
    const int capability = Machine().cards[static_cast<size_t>(device)].capability;
    return addresses_.try_emplace(device, first, first + kOfCard, RisingBytes(capability))
        .first->second;
  }

  bool TakePages(int device, int64_t bytes, const std::string& asker, uint64_t& address) {
    const int place = PlaceOf(device);
    const bool has_room = TakeBytes(place, bytes);
    address = has_room ? AddressesOf(device).Take(static_cast<uint64_t>(bytes)) : 0;
    WriteEvent({has_room ? "take" : "full", place, address, bytes, asker});
    return has_room;
  }

  void GivePages(int device, uint64_t address, int64_t bytes) {
    const int place = PlaceOf(device);
    GiveBytes(place, bytes);
    AddressesOf(device).Give(address, static_cast<uint64_t>(bytes));
    WriteEvent({"give", place, address, bytes, {}});
  }

  bool TakeShared(int device, int64_t bytes, const std::string& asker, uint64_t& address) {
    const int64_t rounded = RoundUp(bytes > 0 ? bytes : 1, kAlignment);
    uint64_t& page = open_[device];
    if (page == 0 || pages_[page].filled + rounded > kPage) {
      uint64_t fresh = 0;
      if (!TakePages(device, kPage, asker, fresh)) return false;
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
    if (open_[block.device] == page) open_[block.device] = 0;
    GivePages(block.device, page, kPage);
  }

  std::mutex mutex_;
  uint64_t reserved_ = kFirstAddress + kOfCard * kMostCards;  // without memory, never given back
  std::map<int, Addresses> addresses_;                        // by device
  std::map<uint64_t, DeviceBlock> blocks_;
  std::map<uint64_t, SharedPage> pages_;
  std::map<int, uint64_t> open_;  // the page that is being filled, by device
};

DeviceMemory& Memory() {
  static auto* const memory = new DeviceMemory;  // outlives destructors
  return *memory;
}

}  // namespace

Status Allocate(int device, int64_t bytes, void** pointer) {
  *pointer = nullptr;
  if (!EnsureContext(device)) return HasCard(device) ? kOutOfMemory : kNoDevice;
  uint64_t address = 0;
  const Status status =
      bytes < 0 ? kOutOfMemory : Memory().Allocate(device, bytes, Asker(), address);
  *pointer = reinterpret_cast<void*>(address);
  return status;
}

bool Free(void* pointer) { return Memory().Free(reinterpret_cast<uint64_t>(pointer)); }

std::optional<DeviceBlock> BlockOf(const void* pointer) {
  return Memory().BlockOf(reinterpret_cast<uint64_t>(pointer));
}

uint64_t ReserveAddresses(uint64_t bytes) { return Memory().Reserve(bytes); }

}  // namespace onnxfit::absent
