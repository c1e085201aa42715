// What cudaMalloc() takes of a card for blocks: pages, of which small blocks share some.
#pragma once

#include <cstdint>
#include <span>

namespace onnxfit {

inline constexpr int64_t kDevicePage = int64_t{2} << 20;
inline constexpr int64_t kLargestSharedBlock = kDevicePage / 2;  // smaller ones share pages
inline constexpr int64_t kDeviceAlignment = 512;                 // of small blocks

// Of blocks that are asked for in this order and kept.  O(blocks).
inline int64_t PageBytesOf(std::span<const int64_t> blocks) {
  int64_t pages = 0;
  int64_t room = 0;  // in the page that small blocks share
  for (const int64_t bytes : blocks) {
    const bool is_shared = bytes <= kLargestSharedBlock;
    const int64_t unit = is_shared ? kDeviceAlignment : kDevicePage;
    const int64_t rounded = (bytes > 0 ? bytes + unit - 1 : unit) / unit * unit;
    if (is_shared && rounded <= room) {
      room -= rounded;
      continue;
    }
    pages += is_shared ? kDevicePage : rounded;
    if (is_shared) room = kDevicePage - rounded;
  }
  return pages;
}

}  // namespace onnxfit
