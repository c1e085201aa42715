// Sizes that contradict one another, told so that whoever chose them can be found.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "estimator/base/error.h"

namespace onnxfit {

// Two sizes that a node wants to be the same.
struct SizeConflict {
  std::string text = {};   // "it reads 4 channels of …, its weight … takes 3"
  int64_t found = 0;       // 0: which sizes they are is not known
  int64_t expected = 0;    // by a weight, a table, another operand
  bool by_weight = false;  // or by a table: no other export would have it in another size
};

// What a node does not take: `where` is the node, `text` the conflict's, or says more.
class SizeError : public Error {
 public:
  SizeError(Parts parts, SizeConflict conflict)
      : Error(std::move(parts)), conflict_(std::move(conflict)) {}

  const SizeConflict& conflict() const { return conflict_; }

 private:
  SizeConflict conflict_;
};

}  // namespace onnxfit
