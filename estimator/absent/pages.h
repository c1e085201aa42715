// Whole pages of the cards: who has them, and at which addresses.
#pragma once

#include <cstdint>
#include <string>

#include "estimator/base/device_pages.h"

namespace onnxfit::absent {

// Where memory of cards lies: where x86-64 Linux maps nothing (arch/x86/mm/mmap.c).  It maps below
// the stack, at the upper end of 47 bits; where a stack has no limit, from a sixth of them
// (0x1555…) downwards; in the old layout (setarch -L) from a third (0x2aaa…) upwards.  Programs lie
// at 0x4… or from 0x5555… on.
inline constexpr uint64_t kFirstAddress = uint64_t{22} << 40;
inline constexpr uint64_t kAddressesEnd = uint64_t{42} << 40;

// Of each card, in the order of devices; behind them lie addresses without memory.
inline constexpr uint64_t kAddressesOfCard = uint64_t{1} << 39;

inline bool IsDevice(const void* pointer) {
  const auto address = reinterpret_cast<uint64_t>(pointer);
  return address >= kFirstAddress && address < kAddressesEnd;
}

// What the driver maps at once.
inline constexpr int64_t kPage = kDevicePage;

template <class Number>
Number RoundUp(Number bytes, Number to) {
  return (bytes + to - 1) / to * to;
}

// What cudaMallocAsync takes from.  It keeps pages that nobody uses any more, as many as it is told
// to; a card's default pool none.
struct Pool {
  int device = 0;
  bool is_of_host = false;
  int64_t kept_bytes = 0;  // the release threshold
  int64_t page_bytes = 0;  // in use, in whole pages
  int64_t reserved_bytes = 0;
  int64_t most_reserved_bytes = 0;
  int64_t used_bytes = 0;  // as they were asked for, in units of cudaMalloc's
  int64_t most_used_bytes = 0;
};

// Takes whole pages of the card, of a pool's or for itself (null).  False where the card, or its
// range of addresses, is full.  `asker`: whom the event names (askers.h).
bool TakePages(int device, Pool* pool, int64_t bytes, const std::string& asker, uint64_t& address);
void GivePages(int device, Pool* pool, uint64_t address, int64_t bytes);

// Bytes that a pool's user gets, or with a sign gives back.
void UsePool(Pool& pool, int64_t bytes);

// Gives back what the pool has beyond what is used and so many bytes.
void TrimPool(Pool& pool, int64_t kept_bytes);

// As they are now; the second forgets the highest of them.
Pool Read(const Pool& pool);
void ForgetMost(Pool& pool, bool of_used);

// Addresses without memory behind them.  0 where none are left.
uint64_t ReserveAddresses(uint64_t bytes, uint64_t alignment = kPage);
void FreeAddresses(uint64_t address, uint64_t bytes);

}  // namespace onnxfit::absent
