// Where a number comes from.
#pragma once

#include <cstdint>
#include <string_view>

namespace onnxfit {

enum class Basis : uint8_t {
  kExact,     // from the graph
  kModelled,  // a rule of the framework or its allocator
  kMeasured,  // seen on a card
  kAssumed,   // a guess, which is said
};

constexpr std::string_view ToString(Basis basis) {
  constexpr std::string_view kNames[] = {"exact", "modelled", "measured", "assumed"};
  return kNames[static_cast<size_t>(basis)];
}

}  // namespace onnxfit
