#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/exporters/exported_groups.h"
#include "estimator/onnx/loader.h"
#include "estimator/patterns/rewrites.h"
#include "tests/bound_model.h"
#include "tests/fx_text.h"

namespace onnxfit::decomposed_calls_test {
namespace {

// "aten(inputs;ints)=result" of every call found; fx[i] is what torch.export says of node i, all of
// which are of one line of the source.
std::string Found(std::string_view text, const std::vector<std::string>& fx,
                  std::string_view line) {
  Graph graph = ParseGraph(text);
  const std::string trace =
      "File \"/home/net.py\", line 3, in forward\n    " + std::string(line) + "\n";
  for (size_t i = 0; i < fx.size(); ++i) {
    Say(graph, static_cast<NodeId>(i), fx[i]);
    if (!line.empty()) graph.nodes[i].metadata.emplace_back("pkg.torch.onnx.stack_trace", trace);
  }
  std::string found;
  const BoundModel model(graph);
  for (const Rewritten& call : FindDecomposedCalls(ExportedGroups(model.bound))) {
    found += std::string(call.aten) + "(";
    for (const ValueId input : call.inputs) {
      found += std::string(graph.values[Index(input)].name) + " ";
    }
    for (const int64_t number : call.ints) found += std::to_string(number) + " ";
    found += ")=";
    for (const ValueId part : call.results)
      found += std::string(graph.values[Index(part)].name) + "+";
    found += std::string(graph.values[Index(graph.nodes[Index(call.last)].outputs[0])].name) + " ";
  }
  return found;
}

constexpr char kThreshold[] = R"(n (float[4] x, float[4] w) => (float[4] y) {
    h = Mul (x, w)
    c = Constant <value = float {1.0}> ()
    m = LessOrEqual (h, c)
    y = Where (m, c, h)
  })";
const std::vector<std::string> kThresholdCalls = {
    FxText("h", "mul.Tensor", "%x, %w"), FxText("m", "le.Scalar", "%h, 1.0"),
    FxText("m", "le.Scalar", "%h, 1.0"), FxText("y", "where.ScalarSelf", "%m, 1.0, %h")};

constexpr char kWeightNorm[] = R"(n (float[4, 2] v, float[4, 1] g) => (float[4, 2] y) {
    l = ReduceL2 <axes = [1]> (v) d = Div (g, l) y = Mul (v, d)
  })";

constexpr char kHuber[] = R"(n (float[4] x, float[4] t) => (float y) {
    d = Sub (x, t)
    e = Abs (d)
    c = Constant <value = float {2.0}> ()
    m = Less (e, c)
    k = Constant <value = float {0.5}> ()
    a = Mul (e, k)
    b = Mul (a, e)
    f = Sub (e, k)
    g = Mul (f, c)
    z = Where (m, b, g)
    y = ReduceMean <keepdims = 0> (z)
  })";
const std::vector<std::string> kHuberCalls = {
    FxText("d", "sub.Tensor", "%x, %t"),  FxText("e", "abs.default", "%d,"),
    FxText("m", "lt.Scalar", "%e, 2.0"),  FxText("m", "lt.Scalar", "%e, 2.0"),
    FxText("a", "mul.Tensor", "%e, 0.5"), FxText("a", "mul.Tensor", "%e, 0.5"),
    FxText("b", "mul.Tensor", "%a, %e"),  FxText("f", "sub.Tensor", "%e, 0.5"),
    FxText("g", "mul.Tensor", "%f, 2.0"), FxText("z", "where.self", "%m, %b, %g"),
    FxText("y", "mean.default", "%z,")};

constexpr char kMoments[] = R"(n (float[4] x) => (float v, float m) {
    a = ReduceMean <keepdims = 1> (x)
    b = Sub (x, a)
    c = Mul (b, b)
    v = ReduceMean <keepdims = 0> (c)
    s = ReduceSum <keepdims = 0> (x)
    k = Constant <value = float {4.0}> ()
    m = Div (s, k)
  })";
const std::string kVariance =
    "%v : [num_users=1] = call_function[target=torch.ops.prims.var.default](args = (%x, [0], 1.0), "
    "kwargs = {})";
const std::string kSum =
    "%s : [num_users=1] = call_function[target=torch.ops.prims.sum.default](args = (%x, [0]), "
    "kwargs = {})";
const std::string kMean =
    "%m : [num_users=1] = call_function[target=torch.ops.prims.div.default](args = (%s, 4.0), "
    "kwargs = {})";

TEST_CASE("parts of one line become the call that was taken apart") {
  CHECK(Found(kThreshold, kThresholdCalls, "return F.threshold(h, 1.0, 1.0)") ==
        "threshold(h )=y ");
  CHECK(Found(kHuber, kHuberCalls, "return F.huber_loss(x, t, delta=2.0)") ==
        "huber_loss(x t 1 0 0 )=y ");
}

TEST_CASE("a reduction that the code spells is a call of its own") {
  CHECK(Found(kHuber, kHuberCalls, "y = F.huber_loss(x, t, 'none').mean()") ==
        "huber_loss(x t 0 0 0 )=z ");
}

TEST_CASE("parts that the code spells, or of which no line is known, stay") {
  CHECK(Found(kThreshold, kThresholdCalls, "return torch.where(h <= 1, 1, h)").empty());
  CHECK(Found(kThreshold, kThresholdCalls, "").empty());
}

TEST_CASE("parts that somebody else reads stay") {
  constexpr char kRead[] = R"(n (float[4] x, float[4] w) => (float[4] y, bool[4] m) {
      h = Mul (x, w)
      c = Constant <value = float {1.0}> ()
      m = LessOrEqual (h, c)
      y = Where (m, c, h)
    })";
  CHECK(Found(kRead, kThresholdCalls, "return F.threshold(h, 1.0, 1.0)").empty());
}

TEST_CASE("a variance and a mean of one tensor are one call") {
  const std::vector<std::string> calls = {kVariance, kVariance, kVariance, kVariance,
                                          kSum,      kMean,     kMean};
  CHECK(Found(kMoments, calls, "v, m = torch.var_mean(x)") == "var_mean(x )=v+m+m ");
}

TEST_CASE("a value whose gradient depends on data is said to be unknown") {
  constexpr char kFill[] =
      "n (float[4] x, bool[4] k, float v) => (float[4] y) { y = Where (k, v, x) }";
  CHECK(Found(kFill, {FxText("y", "masked_fill.Tensor", "%x, %k, %v")}, "y = x.masked(k, v)") ==
        "?(x k v )=y ");
}

TEST_CASE("a weight of a length of its own is one call") {
  const std::vector<std::string> calls = {
      FxText("l", "linalg_vector_norm.default", "%v, 2, [1], True"),
      FxText("d", "div.Tensor", "%g, %l"), FxText("y", "mul.Tensor", "%v, %d")};
  CHECK(Found(kWeightNorm, calls, "return torch._weight_norm(v, g, dim)") ==
        "_weight_norm(v g )=y ");
  CHECK(Found(kWeightNorm, calls, "return v * (g / norm(v))").empty());
}

// torch.export refers to sizes as it does to tensors.
TEST_CASE("a size is a number of a decomposed call") {
  const std::vector<std::string> fx = {FxText("n", "sym_size.int", "%x, 0"),
                                       FxText("v", "view.default", "%x, [%n]"),
                                       FxText("y", "index.Tensor", "%v, [%i]")};
  CHECK(Found(R"(n (float[4] x, int64[3] i) => (float[3] y) {
                   n = Shape (x) v = Reshape (x, n) y = Gather (v, i)
                 })",
              fx, "y = torch.take(x, i)") == "take(x i )=y ");
}

// Of several that are found the first is taken.
TEST_CASE("a tensor that is made of a number fills as the number does") {
  CHECK(Found(R"(n (float[4] x, bool[4] m) => (float[4] y) {
                   c = Constant <value = float {1.0}> () y = Where (m, c, x)
                 })",
              {FxText("c", "scalar_tensor.default", "1.0"),
               FxText("y", "masked_fill.Tensor", "%x, %m, %c")},
              "y = torch.masked_fill(x, m, torch.scalar_tensor(1.0))") ==
        "masked_fill(x m )=y ?(x m c )=y ");
}

}  // namespace
}  // namespace onnxfit::decomposed_calls_test
