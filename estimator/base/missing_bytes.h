// What warnings say of memory that a run takes and no answer counts.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "estimator/base/error.h"

namespace onnxfit {

// Reasons, each with the code of its warning, and each once: "the body of a loop is counted once
// (OF117)".
struct MissingBytes {
  std::vector<std::string> unbounded = {};  // nobody knows how much: such a run never FITS
  // Taken to be at most as much again as the run takes otherwise (assumed).
  std::vector<std::string> bounded = {};

  bool operator==(const MissingBytes&) const = default;
};

// What all of `lists` say.  O(warnings).
MissingBytes MissingBytesOf(std::initializer_list<const Warnings*> lists);

}  // namespace onnxfit
