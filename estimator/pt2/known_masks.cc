// What the known elements of a mask hide.
#include <algorithm>

#include "estimator/base/index.h"
#include "estimator/pt2/known_elements.h"

namespace onnxfit::pt2 {

bool AreAllTrue(const Known& mask) {
  return std::ranges::all_of(mask.elements, [](int64_t element) { return element != 0; });
}

bool IsCausal(const Known& mask) {
  const size_t rank = mask.stored.size();
  if (rank < 2 || mask.stored[rank - 1] != mask.stored[rank - 2] || mask.stored[rank - 1] < 2) {
    return false;
  }
  for (size_t axis = 0; axis + 2 < rank; ++axis) {
    if (mask.stored[axis] != 1) return false;
  }
  const int64_t size = mask.stored[rank - 1];
  for (int64_t row = 0; row < size; ++row) {
    for (int64_t column = 0; column < size; ++column) {
      const bool is_shown = mask.elements[Index(row * size + column)] != 0;
      if (is_shown != (column <= row)) return false;
    }
  }
  return true;
}

}  // namespace onnxfit::pt2
