// Command lines, as the tests of options write them.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "estimator/base/error.h"

namespace onnxfit {

using Args = std::vector<std::string>;

inline Options Parse(const Args& args) { return ParseOptions(args); }

// What the error says, "" where there is none.
inline std::string ErrorOf(const Args& args) {
  try {
    Parse(args);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace onnxfit
