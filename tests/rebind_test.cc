#include "estimator/onnx/rebind.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

#include "estimator/base/index.h"
#include "estimator/onnx/loader.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit::rebind_test {
namespace {

DimBinding Batch(int64_t batch) { return {.batch = batch, .dims = {}, .inputs = {}}; }

// Each value that a node makes, a line each: "name type", with a newline at both ends.
std::string TypesText(std::string_view model, const DimBinding& binding) {
  Warnings warnings;
  const Graph graph = Rebind(ParseGraph(model), binding, warnings);
  const Shapes shapes = BindShapes(graph, binding);
  std::string text = "\n";
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].producer == kNoNode) continue;
    text += fmt::format("{} {}\n", graph.values[i].name, ToString(shapes.types[i].tensor));
  }
  return text;
}

std::string TypeOfLast(std::string_view model, const DimBinding& binding) {
  const std::string text = TypesText(model, binding);
  const size_t begin = text.rfind('\n', text.size() - 2) + 1;
  return text.substr(begin, text.size() - begin - 1);
}

std::string WarningsText(std::string_view model, const DimBinding& binding) {
  Warnings warnings;
  const Graph graph = Rebind(ParseGraph(model), binding, warnings);
  for (const Warning& warning : BindShapes(graph, binding).warnings) warnings.push_back(warning);
  std::string text = "\n";
  for (const Warning& warning : warnings) text += warning.code + " " + warning.text + "\n";
  return text;
}

std::string ErrorText(std::string_view model, const DimBinding& binding) {
  Warnings warnings;
  try {
    Rebind(ParseGraph(model), binding, warnings);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("a batch that is written in the file is rebound") {
  constexpr std::string_view kFixed = R"(
    g (float[1, 4, 4] x, float[1, 16] bias, float[4] w) => (float[1, 16] y)
    <int64[2] flat = {1, 16}, int64[2] open = {1, -1}, int64[2] rest = {-1, 16}> {
      [a] r = Reshape(x, flat)
      s = Add(r, bias)
      [b] t = Reshape(x, open)
      [c] u = Reshape(x, rest)
      y = Mul(t, u)
    })";
  CHECK(TypesText(kFixed, Batch(8)) == R"(
r float32[8, 16]
s float32[8, 16]
t float32[8, 16]
u float32[8, 16]
y float32[8, 16]
)");
  CHECK(WarningsText(kFixed, Batch(8)) == R"(
OF104 what node 'a' and 1 other nodes read was changed from the batch of 1 to 8
OF104 the batch of 1 that is written in the file was changed to 8
)");
  CHECK(WarningsText(kFixed, Batch(1)) == "\n");
  CHECK(WarningsText(kFixed, {}) == "\n");
}

TEST_CASE("a class token that was expanded to the file's batch is expanded again") {
  constexpr std::string_view kToken = R"(
    g (float[1, 196, 8] x, float[1, 197, 8] position) => (float[1, 197, 8] y)
    <float[1, 1, 8] expand = ["location": "none"]> {
      [cat] c = Concat <axis = 1> (expand, x)
      y = Add(c, position)
    })";
  CHECK(TypesText(kToken, Batch(32)) == R"(
expand_rebound_2 float32[32, 1, 8]
c float32[32, 197, 8]
y float32[32, 197, 8]
)");
  // In a batch of 4 it is stored four times: once is enough.
  constexpr std::string_view kFourfold = R"(
    g (float[4, 196, 8] x) => (float[4, 197, 8] y)
    <float[4, 1, 8] expand = ["location": "none"]> { y = Concat <axis = 1> (expand, x) })";
  Warnings warnings;
  CHECK(ToString(Rebind(ParseGraph(kFourfold), Batch(32), warnings)) == R"(input x
initializer expand float32[1, 1, 8] external
initializer expand_rebound int64[3]
expand_rebound_2 = Expand(expand, expand_rebound)
y = Concat(expand_rebound_2, x) <axis=1>
output y
)");
}

TEST_CASE("windows of a picture are counted in one constant with its batch") {
  constexpr std::string_view kWindows = R"(
    g (float[1, 8, 8, 6] x) => (float[1, 8, 8, 6] y)
    <int64[6] split = {1, 2, 4, 2, 4, 6}, int64[3] windows = {4, 16, 6},
     int64[4] squares = {-1, 4, 4, 6}, int64[6] apart = {1, 2, 2, 4, 4, 6},
     int64[4] whole = {1, 8, 8, 6}> {
      a = Reshape(x, split)
      b = Transpose <perm = [0, 1, 3, 2, 4, 5]> (a)
      c = Reshape(b, windows)
      d = Reshape(c, squares)
      e = Reshape(d, apart)
      f = Transpose <perm = [0, 1, 3, 2, 4, 5]> (e)
      y = Reshape(f, whole)
    })";
  CHECK(TypesText(kWindows, Batch(3)) == R"(
a float32[3, 2, 4, 2, 4, 6]
b float32[3, 2, 2, 4, 4, 6]
c float32[12, 16, 6]
d float32[12, 4, 4, 6]
e float32[3, 2, 2, 4, 4, 6]
f float32[3, 2, 4, 2, 4, 6]
y float32[3, 8, 8, 6]
)");
}

// torch.nn.MultiheadAttention's projections.
TEST_CASE("a batch that was merged behind another dimension comes out behind it") {
  constexpr std::string_view kSequenceFirst = R"(
    g (float[2, 3, 4] x, float[5, 4] w) => (float[2, 3, 5] y)
    <int64[2] rows = {6, 4}, int64[3] apart = {3, 2, 5}> {
      a = Transpose <perm = [1, 0, 2]> (x)
      b = Reshape(a, rows)
      c = Gemm <transB = 1> (b, w)
      d = Reshape(c, apart)
      y = Transpose <perm = [1, 0, 2]> (d)
    })";
  CHECK(TypesText(kSequenceFirst, Batch(8)) == R"(
a float32[3, 8, 4]
b float32[24, 4]
c float32[24, 5]
d float32[3, 8, 5]
y float32[8, 3, 5]
)");
}

TEST_CASE("what carries the batch is found by what it stands for") {
  struct Row {
    const char* model;
    int64_t batch;
    const char* type;  // of the last value
  };
  const Row rows[] = {
      // Reshape: the entry that takes the batch's place
      {"(float[2, 6] x) => (float y) <int64[1] s = {12}> { y = Reshape(x, s) }", 8,
       "y float32[48]"},
      {"(float[1, 9, 8] x) => (float y) <int64[2] s = {9, 8}> { y = Reshape(x, s) }", 8,
       "y float32[72, 8]"},
      {"(float[1, 9, 8] x) => (float y) <int64[3] s = {1, -1, 4}> { y = Reshape(x, s) }", 8,
       "y float32[8, 18, 4]"},
      {"(float[1, 9, 8] x) => (float y) <int64[3] s = {9, 12, 8}> {"
       "  t = Transpose <perm = [1, 0, 2]> (x)  u = Concat <axis = 1> (t, t, t, t, t, t, t, t, t,"
       "  t, t, t)  y = Reshape(u, s) }",
       2, "y float32[9, 24, 8]"},
      // other operators' constants
      {"(float[4, 1, 8] x) => (float y) <int64[3] s = {4, 5, 8}> { y = Expand(x, s) }", 6,
       "y float32[6, 5, 8]"},
      {"(float[1, 3, 4, 4] x) => (float y) <int64[4] s = {1, 3, 8, 8}> { y = Resize(x, , , s) }", 6,
       "y float32[6, 3, 8, 8]"},
      {"(float[4, 8] x) => (float y) <int64[1] b = {2}, int64[1] e = {4}, int64[1] a = {0}> {"
       "  y = Slice(x, b, e, a) }",
       6, "y float32[3, 8]"},
      {"(float[4, 8] x) => (float y, float z) <int64[2] s = {2, 2}> {"
       "  y, z = Split <axis = 0> (x, s) }",
       6, "z float32[3, 8]"},
      {"(float[1, 8, 1] x) => (float y) <int64[2] a = {0, 2}> { y = Squeeze(x, a) }", 6,
       "y float32[6, 8]"},
      {"(float[1, 8] x) => (float y) <int64[1] f = {-1}, int64[2, 2, 2] i = {0,1,2,3,4,5,6,7}> {"
       "  r = Reshape(x, f)  y = Gather(r, i) }",
       6, "y float32[12, 2, 2]"},
      // tensors in the file's batch
      {"(float[4, 8] x, float[4, 8] b) => (float y) { y = Mul(x, b) }", 6, "y float32[6, 8]"},
      {"(float[4, 9, 8] x) => (float y) <float[4, 8, 2] m = [\"location\": \"none\"]> {"
       "  y = MatMul(x, m) }",
       6, "y float32[6, 9, 2]"},
      {"(float[4, 3, 8] x) => (float y) <float[9, 8] table = [\"location\": \"none\"],"
       "  int64[4, 3] ids = {0,1,2,0,1,2,0,1,2,0,1,2}> { e = Gather(table, ids)  y = Add(x, e) }",
       6, "y float32[6, 3, 8]"},
      {"(float[4, 8] x) => (float y) <int64[2] s = {4, 8}> { z = ConstantOfShape(s)"
       "  y = Add(x, z) }",
       6, "y float32[6, 8]"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.model);
    CHECK(TypeOfLast(std::string("g ") + row.model, Batch(row.batch)) == row.type);
  }
}

TEST_CASE("embeddings of indices in the file's batch are made of as many as there are") {
  CHECK(TypesText(R"(
    g (float[4, 3, 8] x) => (float[4, 3, 8] y)
    <float[9, 8] table = ["location": "none"], int64[4, 3] ids = {0,1,2,0,1,2,0,1,2,0,1,2}> {
      e = Gather(table, ids)
      y = Add(x, e)
    })",
                  Batch(6)) == R"(
ids_rebound_4 int64[1, 3]
ids_rebound_6 int64[6, 3]
e float32[6, 3, 8]
y float32[6, 3, 8]
)");
}

TEST_CASE("another size of a dimension that is no batch follows through Reshape") {
  constexpr std::string_view kModel = R"(
    g (float[1, 8, 6] x, float[6, 6] w) => (float[1, 8, 6] y)
    <int64[4] heads = {1, 8, 2, 3}, int64[3] flat = {1, 8, 6}> {
      h = Reshape(x, heads)
      f = Reshape(h, flat)
      y = MatMul(f, w)
    })";
  CHECK(TypesText(kModel, {.batch = {}, .dims = {}, .inputs = {{"x", {1, 32, 6}}}}) == R"(
h float32[1, 32, 2, 3]
f float32[1, 32, 6]
y float32[1, 32, 6]
)");
}

TEST_CASE("a node that cannot follow is named, with the line that exports it right") {
  CHECK(
      ErrorText(R"(
    g (float[1, 4, 6] x) => (float[1, 2] y)
    <float[24, 2] w = ["location": "none"], int64[2] flat = {1, 24}> {
      t = Transpose <perm = [1, 0, 2]> (x)
      f = Reshape(t, flat)
      [head] y = Gemm(f, w)
    })",
                Batch(8)) ==
      "<text>: node 'head' (Gemm): the batch is fixed at 1 in the file, and this node does not "
      "hold with 8: it reads 192 features of float32[1, 192], its weight 'w' float32[24, 2] takes "
      "24 (try: torch.onnx.export(model, args, \"m.onnx\", dynamo=True, dynamic_shapes=({0: "
      "\"batch\"},))  # args of 2 samples or more)");
  CHECK(
      ErrorText(R"(
    g (float[1, 128, 6] x) => (float[1, 128, 6] y)
    <float[1, 128, 6] position = ["location": "none"]> { [sum] y = Add(x, position) })",
                {.batch = {}, .dims = {}, .inputs = {{"x", {1, 256, 6}}}}) ==
      "<text>: node 'sum' (Add): dimension 1 of 'x' is fixed at 128 in the file, and this node "
      "does not hold with 256: float32[1, 256, 6] and float32[1, 128, 6] cannot be broadcast: 256 "
      "beside 128, as 'position' has (try: torch.onnx.export(model, args, \"m.onnx\", "
      "dynamo=True, dynamic_shapes=({1: \"size_1\"},)))");
  // Each argument of forward has its entry, whatever the file calls it.
  CHECK(ErrorText(R"(
    g (float[4, 6] ids, float[6] scale, float[4, 6] mask) => (float[1, 48] y)
    <int64[2] flat = {1, 24}, float[24, 2] w = ["location": "none"]> {
      s = Mul(ids, scale) a = Add(s, mask) t = Transpose <perm = [1, 0]> (a)
      f = Reshape(t, flat) [head] y = MatMul(f, w)
    })",
                  Batch(8))
            .ends_with("dynamic_shapes=({0: \"batch\"}, None, {0: \"batch\"})))"));
}

TEST_CASE("a result that stays as it was is no answer") {
  CHECK(ErrorText(R"(
    g (float[1, 4] x) => (float[1, 4] y) <int64 first = {0}, int64[1] axis = {0}> {
      [take] f = Gather <axis = 0> (x, first)
      y = Unsqueeze(f, axis)
    })",
                  Batch(8))
            .starts_with("<text>: node 'take' (Gather): the batch is fixed at 1 in the file"));
}

std::string TypesTraced(std::string_view model, int64_t batch) {
  Warnings warnings;
  const std::optional<Graph> graph = RebindTraced(ParseGraph(model), Batch(batch), warnings);
  if (!graph.has_value()) return "none";
  const Shapes shapes = BindShapes(*graph, Batch(batch));
  return ToString(shapes.types[Index(graph->outputs[0])].tensor);
}

TEST_CASE("constants of a free batch that was traced with another one follow") {
  // torch.cat(x.split(len(x) // 3), dim=1), traced with a batch of 2.
  constexpr std::string_view kSplit = R"(
    g (float[N, 3, 4] x) => (float y) <int64[2] flat = {-1, 4}, int64[3] parts = {2, 2, 2}> {
      r = Reshape(x, flat)
      a, b, c = Split(r, parts)
      y = Concat <axis = 1> (a, b, c)
    })";
  CHECK(TypesTraced(kSplit, 8) == "float32[8, 12]");
  CHECK(TypesTraced(kSplit, 1) == "float32[1, 12]");
  // x[mask] of a mask of numpy's, expanded to the shape that x has.
  constexpr std::string_view kMask = R"(
    g (float[N, 3, 4] x) => (float y) <bool[2, 3] mask = {1, 0, 0, 0, 1, 0}, int64[1] axis = {2}> {
      m = Unsqueeze(mask, axis)
      s = Shape(x)
      e = Expand(m, s)
      y = Where(e, x, x)
    })";
  CHECK(TypesTraced(kMask, 8) == "float32[8, 3, 4]");
  // A 1 in the target of a Reshape, in a file whose batch is free.
  constexpr std::string_view kOne = R"(
    g (float[N, 4, 6] x) => (float y) <int64[3] s = {1, 4, 6}> { y = Reshape(x, s) })";
  CHECK(TypesTraced(kOne, 8) == "float32[8, 4, 6]");
  // A size that no batch mends.
  constexpr std::string_view kWrong = R"(
    g (float[N, 3] x) => (float y) <float[4, 5] w = {0}> { y = MatMul(x, w) })";
  CHECK(TypesTraced(kWrong, 8) == "none");
}

std::string TypesLost(std::string_view model, const DimBinding& binding) {
  Warnings warnings;
  const Graph graph = ParseGraph(model);
  const std::optional<Graph> found =
      RebindLost(graph, graph, BindShapes(graph, binding), binding, warnings);
  if (!found.has_value()) return "none";
  CHECK(warnings.size() == 1);
  const Shapes shapes = BindShapes(*found, binding);
  return ToString(shapes.types[Index(found->outputs[0])].tensor);
}

TEST_CASE("samples that a Reshape puts behind one another are a batch again where results say so") {
  constexpr std::string_view kNamed = R"(
    g (float[N, 4, 6] x) => (float[N, C, 6] y) <int64[3] s = {1, -1, 6}> { y = Reshape(x, s) })";
  CHECK(TypesLost(kNamed, Batch(8)) == "float32[8, 4, 6]");
  CHECK(TypesLost(kNamed, Batch(1)) == "none");
  // Nobody says that it is the batch.
  constexpr std::string_view kOther = R"(
    g (float[N, L, 6] x) => (float[M, C, 6] y) <int64[3] s = {1, -1, 6}> { y = Reshape(x, s) })";
  CHECK(TypesLost(kOther, {.batch = 8, .dims = {{"L", 4}}}) == "none");
  constexpr std::string_view kFixed = R"(
    g (float[N, 4, 6] x) => (float[1, C, 6] y) <int64[3] s = {1, -1, 6}> { y = Reshape(x, s) })";
  CHECK(TypesLost(kFixed, Batch(8)) == "none");
}

}  // namespace
}  // namespace onnxfit::rebind_test
