// Random numbers that are the same everywhere.
#pragma once

#include <cstdint>

namespace onnxfit {

// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  // From 0 to `end` - 1; uneven by less than `end` / 2^64.
  uint64_t Below(uint64_t end) { return Next() % end; }

  // Above 0 and below 1.
  double Fraction() {
    constexpr double kUnit = 1.0 / (uint64_t{1} << 53);
    return (static_cast<double>(Next() >> 11) + 0.5) * kUnit;
  }

 private:
  uint64_t Next() {
    uint64_t bits = state_ += 0x9e3779b97f4a7c15;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    return bits ^ (bits >> 31);
  }

  uint64_t state_;
};

}  // namespace onnxfit
