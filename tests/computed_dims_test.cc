// Dimensions whose names say how they follow from others: "past + 1".
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>

#include "estimator/onnx/loader.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit::computed_dims_test {
namespace {

std::string Graphed(std::string_view inputs) {
  return fmt::format("g ({}) => (int64 y) {{ y = Shape(ids) }}", inputs);
}

// "ids 2x16, mask 2x17", or the error.
std::string ShapesText(std::string_view inputs, const DimBinding& binding) {
  try {
    const Graph graph = ParseGraph(Graphed(inputs));
    const Shapes shapes = BindShapes(graph, binding);
    std::string text;
    for (const ValueId input : graph.inputs) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                          graph.values[static_cast<size_t>(input)].name,
                          fmt::join(shapes.types[static_cast<size_t>(input)].tensor.dims, "x"));
    }
    return text;
  } catch (const Error& error) {
    return error.what();
  }
}

TEST_CASE("a dimension follows from those in its name") {
  struct Row {
    std::string_view inputs;
    std::map<std::string, int64_t> dims;
    std::string_view shapes;
  };
  const Row rows[] = {
      // optimum's decoders: with a past, and with both lengths
      {R"(int64[N, 1] ids, int64[N, "past + 1"] mask, float[N, past] key)",
       {{"past", 2047}},
       "ids 2x1, mask 2x2048, key 2x2047"},
      {R"(int64[N, seq] ids, int64[N, "past + seq"] mask, float[N, past] key)",
       {{"past", 7}, {"seq", 2}},
       "ids 2x2, mask 2x9, key 2x7"},
      {R"(int64[N, seq] ids, float["N*8", seq] key)", {{"seq", 3}}, "ids 2x3, key 16x3"},
      {R"(int64[N, seq] ids, float[N, "2*seq"] key)", {{"seq", 3}}, "ids 2x3, key 2x6"},
      {R"(int64[N, seq] ids, float[N, "seq // 2"] key)", {{"seq", 7}}, "ids 2x7, key 2x3"},
      {R"(int64[N, seq] ids, float[N, "seq / 2"] key)", {{"seq", 6}}, "ids 2x6, key 2x3"},
      {R"(int64[N, seq] ids, float[N, "(seq - 1) * 3"] key)", {{"seq", 6}}, "ids 2x6, key 2x15"},
      // A part that no input has alone is free.
      {R"(int64[N, 1] ids, int64[N, "past + 1"] mask, float[N, "past + 2"] key)",
       {{"past", 4}},
       "ids 2x1, mask 2x5, key 2x6"},
      // Given by what follows from it.
      {R"(int64[N, 1] ids, int64[N, "past + 1"] mask, float[N, past] key)",
       {{"past + 1", 2048}},
       "ids 2x1, mask 2x2048, key 2x2047"},
      {R"(int64[N, 1] ids, float["N*heads", 4] key)", {{"N*heads", 24}}, "ids 2x1, key 24x4"},
      // Signs in names that nothing shares are no sums.
      {R"(int64[N, "batch-size"] ids)", {{"batch-size", 3}}, "ids 2x3"},
      {R"(int64[N, "seq-a"] ids, int64[N, "seq-b"] more)",
       {{"seq-a", 3}, {"seq-b", 4}},
       "ids 2x3, more 2x4"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.inputs);
    CHECK(ShapesText(row.inputs, {.batch = 2, .dims = row.dims}) == row.shapes);
  }
}

TEST_CASE("a whole shape gives its parts") {
  CHECK(ShapesText(R"(int64[N, 1] ids, int64[N, "past + 1"] mask, float[N, past] key)",
                   {.batch = {}, .dims = {}, .inputs = {{"mask", {3, 8}}}}) ==
        "ids 3x1, mask 3x8, key 3x7");
}

TEST_CASE("what is computed is not asked for, and has to agree") {
  constexpr std::string_view kPast =
      R"(int64[N, 1] ids, int64[N, "past + 1"] mask, float[N, past] key)";
  CHECK(ShapesText(kPast, {.batch = 2}) ==
        "<text>: input 'key': dimension 'past' is free (try: --dim past=512)");
  CHECK(ShapesText(kPast, {.batch = 2, .dims = {{"past", 3}, {"past + 1", 8}}}) ==
        "<text>: input 'mask': dimension 'past + 1' is 4, where 'past' is 3, found 8");
  CHECK(ShapesText(R"(int64[N, seq] ids, float[N, "seq / 2"] key)",
                   {.batch = 2, .dims = {{"seq", 7}}}) ==
        "<text>: input 'key': dimension 'seq / 2' is no whole number, where 'seq' is 7");
  CHECK(ShapesText(R"(int64[N, seq] ids, float[N, "seq - 9"] key)",
                   {.batch = 2, .dims = {{"seq", 7}}}) ==
        "<text>: input 'key': dimension 'seq - 9' is -2, where 'seq' is 7");
}

TEST_CASE("the batch may be a part") {
  CHECK(ShapesText(R"(float["2*b", 4] ids, float["3*b", 4] more)", {.batch = 5}) ==
        "ids 10x4, more 15x4");
  CHECK(NamedDims(ParseGraph(Graphed(R"(int64[N, 1] ids, int64[N, "past + 1"] mask)"))).size() ==
        2);
}

TEST_CASE("sums of inputs' sizes are the sizes of results that data decide") {
  const Graph graph =
      ParseGraph(R"(g (bool[N, past] ids) => (int64[2, "past + 3"] y) { y = NonZero(ids) })");
  const Shapes shapes = BindShapes(graph, {.batch = 2, .dims = {{"past", 3}}});
  CHECK(ToString(shapes.types[static_cast<size_t>(graph.outputs[0])].tensor) == "int64[2, 6]");
}

}  // namespace
}  // namespace onnxfit::computed_dims_test
