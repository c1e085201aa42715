// Copies in which what is there stands several times, and the sums that are their gradients.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/pt2_helpers.h"
#include "tests/trace_helpers.h"

namespace onnxfit::repeats_test {
namespace {

using namespace onnxfit::pt2;  // NOLINT(google-build-using-namespace): its helpers

// The events of backward through `op`, r of `repeated`, of what a parameter of `sizes` makes.
std::string Backward(std::string_view op, const std::vector<int64_t>& sizes,
                     const std::vector<int64_t>& repeated) {
  ExportedBuilder net;
  net.Parameter("p_w", "w", sizes).Input("x", {});
  net.MakeFixed("torch.ops.aten.exp.default", "e", {{"self", Ref("p_w")}}, sizes);
  net.MakeFixed(op, "r", {{"self", Ref("e")}}, repeated);
  net.MakeFixed("torch.ops.aten.exp.default", "y", {{"self", Ref("r")}}, repeated);
  const TrainingSettings settings = {.optimizer = Optimizer::kSgd, .loss = Loss::kMse, .steps = 1};
  const std::string text = ToString(Train(Made(net.Return("y"), settings).program, settings));
  const size_t from = text.find("backward");
  return text.substr(from, text.find('\n', from) - from);
}

constexpr char kRepeat[] = "torch.ops.aten.repeat.default";
constexpr char kInterleave[] = "torch.ops.aten.repeat_interleave.self_int";

// repeat_backward: two dimensions in front, one after the other.
TEST_CASE("dimensions that repeat puts in front are summed up one by one") {
  const std::string text = Backward(kRepeat, {5, 8}, {4, 3, 5, 8});
  CHECK_MESSAGE(text.find("+r.scratch:480 +e.grad:160 -r.scratch -r.grad") != text.npos, text);
}

TEST_CASE("what is repeated in its own dimensions is summed up at once") {
  const std::string text = Backward(kRepeat, {5, 8}, {10, 24});
  CHECK_MESSAGE(text.find("-y +e.grad:160 -r.grad") != text.npos, text);
  CHECK(Backward(kRepeat, {5, 8}, {5, 8}).find("e.grad") == text.npos);
}

// repeat_interleave_symint: a copy of a view that is expanded.
TEST_CASE("what is interleaved once has its gradient as it comes") {
  constexpr char kSum[] = "-y +r.view.grad:160 -r.grad";
  const std::vector<std::vector<int64_t>> several = {{5, 16}, {10, 8}, {80}};
  for (const std::vector<int64_t>& repeated : several) {
    const std::string text = Backward(kInterleave, {5, 8}, repeated);
    CHECK_MESSAGE(text.find(kSum) != text.npos, text);
  }
  const std::string once = Backward(kInterleave, {5, 8}, {5, 8});
  CHECK_MESSAGE(once.find("-y +w.grad:160 -r.grad") != once.npos, once);
}

}  // namespace
}  // namespace onnxfit::repeats_test
