#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "estimator/onnx/loader.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit::constants_test {
namespace {

// One operator on constants: `made` are initializers, `nodes` make y.
struct Row {
  std::string_view made;
  std::string_view nodes;
  std::string_view expected;  // "int64[2] 1 2", or the type alone where y is not known
  int opset = 18;
};

size_t PlaceOf(const Graph& graph, std::string_view name) {
  size_t place = 0;
  while (graph.values.at(place).name != name) ++place;
  return place;
}

// Elements of "y" with its type; all of them, also where they are stored once.
std::string KnownText(std::string_view made, std::string_view nodes, int opset) {
  const std::string text = fmt::format(
      "<ir_version: 8, opset_import: [\"\" : {}]>\n"
      "g (float[2, 3] x, float[4, N] z) => (int64 y) <{}> {{ {} }}",
      opset, made, nodes);
  const Graph graph = ParseGraph(text);
  const Shapes shapes = BindShapes(graph, {.batch = 5, .dims = {}, .inputs = {}});
  const size_t place = PlaceOf(graph, "y");
  std::string found = ToString(shapes.types[place].tensor);
  if (shapes.known[place].has_value()) {
    REQUIRE(shapes.known[place]->stored == shapes.known[place]->dims);
    for (const int64_t element : shapes.known[place]->elements()) {
      found += fmt::format(" {}", element);
    }
  }
  if (shapes.known_scalar[place].has_value()) {
    found += fmt::format(" {}", *shapes.known_scalar[place]);
  }
  return found;
}

template <size_t N>
void CheckRows(const Row (&rows)[N]) {
  for (const Row& row : rows) {
    CAPTURE(row.made);
    CAPTURE(row.nodes);
    CAPTURE(row.opset);
    CHECK(KnownText(row.made, row.nodes, row.opset) == row.expected);
  }
}

TEST_CASE("shapes and attributes are the first known elements") {
  const Row rows[] = {
      {"", "y = Shape(x)", "int64[2] 2 3"},
      {"", "y = Shape(z)", "int64[2] 4 5"},
      {"", "y = Shape<start = 1>(z)", "int64[1] 5"},
      {"", "y = Shape<start = -2, end = -1>(x)", "int64[1] 2"},
      {"", "y = Shape<start = 7>(x)", "int64[0]"},
      {"", "y = Size(z)", "int64[] 20"},
      {"", "y = Constant<value = int64[2] {3, -4}>()", "int64[2] 3 -4"},
      {"", "y = Constant<value = bool[2] {1, 0}>()", "bool[2] 1 0"},
      {"", "y = Constant<value_int = 7>()", "int64[] 7"},
      {"", "y = Constant<value_ints = [1, 2]>()", "int64[2] 1 2"},
      {"", "y = Constant<value_float = 0.5>()", "float32[] 0.5"},
      {"int64[2] a = {1, 2}", "y = Identity(a)", "int64[2] 1 2"},
      {"int32[2] a = {1, 2}", "y = Identity(a)", "int32[2] 1 2"},
      {"double a = {0.25}", "y = Identity(a)", "float64[] 0.25"},
      {"", "y = Identity(x)", "float32[2, 3]"},
  };
  CheckRows(rows);
}

TEST_CASE("tensors are made, reshaped and moved") {
  const Row rows[] = {
      {"int64[2] s = {2, 3}", "y = ConstantOfShape<value = int64[1] {7}>(s)",
       "int64[2, 3] 7 7 7 7 7 7"},
      {"int64[2] s = {2, 0}", "y = ConstantOfShape<value = int64[1] {7}>(s)", "int64[2, 0]"},
      {"int64[1] s = {3}", "y = ConstantOfShape(s)", "float32[3] 0"},
      {"int64 a = {1}, int64 b = {8}, int64 c = {3}", "y = Range(a, b, c)", "int64[3] 1 4 7"},
      {"int64 a = {3}, int64 b = {0}, int64 c = {-1}", "y = Range(a, b, c)", "int64[3] 3 2 1"},
      {"int64 a = {3}, int64 b = {0}, int64 c = {1}", "y = Range(a, b, c)", "int64[0]"},
      {"int16 a = {0}, int16 b = {2}, int16 c = {1}", "y = Range(a, b, c)", "int16[2] 0 1"},
      {"float a = {0}, float b = {1}, float c = {0.4}", "r = Range(a, b, c) y = Cast<to = 7>(r)",
       "int64[3] 0 0 0"},

      {"int64[2, 1] a = {1, 2}, int64[2] s = {2, 3}", "y = Expand(a, s)",
       "int64[2, 3] 1 1 1 2 2 2"},
      {"int64[2] a = {1, 2}, int64[2] s = {3, 1}", "y = Expand(a, s)", "int64[3, 2] 1 2 1 2 1 2"},
      {"int64[2, 2] a = {1, 2, 3, 4}, int64[1] s = {-1}", "y = Reshape(a, s)", "int64[4] 1 2 3 4"},
      {"int64[2, 2] a = {1, 2, 3, 4}, int64[3] s = {0, 1, 2}", "y = Reshape(a, s)",
       "int64[2, 1, 2] 1 2 3 4"},
      {"int64[2, 1, 2] a = {1, 2, 3, 4}", "y = Flatten<axis = 2>(a)", "int64[2, 2] 1 2 3 4"},
      {"int64[1, 2, 1] a = {1, 2}, int64[1] i = {0}", "y = Squeeze(a, i)", "int64[2, 1] 1 2"},
      {"int64[1, 2, 1] a = {1, 2}", "y = Squeeze(a)", "int64[2] 1 2"},
      {"int64[1, 2, 1] a = {1, 2}", "y = Squeeze<axes = [2]>(a)", "int64[1, 2] 1 2", 11},
      {"int64[2] a = {1, 2}, int64[2] i = {0, -1}", "y = Unsqueeze(a, i)", "int64[1, 2, 1] 1 2"},
      {"int64[2] a = {1, 2}", "y = Unsqueeze<axes = [0]>(a)", "int64[1, 2] 1 2", 11},

      {"int64[2, 3] a = {1, 2, 3, 4, 5, 6}", "y = Transpose(a)", "int64[3, 2] 1 4 2 5 3 6"},
      {"int64[1, 2, 2] a = {1, 2, 3, 4}", "y = Transpose<perm = [2, 0, 1]>(a)",
       "int64[2, 1, 2] 1 3 2 4"},
      {"int64[4] a = {1, 2, 3, 4}, int64[1] b = {1}, int64[1] e = {-1}", "y = Slice(a, b, e)",
       "int64[2] 2 3"},
      {"int64[4] a = {1, 2, 3, 4}, int64[1] b = {-1}, int64[1] e = {-9}, int64[1] i = {0}, "
       "int64[1] s = {-2}",
       "y = Slice(a, b, e, i, s)", "int64[2] 4 2"},
      {"int64[2, 3] a = {1, 2, 3, 4, 5, 6}, int64[1] b = {2}, int64[1] e = {9}, int64[1] i = {1}",
       "y = Slice(a, b, e, i)", "int64[2, 1] 3 6"},
      {"int64[4] a = {1, 2, 3, 4}, int64[1] b = {3}, int64[1] e = {2}", "y = Slice(a, b, e)",
       "int64[0]"},
      {"int64[2, 3] a = {1, 2, 3, 4, 5, 6}", "y = Slice<starts = [1], ends = [3], axes = [1]>(a)",
       "int64[2, 2] 2 3 5 6", 9},
      {"int64[5] a = {1, 2, 3, 4, 5}, int64[2] n = {2, 3}", "b, y = Split(a, n)", "int64[3] 3 4 5"},
      {"int64[5] a = {1, 2, 3, 4, 5}", "b, y = Split<num_outputs = 2>(a)", "int64[2] 4 5"},
      {"int64[5] a = {1, 2, 3, 4, 5}", "y, b = Split<split = [1, 4]>(a)", "int64[1] 1", 11},
      {"int64[1, 2] a = {1, 2}, int64[1, 2] b = {3, 4}", "y = Concat<axis = 0>(a, b)",
       "int64[2, 2] 1 2 3 4"},
      {"int64[2, 1] a = {1, 2}, int64[2, 2] b = {3, 4, 5, 6}", "y = Concat<axis = -1>(a, b)",
       "int64[2, 3] 1 3 4 2 5 6"},
      {"int64[1, 2] a = {1, 2}, int64[2] n = {2, 2}", "y = Tile(a, n)",
       "int64[2, 4] 1 2 1 2 1 2 1 2"},
      {"int64[2, 2] a = {1, 2, 3, 4}", "y = Trilu(a)", "int64[2, 2] 1 2 0 4"},
      {"int64[2, 2] a = {1, 2, 3, 4}, int64 k = {-1}", "y = Trilu<upper = 0>(a, k)",
       "int64[2, 2] 0 0 3 0"},
  };
  CheckRows(rows);
}

TEST_CASE("elements are picked by index") {
  const Row rows[] = {
      {"int64[3] a = {5, 6, 7}, int64 i = {-1}", "y = Gather(a, i)", "int64[] 7"},
      {"int64[2, 2] a = {1, 2, 3, 4}, int64[1] i = {1}", "y = Gather<axis = 1>(a, i)",
       "int64[2, 1] 2 4"},
      {"int64[2, 2] a = {1, 2, 3, 4}, int64[1] i = {1}", "y = Gather(a, i)", "int64[1, 2] 3 4"},
      {"int64[2, 2] a = {1, 2, 3, 4}, int64[3, 1] i = {1, 0, 0}",
       "y = GatherElements<axis = 1>(a, i)", "int64[3, 1]"},
      {"int64[2, 2] a = {1, 2, 3, 4}, int64[2, 1] i = {1, 0}", "y = GatherElements<axis = 1>(a, i)",
       "int64[2, 1] 2 3"},
      {"int64[2, 2] a = {1, 2, 3, 4}, int64[2, 2] i = {0, 1, 1, 0}", "y = GatherND(a, i)",
       "int64[2] 2 3"},
      {"int64[2, 2] a = {1, 2, 3, 4}, int64[1, 1] i = {1}", "y = GatherND(a, i)",
       "int64[1, 2] 3 4"},
      {"int64[2, 2] a = {1, 2, 3, 4}, int64[2, 1] i = {1, 0}", "y = GatherND<batch_dims = 1>(a, i)",
       "int64[2] 2 3"},
      {"int64[4] a = {1, 2, 3, 4}, int64[2, 1] i = {3, 0}, int64[2] u = {9, 8}",
       "y = ScatterND(a, i, u)", "int64[4] 8 2 3 9"},
      {"int64[4] a = {1, 2, 3, 4}, int64[2, 1] i = {3, 3}, int64[2] u = {9, 8}",
       "y = ScatterND<reduction = \"add\">(a, i, u)", "int64[4] 1 2 3 21"},
      {"int64[1, 3] a = {1, 2, 3}, int64[1, 2] i = {2, 0}, int64[1, 2] u = {9, 8}",
       "y = ScatterElements<axis = 1>(a, i, u)", "int64[1, 3] 8 2 9"},
      {"int64[2, 2] a = {0, 1, 1, 1}", "y = NonZero(a)", "int64[2, 3] 0 1 1 1 0 1"},
      {"int64[2, 2] a = {1, 2, 3, 4}, bool[2] c = {0, 1}", "y = Compress<axis = 1>(a, c)",
       "int64[2, 1] 2 4"},
      {"int64[2, 3] a = {1, 9, 9, 8, 2, 0}", "y = ArgMax<axis = 1>(a)", "int64[2, 1] 1 0"},
      {"int64[2, 3] a = {1, 9, 9, 8, 2, 0}",
       "y = ArgMax<axis = 1, keepdims = 0, select_last_index = 1>(a)", "int64[2] 2 0"},
      {"int64[2, 3] a = {1, 9, 9, 8, 2, 0}", "y = ArgMin<axis = 0, keepdims = 0>(a)",
       "int64[3] 0 1 1"},
      {"int64[2] i = {1, -1}, int64 d = {3}, int64[2] v = {0, 5}", "y = OneHot(i, d, v)",
       "int64[2, 3] 0 5 0 0 0 5"},
      {"int64[2] i = {1, -1}, int64 d = {3}, int64[2] v = {0, 5}", "y = OneHot<axis = 0>(i, d, v)",
       "int64[3, 2] 0 0 5 0 0 5"},
  };
  CheckRows(rows);
}

TEST_CASE("integers compute as the runtime's") {
  const Row rows[] = {
      {"int64[2] a = {7, -7}, int64 b = {2}", "y = Add(a, b)", "int64[2] 9 -5"},
      {"int64[2] a = {7, -7}, int64 b = {2}", "y = Sub(a, b)", "int64[2] 5 -9"},
      {"int64[2] a = {7, -7}, int64[2, 1] b = {1, 2}", "y = Mul(a, b)", "int64[2, 2] 7 -7 14 -14"},
      {"int64[2] a = {7, -7}, int64 b = {2}", "y = Div(a, b)", "int64[2] 3 -3"},
      {"int64[2] a = {7, -7}, int64 b = {3}", "y = Mod(a, b)", "int64[2] 1 2"},
      {"int64[2] a = {7, -7}, int64 b = {3}", "y = Mod<fmod = 1>(a, b)", "int64[2] 1 -1"},
      {"int64[2] a = {7, -7}", "y = Neg(a)", "int64[2] -7 7"},
      {"int64[2] a = {7, -7}", "y = Abs(a)", "int64[2] 7 7"},
      {"int64[3] a = {7, 0, -7}", "y = Sign(a)", "int64[3] 1 0 -1"},
      {"int64[2] a = {7, -7}, int64 b = {2}, int64 c = {0}", "y = Min(a, b, c)", "int64[2] 0 -7"},
      {"int64[2] a = {7, -7}, int64 b = {2}, int64 c = {0}", "y = Max(a, b, c)", "int64[2] 7 2"},
      {"int64[2] a = {3, -2}, int64 b = {3}", "y = Pow(a, b)", "int64[2] 27 -8"},
      {"int64[2] a = {3, 4}, float b = {0.5}", "y = Pow(a, b)", "int64[2] 1 2"},
      {"int64[3] a = {1, 5, 9}, int64 l = {2}, int64 h = {6}", "y = Clip(a, l, h)",
       "int64[3] 2 5 6"},
      {"int64[3] a = {1, 5, 9}, int64 h = {6}", "y = Clip(a, , h)", "int64[3] 1 5 6"},
      {"bool[2] c = {1, 0}, int64[2] a = {1, 2}, int64 b = {9}", "y = Where(c, a, b)",
       "int64[2] 1 9"},

      // Nothing is undefined: sums wrap, and what the runtime would stop at is 0.
      {"int64 a = {9223372036854775807}, int64 b = {1}", "y = Add(a, b)",
       "int64[] -9223372036854775808"},
      {"int64 a = {-9223372036854775808}, int64 b = {-1}", "y = Div(a, b)",
       "int64[] -9223372036854775808"},
      {"int64 a = {-9223372036854775808}", "y = Neg(a)", "int64[] -9223372036854775808"},
      {"int64 a = {5}, int64 b = {0}", "y = Div(a, b)", "int64[] 0"},
      {"int64 a = {5}, int64 b = {0}", "y = Mod(a, b)", "int64[] 0"},
      {"int32 a = {2147483647}, int32 b = {1}", "y = Add(a, b)", "int32[] -2147483648"},
      {"uint8 a = {250}, uint8 b = {10}", "y = Add(a, b)", "uint8[] 4"},
      {"int64 a = {1099511627777}", "y = Cast<to = 6>(a)", "int32[] 1"},
      {"float a = {1e30}", "y = Cast<to = 7>(a)", "int64[] 9223372036854775807"},
      {"float a = {0}", "n = Div(a, a) y = Cast<to = 7>(n)", "int64[] 0"},
      {"float a = {2047}", "h = Cast<to = 10>(a) y = Cast<to = 7>(h)", "int64[] 2047"},
      {"float a = {2049}", "h = Cast<to = 10>(a) y = Cast<to = 7>(h)", "int64[] 2048"},
  };
  CheckRows(rows);
}

TEST_CASE("comparisons and logic give bools") {
  const Row rows[] = {
      {"int64[3] a = {1, 2, 3}, int64 b = {2}", "y = Equal(a, b)", "bool[3] 0 1 0"},
      {"int64[3] a = {1, 2, 3}, int64 b = {2}", "y = Less(a, b)", "bool[3] 1 0 0"},
      {"int64[3] a = {1, 2, 3}, int64 b = {2}", "y = LessOrEqual(a, b)", "bool[3] 1 1 0"},
      {"int64[3] a = {1, 2, 3}, int64 b = {2}", "y = LessOrEqual(a, b)", "bool[3] 1 1 0", 12},
      {"int64[3] a = {1, 2, 3}, int64 b = {2}", "y = Greater(a, b)", "bool[3] 0 0 1"},
      {"int64[3] a = {1, 2, 3}, int64 b = {2}", "y = GreaterOrEqual(a, b)", "bool[3] 0 1 1"},
      {"float a = {1.5}, float b = {2}", "y = Less(a, b)", "bool[] 1"},
      {"bool[4] a = {0, 0, 1, 1}, bool[4] b = {0, 1, 0, 1}", "y = And(a, b)", "bool[4] 0 0 0 1"},
      {"bool[4] a = {0, 0, 1, 1}, bool[4] b = {0, 1, 0, 1}", "y = Or(a, b)", "bool[4] 0 1 1 1"},
      {"bool[4] a = {0, 0, 1, 1}, bool[4] b = {0, 1, 0, 1}", "y = Xor(a, b)", "bool[4] 0 1 1 0"},
      {"bool[2] a = {0, 1}", "y = Not(a)", "bool[2] 1 0"},
      {"int64[2] a = {6, 1}, int64 b = {3}", "y = BitwiseAnd(a, b)", "int64[2] 2 1"},
      {"int64[2] a = {6, 1}, int64 b = {3}", "y = BitwiseOr(a, b)", "int64[2] 7 3"},
      {"int64[2] a = {6, 1}, int64 b = {3}", "y = BitwiseXor(a, b)", "int64[2] 5 2"},
      {"int64[2] a = {6, -1}", "y = BitwiseNot(a)", "int64[2] -7 0"},
      {"float[2] a = {1, 2}", "y = IsNaN(a)", "bool[2] 0 0"},
  };
  CheckRows(rows);
}

TEST_CASE("reductions and sums along an axis") {
  const Row rows[] = {
      {"int64[2, 2] a = {1, 2, 3, 4}, int64[1] i = {1}", "y = ReduceSum(a, i)", "int64[2, 1] 3 7"},
      {"int64[2, 2] a = {1, 2, 3, 4}", "y = ReduceSum<keepdims = 0>(a)", "int64[] 10"},
      {"int64[2] a = {1, 2}", "y = ReduceSum<noop_with_empty_axes = 1>(a)", "int64[2] 1 2"},
      {"int64[2, 2] a = {1, 2, 3, 4}", "y = ReduceSum<axes = [0], keepdims = 0>(a)", "int64[2] 4 6",
       11},
      {"int64[2, 2] a = {1, 2, 3, 4}", "y = ReduceProd<keepdims = 0>(a)", "int64[] 24"},
      {"int64[2, 2] a = {1, 2, 3, 4}, int64[1] i = {-2}", "y = ReduceMax(a, i)", "int64[1, 2] 3 4"},
      {"int64[2, 2] a = {1, 2, 3, 4}", "y = ReduceMax<axes = [1], keepdims = 0>(a)", "int64[2] 2 4",
       13},
      {"int64[2, 2] a = {1, 2, 3, 4}", "y = ReduceMin<keepdims = 0>(a)", "int64[] 1"},
      {"int64[3] a = {1, 2, 6}", "y = ReduceMean<keepdims = 0>(a)", "int64[] 3"},
      {"int64[3] a = {1, 2, 6}, int64 i = {0}", "y = CumSum(a, i)", "int64[3] 1 3 9"},
      {"int64[3] a = {1, 2, 6}, int64 i = {0}", "y = CumSum<exclusive = 1>(a, i)",
       "int64[3] 0 1 3"},
      {"int64[3] a = {1, 2, 6}, int64 i = {0}", "y = CumSum<reverse = 1>(a, i)", "int64[3] 9 8 6"},
      {"int64[3] a = {1, 2, 6}, int64 i = {0}", "y = CumSum<reverse = 1, exclusive = 1>(a, i)",
       "int64[3] 8 6 0"},
      {"int64[2, 2] a = {1, 2, 3, 4}, int64 i = {0}", "y = CumSum(a, i)", "int64[2, 2] 1 2 4 6"},
      {"int64[2, 2] a = {1, 2, 3, 4}, int64 i = {-1}", "y = CumSum(a, i)", "int64[2, 2] 1 3 3 7"},
  };
  CheckRows(rows);
}

TEST_CASE("sizes that are computed in floating point") {
  const Row rows[] = {
      {"int64 a = {7}", "f = Cast<to = 1>(a) y = Cast<to = 7>(f)", "int64[] 7"},
      {"int64 a = {7}, float b = {0.5}",
       "f = Cast<to = 1>(a) g = Mul(f, b) h = Floor(g) y = Cast<to = 7>(h)", "int64[] 3"},
      {"float a = {2.5}", "y = Ceil(a)", "float32[] 3"},
      {"float a = {2.5}", "y = Round(a)", "float32[] 2"},
      {"float a = {9}", "y = Sqrt(a)", "float32[] 3"},
      {"float a = {1}", "y = Log(a)", "float32[] 0"},
      {"float a = {0}", "y = Exp(a)", "float32[] 1"},
      {"float a = {4}", "y = Reciprocal(a)", "float32[] 0.25"},
      {"float a = {-4}", "y = Relu(a)", "float32[] 0"},
      {"float a = {7}, float b = {2}", "y = Div(a, b)", "float32[] 3.5"},
      {"float a = {-7}, float b = {4}", "y = Mod<fmod = 1>(a, b)", "float32[] -3"},
      {"float a = {0.1}", "y = Cast<to = 11>(a)", "float64[] 0.10000000149011612"},
      {"float a = {0.1}", "h = Cast<to = 10>(a) y = Cast<to = 1>(h)", "float32[] 0.0999755859375"},
      {"float a = {5}, float b = {1}, float c = {3}", "y = Clip(a, b, c)", "float32[] 3"},
      {"float a = {5}", "y = Clip<min = 1.0, max = 3.0>(a)", "float32[] 3", 10},
      {"int64 a = {7}, float l = {0}", "y = CastLike(a, l)", "float32[] 7"},
  };
  CheckRows(rows);
}

TEST_CASE("what repeats is stored once, and the batch does not decide over what is known") {
  const char* const text = R"(
    <ir_version: 8, opset_import: ["" : 18]>
    g (int64[N, 512] ids) => (bool[N, 1, 512, 512] y)
    <int64 zero = {0}, int64 one = {1}, int64 length = {512}, int64[2] flat = {1, -1},
     int64[2] tall = {-1, 1}, int64[3] rest = {1, 512, 512}, int64[1] start = {0},
     int64[1] end = {256}, int64[1] axis = {2}>
    {
      range = Range(zero, length, one)
      row = Reshape(range, flat)
      column = Reshape(range, tall)
      causal = LessOrEqual(row, column)
      batch = Shape<end = 1>(ids)
      shape = Concat<axis = 0>(batch, rest)
      mask = Expand(causal, shape)
      opposite = Not(mask)
      y = Slice(opposite, start, end, axis)
    })";
  const Graph graph = ParseGraph(text);
  for (const int64_t batch : {1, 8, 4096}) {
    CAPTURE(batch);
    const Shapes shapes = BindShapes(graph, {.batch = batch, .dims = {}, .inputs = {}});
    const size_t y = PlaceOf(graph, "y");
    REQUIRE(shapes.known[y].has_value());
    CHECK(shapes.known[y]->dims == Dims{batch, 1, 256, 512});
    CHECK(shapes.known[y]->stored == Dims{1, 1, 256, 512});
    const std::vector<int64_t>& elements = shapes.known[y]->elements();
    REQUIRE(elements.size() == 256 * 512);
    CHECK(elements[0] == 0);
    CHECK(elements[1] == 1);
    CHECK(elements[255 * 512 + 255] == 0);
    CHECK(elements[255 * 512 + 256] == 1);
  }
}

TEST_CASE("the shape of a filled tensor is known, however many elements it has") {
  const Row rows[] = {
      {"int64[2] s = {64, 32}", "f = ConstantOfShape(s) y = Shape(f)", "int64[2] 64 32"},
      {"int64[2] s = {64, 32}", "f = ConstantOfShape(s) y = Size(f)", "int64[] 2048"},
      {"int64[2] s = {64, 32}, float a = {0.5}", "f = Expand(a, s) y = Shape(f)", "int64[2] 64 32"},
      {"int64[1] s = {2097152}", "f = ConstantOfShape<value = int64[1] {7}>(s) y = Shape(f)",
       "int64[1] 2097152"},
  };
  CheckRows(rows);
}

TEST_CASE("more elements than a mask has are not evaluated") {
  CHECK(KnownText("int64 a = {0}, int64 b = {1048577}, int64 c = {1}", "y = Range(a, b, c)", 18) ==
        "int64[1048577]");
}

}  // namespace
}  // namespace onnxfit::constants_test
