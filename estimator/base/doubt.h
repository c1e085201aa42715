// What a file leaves open, so that recovery guesses; a flag each says how it is.
#pragma once

#include <cstdint>

namespace onnxfit {

enum class Doubt : uint8_t {
  kDropout,    // whether the p of dropouts was above 0 (--dropout)
  kTiedHead,   // whether a head's weight is that of the embedding (--assume tied-head)
  kBatchNorm,  // whether batch norms were folded into convolutions with a bias (--batch-norm)
  kInPlace,    // whether activations and sums write over their input (--in-place)
};

}  // namespace onnxfit
