#include "estimator/absent/addresses.h"

#include <iterator>

namespace onnxfit::absent {
namespace {

constexpr int kHopper = 90;
constexpr uint64_t kRisingOnHopper = uint64_t{390} << 20;
constexpr uint64_t kAllRise = uint64_t{1} << 44;

}  // namespace

uint64_t RisingBytes(int capability) {
  const bool is_like_h200 = capability >= kHopper && capability < 120;
  return is_like_h200 ? kRisingOnHopper : kAllRise;
}

Addresses::Addresses(uint64_t first, uint64_t end, uint64_t rising_bytes)
    : middle_(end - first > rising_bytes ? end - rising_bytes : first) {
  if (middle_ > first) falling_[first] = middle_;
  rising_[middle_] = end;
}

uint64_t Addresses::Take(uint64_t bytes) {
  for (auto range = rising_.begin(); range != rising_.end(); ++range) {
    const auto [first, end] = *range;
    if (end - first < bytes) continue;
    rising_.erase(range);
    if (end - first > bytes) rising_[first + bytes] = end;
    return first;
  }
  for (auto range = falling_.rbegin(); range != falling_.rend(); ++range) {
    const auto [first, end] = *range;
    if (end - first < bytes) continue;
    if (end - first == bytes) {
      falling_.erase(std::next(range).base());
    } else {
      range->second = end - bytes;
    }
    return end - bytes;
  }
  return 0;
}

void Addresses::Give(uint64_t address, uint64_t bytes) {
  Ranges& ranges = address >= middle_ ? rising_ : falling_;
  uint64_t end = address + bytes;
  const auto after = ranges.lower_bound(address);
  if (after != ranges.begin() && std::prev(after)->second == address) {
    address = std::prev(after)->first;
    ranges.erase(std::prev(after));
  }
  if (after != ranges.end() && after->first == end) {
    end = after->second;
    ranges.erase(after);
  }
  ranges[address] = end;
}

}  // namespace onnxfit::absent
