// Which addresses a card hands out.  Their order decides which of two free blocks of one size
// PyTorch's allocator takes (the lower one), and with that how much it reserves.
#pragma once

#include <cstdint>
#include <map>

namespace onnxfit::absent {

// Of one card.  What is given back is handed out again.
class Addresses {
 public:
  // [first, end) are the card's.  The last `rising_bytes` of them are handed out from their
  // beginning; when these are full, those below, from their end down.
  Addresses(uint64_t first, uint64_t end, uint64_t rising_bytes);

  // Whole pages.  0 where there are none.
  uint64_t Take(uint64_t bytes);
  void Give(uint64_t address, uint64_t bytes);

 private:
  using Ranges = std::map<uint64_t, uint64_t>;  // beginning to end, none beside another

  uint64_t middle_;  // where the rising ones begin
  Ranges falling_;
  Ranges rising_;
};

// How many rise on a card of this compute capability, times ten.  All where nobody saw otherwise:
// GeForce RTX 3060 and 4060 (benchmarks/real_cards, "Ties between cached blocks").  On an H200
// (driver 580.159.04) they rise for the first 390 MiB of a process, then fall: of 32 runs whose
// peaks differ between the two orders, 25 are to the byte so, 7 and 8 with either alone
// (benchmarks/absent).
uint64_t RisingBytes(int capability);

}  // namespace onnxfit::absent
