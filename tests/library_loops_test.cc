#include <doctest/doctest.h>

#include <string>

#include "estimator/eager/dispatch.h"
#include "estimator/program/libraries.h"
#include "tests/pt2_helpers.h"
#include "tests/trace_helpers.h"

namespace onnxfit::library_loops_test {
namespace {

std::string PhaseOf(const std::string& text, const std::string& name) {
  const size_t begin = text.find("\n" + name);
  return text.substr(begin + 1, text.find('\n', begin + 1) - begin - 1);
}

TrainingSettings By(LoopLibrary library, Precision precision = Precision::kFp32) {
  return {.precision = precision,
          .optimizer = Optimizer::kSgd,
          .loop = {.library = library},
          .steps = 1};
}

TEST_CASE("accelerate goes backward from a quotient, beside the loss") {
  const std::string text = TraceText(kTwoLayers, By(LoopLibrary::kAccelerate));
  CHECK_MESSAGE(PhaseOf(text, "backward")
                    .starts_with("backward  +loss / 1:4 +loss.grad:4 +loss.grad:4 "
                                 "+log_probabilities.grad:128"),
                text);
  CHECK_MESSAGE(PhaseOf(text, "backward").ends_with("-loss.grad -loss / 1"), text);
}

TEST_CASE("accelerate casts outputs once autocast has ended, and takes the loss of those") {
  const std::string text = TraceText(kTwoLayers, By(LoopLibrary::kAccelerate, Precision::kAmpBf16));
  CHECK_MESSAGE(PhaseOf(text, "forward")
                    .ends_with("+y:64 -w1.cast +y.float:128 -y +log_probabilities:128 +loss:4 "
                               "+loss.total_weight:4 -y.float"),
                text);
}

}  // namespace
}  // namespace onnxfit::library_loops_test
