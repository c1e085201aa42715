// Sizes in bytes: arithmetic that cannot overflow silently, and how sizes read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace onnxfit {

inline constexpr int64_t kKiB = 1024;
inline constexpr int64_t kMiB = 1024 * kKiB;
inline constexpr int64_t kGiB = 1024 * kMiB;

// a + b and a * b for a, b >= 0.  Throws Error where the result needs more than
// 63 bits: such sizes are refused, never wrapped.
int64_t CheckedAdd(int64_t a, int64_t b);
int64_t CheckedMul(int64_t a, int64_t b);
[[noreturn]] void RefuseOverflow();  // what they throw

// `bytes` rounded up to a multiple of `step`.  REQUIRES: bytes >= 0, step > 0.
int64_t RoundUp(int64_t bytes, int64_t step);

// a / b, rounded up.  REQUIRES: a >= 0, b > 0.
constexpr int64_t DivideUp(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// As PyTorch prints a size, "1.20 GiB" (format_size of c10/cuda/CUDACachingAllocator.cpp).
std::string PyTorchBytes(int64_t bytes);

// "0 B", "512 B", "3.4 KiB", "97.5 MiB", "11.2 GiB": three or four digits, units of 1024.
std::string FormatBytes(int64_t bytes);

// "8GiB", "512 MiB", "16G", "1073741824", "1.5GiB" (units of 1024), "8GB", "512MB" (of 1000); case
// is free.  A number without a unit is bytes, and refused from 1 to 2^20, where MiB must have been
// meant. Throws Error with `flag` as its place.
int64_t ParseBytes(std::string_view text, std::string_view flag);

}  // namespace onnxfit
