// Rows about layers as scripts of benchmarks/convolutions pack them: numbers as LEB128.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "estimator/base/calibration.h"

namespace onnxfit {

// A layer is a convolution but for the size of its batch.  Those of fp16 and bf16 have the same
// key: both are 16 bits for the same kernels.  As key() of benchmarks/convolutions/pack.py.  It
// begins with the key of its kin, the same layer on pictures of any size, and ends with these.
std::string LayerKey(const Convolution& convolution);
std::string KinKey(const Convolution& convolution);

// Reads what views a text that must live as long.
class RowReader {
 public:
  explicit RowReader(std::string_view text) : text_(text) {}

  bool AtEnd() const { return text_.empty(); }
  std::string_view rest() const { return text_; }

  // LEB128: seven bits a byte, the least first.  Both throw Error where the text ends early.
  int64_t Number();
  std::string_view Take(size_t size);

 private:
  std::string_view text_;
};

}  // namespace onnxfit
