#include <doctest/doctest.h>

#include <string>

#include "tests/trace_helpers.h"

namespace onnxfit::smoothed_loss_test {
namespace {

// What comes behind the model's last call, as `phase` has it.
std::string LossOf(const TrainingSettings& settings, const std::string& phase,
                   const std::string& from) {
  const std::string text = TraceText(kTwoLayers, settings);
  const size_t begin = text.find(from, text.find("\n" + phase));
  const size_t end = text.find('\n', begin);
  return begin == std::string::npos ? text : text.substr(begin, end - begin);
}

// [16, 2] logits, 16 labels.  The order of PyTorch's events (recorded, torch 2.11), but for
// the frees at a function's end.
TEST_CASE("labels are smoothed by a sum over the classes") {
  CHECK(LossOf({.optimizer = Optimizer::kSgd, .label_smoothing = true, .steps = 1}, "forward",
               "+loss._log_softmax") ==
        "+loss._log_softmax:128 +loss.nll_loss:4 +loss.nll_loss.total_weight:4 +loss.sum:64 "
        "+loss.neg:64 -loss.sum +loss.eq:16 +loss.logical_not:16 +loss.sum:8 +loss.scratch:128 "
        "-loss.scratch +loss.sum:4 +loss.div:4 -loss.sum -loss.logical_not +loss.mul.Scalar:4 "
        "+loss.mul.Scalar:4 +loss:4 -loss.nll_loss -loss.neg -loss.div -loss.mul.Scalar "
        "-loss.mul.Scalar -y");
}

TEST_CASE("autocast casts what the loss reads, not what is summed") {
  const TrainingSettings settings = {.precision = Precision::kAmpBf16,
                                     .optimizer = Optimizer::kSgd,
                                     .label_smoothing = true,
                                     .steps = 1};
  CHECK(LossOf(settings, "forward", "+loss._log_softmax")
            .starts_with("+loss._log_softmax:64 +loss._log_softmax.cast:128 +loss.nll_loss:4 "
                         "+loss.nll_loss.total_weight:4 +loss.sum:64 +loss.neg:64"));
}

}  // namespace
}  // namespace onnxfit::smoothed_loss_test
