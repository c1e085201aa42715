#include "estimator/absent/reductions.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

namespace onnxfit::absent {
namespace {

using Ranks = std::vector<std::optional<Value>>;

enum Operation { kSum = 0, kProduct = 1, kMaximum = 2, kMinimum = 3, kAverage = 4 };

template <class Number>
Number Combined(Number a, Number b, int operation) {
  switch (operation) {
    case kProduct:
      return static_cast<Number>(a * b);
    case kMaximum:
      return std::max(a, b);
    case kMinimum:
      return std::min(a, b);
    default:
      return static_cast<Number>(a + b);
  }
}

Basis BasisOf(const Ranks& ranks) {
  const auto is_guess = [](const auto& rank) { return rank->basis == Basis::kGuess; };
  return std::any_of(ranks.begin(), ranks.end(), is_guess) ? Basis::kGuess : Basis::kKnown;
}

template <class Number>
Value ReducedAs(const Ranks& ranks, int operation) {
  std::string result = ranks[0]->bytes;
  for (size_t at = 0; at + sizeof(Number) <= result.size(); at += sizeof(Number)) {
    Number value;
    std::memcpy(&value, result.data() + at, sizeof value);
    for (size_t rank = 1; rank < ranks.size(); ++rank) {
      Number other;
      std::memcpy(&other, ranks[rank]->bytes.data() + at, sizeof other);
      value = Combined(value, other, operation);
    }
    if (operation == kAverage)
      value = static_cast<Number>(value / static_cast<Number>(ranks.size()));
    std::memcpy(result.data() + at, &value, sizeof value);
  }
  return {std::move(result), BasisOf(ranks)};
}

}  // namespace

std::optional<Value> Reduced(const Ranks& ranks, int type, int operation) {
  const bool is_known = std::all_of(ranks.begin(), ranks.end(), [&](const auto& rank) {
    return rank && rank->bytes.size() == ranks[0]->bytes.size();
  });
  if (!is_known || operation > kAverage) return std::nullopt;
  switch (type) {
    case 0:
      return ReducedAs<int8_t>(ranks, operation);
    case 1:
      return ReducedAs<uint8_t>(ranks, operation);
    case 2:
      return ReducedAs<int32_t>(ranks, operation);
    case 3:
      return ReducedAs<uint32_t>(ranks, operation);
    case 4:
      return ReducedAs<int64_t>(ranks, operation);
    case 5:
      return ReducedAs<uint64_t>(ranks, operation);
    case 7:
      return ReducedAs<float>(ranks, operation);
    case 8:
      return ReducedAs<double>(ranks, operation);
    default:
      return std::nullopt;
  }
}

}  // namespace onnxfit::absent
