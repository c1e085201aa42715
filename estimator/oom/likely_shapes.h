// From a number of bytes back to tensors that may have asked for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "estimator/base/tensor_type.h"

namespace onnxfit {

// Shapes as networks have them, of `low` to `high` bytes, the likeliest first, at most `most`:
// [N, C, S, S] of convolutions and attention, [N, V] over known vocabularies, [M, N] of layers.
// A guess: many shapes have the same size.  O(1).
std::vector<TensorType> LikelyShapes(int64_t low, int64_t high, size_t most);

// "4 * 2^10 * 5^2 * 29^2" for 86118400: four bytes an element, and the primes of their number.
// "" where that says nothing: no multiple of four, or a prime above 10^6.
std::string FactorText(int64_t bytes);

// The S for which S^`power` elements of `bytes_each` are nearest to `bytes`.
int64_t RootOf(int64_t bytes, int64_t bytes_each, int power);

}  // namespace onnxfit
