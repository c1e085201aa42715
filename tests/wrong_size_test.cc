#include "estimator/onnx/wrong_size.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "estimator/onnx/loader.h"
#include "estimator/onnx/rebind.h"

namespace onnxfit::wrong_size_test {
namespace {

std::string ErrorText(std::string_view model, const DimBinding& binding) {
  const Graph file = ParseGraph(std::string("g ") + std::string(model));
  Warnings warnings;
  try {
    const Graph graph = Rebind(file, binding, warnings);
    BindShapes(graph, binding);
  } catch (const SizeError& error) {
    return WrongSize(file, binding, error).what();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

DimBinding Shape(const std::string& input, const Dims& dims) {
  return {.batch = {}, .dims = {}, .inputs = {{input, dims}}};
}

DimBinding Dim(const std::string& name, int64_t size) {
  return {.batch = {}, .dims = {{name, size}}, .inputs = {}};
}

struct Row {
  std::string_view model;
  DimBinding binding;
  std::string_view error;
};

void Check(const Row& row) {
  CAPTURE(row.model);
  CHECK(ErrorText(row.model, row.binding) == row.error);
}

constexpr std::string_view kImage = R"((float[1, 3, 8, 8] x) => (float y)
    <float[16, 3, 3, 3] kernel = ["location": "none"]> { [conv1] y = Conv(x, kernel) })";
constexpr std::string_view kFreeImage = R"((float[N, C, H, W] x) => (float y)
    <float[16, 3, 3, 3] kernel = ["location": "none"]> { [conv1] y = Conv(x, kernel) })";

TEST_CASE("a size that a weight does not take is told by its input and dimension") {
  const Row rows[] = {
      {kImage, Shape("x", {8, 4, 8, 8}),
       "<text>: input 'x': dimension 1 is 4, expected 3 as the file fixes it: node 'conv1' (Conv): "
       "it reads 4 channels of float32[8, 4, 8, 8], its weight 'kernel' float32[16, 3, 3, 3] takes "
       "3 (try: --shape x=8x3x8x8)"},
      {kFreeImage, Shape("x", {8, 4, 8, 8}),
       "<text>: input 'x': dimension 1 ('C') is 4, expected 3: node 'conv1' (Conv): it reads 4 "
       "channels of float32[8, 4, 8, 8], its weight 'kernel' float32[16, 3, 3, 3] takes 3 "
       "(try: --shape x=8x3x8x8)"},
      {kFreeImage,
       {.batch = 2, .dims = {{"C", 1}, {"H", 8}, {"W", 8}}, .inputs = {}},
       "<text>: input 'x': dimension 1 ('C') is 1, expected 3: node 'conv1' (Conv): it reads 1 "
       "channels of float32[2, 1, 8, 8], its weight 'kernel' float32[16, 3, 3, 3] takes 3 "
       "(try: --dim C=3)"},
      // Its batch is the file's, too, and not to blame.
      {R"((float[1, 50] x) => (float y) <float[20, 50] w = ["location": "none"]> {
           [fc] y = Gemm <transB = 1> (x, w) })",
       Shape("x", {8, 100}),
       "<text>: input 'x': dimension 1 is 100, expected 50 as the file fixes it: node 'fc' (Gemm): "
       "it reads 100 features of float32[8, 100], its weight 'w' float32[20, 50] takes 50 "
       "(try: --shape x=8x50)"},
      {R"((float[N, 50] x) => (float y) <float[20, 50] w = ["location": "none"]> {
           t = Transpose(w) [fc] y = MatMul(x, t) })",
       Shape("x", {8, 100}),
       "<text>: input 'x': dimension 1 is 100, expected 50 as the file fixes it: node 'fc' "
       "(MatMul): it reads 100 features of float32[8, 100], its weight 'w' float32[50, 20] takes "
       "50 (try: --shape x=8x50)"},
      {R"((float[T, N, 50] x) => (float y) <float[1, 80, 50] w = ["location": "none"],
           float[1, 80, 20] r = ["location": "none"]> { [rnn] y = LSTM <hidden_size = 20> (x, w, r)
           })",
       Shape("x", {5, 8, 60}),
       "<text>: input 'x': dimension 2 is 60, expected 50 as the file fixes it: node 'rnn' (LSTM): "
       "it reads 60 features of float32[5, 8, 60], its weight 'w' float32[1, 80, 50] takes 50 "
       "(try: --shape x=5x8x50)"},
      {R"((float[N, C, 8] x) => (float y) <float[6] s = ["location": "none"],
           float[6] b = ["location": "none"]> { [norm] y = InstanceNormalization(x, s, b) })",
       Dim("C", 5),
       "<text>: input 'x': dimension 1 ('C') is 5, expected 6: node 'norm' "
       "(InstanceNormalization): it reads 5 channels of float32[1, 5, 8], its weight 's' "
       "float32[6] takes 6 (try: --dim C=6)"},
  };
  for (const Row& row : rows) Check(row);
}

TEST_CASE("a batch that cannot follow is told as the file's batch") {
  constexpr std::string_view kFlat = R"((float[1, 4, 6] x) => (float y)
      <float[24, 2] w = ["location": "none"], int64[2] flat = {1, 24}> {
        t = Transpose <perm = [1, 0, 2]> (x) f = Reshape(t, flat) [head] y = MatMul(f, w) })";
  constexpr std::string_view kError =
      "<text>: node 'head' (MatMul): the batch is fixed at 1 in the file, and this node does not "
      "hold with 8: it reads 192 features of float32[1, 192], its weight 'w' float32[24, 2] takes "
      "24 (try: torch.onnx.export(model, args, \"m.onnx\", dynamo=True, dynamic_shapes=({0: "
      "\"batch\"},))  # args of 2 samples or more)";
  Check({kFlat, {.batch = 8}, kError});
  Check({kFlat, Shape("x", {8, 4, 6}), kError});
  // The first dimension of a vector is no batch.
  Check({R"((float[24] x) => (float y) <float[24, 2] w = ["location": "none"]> {
           [head] y = MatMul(x, w) })",
         Shape("x", {30}),
         "<text>: input 'x': dimension 0 is 30, expected 24 as the file fixes it: node 'head' "
         "(MatMul): it reads 30 features of float32[30], its weight 'w' float32[24, 2] takes 24 "
         "(try: --shape x=24)"});
}

TEST_CASE("an image of another size stays allowed where the graph carries it") {
  CHECK(ErrorText(kImage, Shape("x", {8, 3, 16, 12})) == "no error");
  CHECK(ErrorText("(float[1, 3, 8, 8] x) => (float y) { y = Relu(x) }", Shape("x", {1, 4, 8, 8})) ==
        "no error");
}

TEST_CASE("several sizes are told together where only all of them are to blame") {
  Check({R"((float[1, 3, 8, 8] x) => (float y) <float[64, 4] w = ["location": "none"],
             float[1, 3, 1, 1] kernel = ["location": "none"], int64[2] flat = {1, 64}> {
           c = Conv(x, kernel) f = Reshape(c, flat) [fc] y = MatMul(f, w) })",
         Shape("x", {2, 3, 16, 16}),
         "<text>: input 'x': dimensions 2, 3 are 16x16, expected 8x8 as the file fixes them: node "
         "'fc' (MatMul): it reads 256 features of float32[2, 256], its weight 'w' float32[64, 4] "
         "takes 64 (try: --shape x=2x3x8x8)"});
}

TEST_CASE("what another export might free is told, too") {
  Check({R"((float[N, 128, 6] x) => (float y) <float[1, 128, 6] place = ["location": "none"]> {
           [sum] y = Add(x, place) })",
         Shape("x", {2, 256, 6}),
         "<text>: input 'x': dimension 1 is 256, expected 128 as the file fixes it: node 'sum' "
         "(Add): float32[2, 256, 6] and float32[1, 128, 6] cannot be broadcast: 256 beside 128, as "
         "'place' has (try: --shape x=2x128x6, or torch.onnx.export(model, args, \"m.onnx\", "
         "dynamo=True, dynamic_shapes=({0: \"N\", 1: \"size_1\"},)))"});
}

TEST_CASE("the export frees what goes together") {
  Check(
      {R"((float[1, 6] ids, float[6] scale, float[1, 6] mask) => (float y)
           <float[1, 6] place = ["location": "none"]> {
           s = Mul(ids, mask) [sum] y = Add(s, place) })",
       {.batch = {}, .dims = {}, .inputs = {{"ids", {1, 7}}, {"mask", {1, 7}}}},
       "<text>: input 'ids': dimension 1 is 7, expected 6 as the file fixes it: node 'sum' (Add): "
       "float32[1, 7] and float32[1, 6] cannot be broadcast: 7 beside 6, as 'place' has (try: "
       "--shape ids=1x6 --shape mask=1x6, or torch.onnx.export(model, args, \"m.onnx\", "
       "dynamo=True, dynamic_shapes=({1: \"size_1\"}, None, {1: \"size_1\"})))"});
}

TEST_CASE("an input that goes with the others gets their size") {
  Check(
      {"(float[1, 6] ids, float[1, 6] mask) => (float y) { [sum] y = Add(ids, mask) }",
       Shape("ids", {1, 3}),
       "<text>: input 'ids': dimension 1 is 3, expected 6 as the file fixes it: node 'sum' (Add): "
       "float32[1, 3] and float32[1, 6] cannot be broadcast: 3 beside 6 (try: --shape mask=1x3)"});
}

TEST_CASE("positions beyond a table are refused") {
  const Row rows[] = {
      // torch.export: a range; TorchScript: a slice of a buffer, which comes out shorter.
      {R"((int64[N, seq] ids) => (float y)
          <float[90, 4] words = ["location": "none"], float[12, 4] places = ["location": "none"],
           int64 zero = {0}, int64 one = {1}, int64 axis = {1}> {
           s = Shape(ids) n = Gather(s, axis) r = Range(zero, n, one)
           w = Gather(words, ids) [place] p = Gather(places, r) y = Add(w, p) })",
       Dim("seq", 16),
       "<text>: input 'ids': dimension 1 ('seq') is 16, expected at most 12: node 'place' "
       "(Gather): "
       "it reads index 15 of 'places' float32[12, 4], which has 12 (try: --dim seq=12)"},
      {R"((int64[N, seq] ids) => (float y)
          <float[90, 4] words = ["location": "none"], float[12, 4] places = ["location": "none"],
           int64[1, 12] buffer = ["location": "none"], int64[1] zero = {0}, int64[1] axis = {1}> {
           s = Shape(ids) n = Gather(s, axis) cut = Slice(buffer, zero, n, axis)
           w = Gather(words, ids) p = Gather(places, cut) [sum] y = Add(w, p) })",
       Dim("seq", 16),
       "<text>: input 'ids': dimension 1 ('seq') is 16, expected at most 12: node 'sum' (Add): "
       "float32[1, 16, 4] and float32[1, 12, 4] cannot be broadcast: 16 beside 12, as 'places' has "
       "(try: --dim seq=12)"},
      // A token in front, and a table that begins two rows later.
      {R"((int64[N, seq] ids) => (float y)
          <float[90, 4] words = ["location": "none"], float[12, 4] places = ["location": "none"],
           int64 two = {2}, int64 one = {1}, int64 axis = {1}> {
           s = Shape(ids) n = Gather(s, axis) m = Add(n, two) r = Range(two, m, one)
           w = Gather(words, ids) [place] p = Gather(places, r) y = Add(w, p) })",
       Dim("seq", 16),
       "<text>: input 'ids': dimension 1 ('seq') is 16, expected at most 10: node 'place' "
       "(Gather): "
       "it reads index 17 of 'places' float32[12, 4], which has 12 (try: --dim seq=10)"},
  };
  for (const Row& row : rows) Check(row);
  CHECK(ErrorText(rows[0].model, Dim("seq", 12)) == "no error");
}

TEST_CASE("an index beyond all sizes is refused like any other") {
  CHECK(ErrorText(R"((float[N, 4] x) => (float y)
                     <int64 far = {9223372036854775807}, float[12] t = ["location": "none"]> {
                       [far] s = Gather(t, far) y = Relu(x) })",
                  {.batch = 1})
            .starts_with("<text>: node 'far' (Gather): it reads index 9223372036854775807 of 't'"));
}

TEST_CASE("indices are looked at up to 2^25 of them") {
  const auto model = [](int before) {
    std::string nodes = "r = Range(zero, most, one) ";
    for (int i = 0; i < before; ++i) nodes += fmt::format("l{} = Gather(large, r) ", i);
    return R"((float[N, 4] x) => (float y) <int64 zero = {0}, int64 one = {1},
        int64 most = {1048576}, float[1048576] large = ["location": "none"],
        float[12] small = ["location": "none"]> { )" +
           nodes + "[last] s = Gather(small, r) y = Relu(x) }";
  };
  CHECK(ErrorText(model(31), {.batch = 1}).starts_with("<text>: node 'last' (Gather): it reads "));
  CHECK(ErrorText(model(32), {.batch = 1}) == "no error");
}

TEST_CASE("of a free size that does not hold another one is told that would") {
  Check({R"((float[N, 3, H, 8] x) => (float y) {
           a = MaxPool <kernel_shape = [2, 1], strides = [2, 1]> (x)
           b = MaxPool <kernel_shape = [2, 1], strides = [2, 1], ceil_mode = 1> (x)
           [cat] y = Concat <axis = 1> (a, b) })",
         Dim("H", 7),
         "<text>: input 'x': dimension 2 ('H') is 7, 8 would hold: node 'cat' (Concat): float32[1, "
         "3, 3, 8] and float32[1, 3, 4, 8] cannot be joined: 3 beside 4 (try: --dim H=8)"});
}

TEST_CASE("sizes that become samples are refused") {
  constexpr std::string_view kChannelsLast = R"((float[N, 28, 28, 1] x) => (float y)
      <float[6, 1, 3, 3] w = ["location": "none"], int64[4] turned = {-1, 1, 28, 28}> {
        [turn] t = Reshape(x, turned) y = Conv(t, w) })";
  Check({kChannelsLast, Shape("x", {2, 28, 28, 8}),
         "<text>: input 'x': dimension 3 is 8, expected 1 as the file fixes it: node 'turn' "
         "(Reshape): it makes float32[16, 1, 28, 28] of float32[2, 28, 28, 8], int64[4], where a "
         "batch of 2 is expected (try: --shape x=2x28x28x1, or torch.onnx.export(model, args, "
         "\"m.onnx\", dynamo=True, dynamic_shapes=({0: \"N\", 3: \"size_3\"},)))"});
  CHECK(ErrorText(kChannelsLast, {.batch = 8}) == "no error");
}

TEST_CASE("what is not known with any size is not to blame") {
  Check(
      {R"((float[N, 4] x, float[N, 4] z) => (float y) <float[6, 4] w = ["location": "none"]> {
           [fc] f = Gemm <transB = 1> (x, w) [nz] y = NonZero(z) })",
       Shape("x", {2, 5}),
       "<text>: input 'x': dimension 1 is 5, expected 4 as the file fixes it: node 'fc' (Gemm): it "
       "reads 5 features of float32[2, 5], its weight 'w' float32[6, 4] takes 4 (try: --shape "
       "x=2x4)"});
}

TEST_CASE("a contradiction that nobody chose is told as it is") {
  Check({R"((float[N, 4] x) => (float y) <float[2, 7] w = ["location": "none"]> {
           [join] y = Add(x, w) })",
         {.batch = 3},
         "<text>: node 'join' (Add): float32[3, 4] and float32[2, 7] cannot be broadcast: 4 beside "
         "7, as 'w' has (try: other sizes than 'N' = 3)"});
}

TEST_CASE("what is no equation, or lacks an operand, is refused") {
  const auto graph = [](std::string_view node) {
    return fmt::format("(float[2, 3] x) => (float y) {{ [sum] y = {} }}", node);
  };
  CHECK(ErrorText(graph("Einsum<equation = \"i j -> j i\">(x)"), {}) == "no error");
  CHECK(ErrorText(graph("Einsum<equation = \"...j->j...\">(x)"), {}) == "no error");
  Check({graph("Einsum<equation = \"ij->j2\">(x)"),
         {},
         "<text>: node 'sum' (Einsum): expected an equation as \"bij,bjk->bik\", found 'ij->j2'"});
  Check({graph("Einsum<equation = \"ij,jk,kl->il\">(x, , x)"),
         {},
         "<text>: node 'sum' (Einsum): input 1 is left out"});
}

}  // namespace
}  // namespace onnxfit::wrong_size_test
