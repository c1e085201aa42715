// An estimate as a page for people: the answer first, then where the bytes go.
#pragma once

#include <cstddef>
#include <string>

#include "estimator/fit/estimate.h"

namespace onnxfit {

struct TextOptions {
  size_t rows = 8;       // of the largest tensors
  bool ascii = false;    // no letter beyond ASCII
  bool color = false;    // bars and the codes of warnings
  bool verbose = false;  // adds details and notes
  bool quiet = false;    // the first line alone
};

// At most 80 columns wide, every line with its newline.  The shares of the breakdown add
// up to 100.0 %; what it leaves of device_bytes gets a row of its own.  Where a tensor was
// asked for (--why), its life takes the place of the tables.
std::string ToText(const Estimate& estimate, const TextOptions& options = {});

}  // namespace onnxfit
