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

namespace onnxfit::exported_calls_test {
namespace {

// "aten(inputs)=result" of every call found; fx[i] is what torch.export says of node i.
std::string Found(std::string_view text, const std::vector<std::string>& fx) {
  Graph graph = ParseGraph(text);
  for (size_t i = 0; i < fx.size(); ++i) Say(graph, static_cast<NodeId>(i), fx[i]);
  graph.metadata.emplace_back(
      "graph_signature", "p_w: PARAMETER target='fc.weight'\np_b: PARAMETER target='fc.bias'\n");
  std::string found;
  const BoundModel model(graph);
  for (const Rewritten& call : FindExportedCalls(ExportedGroups(model.bound))) {
    found += std::string(call.aten) + "(";
    for (const ValueId input : call.inputs) {
      found += std::string(graph.values[Index(input)].name) + " ";
    }
    const ValueId result = graph.nodes[Index(call.last)].outputs[0];
    for (const int64_t number : call.ints) found += std::to_string(number) + " ";
    found += ")=";
    for (const ValueId part : call.results)
      found += std::string(graph.values[Index(part)].name) + "+";
    found += std::string(graph.values[Index(result)].name) + " ";
  }
  return found;
}

TEST_CASE("groups of nodes become the call that the exporter names") {
  constexpr char kLinear[] = R"(n (float[2, 3, 4] x) => (float[2, 3, 5] y)
      < float[4, 5] "fc.weight" = ["location": "none"], float[5] "fc.bias" = ["location": "none"] > {
        h = MatMul (x, "fc.weight")
        y = Add ("fc.bias", h)
      })";
  constexpr char kSilu[] = R"(n (float[4] x) => (float[4] y) { s = Sigmoid (x) y = Mul (x, s) })";
  constexpr char kIdentity[] = "n (float[4] x) => (float[4] y) { y = Identity (x) }";
  constexpr char kNorm[] = R"(n (float[2, 3, 4] x) => (float[2, 3, 4] y)
      < float[4] "fc.weight" = ["location": "none"] > {
        y = LayerNormalization (x, "fc.weight")
      })";
  constexpr char kParts[] = R"(n (float[2, 3, 2] x) => (float[2, 3] y, float[2, 3] z) {
      i = Constant <value = int64 {0}> () y = Gather <axis = 2> (x, i)
      j = Constant <value = int64 {1}> () z = Gather <axis = 2> (x, j) })";
  constexpr char kPool[] =
      R"(n (float[1, 2, 4, 4] x) => (float[1, 2, 2, 2] y, int64[1, 2, 2, 2] z) {
      y, p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) z = Neg (p) })";
  constexpr char kValues[] = R"(n (float[1, 2, 4, 4] x) => (float[1, 2, 2, 2] y) {
      y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) })";
  constexpr char kZeros[] = R"(n (float[4] x) => (float[4] y) {
      zero = Constant <value = float {0.0}> () z = CastLike (zero, x) s = Shape (x)
      y = Expand (z, s) })";
  constexpr char kOnes[] = R"(n (float[4] x) => (bool y) {
      one = Constant <value = float {1.0}> () y = Cast <to = 9> (one) })";
  constexpr char kReshape[] = R"(n (float[4] x) => (float[4] v) {
      size = Constant <value = int64[1] {4}> () y = Identity (x) v = Reshape (y, size) })";
  constexpr char kKnown[] = R"(n (int64[1] i) => (int64[1] y) {
      one = Constant <value = int64[1] {1}> () s = Shape (i) y = Sub (one, s) })";
  struct Row {
    const char* name;
    const char* graph;
    std::vector<std::string> fx;
    const char* found;
  };
  const std::string linear = FxText("y", "linear.default", "%x, %p_w, %p_b");
  const std::string parts = FxText("unbind", "unbind.int", "%x, -1");
  const std::string cross = FxText("y", "linalg_cross.default", "%x, %z");
  const std::string product = FxText("y", "prod.dim_int", "%x, -1");
  const std::string pool = FxText("pool", "max_pool2d_with_indices.default", "%x, [2, 2]");
  const std::string zeros = FxText("y", "zeros_like.default", "%x,");
  const std::string index = FxText("y", "index.Tensor", "%one, [%i]");
  const std::string ones =
      "%y : [num_users=1] = call_function[target=torch.ops.aten.new_ones.default]"
      "(args = (%x, []), kwargs = {dtype: torch.bool})";
  const std::string silu = FxText("y", "silu.default", "%x,");
  const std::string log = FxText("y", "log2.default", "%x,");
  const std::string copy =
      "%y : [num_users=1] = call_function[target=torch.ops.aten.clone.default]"
      "(args = (%x,), kwargs = {memory_format: torch.contiguous_format})";
  const Row rows[] = {
      {"a cross product",
       "n (float[4, 3] x, float[4, 3] z) => (float[4, 3] y) { h = Mul (x, z) y = Sub (h, z) }",
       {cross, cross},
       "linalg_cross(x z )=y "},
      {"a product of the last dimension",
       "n (float[4, 3] x) => (float[4, 1] y) { y = ReduceProd (x) }",
       {product},
       "prod(x 1 )=y "},
      {"a linear of two nodes", kLinear, {linear, linear}, "linear(x fc.weight fc.bias )=y "},
      {"one without a bias",
       R"(n (float[2, 4] x) => (float[2, 5] y) < float[5, 4] "fc.weight" = ["location": "none"] > {
            t = Transpose <perm = [1, 0]> ("fc.weight")
            y = MatMul (x, t)
          })",
       {FxText("y", "linear.default", "%x, %p_w"), FxText("y", "linear.default", "%x, %p_w")},
       "linear(x fc.weight )=y "},
      {"two that share a weight, whose transpose is the first's",
       R"(n (float[2, 4] x) => (float[2, 4] y) < float[4, 4] "fc.weight" = ["location": "none"] > {
            t = Transpose <perm = [1, 0]> ("fc.weight")
            h = MatMul (x, t)
            y = MatMul (h, t)
          })",
       {FxText("h", "linear.default", "%x, %p_w"), FxText("h", "linear.default", "%x, %p_w"),
        FxText("y", "linear.default", "%h, %p_w")},
       "linear(x fc.weight )=h linear(h fc.weight )=y "},
      {"an operand that the exporter has removed",
       kLinear,
       {FxText("y", "linear.default", "%clone, %p_w, %p_b"),
        FxText("y", "linear.default", "%clone, %p_w, %p_b")},
       "linear(x fc.weight fc.bias )=y "},
      {"two that it has renamed, the second transposed first",
       R"(n (float[2, 4] x, float[5, 4] w) => (float[2, 5] y) {
            t = Transpose <perm = [1, 0]> (w)
            y = MatMul (x, t)
          })",
       {FxText("y", "linear.default", "%view_3, %getitem_7"),
        FxText("y", "linear.default", "%view_3, %getitem_7")},
       "linear(x w )=y "},
      {"a gate", kSilu, {silu, silu}, "silu(x )=y "},
      {"a call without a row",
       kSilu,
       {FxText("y", "threshold.default", "%x,"), FxText("y", "threshold.default", "%x,")},
       ""},
      {"a result inside that others read",
       R"(n (float[4] x) => (float[4] y, float[4] z) {
            s = Sigmoid (x) y = Mul (x, s) z = Neg (s) })",
       {silu, silu, FxText("z", "neg.default", "%sigmoid,")},
       ""},
      {"an operand too few",
       kSilu,
       {FxText("y", "silu.default", ""), FxText("y", "silu.default", "")},
       ""},
      {"nodes that say nothing", kSilu, {}, ""},
      {"x.contiguous()", kIdentity, {copy}, "contiguous(x )=y "},
      {"a norm with a weight",
       kNorm,
       {FxText("y", "layer_norm.default", "%x, [4], %p_w, None")},
       "layer_norm(x fc.weight 1 )=y "},
      {"one without, for which exporters write ones",
       kNorm,
       {FxText("y", "layer_norm.default", "%x, [3, 4], None, None")},
       "layer_norm(x 2 )=y "},
      {"parts", kParts, {"", parts, "", parts}, "unbind(x 2 )=y+z+z "},
      {"a table's rows",
       kIdentity,
       {FxText("y", "index.Tensor", "%x, [None, %x]")},
       "index(x x )=y "},
      {"dimensions that are rolled",
       kIdentity,
       {FxText("y", "roll.default", "%x, [1, 2], [0, 1]")},
       "roll(x 2 )=y "},
      {"what is repeated for several heads",
       R"(n (float[2, 3] x) => (float[2, 6] y) {
            a = Constant <value = int64[1] {2}> () u = Unsqueeze (x, a)
            s = Constant <value = int64[3] {2, 3, 2}> () e = Expand (u, s)
            t = Constant <value = int64[2] {2, 6}> () y = Reshape (e, t) })",
       std::vector<std::string>(6, FxText("y", "repeat_interleave.self_int", "%x, 2, 1")),
       "repeat_interleave(x )=y "},
      {"a transform of real numbers, as pairs",
       R"(n (float[3, 4] x) => (float[3, 3, 2] y) {
            a = Constant <value = int64[1] {2}> () u = Unsqueeze (x, a)
            n = Constant <value = int64 {4}> () d = Constant <value = int64 {1}> ()
            y = DFT <onesided = 1> (u, n, d) })",
       std::vector<std::string>(5, FxText("y", "_fft_r2c.default", "%x, [1], 0, True")),
       "_fft_r2c(x )=y "},
      {"one of another dimension than the last",
       R"(n (float[4, 3] x) => (float[3, 3, 2] y) {
            a = Constant <value = int64[1] {2}> () u = Unsqueeze (x, a)
            n = Constant <value = int64 {4}> () d = Constant <value = int64 {0}> ()
            y = DFT <onesided = 1> (u, n, d) })",
       std::vector<std::string>(5, FxText("y", "_fft_r2c.default", "%x, [0], 0, True")),
       "_fft_r2c(x 0 )=y "},
      {"its inverse, of the last dimension of the pairs",
       R"(n (float[3, 3, 2] x) => (float[3, 2] y) {
            i = Constant <value = int64[1] {0}> () j = Constant <value = int64[1] {1}> ()
            a = Constant <value = int64[1] {2}> () s = Slice (x, i, j, a)
            y = Squeeze (s, a) })",
       std::vector<std::string>(5, FxText("y", "_fft_c2r.default", "%x, [1], 2, 2")),
       "_fft_c2r(x )=y "},
      {"a transform of complex numbers, the last two dimensions of the pairs exchanged",
       R"(n (float[3, 3, 2] x) => (float[3, 3, 2] y) { i = Identity (x) y = Identity (i) })",
       std::vector<std::string>(2, FxText("y", "_fft_c2c.default", "%x, [-1, -2], 0, True")),
       "_fft_c2c(x 1 0 )=y "},
      {"parameters as complex numbers",
       R"(n (float[3, 2] x) => (float[3, 2] y) { y = Identity (x) })",
       {FxText("y", "view_as_complex.default", "%x,")},
       "view(x )=y "},
      {"a product of complex numbers",
       R"(n (float[3, 2] x, float[3, 2] z) => (float[3, 2] y) {
            a = ReduceMax <axes = [-1]> (x) b = ReduceMax <axes = [-1]> (z)
            m = Mul (a, b) y = Concat <axis = -1> (m, m) })",
       std::vector<std::string>(4, FxText("y", "mul.Tensor", "%x, %z")), "mul(x z )=y "},
      {"one of real numbers, which its node tells",
       R"(n (float[3, 2] x, float[3, 2] z) => (float[3, 2] y) {
            i = Identity (z) y = Mul (x, i) })",
       std::vector<std::string>(2, FxText("y", "mul.Tensor", "%x, %z")), ""},
      {"a diagonal, whose dimensions are its defaults",
       R"(n (float[5, 5] x) => (float[5] y) {
            i = Constant <value = int64 {0}> () y = Gather <axis = 1> (x, i) })",
       {FxText("y", "diagonal.default", "%x,"), FxText("y", "diagonal.default", "%x,")},
       "diagonal(x 0 1 )=y "},
      {"windows",
       R"(n (float[4] x) => (float[1, 4] y) {
            a = Constant <value = int64[1] {0}> () y = Unsqueeze (x, a) })",
       {FxText("y", "unfold.default", "%x, -1, 4, 2"),
        FxText("y", "unfold.default", "%x, -1, 4, 2")},
       "unfold(x 0 4 2 )=y "},
      {"what is written at indices",
       kIdentity,
       {FxText("y", "index_put.default", "%x, [None, %x], %x")},
       "index_put(x x x )=y "},
      {"what is scattered to where a mask is true",
       kIdentity,
       {FxText("y", "masked_scatter.default", "%x, %x, %x")},
       "masked_scatter(x x x )=y "},
      {"what is added there",
       kIdentity,
       {FxText("y", "index_put.default", "%x, [%x], %x, True")},
       "index_put.accumulate(x x x )=y "},
      {"what is added along a dimension",
       kIdentity,
       {FxText("y", "index_put.default", "%x, [None, %x], %x, True")},
       "index_add(x x x )=y "},
      {"the largest norm",
       kIdentity,
       {FxText("y", "linalg_vector_norm.default", "%x, -inf")},
       "norm.largest(x )=y "},
      {"a norm of zero counts",
       kIdentity,
       {FxText("y", "linalg_vector_norm.default", "%x, 0")},
       ""},
      {"a pad from the other side",
       kIdentity,
       {FxText("y", "pad.default", "%x, [0, 2], circular")},
       "pad.circular(x 0 2 )=y "},
      {"one of another kind", kIdentity, {FxText("y", "pad.default", "%x, [0, 2], reflect")}, ""},
      {"what is reduced at indices",
       kIdentity,
       {FxText("y", "scatter_reduce.two", "%x, 0, %x, %x, amax")},
       "scatter_reduce(x x x 2 1 )=y "},
      {"a bound that is a tensor",
       "n (float[4] x, float[4] w) => (float[4] y) { y = Max (x, w) }",
       {FxText("y", "clamp_min.Tensor", "%x, %w")},
       "clamp_min.Tensor(x w )=y "},
      {"one that is a number",
       R"(n (float[4] x) => (float[4] y) { w = Constant <value = float {1.0}> () y = Max (x, w) })",
       {"", FxText("y", "clamp_min.Tensor", "%x, %w")},
       "clamp_min(x )=y "},
      {"a quotient that is rounded",
       "n (float[4] x, float[4] w) => (float[4] y) { d = Div (x, w) y = Floor (d) }",
       {FxText("y", "div.Tensor_mode", "%x, %w"), FxText("y", "div.Tensor_mode", "%x, %w")},
       "div.Tensor_mode(x w )=y "},
      {"a logarithm that is divided", kSilu, {log, log}, "log2(x )=y "},
      {"a product that is added",
       "n (float[4] x, float[4] w) => (float[4] y) { p = Mul (x, w) y = Add (x, p) }",
       {FxText("y", "addcmul.default", "%x, %x, %w"), FxText("y", "addcmul.default", "%x, %x, %w")},
       "addcmul(x x w )=y "},
      {"products of matrices that are added",
       "n (float[2, 3, 3] x, float[2, 3, 3] w) => (float[2, 3, 3] y) { p = MatMul (w, w) y = Add "
       "(p, "
       "x) }",
       {FxText("y", "baddbmm.default", "%x, %w, %w"), FxText("y", "baddbmm.default", "%x, %w, %w")},
       "baddbmm(x w w )=y "},
      {"a group norm",
       kNorm,
       {FxText("y", "group_norm.default", "%x, 3, %p_w, None")},
       "group_norm(x fc.weight 3 )=y "},
      {"a bound on one side",
       kIdentity,
       {FxText("y", "clamp.default", "%x, 1.0")},
       "clamp_min(x )=y "},
      {"on the other",
       kIdentity,
       {FxText("y", "clamp.default", "%x, None, 1.0")},
       "clamp_max(x )=y "},
      {"on both", kIdentity, {FxText("y", "clamp.default", "%x, 0, 1.0")}, "clamp(x )=y "},
      {"a pool's values and places", kPool, {pool, pool}, "max_pool2d_with_indices(x )=y+z+z "},
      {"its values alone", kValues, {pool}, ""},
      {"zeros in the type of another tensor",
       kZeros,
       {"", zeros, zeros, zeros},
       "bernoulli(x )=y "},
      {"ones in their own", kOnes, {"", ones}, "constant()=y "},
      {"an index of what is known", kKnown, {"", index, index}, "index(one i )=y "},
      {"pixels between others",
       kIdentity,
       {FxText("y", "_upsample_bilinear2d_aa.default", "%x, [2, 2], False")},
       "_upsample_bilinear2d_aa(x )=y "},
      {"a copy", kReshape, {"", copy, FxText("v", "view.default", "%y, [4]")}, "contiguous(x )=y "},
      {"that of a reshape",
       kReshape,
       {"", copy, FxText("v", "_unsafe_view.default", "%y, [4]")},
       "(x )=y "},
      {"a dropout with p = 0", kIdentity, {FxText("y", "clone.default", "%x,")}, ""},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    CHECK(Found(row.graph, row.fx) == row.found);
  }
}

TEST_CASE("a transposed weight that the call names is its operand") {
  CHECK(Found(R"(n (int64[3] i) => (float[3, 4] y)
                 < float[4, 5] "fc.weight" = ["location": "none"] > {
                   t = Transpose <perm = [1, 0]> ("fc.weight") y = Gather (t, i)
                 })",
              {FxText("t", "t.default", "%p_w,"), FxText("y", "index.Tensor", "%t, [%i]")}) ==
        "index(t i )=y ");
}

TEST_CASE("a tensor that is like another has its type") {
  const std::string call = FxText("y", "new_empty.default", "%x, [2]");
  CHECK(Found("n (float[4] x) => (float[2] y) { s = Constant <value = int64[1] {2}> () "
              "z = ConstantOfShape (s) y = CastLike (z, x) }",
              {"", call, call}) == "bernoulli(x )=y ");
}

}  // namespace
}  // namespace onnxfit::exported_calls_test
