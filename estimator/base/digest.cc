#include "estimator/base/digest.h"

#include <fmt/format.h>

#include <cstdint>

namespace onnxfit {

std::string Digest(std::string_view text) {
  // RFC 9923, for 64 bits.
  constexpr uint64_t kOffsetBasis = 0xCBF29CE484222325;
  constexpr uint64_t kPrime = 0x00000100000001B3;
  uint64_t hash = kOffsetBasis;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
  return fmt::format("{:016x}", hash);
}

}  // namespace onnxfit
