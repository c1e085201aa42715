#include "estimator/onnx/shapes.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "estimator/onnx/loader.h"

namespace onnxfit::shapes_test {
namespace {

// Each value that a node makes, a line each: "name type", with a newline at both ends.
std::string TypesText(const Graph& graph, const Shapes& shapes) {
  std::string text = "\n";
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].producer == kNoNode) continue;
    const ValueType& type = shapes.types[i];
    text += fmt::format("{} {}{}\n", graph.values[i].name, type.is_sequence ? "sequence of " : "",
                        ToString(type.tensor));
  }
  return text;
}

std::string TypesText(std::string_view model, const DimBinding& binding) {
  const Graph graph = ParseGraph(model);
  return TypesText(graph, BindShapes(graph, binding));
}

std::string ErrorText(std::string_view model, const DimBinding& binding) {
  try {
    BindShapes(ParseGraph(model), binding);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string WarningsText(std::string_view model, const DimBinding& binding) {
  std::string text = "\n";
  for (const Warning& warning : BindShapes(ParseGraph(model), binding).warnings) {
    text += warning.code + " " + warning.text + "\n";
  }
  return text;
}

DimBinding Batch(int64_t batch) { return {.batch = batch, .dims = {}, .inputs = {}}; }

constexpr std::string_view kMlp = R"(
    g (float[N, 784] x, float[784, 2000] w, float[2000, 10] v, float[10] b) => (float[N, 10] y) {
      h = MatMul(x, w)
      a = Relu(h)
      o = MatMul(a, v)
      y = Add(o, b)
    })";

TEST_CASE("the mask of an old Dropout is like its input") {
  CHECK(TypesText(R"(
    <ir_version: 3, opset_import: ["" : 9]>
    g (float[2, 3] x) => (float[2, 3] y) {
      y, mask = Dropout <ratio = 0.5> (x)
    })",
                  {}) == R"(
y float32[2, 3]
mask float32[2, 3]
)");
}

TEST_CASE("a permutation that counts from the back is one all the same") {
  CHECK(TypesText("g (float[2, 3, 4, 5] x) => (float[a, b, c, d] y) "
                  "{ y = Transpose <perm = [0, -2, -1, 1]> (x) }",
                  {}) == "\ny float32[2, 4, 5, 3]\n");
}

TEST_CASE("windows of a dimension counted from the back lie where PyTorch has them") {
  const std::string constants =
      "g (float[2, 8, 7] x) => (float[a, b, c, d] y) <int64[1] s0 = {0}, int64[1] s4 = {4}, "
      "int64[1] s8 = {8}, int64[1] d = {-2}> { ";
  const std::string first = "[\"/Slice\"] a = Slice (x, s0, s4, d) ";
  const std::string second = "[\"/Slice_1\"] b = Slice (x, s4, s8, d) ";
  const std::string moved =
      "[\"/Transpose\"] at = Transpose <perm = [0, 2, 1]> (a) "
      "[\"/Unsqueeze\"] ar = Unsqueeze (at, d) ";
  const std::string rest =
      "[\"/Transpose_1\"] bt = Transpose <perm = [0, 2, 1]> (b) "
      "[\"/Unsqueeze_1\"] br = Unsqueeze (bt, d) "
      "[\"/Concat\"] y = Concat <axis = -2> (ar, br) }";
  const auto type_of_y = [](const std::string& text) {
    const std::string types = TypesText(text, {});
    return types.substr(types.find("\ny ") + 1);
  };
  const std::string unfold = constants + first + second + moved + rest;  // x.unfold (-2, 4, 4)
  CHECK(type_of_y(unfold) == "y float32[2, 2, 7, 4]\n");
  // torch.stack ([x.narrow (-2, i, 4).transpose (-1, -2) for i in (0, 4)], -2)
  const std::string stacked = constants + first + moved + second + rest;
  CHECK(type_of_y(stacked) == "y float32[2, 7, 2, 4]\n");
}

TEST_CASE("the batch is the dimension that is free first") {
  CHECK(TypesText(kMlp, {}) == R"(
h float32[1, 2000]
a float32[1, 2000]
o float32[1, 10]
y float32[1, 10]
)");
  CHECK(TypesText(kMlp, Batch(32)) == R"(
h float32[32, 2000]
a float32[32, 2000]
o float32[32, 10]
y float32[32, 10]
)");
  CHECK(BindShapes(ParseGraph(kMlp), Batch(32)).batch == 32);
  CHECK(BindShapes(ParseGraph(kMlp), {.batch = {}, .dims = {{"N", 3}}, .inputs = {}}).batch == 3);
  CHECK(
      BindShapes(ParseGraph(kMlp), {.batch = {}, .dims = {}, .inputs = {{"x", {4, 784}}}}).batch ==
      4);
}

TEST_CASE("a flattening that is computed from shapes resolves") {
  CHECK(TypesText(R"(
    g (float[N, 3, 8, 8] x) => (float[N, M] y) <int64 zero = {0}, int64[1] rest = {-1},
                                                int64[1] axis = {0}> {
      shape = Shape(x)
      batch = Gather(shape, zero)
      first = Unsqueeze(batch, axis)
      target = Concat<axis = 0>(first, rest)
      y = Reshape(x, target)
    })",
                  Batch(2)) == R"(
shape int64[4]
batch int64[]
first int64[1]
target int64[2]
y float32[2, 192]
)");
}

TEST_CASE("scales that are computed in floating point decide over a Resize") {
  CHECK(TypesText(R"(
    <ir_version: 8, opset_import: ["" : 18]>
    g (float[N, 3, 7, 7] x) => (float[N, 3, A, B] y)
    <float half = {0.5}, int64[1] from = {2}, int64[1] to = {4}, int64[1] head = {0}> {
      shape = Shape(x)
      sizes = Slice(shape, from, to)
      floats = Cast<to = 1>(sizes)
      halves = Mul(floats, half)
      floors = Floor(halves)
      ints = Cast<to = 7>(floors)
      kept = Slice(shape, head, from)
      target = Concat<axis = 0>(kept, ints)
      y = Resize<mode = "nearest">(x, , , target)
    })",
                  Batch(4)) == R"(
shape int64[4]
sizes int64[2]
floats float32[2]
halves float32[2]
floors float32[2]
ints int64[2]
kept int64[2]
target int64[4]
y float32[4, 3, 3, 3]
)");
}

TEST_CASE("operators without an inference function are inferred by their bodies") {
  CHECK(TypesText(R"(
    <ir_version: 8, opset_import: ["" : 18]>
    g (float[N, 4, 8, 8] x, float[2] s, float[2] b) => (float[N, 4, 8, 8] y) {
      y = GroupNormalization<num_groups = 2>(x, s, b)
      z = MeanVarianceNormalization(x)
    })",
                  Batch(2)) == R"(
y float32[2, 4, 8, 8]
z float32[2, 4, 8, 8]
)");
  CHECK(TypesText(R"(
    <ir_version: 8, opset_import: ["" : 12]>
    g (float[N, 4] x) => (bool[N, 4] y) { y = GreaterOrEqual(x, x) })",
                  Batch(2)) == "\ny bool[2, 4]\n");
}

TEST_CASE("lists of tensors") {
  CHECK(TypesText(R"(
    g (float[N, 6] x) => (float[N, 2] y) <int64 two = {2}, int64 zero = {0}> {
      parts = SplitToSequence<axis = 1>(x, two)
      y = SequenceAt(parts, zero)
      pair = SequenceConstruct(y, y)
      z = ConcatFromSequence<axis = 0>(pair)
    })",
                  Batch(5)) == R"(
parts sequence of float32[5, 2]
y float32[5, 2]
pair sequence of float32[5, 2]
z float32[10, 2]
)");
}

TEST_CASE("lists of tensors of different shapes") {
  CHECK(TypesText(R"(
    g (float[N, 6] x) => (float[N, 2] y)
    <int64[3] lengths = {3, 1, 2}, int64 four = {4}, int64 one = {1}, int64 last = {-1}> {
      parts = SplitToSequence<axis = 1>(x, lengths)
      y = SequenceAt(parts, one)
      z = SequenceAt(parts, last)
      all = ConcatFromSequence<axis = 1>(parts)
      uneven = SplitToSequence<axis = 1>(x, four)
      rest = SequenceAt(uneven, last)
      rows = SplitToSequence<axis = 1, keepdims = 0>(x)
      row = SequenceAt(rows, one)
      stack = ConcatFromSequence<axis = 0, new_axis = 1>(rows)
    })",
                  Batch(5)) == R"(
parts sequence of float32[]
y float32[5, 1]
z float32[5, 2]
all float32[5, 6]
uneven sequence of float32[]
rest float32[5, 2]
rows sequence of float32[5]
row float32[5]
stack float32[6, 5]
)");
}

TEST_CASE("a Scan is inferred with its body") {
  CHECK(TypesText(R"(
    g (float[N, 4] x, float[4] start) => (float[4] last, float[M, 4] all) {
      last, all = Scan<num_scan_inputs = 1, body = step (float[K] sum, float[K] row) =>
                       (float[K] next, float[K] out) {
                         next = Add(sum, row)
                         out = Mul(next, start)
                       }>(start, x)
    })",
                  Batch(6)) == R"(
last float32[4]
all float32[6, 4]
)");
}

TEST_CASE("free dimensions are listed with the flags that bind them") {
  constexpr std::string_view kText = R"(
    g (int64[N, seq] ids, int64[N, seq] mask, float[K, ?] past) => (int64[N, seq] y) {
      y = Add(ids, mask)
    })";
  CHECK(ErrorText("g (int64[N, seq] ids) => (int64[N, seq] y) { y = Identity(ids) }", {}) ==
        "<text>: input 'ids': dimension 'seq' is free (try: --dim seq=512)");
  CHECK(ErrorText("g (int64[N, ?] ids) => (int64[N, M] y) { y = Identity(ids) }", {}) ==
        "<text>: input 'ids': dimension 'ids.1' is free (try: --dim ids.1=512)");
  CHECK(ErrorText(kText, {}) ==
        "<text>: dimensions 'seq' of input 'ids', 'K' of input 'past', 'past.1' of input 'past' "
        "are free (try: --dim seq=512 --dim K=512 --dim past.1=512)");
  CHECK(TypesText(kText, {.batch = 2,
                          .dims = {{"seq", 16}, {"past.1", 4}},
                          .inputs = {{"past", {3, 4}}}}) == "\ny int64[2, 16]\n");
}

TEST_CASE("first dimensions whose names nobody chose are the batch, and it is said") {
  const auto text = [](const std::string& dim) {
    return fmt::format(
        "g (int64[s77, 4] ids, float[{}, 3] image) => (float[M, 3] y) "
        "{{ y = Relu(image) }}",
        dim);
  };
  for (const std::string_view made_up :
       {"s72", "image_dynamic_axes_1", "unk__9", "\"DynamicDimension.1\"", "?"}) {
    CAPTURE(made_up);
    CHECK(TypesText(text(std::string(made_up)), Batch(6)) == "\ny float32[6, 3]\n");
  }
  CHECK(WarningsText(text("s72"), Batch(6)) ==
        "\nOF116 first dimensions that are free beside 's77', the batch, are taken to be as large: "
        "'s72' of 'image' (--dim s72=6 says so, or another size)\n");
  CHECK(WarningsText(text("s72"), {.batch = 6, .dims = {{"s72", 5}}}) == "\n");
  CHECK(ErrorText(text("patches"), Batch(6)) ==
        "<text>: input 'image': dimension 'patches' is free (try: --dim patches=512)");
  CHECK(ErrorText("g (int64[N, s5] ids) => (int64[N, M] y) { y = Identity(ids) }", {}) ==
        "<text>: input 'ids': dimension 's5' is free (try: --dim s5=512)");
}

TEST_CASE("flags that fit nothing are refused") {
  constexpr std::string_view kText =
      "g (int64[N, seq] ids, int64[7] m) => (int64[N, seq] y) { y = Identity(ids) }";
  constexpr std::string_view kFixedTokens =
      "g (int64[1, 512] ids, int64[1, 512] mask) => (int64[1, 512] y) { y = Add(ids, mask) }";
  constexpr std::string_view kFreeBatch =
      "g (int64[s10, 512] ids) => (int64[s10, 512] y) { y = Identity(ids) }";
  constexpr std::string_view kFixed = "g (int64[2] x) => (int64[2] y) { y = Identity(x) }";
  constexpr std::string_view kShapeless = "g (int64[] x) => (int64[] y) { y = Identity(x) }";
  struct Row {
    std::string_view model;
    DimBinding binding;
    std::string_view error;
  };
  const Row rows[] = {
      {kText, Batch(0), "<text>: --batch: expected a positive number, found 0"},
      {kText,
       {.batch = {}, .dims = {{"seq", -3}}, .inputs = {}},
       "<text>: --dim seq: expected a positive number, found -3"},
      {kText,
       {.batch = {}, .dims = {}, .inputs = {{"ids", {2, 0}}}},
       "<text>: --shape ids: expected a positive number, found 0"},
      {kText,
       {.batch = {}, .dims = {{"sec", 8}}, .inputs = {}},
       "<text>: --dim sec=8: no free dimension has this name, the model has 'N', 'seq' "
       "(try: --dim seq=8)"},
      {kFixed,
       {.batch = {}, .dims = {{"seq", 8}}, .inputs = {}},
       "<text>: --dim seq=8: the model leaves no dimension free: the file fixes the others, 'x' is "
       "[2] (try: an export whose sizes are free)"},
      {kFixed,
       {.batch = {}, .dims = {{"N", 8}}, .inputs = {}},
       "<text>: --dim N=8: the model leaves no dimension free (try: --batch 8)"},
      {kFixedTokens,
       {.batch = {}, .dims = {{"seq", 128}}, .inputs = {}},
       "<text>: --dim seq=128: the model leaves no dimension free: the file fixes the others, "
       "'ids' "
       "is [1, 512], 'mask' is [1, 512] (try: an export with dynamic_shapes=({1: \"seq\"}, {1: "
       "\"seq\"}), for TorchScript dynamic_axes={\"ids\": {1: \"seq\"}, \"mask\": {1: "
       "\"seq\"}})"},
      {kFreeBatch,  // what is free is the batch, and no sequence
       {.batch = {}, .dims = {{"seq", 128}}, .inputs = {}},
       "<text>: --dim seq=128: no free dimension has this name, the model has 's10': the file "
       "fixes "
       "the others, 'ids' is [s10, 512] (try: an export with dynamic_shapes=({0: \"batch\", 1: "
       "\"seq\"},), for TorchScript dynamic_axes={\"ids\": {0: \"batch\", 1: \"seq\"}})"},
      {kFreeBatch,
       {.batch = {}, .dims = {{"batch", 128}}, .inputs = {}},
       "<text>: --dim batch=128: no free dimension has this name, the model has 's10' "
       "(try: --batch 128)"},
      {kFreeBatch,  // given twice
       {.batch = 4, .dims = {{"batch", 128}}, .inputs = {}},
       "<text>: --dim batch=128: no free dimension has this name, the model has 's10'; the batch "
       "is "
       "4 "
       "already, by --batch"},
      {kText,  // the first one that is left
       {.batch = {}, .dims = {{"length", 8}}, .inputs = {}},
       "<text>: --dim length=8: no free dimension has this name, the model has 'N', 'seq' "
       "(try: --dim seq=8)"},
      {kText,
       {.batch = {}, .dims = {}, .inputs = {{"id", {2, 3, 8, 8}}}},  // of another rank
       "<text>: --shape id: no input has this name, the model has 'ids', 'm' "
       "(try: --shape ids=1x1)"},
      {kText,
       {.batch = {}, .dims = {}, .inputs = {{"id", {2, 8}}}},
       "<text>: --shape id: no input has this name, the model has 'ids', 'm' "
       "(try: --shape ids=2x8)"},
      {kText,
       {.batch = {}, .dims = {}, .inputs = {{"ids", {2, 8, 1}}}},
       "<text>: --shape ids=2x8x1: expected 2 dimensions as in [N, seq], found 3"},
      {kText,
       {.batch = 4, .dims = {{"seq", 8}}, .inputs = {{"ids", {2, 8}}}},
       "<text>: --batch 4: dimension 'N' is 2 already, found 4"},
      {kText,
       {.batch = {}, .dims = {{"seq", 9}}, .inputs = {{"ids", {2, 8}}}},
       "<text>: --dim seq=9: dimension 'seq' is 8 already, found 9"},
      {kShapeless,
       {},
       "<text>: input 'x': the file does not say how many dimensions it has "
       "(try: --shape x=1x3x224x224)"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.error);
    CHECK(ErrorText(row.model, row.binding) == row.error);
  }
}

TEST_CASE("shapes that contradict one another are refused in our words") {
  struct Row {
    std::string_view nodes;
    std::string_view error;
  };
  const Row rows[] = {
      {"[join] y = Add(x, w)",
       "<text>: node 'join' (Add): float32[3, 4] and float32[2, 7] cannot be broadcast: 4 beside 7 "
       "(try: other sizes than 'N' = 3)"},
      {"y = MatMul(x, w)",
       "<text>: node 'MatMul #0': float32[3, 4] and float32[2, 7] cannot be multiplied: 4 beside 2 "
       "(try: other sizes than 'N' = 3)"},
      {"y = Reshape(x, s)",
       "<text>: node 'Reshape #0': float32[3, 4] cannot take the shape [5, 5] "
       "(try: other sizes than 'N' = 3)"},
      {"y, z = Split<num_outputs = 1099511627776>(x)",
       "<text>: node 'Split #0': num_outputs is 1099511627776, the node has 2"},
      {"[range] y = Range(n, n, n)",
       "<text>: node 'range' (Range): the shape of its output 'y' depends on data, int64[?] "
       "(try: --dim y=100)"},
      {"u = Unsqueeze(x, i) y = InstanceNormalization(u, w, w)",
       "<text>: node 'InstanceNormalization #1': its weight float32[2, 7] has 2 dimensions, 1 "
       "was expected (try: other sizes than 'N' = 3)"},
      {"u = Unsqueeze(x, i) y = MaxPool<kernel_shape = [9]>(u)",
       "<text>: node 'MaxPool #1': its output 'y' would have a negative dimension, "
       "float32[1, 3, -4] (try: other sizes than 'N' = 3)"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.nodes);
    const std::string model = fmt::format(
        "g (float[N, 4] x, float[2, 7] w, int64 n) => (float y) "
        "<int64[2] s = {{5, 5}}, int64[1] i = {{0}}> {{ {} }}",
        row.nodes);
    CHECK(ErrorText(model, Batch(3)) == row.error);
  }
}

TEST_CASE("lists of dimensions have a budget, whether they are known or not") {
  struct Row {
    std::string_view node;
    std::string_view where;
  };
  const Row rows[] = {{"Expand (x, s)", "Expand #0"},
                      {"Reshape (x, s)", "Reshape #0"},
                      {"ConstantOfShape (s)", "ConstantOfShape #0"},
                      {"Tile (x, s)", "Tile #0"}};
  for (const Row& row : rows) {
    CAPTURE(row.node);
    CHECK(ErrorText(fmt::format("g (float[1, 3, 1] x, int64[300000000] s) => (float[1, 3, 3] y) "
                                "{{ y = {} }}",
                                row.node),
                    {}) ==
          fmt::format("<text>: node '{}': at most 64 dimensions were expected, found 300000000",
                      row.where));
  }
}

TEST_CASE("where height and width alone are free, the batch is the file's") {
  constexpr std::string_view kImage =
      "g (float[1, 3, H, W] x) => (float[1, 3, H, W] y) { y = Relu(x) }";
  CHECK(TypesText(kImage, {.batch = 8, .dims = {{"H", 4}, {"W", 5}}}) ==
        "\ny float32[8, 3, 4, 5]\n");
  CHECK(ErrorText(kImage, {.batch = 8, .dims = {{"W", 5}}}).find("'H'") != std::string::npos);
  // A free batch that is not the first dimension has a name that says so.
  constexpr std::string_view kSequence =
      "g (float[4, N, 3] x) => (float[4, N, 3] y) { y = Relu(x) }";
  CHECK(TypesText(kSequence, {.batch = 8}) == "\ny float32[4, 8, 3]\n");
}

TEST_CASE("sizes that 64 bits do not hold are refused") {
  CHECK(ErrorText("g (float[N, 4] x) => (float y) { y = Flatten<axis = 2>(x) }",
                  Batch(int64_t{1} << 62)) ==
        "<text>: node 'Flatten #0': it reads more elements than 64 bits count, "
        "float32[4611686018427387904, 4] (try: other sizes than 'N' = 4611686018427387904)");
  CHECK(TypesText("g (float[N, 4] x) => (float y) { y = Relu(x) }", Batch(int64_t{1} << 40)) ==
        "\ny float32[1099511627776, 4]\n");
}

TEST_CASE("operators that ONNX does not know") {
  constexpr std::string_view kText = R"(
    <ir_version: 8, opset_import: ["" : 18, "com.microsoft" : 1]>
    g (float[N, 4] x) => (float[N, 4] y) <float[N, 2] a, float[M, 2] b> {
      [one] a = com.microsoft.Half(x)
      [two] b = com.microsoft.Half(x)
      [three] c = com.microsoft.Half(x)
      y = Relu(c)
    })";
  CHECK(TypesText(kText, Batch(3)) == R"(
a float32[3, 2]
b float32[3, 4]
c float32[3, 4]
y float32[3, 4]
)");
  CHECK(WarningsText(kText, Batch(3)) == R"(
OF105 ONNX has no schema for 'com.microsoft.Half' of node 'two' and 1 other nodes: outputs are taken to be like the first input
OF105 ONNX has no schema for 'com.microsoft.Half' of node 'one': the shapes that the file stores are believed
)");
}

TEST_CASE("what the file stores about its own operators is not believed") {
  CHECK(TypesText("g (float[N, 4] x) => (float[9, 9] y) <float[7] h> { h = Relu(x) y = Relu(h) }",
                  Batch(2)) == "\nh float32[2, 4]\ny float32[2, 4]\n");
}

TEST_CASE("a larger batch never changes a type without the batch") {
  const Graph graph = ParseGraph(kMlp);
  const Shapes small = BindShapes(graph, Batch(7));
  for (const int64_t batch : {8, 32, 1024}) {
    CAPTURE(batch);
    const Shapes large = BindShapes(graph, Batch(batch));
    for (size_t i = 0; i < graph.values.size(); ++i) {
      CAPTURE(graph.values[i].name);
      TensorType expected = small.types[i].tensor;
      for (int64_t& dim : expected.dims) dim = dim == 7 ? batch : dim;
      CHECK(large.types[i].tensor == expected);
    }
  }
}

}  // namespace
}  // namespace onnxfit::shapes_test
