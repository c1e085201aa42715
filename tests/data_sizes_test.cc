// Sizes that data decide: what the error gives to type, and what follows when it is typed.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>

#include "estimator/onnx/control_flow.h"
#include "estimator/onnx/loader.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit::data_sizes_test {
namespace {

std::string Graphed(std::string_view nodes) {
  return fmt::format(
      "g (float[N, 4] x, bool[N, 4] mask, int64 n, int64[2] lengths) => (float y) "
      "<float[3, 4] w = {{0,0,0,0,0,0,0,0,0,0,0,0}}, int64[1] zero = {{0}}, int64 k = {{2}}, "
      "int64[1] all = {{-1}}, float[1] limit = {{0.5}}> {{ {} }}",
      nodes);
}

std::string ErrorOf(const std::string& model, const DimBinding& binding) {
  try {
    BindShapes(ParseGraph(model), binding);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string HintOf(const std::string& model, const DimBinding& binding) {
  try {
    BindShapes(ParseGraph(model), binding);
  } catch (const Error& error) {
    return error.parts().hint;
  }
  return "no error";
}

std::string TypeOf(const std::string& model, const DimBinding& binding, std::string_view name) {
  const Graph graph = ParseGraph(model);
  const Shapes shapes = BindShapes(graph, binding);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].name == name) return ToString(shapes.types[i].tensor);
  }
  return "no such value";
}

std::string WarningsOf(const std::string& model, const DimBinding& binding) {
  std::string text;
  for (const Warning& warning : BindShapes(ParseGraph(model), binding).warnings) {
    text += warning.code + " " + warning.text + "\n";
  }
  return text;
}

TEST_CASE("a size is the most that it can be, or what the flag says") {
  struct Row {
    std::string_view nodes;
    std::string_view most;  // the type of y where nothing is said
    std::map<std::string, int64_t> dims;
    std::string_view said;  // where these are
  };
  const Row rows[] = {
      {"y = NonZero(mask)", "int64[2, 12]", {{"y", 5}}, "int64[2, 5]"},
      {"c = Greater(x, limit) b = Reshape(c, all) y = Compress(x, b)",
       "float32[12]",
       {{"y", 5}},
       "float32[5]"},
      {"c = Unsqueeze(n, zero) y, i = TopK(x, c)",
       "float32[3, 4]",
       {{"y", 2}, {"i", 2}},
       "float32[3, 2]"},
      {"p = NonZero(mask) t = Transpose<perm = [1, 0]>(p) y = GatherND(x, t)",
       "float32[12]",
       {{"p", 5}},
       "float32[5]"},
      {"y, i, j, c = Unique(x)",
       "float32[12]",
       {{"y", 6}, {"i", 6}, {"j", 12}, {"c", 6}},
       "float32[6]"},
      {"e = Unsqueeze(n, zero) y = Slice(x, zero, e, zero)",
       "float32[3, 4]",
       {{"y", 2}},
       "float32[2, 4]"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.nodes);
    const std::string model = Graphed(row.nodes);
    CHECK(TypeOf(model, {.batch = 3}, "y") == row.most);
    CHECK(TypeOf(model, {.batch = 3, .dims = row.dims}, "y") == row.said);
    CHECK(WarningsOf(model, {.batch = 3}).starts_with("OF121 data decide "));
    CHECK(WarningsOf(model, {.batch = 3, .dims = row.dims}) == "");
  }
}

TEST_CASE("more than there may be is the most, and said") {
  const std::string model = Graphed("y = NonZero(mask)");
  const DimBinding many = {.batch = 3, .dims = {{"y", 13}}};
  CHECK(TypeOf(model, many, "y") == "int64[2, 12]");
  CHECK(WarningsOf(model, many) == WarningsOf(model, {.batch = 3}));
}

TEST_CASE("the answer says which sizes are the most that they can be") {
  CHECK(WarningsOf(Graphed("y = NonZero(mask)"), {.batch = 3}) ==
        "OF121 data decide a size, taken as the most that it can be: 'y' 12 (--dim y=N says "
        "less)\n");
  CHECK(
      WarningsOf(Graphed("y, i, j, c = Unique(x)"), {.batch = 3}) ==
      "OF121 data decide 4 sizes, taken as the most that they can be: 'c' 12, 'i' 12, 'j' 12, 'y' "
      "12 (--dim c=N says less)\n");
}

TEST_CASE("without a limit the error gives the flag, and the flag an answer") {
  struct Row {
    std::string_view nodes;
    std::string_view hint;
    std::map<std::string, int64_t> dims;
    std::string_view type;  // of y
  };
  const Row rows[] = {
      {"y = Range(k, n, k)", "--dim y=100", {{"y", 9}}, "int64[9]"},
      {"y = Reshape(x, lengths)",
       "--dim y.0=1 --dim y.1=12",
       {{"y.0", 2}, {"y.1", 6}},
       "float32[2, 6]"},
      {"u = Unsqueeze(n, zero) y = Expand(u, lengths)",
       "--dim y.0=100 --dim y.1=100",
       {{"y.0", 3}, {"y.1", 4}},
       "int64[3, 4]"},
      {"y = ConstantOfShape(lengths)",
       "--dim y.0=100 --dim y.1=100",
       {{"y.0", 3}, {"y.1", 8}},
       "float32[3, 8]"},
      {"y = Tile(x, lengths)",
       "--dim y.0=100 --dim y.1=100",
       {{"y.0", 6}, {"y.1", 8}},
       "float32[6, 8]"},
      // An element of the list that is known is not asked for.
      {"e = Unsqueeze(n, zero) l = Concat<axis = 0>(e, zero, zero) y = ConstantOfShape(l)",
       "--dim y=100",
       {{"y", 5}},
       "float32[5, 0, 0]"},
      {"e = Unsqueeze(n, zero) s = Shape(x) l = Concat<axis = 0>(e, s) y = Expand(x, l)",
       "--dim y=100",
       {{"y", 5}},
       "float32[5, 3, 4]"},
      {"e = Unsqueeze(n, zero) s = Shape(x) l = Concat<axis = 0>(s, e) y = Reshape(x, l)",
       "--dim y=1",
       {{"y", 1}},
       "float32[3, 4, 1]"},
      {"e = Unsqueeze(n, zero) s = Shape<end = 1>(x) l = Concat<axis = 0>(s, e) "
       "y = Resize(x, , , l)",
       "--dim y=100",
       {{"y", 8}},
       "float32[3, 8]"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.nodes);
    const std::string model = Graphed(row.nodes);
    CHECK(HintOf(model, {.batch = 3}) == row.hint);
    CHECK(TypeOf(model, {.batch = 3, .dims = row.dims}, "y") == row.type);
  }
}

TEST_CASE("the error says where, and what it reads") {
  CHECK(ErrorOf(Graphed("[r] y = Range(k, n, k)"), {.batch = 3}) ==
        "<text>: node 'r' (Range): the shape of its output 'y' depends on data, int64[?] "
        "(try: --dim y=100)");
}

TEST_CASE("all that is open is told at once") {
  const std::string model = Graphed(
      "p = Range(k, n, k) t = Neg(p) q = NonZero(t) e = ConstantOfShape(lengths) y = Neg(e)");
  CHECK(HintOf(model, {.batch = 3}) == "--dim p=100 --dim e.0=100 --dim e.1=100");
}

TEST_CASE("a value whose rank nobody knows is given as a whole") {
  const std::string model =
      "g (float[N, 4] x, int64[D] shape) => (float y) { y = Reshape(x, shape) }";
  CHECK(TypeOf(model, {.batch = 3, .dims = {{"D", 2}, {"y.0", 2}, {"y.1", 6}}}, "y") ==
        "float32[2, 6]");
  CHECK(TypeOf(model, {.batch = 3, .dims = {{"D", 2}}, .inputs = {{"y", {6, 2}}}}, "y") ==
        "float32[6, 2]");
}

TEST_CASE("a dimension that the file names goes by that name, once for all that have it") {
  const std::string model = R"(
    g (bool[N, 4] mask, bool[N, 4] other) => (int64[2, found] y, int64[2, found] z) {
      y = NonZero(mask)
      z = NonZero(other)
    })";
  CHECK(TypeOf(model, {.batch = 3}, "z") == "int64[2, 12]");
  CHECK(WarningsOf(model, {.batch = 3}).find("a size, taken") != std::string::npos);
  CHECK(TypeOf(model, {.batch = 3, .dims = {{"found", 8}}}, "z") == "int64[2, 8]");
}

TEST_CASE("boxes that are left are bounded by boxes, classes and the limit of a class") {
  const std::string model = R"(
    g (float[N, 100, 4] boxes, float[N, 3, 100] scores) => (int64[M, 3] y)
    <int64[1] limit = {7}> { y = NonMaxSuppression(boxes, scores, limit) })";
  CHECK(TypeOf(model, {.batch = 2}, "y") == "int64[42, 3]");
  CHECK(TypeOf(model, {.batch = 2, .dims = {{"M", 10}}}, "y") == "int64[10, 3]");
}

TEST_CASE("a size input that has a default decides the shape") {
  const std::string model = R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 3, 8, 8] x, int64[4] sizes) => (float[A, B, C, D] y)
    <int64[4] sizes = {2, 3, 16, 24}> { y = Resize<mode = "nearest">(x, , , sizes) })";
  CHECK(TypeOf(model, {.batch = 2}, "y") == "float32[2, 3, 16, 24]");
}

TEST_CASE("a size input without one is refused by name") {
  const std::string model = R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 3, 8, 8] x, int64[4] sizes) => (float[A, B, C, D] y)
    { y = Resize<mode = "nearest">(x, , , sizes) })";
  CHECK(HintOf(model, {.batch = 2}) == "--dim A=100 --dim B=100 --dim C=100 --dim D=100");
}

TEST_CASE("what names nothing that data decide is refused as before") {
  CHECK(ErrorOf(Graphed("y = Neg(x)"), {.batch = 3, .dims = {{"seq", 5}}}) ==
        "<text>: --dim seq=5: no free dimension has this name, the model has 'N': the file fixes "
        "the others, 'x' is [N, 4], 'mask' is [N, 4], 'n' is [] and 1 more (try: an export with "
        "dynamic_shapes=({0: \"N\", 1: \"seq\"}, {0: \"N\", 1: \"seq\"}, None, None), for "
        "TorchScript "
        "dynamic_axes={\"x\": {0: \"N\", 1: \"seq\"}, \"mask\": {0: \"N\", 1: \"seq\"}})");
  CHECK(ErrorOf(Graphed("y = Neg(x)"), {.batch = 3, .dims = {{"y", 5}}})
            .starts_with("<text>: --dim y=5: no free dimension has this name"));
}

TEST_CASE("sizes of data that do not go together are told in front of those of inputs") {
  const std::string model =
      Graphed("p = NonZero(mask) t = Cast<to = 1>(p) u = Transpose(t) y = MatMul(u, x)");
  CHECK(HintOf(model, {.batch = 3, .dims = {{"p", 5}}}) == "other sizes than 'p' = 5, 'N' = 3");
  CHECK(HintOf(model, {.batch = 3}) == "other sizes than 'p' = 12, 'N' = 3");
}

TEST_CASE("in a function of the file, sizes go by the names that its call gives them") {
  const std::string model = R"(<ir_version: 8, opset_import: ["" : 17, "l" : 1]>
    g (float[N, 4] x) => (int64 y) { z = l.Places(x) y = Transpose(z) }
    <domain: "l", opset_import: ["" : 17, "l" : 1]>
    Places (a) => (b) { p = NonZero(a) b = Identity(p) })";
  const std::string warning = WarningsOf(model, {.batch = 3});
  const size_t flag = warning.find("--dim p");
  REQUIRE(flag != std::string::npos);
  const std::string name = warning.substr(flag + 6, warning.find('=', flag) - flag - 6);
  CHECK(TypeOf(model, {.batch = 3, .dims = {{name, 5}}}, "y") == "int64[5, 2]");
}

// x[mask] = 0: torch.export counts the places, and no result is as large.
TEST_CASE("what scatters alone read is as much as there may be") {
  const DimBinding three = {.batch = 3};
  const std::string places = Graphed(
      "at = NonZero(mask) rows = Transpose<perm = [1, 0]>(at) bits = Cast<to = 7>(mask) "
      "flat = Reshape(bits, all) count = ReduceSum(flat) none = Cast<to = 1>(zero) "
      "fill = Expand(none, count) y = ScatterND(x, rows, fill)");
  CHECK(TypeOf(places, three, "at") == "int64[2, 12]");
  CHECK(TypeOf(places, three, "fill") == "float32[12]");
  CHECK(WarningsOf(places, three) == "");
}

}  // namespace
}  // namespace onnxfit::data_sizes_test
