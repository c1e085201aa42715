// What CUDA and its libraries were seen to take on a card: written by `verify --save`, read by
// later estimates for that card.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/base/tensor_type.h"

namespace onnxfit {

// The three calls that a convolution makes of cuDNN in a training step.
enum class ConvolutionPass : uint8_t { kForward, kDataGradient, kWeightGradient };

// A call of cuDNN, by all that its workspace depends on.  Dims are NCHW (NCDHW), contiguous.
struct Convolution {
  ConvolutionPass pass = ConvolutionPass::kForward;
  DType dtype = DType::kFloat32;  // of all three tensors
  Dims input;
  Dims weight;
  Dims output;
  std::vector<int64_t> stride;  // one a spatial dimension
  std::vector<int64_t> padding;
  std::vector<int64_t> dilation;
  int64_t groups = 1;
  bool is_transposed = false;  // `input` and `output` are then those of the transposed one

  bool operator==(const Convolution&) const = default;
};

struct ConvolutionWorkspace {
  Convolution convolution;
  int64_t bytes = 0;

  bool operator==(const ConvolutionWorkspace&) const = default;
};

// Memory that the card lost while something was loaded or made, in bytes.
struct LoadedBytes {
  std::string what;  // "context", "cublas handle", "kernels of fp32 products"
  int64_t bytes = 0;

  bool operator==(const LoadedBytes&) const = default;
};

struct Calibration {
  std::string card;            // CUDA's name: "NVIDIA A100-SXM4-40GB"
  int compute_capability = 0;  // times ten
  int64_t multiprocessors = 0;
  std::string driver = {};               // "580.65.06"
  std::string cuda = {};                 // "13.0", the runtime's
  std::string cublas = {};               // "13.1.0", "" where it was not found
  std::string cudnn = {};                // "9.19.0"
  std::vector<LoadedBytes> loaded = {};  // adds up to what a process takes beside its tensors
  std::vector<ConvolutionWorkspace> convolutions = {};

  bool operator==(const Calibration&) const = default;
};

}  // namespace onnxfit
