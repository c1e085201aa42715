#include "estimator/onnx/control_flow.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "estimator/onnx/loader.h"

namespace onnxfit::control_flow_test {
namespace {

std::string NameOf(const Graph& graph, ValueId value) {
  return value == kNoValue ? "" : std::string(graph.values[static_cast<size_t>(value)].name);
}

std::string NamesOf(const Graph& graph, const std::vector<ValueId>& values) {
  std::string names;
  for (const ValueId value : values) names += (names.empty() ? "" : ", ") + NameOf(graph, value);
  return names;
}

// A line for each node, "y = Add(x, w) float32[2, 4]", then one for each warning.
std::string FlatText(std::string_view model, int64_t batch,
                     std::map<std::string, int64_t> dims = {}) {
  DimBinding binding{.batch = batch, .dims = std::move(dims), .inputs = {}};
  Warnings warnings;
  const Graph graph = InlineControlFlow(ParseGraph(model), binding, warnings);
  const Shapes shapes = BindShapes(graph, binding);
  std::string text = "\n";
  for (const Node& node : graph.nodes) {
    const auto first = static_cast<size_t>(node.outputs[0]);
    text += fmt::format("{} = {}({}) {}\n", NamesOf(graph, node.outputs), node.op_type,
                        NamesOf(graph, node.inputs), ToString(shapes.types[first].tensor));
  }
  warnings.insert(warnings.end(), shapes.warnings.begin(), shapes.warnings.end());
  for (const Warning& warning : warnings) text += warning.code + " " + warning.text + "\n";
  return text;
}

TEST_CASE("a graph without control flow stays as it is") {
  CHECK(FlatText("g (float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }", 2) ==
        "\ny = Relu(x) float32[2, 4]\n");
}

// The condition holds for a batch of 1 alone.
constexpr std::string_view kIf = R"(
    g (float[N, 1, 4] x) => (float[A, B] y)
    <int64[1] from = {0}, int64[1] to = {1}, int64[1] one = {1}> {
      shape = Shape(x)
      batch = Slice(shape, from, to)
      equal = Equal(batch, one)
      [choose] y = If<
        then_branch = yes () => (float t) {
          axes = Constant<value = int64[1] {0}>()
          s = Squeeze(x, axes)
          t = Relu(s)
        },
        else_branch = no () => (float e) {
          axes = Constant<value = int64[1] {1}>()
          e = Squeeze(x, axes)
        }>(equal)
      z = Neg(y)
    })";

TEST_CASE("an If becomes the branch that runs") {
  CHECK(FlatText(kIf, 1) == R"(
shape = Shape(x) int64[3]
batch = Slice(shape, from, to) int64[1]
equal = Equal(batch, one) bool[1]
axes = Constant() int64[1]
s = Squeeze(x, axes) float32[1, 4]
y = Relu(s) float32[1, 4]
z = Neg(y) float32[1, 4]
)");
  CHECK(FlatText(kIf, 3) == R"(
shape = Shape(x) int64[3]
batch = Slice(shape, from, to) int64[1]
equal = Equal(batch, one) bool[1]
axes = Constant() int64[1]
y = Squeeze(x, axes) float32[3, 4]
z = Neg(y) float32[3, 4]
)");
}

TEST_CASE("an If whose condition depends on data becomes the larger branch") {
  CHECK(FlatText(R"(
    g (float[N, 4] x, bool[1] c) => (float[A, B] y) {
      [choose] y = If<
        then_branch = yes () => (float t) { t = Relu(x) },
        else_branch = no () => (float e) { e = Concat<axis = 0>(x, x) }>(c)
    })",
                 2) == R"(
y = Concat(x, x) float32[4, 4]
OF103 which branch of the If 'choose' runs depends on data: else_branch is taken, whose tensors are 64 B
)");
}

TEST_CASE("a branch may hand through what lies outside, or one value twice") {
  CHECK(FlatText(R"(
    g (float[N, 4] x) => (float[A, B] y, float[C, D] z, float[E, F] w)
    <bool[1] yes = {1}> {
      y, z, w = If<
        then_branch = a () => (float x, float r, float r) { r = Relu(x) },
        else_branch = b () => (float x, float x, float x) { }>(yes)
    })",
                 2) == R"(
z = Relu(x) float32[2, 4]
y = Identity(x) float32[2, 4]
w = Identity(z) float32[2, 4]
)");
}

TEST_CASE("branches inside branches, and names that are taken") {
  CHECK(FlatText(R"(
    g (float[N, 4] x) => (float[A, B] y) <bool[1] yes = {1}, bool[1] no = {0}> {
      h = Neg(x)
      [outer] y = If<
        then_branch = a () => (float t) {
          h2 = Relu(x)
          [inner] t = If<
            then_branch = c () => (float t2) { t2 = Abs(h2) },
            else_branch = d () => (float t3) {
              h3 = Exp(h2)
              t3 = Add(h3, h)
            }>(no)
        },
        else_branch = b () => (float e) { e = Identity(x) }>(yes)
      [again] h3 = If<
        then_branch = a () => (float t) { h2 = Log(x) t = Sqrt(h2) },
        else_branch = b () => (float e) { e = Identity(x) }>(yes)
    })",
                 2) == R"(
h = Neg(x) float32[2, 4]
h2 = Relu(x) float32[2, 4]
inner/h3 = Exp(h2) float32[2, 4]
y = Add(inner/h3, h) float32[2, 4]
again/h2 = Log(x) float32[2, 4]
h3 = Sqrt(again/h2) float32[2, 4]
)");
}

TEST_CASE("a Loop becomes its body, once for each trip") {
  CHECK(FlatText(R"(
    g (float[N, 4] x) => (float[A, B] last, float[C, D, E] all)
    <int64 trips = {3}, bool go = {1}> {
      [repeat] last, all = Loop<
        body = step (int64 i, bool c, float v) => (bool c2, float v2, float item) {
          c2 = Identity(c)
          f = CastLike(i, v)
          v2 = Add(v, f)
          item = Relu(v2)
        }>(trips, go, x)
    })",
                 2) == R"(
i = Constant() int64[]
c = Constant() bool[]
c2 = Identity(c) bool[]
f = CastLike(i, x) float32[]
v2 = Add(x, f) float32[2, 4]
item = Relu(v2) float32[2, 4]
repeat/i = Constant() int64[]
repeat/c = Constant() bool[]
repeat/c2 = Identity(repeat/c) bool[]
repeat/f = CastLike(repeat/i, v2) float32[]
repeat/v2 = Add(v2, repeat/f) float32[2, 4]
repeat/item = Relu(repeat/v2) float32[2, 4]
repeat/i_2 = Constant() int64[]
repeat/c_2 = Constant() bool[]
repeat/c2_2 = Identity(repeat/c_2) bool[]
repeat/f_2 = CastLike(repeat/i_2, repeat/v2) float32[]
last = Add(repeat/v2, repeat/f_2) float32[2, 4]
repeat/item_2 = Relu(last) float32[2, 4]
all/each/axes = Constant() int64[1]
all/each = Unsqueeze(item, all/each/axes) float32[1, 2, 4]
all/all/each/axes = Constant() int64[1]
all/all/each = Unsqueeze(repeat/item, all/all/each/axes) float32[1, 2, 4]
all/all/each_2/axes = Constant() int64[1]
all/all/each_2 = Unsqueeze(repeat/item_2, all/all/each_2/axes) float32[1, 2, 4]
all = Concat(all/each, all/all/each, all/all/each_2) float32[3, 2, 4]
)");
}

TEST_CASE("a Scan becomes its body, once for each part of its inputs") {
  CHECK(FlatText(R"(
    g (float[N, 2, 4] x, float[N, 4] h) => (float[A, B] last, float[C, D, E] all) {
      [s] last, all = Scan<
        num_scan_inputs = 1, scan_input_axes = [1],
        body = step (float v, float part) => (float v2, float item) {
          v2 = Add(v, part)
          item = Relu(v2)
        }>(h, x)
    })",
                 3) == R"(
s/shape = Shape(x) int64[3]
s/axis = Constant() int64[]
s/trips = Gather(s/shape, s/axis) int64[]
s/trip = Constant() int64[]
s/goes_on = Constant() bool[]
part = Gather(x, s/trip) float32[3, 4]
v2 = Add(h, part) float32[3, 4]
item = Relu(v2) float32[3, 4]
s/s/trip = Constant() int64[]
s/s/goes_on = Constant() bool[]
s/part = Gather(x, s/s/trip) float32[3, 4]
last = Add(v2, s/part) float32[3, 4]
s/item = Relu(last) float32[3, 4]
all/each/axes = Constant() int64[1]
all/each = Unsqueeze(item, all/each/axes) float32[1, 3, 4]
all/all/each/axes = Constant() int64[1]
all/all/each = Unsqueeze(s/item, all/all/each/axes) float32[1, 3, 4]
all = Concat(all/each, all/all/each) float32[2, 3, 4]
)");
}

TEST_CASE("what a Loop puts into a list, a ConcatFromSequence joins or stacks") {
  const auto text = [](const std::string& join) {
    return FlatText(R"(
    g (float[N, 4] x) => (float[A, B, C] y) <int64 trips = {2}, bool go = {1}> {
      none = SequenceEmpty()
      [repeat] last, list = Loop<
        body = step (int64 i, bool c, float v, seq(float) l) => (bool c, float v2, seq(float) l2) {
          v2 = Relu(v)
          l2 = SequenceInsert(l, v2)
        }>(trips, go, x, none)
      [join] y = ConcatFromSequence<)" +
                        join + R"(>(list)
    })",
                    3);
  };
  CHECK(text("axis = 0").ends_with("y = Concat(v2, last) float32[6, 4]\n"));
  CHECK(text("axis = 1, new_axis = 1").ends_with(R"(
y/each/axes = Constant() int64[1]
y/each = Unsqueeze(v2, y/each/axes) float32[3, 1, 4]
y/y/each/axes = Constant() int64[1]
y/y/each = Unsqueeze(last, y/y/each/axes) float32[3, 1, 4]
y = Concat(y/each, y/y/each) float32[3, 2, 4]
)"));
}

// Nothing ends it that is known.
constexpr std::string_view kWhile = R"(
    g (float[N, 4] x, bool go) => (float[A, B] last) {
      [until] last = Loop<
        body = step (int64 i, bool c, float v) => (bool c, float v2) { v2 = Neg(v) }>( , go, x)
    })";

TEST_CASE("how often a while loop runs, --dim says by its first result") {
  CHECK_THROWS_WITH_AS(FlatText(kWhile, 2),
                       "<text>: node 'until': how often the body of this Loop runs depends on data "
                       "(try: --dim last=10)",
                       Error);
  CHECK(FlatText(kWhile, 2, {{"last", 2}}) == R"(
i = Constant() int64[]
c = Constant() bool[]
v2 = Neg(x) float32[2, 4]
until/i = Constant() int64[]
until/c = Constant() bool[]
last = Neg(v2) float32[2, 4]
)");
}

// What stands in `text` from `first` on, in front of `end`.
std::string Between(const std::string& text, std::string_view first, std::string_view end) {
  const size_t at = text.find(first);
  return at == std::string::npos ? "" : text.substr(at, text.find(end, at + 1) - at);
}

// y, and the sizes that are the most that they can be.
std::string SizesText(std::string_view model, std::map<std::string, int64_t> dims) {
  const std::string text = FlatText(model, 2, std::move(dims));
  return Between(text, "y = ", "\n") + Between(text, " can be:", " (--dim");
}

TEST_CASE("sizes that data decide in a body go by the names that they have outside") {
  struct Row {
    std::string_view model;
    std::string_view most;
    std::map<std::string, int64_t> dims;
    std::string_view said;
  };
  const Row rows[] = {
      {R"(g (float[N, 4] x, bool c) => (int64 y) { y = If<
          then_branch = a () => (int64 t) { p = NonZero(x) t = Transpose(p) },
          else_branch = b () => (int64 e) { q = NonZero(x) e = Transpose(q) }>(c) })",
       "y = Transpose(p) int64[8, 2] can be: 'p' 8",
       {{"p", 5}},
       "y = Transpose(p) int64[5, 2]"},
      // Who gives a size of a branch means that branch.
      {R"(g (float[N, 4] x, bool c) => (int64 y) { y = If<
          then_branch = a () => (int64 t) { p = NonZero(x) t = Transpose(p) },
          else_branch = b () => (int64 e) { r = Relu(x) q = NonZero(r) e = Transpose(q) }>(c) })",
       "y = Transpose(q) int64[8, 2] can be: 'q' 8",
       {{"p", 5}},
       "y = Transpose(p) int64[5, 2]"},
      // Of a name that is taken outside.
      {R"(g (float[N, 4] x, bool c) => (int64 y) { p = Relu(x) [if] y = If<
          then_branch = a () => (int64 t) { r = Relu(x) p = NonZero(r) t = Transpose(p) },
          else_branch = b () => (int64 e) { e = Shape(x) }>(c) })",
       "y = Transpose(if/p) int64[8, 2] can be: 'if/p' 8",
       {{"if/p", 5}},
       "y = Transpose(if/p) int64[5, 2]"},
      // In a body in a body, in front of what is behind it.
      {R"(g (float[N, 4] x, bool c) => (int64 y) { z = If<
          then_branch = a () => (int64 t) { t = If<
            then_branch = aa () => (int64 tt) { r = Relu(x) p = NonZero(r) tt = Transpose(p) },
            else_branch = ab () => (int64 te) { te = NonZero(x) }>(c) },
          else_branch = b () => (int64 e) { e = Shape(x) }>(c) y = NonZero(z) })",
       "y = NonZero(z) int64[2, 16] can be: 'p' 8, 'y' 16",
       {{"p", 5}, {"y", 3}},
       "y = NonZero(z) int64[2, 3]"},
      // Each trip of a Loop has its own.
      {R"(g (float[N, 4] x) => (int64 y) <int64 trips = {2}, bool go = {1}> { [loop] y = Loop<
          body = s (int64 i, bool c, float v) => (bool d, int64 v2) {
            d = Identity(c) p = NonZero(v) v2 = Transpose(p) }>(trips, go, x) })",
       "y = Transpose(loop/p) int64[16, 2] can be: 'loop/p' 16, 'p' 8",
       {{"p", 5}, {"loop/p", 4}},
       "y = Transpose(loop/p) int64[4, 2]"},
  };
  for (const Row& row : rows) {
    CHECK(SizesText(row.model, {}) == row.most);
    CHECK(SizesText(row.model, row.dims) == row.said);
  }
}

TEST_CASE("a name that no body makes is refused once bodies are written out") {
  CHECK_THROWS_AS(FlatText(R"(g (float[N, 4] x, bool c) => (float y) { y = If<
      then_branch = a () => (float t) { t = Relu(x) },
      else_branch = b () => (float e) { e = Neg(x) }>(c) })",
                           2, {{"t", 5}}),
                  Error);
}

TEST_CASE("a while loop that counts ends where its condition does") {
  CHECK(FlatText(R"(
    g (float[N, 4] x) => (float[A, B] last) <int64 zero = {0}, bool go = {1}, int64 most = {3}> {
      count, last = Loop<
        body = step (int64 i, bool c, int64 n, float v) => (bool more, int64 n2, float v2) {
          one = Constant<value = int64 {1}>()
          n2 = Add(n, one)
          more = Less(n2, most)
          v2 = Neg(v)
        }>( , go, zero, x)
    })",
                 2)
            .ends_with("last = Neg(count/v2) float32[2, 4]\n"));
}

TEST_CASE("TorchScript's Loop over bags is one node again") {
  CHECK(FlatText(R"(
    g (int64[6] ids, float[6] scale) => (float[A, B] y)
    <float[10, 4] table, int64[2] offsets = {0, 3}, int64[1] count = {6}, int64[1] zero = {0},
     int64[1] one = {1}, int64[1] end = {9}, int64 bags = {2}, bool go = {1}> {
      all = Concat<axis = 0>(offsets, count)
      next = Slice(all, one, end, zero)
      y = Loop<body = bag (int64 i, bool c) => (bool c2, float[4] sum) {
        from = Gather<axis = 0>(all, i)
        to = Gather<axis = 0>(next, i)
        first = Unsqueeze(from, zero)
        last = Unsqueeze(to, zero)
        part = Slice(ids, first, last, zero)
        rows = Gather<axis = 0>(table, part)
        scales = Slice(scale, first, last, zero)
        column = Unsqueeze(scales, one)
        scaled = Mul(rows, column)
        sum = ReduceSum<keepdims = 0>(scaled, zero)
        c2 = Cast<to = 9>(go)
      }>(bags, go)
    })",
                 6)
            .ends_with("y = pkg.onnxfit.EmbeddingBag(table, ids, offsets, scale) float32[2, 4]\n"));
}

TEST_CASE("of a list that is constructed, nodes read the elements") {
  CHECK(FlatText(R"(
    g (float[N, 4] x, float[N] z) => (float[A, B] y) <int64 last = {-1}> {
      list = SequenceConstruct(x, z)
      tall = SequenceMap<body = one (float t) => (float u) {
        axes = Constant<value = int64[1] {-1}>()
        u = Unsqueeze(t, axes)
      }>(list)
      item = SequenceAt(tall, last)
      y = Relu(item)
    })",
                 2)
            .ends_with("item = Identity(tall/u) float32[2, 1]\ny = Relu(item) float32[2, 1]\n"));
  CHECK(FlatText(R"(
    g (float[N, 4] x) => (float[A, B] y) {
      list = SequenceConstruct(x, x)
      y = ConcatFromSequence<axis = 1>(list)
    })",
                 2)
            .ends_with("y = Concat(x, x) float32[2, 8]\n"));
}

TEST_CASE("an If behind another is judged by what the other makes") {
  CHECK(FlatText(R"(
    g (float[N, 4] x, bool[1] c) => (float[A, B] y) {
      [first] h = If<
        then_branch = a () => (float t) { t = Relu(x) },
        else_branch = b () => (float e) { e = Neg(x) }>(c)
      [second] y = If<
        then_branch = d () => (float t) { t = Relu(h) },
        else_branch = e () => (float e) { e = Concat<axis = 0>(h, h) }>(c)
    })",
                 2) == R"(
h = Relu(x) float32[2, 4]
y = Concat(h, h) float32[4, 4]
OF103 which branch of the If 'first' runs depends on data: then_branch is taken, whose tensors are 32 B
OF103 which branch of the If 'second' runs depends on data: else_branch is taken, whose tensors are 64 B
)");
}

// What the first makes is the second's condition; its first result nobody names.
TEST_CASE("a result that is left out does not shift the others") {
  CHECK(FlatText(R"(
    g (float[N, 4] x) => (float[A, B] y)
    <bool[1] yes = {1}> {
      , c = If<
        then_branch = a () => (float r, bool k) {
          r = Relu(x) k = Constant<value = bool[1] {0}>()
        },
        else_branch = b () => (float e, bool l) {
          e = Neg(x) l = Constant<value = bool[1] {1}>()
        }>(yes)
      y = If<
        then_branch = d () => (float t) { t = Exp(x) },
        else_branch = e () => (float u) { u = Abs(x) }>(c)
    })",
                 2)
            .find("y = Abs(x) float32[2, 4]\n") != std::string::npos);
}

// `count` nodes, each of which reads what the one before it makes; "@" is its number, "#" the next.
std::string Chain(int count, std::string_view node, std::string_view initializers) {
  std::string nodes;
  for (int i = 0; i < count; ++i) {
    for (const char letter : node) {
      nodes += letter == '@'   ? std::to_string(i)
               : letter == '#' ? std::to_string(i + 1)
                               : std::string(1, letter);
    }
    nodes += '\n';
  }
  return fmt::format("g (float[4] v0, bool[1] c) => (float[4] v{}) < {} > {{ {} }}", count,
                     initializers, nodes);
}

size_t CountFlat(const std::string& model) {
  Warnings warnings;
  DimBinding binding;
  return InlineControlFlow(ParseGraph(model), binding, warnings).nodes.size();
}

std::string FlatError(const std::string& model) {
  try {
    CountFlat(model);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

constexpr std::string_view kUndecided = R"(
    v# = If<then_branch = a () => (float[4] t) { t = Relu(v@) },
            else_branch = b () => (float[4] e) { e = Neg(v@) }>(c))";
// Makes a list of what it computes.
constexpr std::string_view kListing = R"(
    v#, list@ = Loop<body = b (int64 i, bool go, float[4] v) => (bool go2, float[4] w, float[4] o) {
      go2 = Identity(go) w = Relu(v) o = Neg(v) }>(most, , v@))";

TEST_CASE("a long chain is looked at once for each node, not once for each body") {
  CHECK(CountFlat(Chain(1500, kUndecided, "")) == 1500);
}

TEST_CASE("bodies inside bodies, one behind another, have a budget of nodes") {
  constexpr int kDepth = 25;
  std::string body = "Relu(v@)";
  for (int i = 0; i < kDepth; ++i) {
    body = fmt::format(
        "If<then_branch = a () => (float[4] t{0}) {{ t{0} = {1} }}, else_branch = b "
        "() => (float[4] e) {{ e = Neg(v@) }}>(c)",
        i, body);
  }
  CHECK(CountFlat(Chain(1, "v# = " + body, "")) == 1);
  CHECK(FlatError(Chain(60, "v# = " + body, "")) ==
        "<text>: If and Loop: at most 65536 nodes, those of bodies again for each body around "
        "them, were expected, found more (try: an export without torch.cond)");
}

TEST_CASE("a list has a part for each of at most 1024 trips, all lists together 131072") {
  const auto text = [](int count, int trips) {
    return Chain(count, kListing, fmt::format("int64 most = {{{}}}", trips));
  };
  Warnings warnings;
  const auto parts = [&](int trips) {
    DimBinding binding;
    return InlineControlFlow(ParseGraph(text(1, trips)), binding, warnings)
        .nodes.back()
        .inputs.size();
  };
  CHECK(parts(1024) == 1024);
  CHECK(parts(1025) == 2);  // an Unsqueeze of one, and its axes
  REQUIRE(!warnings.empty());
  CHECK(warnings.back().code == "OF117");
  CHECK(FlatError(text(129, 1024)) ==
        "<text>: loops: lists of at most 131072 parts were expected, found more");
}

TEST_CASE("an If without a branch is refused") {
  try {
    FlatText("g (float[N] x, bool c) => (float y) { y = If(c) }", 2);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) ==
          "<text>: node 'If #0': a graph was expected in its attribute 'then_branch', found none");
  }
}

TEST_CASE("a dimension that stays free is an error here too") {
  Warnings warnings;
  const Graph graph = ParseGraph(
      "g (float[N, K] x, bool c) => (float y) { y = If<then_branch = a () => (float x) {}, "
      "else_branch = b () => (float x) {}>(c) }");
  DimBinding binding;
  CHECK_THROWS_WITH_AS(InlineControlFlow(graph, binding, warnings),
                       "<text>: input 'x': dimension 'K' is free (try: --dim K=512)", Error);
}

}  // namespace
}  // namespace onnxfit::control_flow_test
