// Memory of the cards: addresses that nothing lies behind, and how many bytes each takes.
#pragma once

#include <cstdint>
#include <optional>

#include "estimator/absent/status.h"

namespace onnxfit::absent {

// Where memory of cards lies: no host memory is mapped there on x86-64 Linux, whose mappings begin
// at the other end of 47 bits, and programs below 2^45 at 0x5….
inline constexpr uint64_t kFirstAddress = uint64_t{1} << 44;
inline constexpr uint64_t kAddressesEnd = uint64_t{1} << 46;

inline bool IsDevice(const void* pointer) {
  const auto address = reinterpret_cast<uint64_t>(pointer);
  return address >= kFirstAddress && address < kAddressesEnd;
}

// What the driver maps at once; smaller requests share such a page.
inline constexpr int64_t kPage = int64_t{2} << 20;

struct DeviceBlock {
  uint64_t address = 0;
  int64_t bytes = 0;  // as they were asked for
  int device = 0;     // the program's number of it
};

// 2 (out of memory) where the card is full.
Status Allocate(int device, int64_t bytes, void** pointer);

// False where no block begins there.
bool Free(void* pointer);

// The block that an address lies in.
std::optional<DeviceBlock> BlockOf(const void* pointer);

// Addresses without memory behind them, as cuMemAddressReserve gives them.
uint64_t ReserveAddresses(uint64_t bytes);

}  // namespace onnxfit::absent
