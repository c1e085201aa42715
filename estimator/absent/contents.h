// What the host wrote to cards: kept until a kernel gets the address, which may then have written
// anything.  What was never kept is read as zeros, and stays unknown where it is copied to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace onnxfit::absent {

// Of one copy.  Larger ones are data, which nobody decides by.
inline constexpr size_t kMostKept = size_t{1} << 20;

// Whether what is kept is what a card would hold, or a likely value in the place of one that nobody
// computes.
enum class Basis { kKnown, kGuess };

struct Value {
  std::string bytes;
  Basis basis = Basis::kKnown;
};

// Copies between host and card, card and card, host and host: either end may be either.
void CopyBytes(void* to, const void* from, size_t bytes);

// Writes to a card.
void WriteBytes(void* to, const void* from, size_t bytes, Basis basis);

// What is kept of all of these bytes; a guess where one of them is.
std::optional<Value> ReadValue(const void* device, size_t bytes);

// From now on, what is kept of this range of a card is a guess.
void Doubt(void* device, size_t bytes);

// Fills bytes with repetitions of a pattern of 1, 2 or 4 bytes.
void FillBytes(void* to, const void* pattern, size_t pattern_bytes, size_t bytes);

// Everything that was written into that range; or into whatever an address of which lies there.
void ForgetContents(uint64_t address, uint64_t bytes);
void ForgetAround(uint64_t address);

// Whether nothing is kept, which spares kernels' arguments a look.
bool IsNothingKept();

}  // namespace onnxfit::absent

// For who computes small values beside the program: writes, or reads, what the card holds.  Reading
// returns how many of the bytes are known; of the others, guesses are read and the rest are zeros.
extern "C" void onnxfit_poke(void* device, const void* host, size_t bytes, int is_guess);
extern "C" size_t onnxfit_peek(void* host, uint64_t device, size_t bytes);
