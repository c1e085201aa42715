#include "estimator/onnx/nonzeros.h"

#include <algorithm>
#include <span>

namespace onnxfit {
namespace {

// Whether the first element of each row, and no further one than its number, is `first`.
template <typename T>
bool IsStaircase(std::span<const T> elements, size_t size, bool first) {
  const auto is_first = [first](T element) { return (element != 0) == first; };
  for (size_t row = 0; !elements.empty(); row = row + 1 == size ? 0 : row + 1) {
    const auto left = elements.first(row + 1);
    const auto right = elements.subspan(row + 1, size - row - 1);
    if (!std::ranges::all_of(left, is_first) || std::ranges::any_of(right, is_first)) return false;
    elements = elements.subspan(size);
  }
  return true;
}

}  // namespace

template <typename T>
Nonzeros NonzerosAmong(const std::vector<T>& elements, int64_t size) {
  if (elements.empty()) return Nonzeros::kAll;
  const bool first = elements[0] != 0;
  const auto is_first = [first](T element) { return (element != 0) == first; };
  if (std::ranges::all_of(elements, is_first)) return first ? Nonzeros::kAll : Nonzeros::kNone;
  if (size < 2 || !IsStaircase(std::span(elements), static_cast<size_t>(size), first)) {
    return Nonzeros::kMixed;
  }
  return first ? Nonzeros::kLower : Nonzeros::kUpper;
}

template Nonzeros NonzerosAmong(const std::vector<uint8_t>&, int64_t);
template Nonzeros NonzerosAmong(const std::vector<int64_t>&, int64_t);
template Nonzeros NonzerosAmong(const std::vector<double>&, int64_t);

Nonzeros InverseOf(Nonzeros a) {
  switch (a) {
    case Nonzeros::kNone:
      return Nonzeros::kAll;
    case Nonzeros::kAll:
      return Nonzeros::kNone;
    case Nonzeros::kLower:
      return Nonzeros::kUpper;
    case Nonzeros::kUpper:
      return Nonzeros::kLower;
    case Nonzeros::kMixed:
      break;
  }
  return Nonzeros::kMixed;
}

Nonzeros NonzerosBySide(bool before, bool on, bool behind) {
  if (before != on) return Nonzeros::kMixed;
  if (on == behind) return on ? Nonzeros::kAll : Nonzeros::kNone;
  return on ? Nonzeros::kLower : Nonzeros::kUpper;
}

}  // namespace onnxfit
