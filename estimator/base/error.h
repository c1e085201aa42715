// What goes wrong, as values: an Error is bad input and ends the command, a
// Warning is our ignorance and travels with the answer.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace onnxfit {

// The one exception.  Thrown by whoever reads what people wrote (loader, shapes,
// options), caught in cli alone.  Reads as
//   FILE: WHERE: what was expected, what was found (try: HINT)
// where each part but the text may be empty.  Does not start with "error: ".
class Error : public std::runtime_error {
 public:
  struct Parts {
    std::string file = {};    // the model or config, "" if the thrower does not know it
    std::string where = {};   // "node 'conv1'", "byte 1034", "--batch"
    std::string text = {};    // what was expected, what was found
    std::string hint = {};    // what to type instead, without "try: "
    std::string detail = {};  // what a library said, for -v: not in what()
  };

  explicit Error(Parts parts);

  const Parts& parts() const { return parts_; }

 private:
  Parts parts_;
};

// A doubt about the answer.  `code` is stable ("OF102", listed in warnings.h),
// `text` is one sentence for people.
struct Warning {
  std::string code;
  std::string text;

  bool operator==(const Warning&) const = default;
};

using Warnings = std::vector<Warning>;

}  // namespace onnxfit
