#include "estimator/absent/pages.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>

#include "estimator/absent/addresses.h"
#include "estimator/absent/card.h"
#include "estimator/absent/counts.h"
#include "estimator/absent/events.h"

namespace onnxfit::absent {
namespace {

constexpr uint64_t kFirstReserved = kFirstAddress + kAddressesOfCard * kMostCards;
static_assert(kFirstReserved < kAddressesEnd);

struct AllPages {
  std::mutex mutex;
  std::map<int, Addresses> cards;  // by device
  Addresses reserved{kFirstReserved, kAddressesEnd, kAddressesEnd};
};

AllPages& All() {
  static auto* const pages = new AllPages;  // outlives destructors
  return *pages;
}

int PlaceOf(int device) { return Machine().cards[static_cast<size_t>(device)].place; }

// The rest is under the mutex.

Addresses& AddressesOf(int device) {
  const auto found = All().cards.find(device);
  if (found != All().cards.end()) return found->second;
  const uint64_t first = kFirstAddress + kAddressesOfCard * static_cast<uint64_t>(device);
  const int capability = Machine().cards[static_cast<size_t>(device)].capability;
  return All()
      .cards.try_emplace(device, first, first + kAddressesOfCard, RisingBytes(capability))
      .first->second;
}

// What a pool keeps is used first.
bool TakeBytesFor(int place, Pool* pool, int64_t bytes) {
  if (pool == nullptr) return TakeBytes(place, bytes);
  const int64_t more = std::max<int64_t>(0, pool->page_bytes + bytes - pool->reserved_bytes);
  if (more > 0 && !TakeBytes(place, more)) return false;
  pool->page_bytes += bytes;
  pool->reserved_bytes += more;
  pool->most_reserved_bytes = std::max(pool->most_reserved_bytes, pool->reserved_bytes);
  return true;
}

void Trim(Pool& pool, int64_t kept_bytes) {
  const int64_t rest = std::max(kept_bytes, pool.page_bytes);
  if (pool.reserved_bytes <= rest) return;
  GiveBytes(PlaceOf(pool.device), pool.reserved_bytes - rest);
  pool.reserved_bytes = rest;
}

void GiveBytesFor(int place, Pool* pool, int64_t bytes) {
  if (pool == nullptr) return GiveBytes(place, bytes);
  pool->page_bytes -= bytes;
  Trim(*pool, pool->kept_bytes);
}

}  // namespace

bool TakePages(int device, Pool* pool, int64_t bytes, const std::string& asker, uint64_t& address) {
  const std::lock_guard lock(All().mutex);
  const int place = PlaceOf(device);
  address = 0;
  if (TakeBytesFor(place, pool, bytes)) {
    address = AddressesOf(device).Take(static_cast<uint64_t>(bytes));
    if (address == 0) GiveBytesFor(place, pool, bytes);
  }
  WriteEvent({address != 0 ? "take" : "full", place, address, bytes, asker});
  return address != 0;
}

void GivePages(int device, Pool* pool, uint64_t address, int64_t bytes) {
  const std::lock_guard lock(All().mutex);
  const int place = PlaceOf(device);
  GiveBytesFor(place, pool, bytes);
  AddressesOf(device).Give(address, static_cast<uint64_t>(bytes));
  WriteEvent({"give", place, address, bytes, {}});
}

void UsePool(Pool& pool, int64_t bytes) {
  const std::lock_guard lock(All().mutex);
  pool.used_bytes += bytes;
  pool.most_used_bytes = std::max(pool.most_used_bytes, pool.used_bytes);
}

void TrimPool(Pool& pool, int64_t kept_bytes) {
  const std::lock_guard lock(All().mutex);
  Trim(pool, kept_bytes);
}

Pool Read(const Pool& pool) {
  const std::lock_guard lock(All().mutex);
  return pool;
}

void ForgetMost(Pool& pool, bool of_used) {
  const std::lock_guard lock(All().mutex);
  if (of_used) {
    pool.most_used_bytes = pool.used_bytes;
  } else {
    pool.most_reserved_bytes = pool.reserved_bytes;
  }
}

namespace {

// One page is left free behind what was reserved, so that no two ranges are one.
uint64_t WithGap(uint64_t bytes) {
  constexpr uint64_t kPageBytes = kPage;
  return RoundUp(bytes, kPageBytes) + kPageBytes;
}

}  // namespace

uint64_t ReserveAddresses(uint64_t bytes, uint64_t alignment) {
  const uint64_t more = alignment > kPage ? alignment : 0;
  if (bytes > kAddressesEnd || more > kAddressesEnd) return 0;
  const std::lock_guard lock(All().mutex);
  const uint64_t taken = All().reserved.Take(WithGap(bytes) + more);
  if (taken == 0 || more == 0) return taken;
  const uint64_t aligned = RoundUp(taken, more);
  if (aligned > taken) All().reserved.Give(taken, aligned - taken);
  if (taken + more > aligned) All().reserved.Give(aligned + WithGap(bytes), taken + more - aligned);
  return aligned;
}

void FreeAddresses(uint64_t address, uint64_t bytes) {
  const std::lock_guard lock(All().mutex);
  All().reserved.Give(address, WithGap(bytes));
}

}  // namespace onnxfit::absent
