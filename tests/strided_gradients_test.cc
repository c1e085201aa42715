// Gradients that do not lie as their tensors do: who copies them, and who reads them as they are.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "tests/pt2_helpers.h"
#include "tests/trace_helpers.h"

namespace onnxfit::strided_gradients_test {
namespace {

// AccumulateGrad clones what does not lie as the parameter does.
TEST_CASE("a gradient that lies otherwise than its parameter is copied") {
  const auto text = [](const char* nodes, const char* shape) {
    return TraceText(fmt::format("net (float[4, 8] x) => (float[4, 8] y) < float[{}] w = "
                                 "[\"location\": \"none\"] > {{ {} }}",
                                 shape, nodes),
                     {.optimizer = Optimizer::kSgd, .loss = Loss::kMse, .steps = 1});
  };
  const std::string straight = text("y = Add (w, x)", "4, 8");
  CHECK_MESSAGE(straight.find("+w.grad") == std::string::npos, straight);  // y's own
  const std::string turned = text("t = Transpose <perm = [1, 0]> (w) y = Add (t, x)", "8, 4");
  CHECK_MESSAGE(turned.find("+w.grad:128") != std::string::npos, turned);
}

// cuBLAS reads a matrix by its columns as well as by its rows.
TEST_CASE("a product reads a gradient by columns as it is") {
  const auto backward = [](const char* nodes, const char* shape) {
    const std::string text =
        TraceText(fmt::format("net (float[16, 8] x) => (float[{}] y) < float[8, 32] w = "
                              "[\"location\": \"none\"] > {{ {} }}",
                              shape, nodes),
                  {.optimizer = Optimizer::kSgd, .loss = Loss::kMse, .steps = 1});
    const std::string part = text.substr(text.find("backward"));
    return std::count(part.begin(), part.end(), '+');
  };
  CHECK(backward("h = MatMul (x, w) y = Transpose <perm = [1, 0]> (h)", "32, 16") ==
        backward("y = MatMul (x, w)", "16, 32"));
}

// Heads of positions that were permuted, of which pairs are compared: along those the gradient of
// the result says nothing, so that they lie outside of heads, and are no view of positions.
TEST_CASE("the gradient of a largest element lies as its quotient and the mask do") {
  using pt2::Ref;
  const auto text = [](int64_t heads) {
    pt2::ExportedBuilder net;
    net.Parameter("p_w", "w", {heads * 5, 6}).Input("x", {6, 6});
    net.Make("torch.ops.aten.linear.default", "h", {{"input", Ref("x")}, {"weight", Ref("p_w")}},
             {6, heads * 5});
    net.Make("torch.ops.aten.view.default", "i", {{"self", Ref("h")}}, {6, heads, 5});
    net.Make("torch.ops.aten.transpose.int", "j",
             {{"self", Ref("i")}, {"dim0", pt2::Number(1)}, {"dim1", pt2::Number(2)}},
             {heads, 6, 5});
    net.Make("torch.ops.aten.view.default", "k", {{"self", Ref("j")}}, {heads, 2, 3, 5});
    net.Make("torch.ops.aten.amax.default", "y", {{"self", Ref("k")}, {"dim", pt2::Numbers({2})}},
             {heads, 3, 5});
    const TrainingSettings settings = {
        .optimizer = Optimizer::kSgd, .loss = Loss::kMse, .steps = 1};
    return ToString(Train(pt2::Made(net.Return("y"), settings).program, settings));
  };
  CHECK_MESSAGE(text(4).find("+j.grad:1920") != std::string::npos, text(4));
  CHECK_MESSAGE(text(1).find("+j.grad") == std::string::npos, text(1));
}

}  // namespace
}  // namespace onnxfit::strided_gradients_test
