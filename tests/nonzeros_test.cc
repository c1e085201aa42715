#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "estimator/onnx/loader.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit::nonzeros_test {
namespace {

using enum Nonzeros;

// y, a mask of 70 x 70, which is too big to be evaluated before somebody asks.
KnownTensor MaskOf(std::string_view nodes) {
  const Graph graph = ParseGraph(fmt::format(
      R"(<ir_version: 8, opset_import: ["" : 18]>
      g (float[N, 3] x) => (bool y)
        <int64 zero = {{0}}, int64 one = {{1}}, int64 n = {{70}}, int64[1] first = {{0}},
         int64[1] second = {{1}}, int64[2] square = {{70, 70}}, int64[4] four = {{3, 1, 70, 70}},
         int64[3] three = {{1, 70, 70}}> {{
        line = Range(zero, n, one)
        row = Unsqueeze(line, first)
        column = Unsqueeze(line, second)
        next = Add(column, one)
        zeros = Expand(zero, square)
        no = Equal(zero, one)
        yes = Equal(zero, zero)
        lower = LessOrEqual(row, column)
        upper = Greater(row, column)
        all = Expand(yes, square)
        none = Expand(no, square)
        mixed = Equal(row, column)
        {}
      }})",
      nodes));
  const Shapes shapes = BindShapes(graph, {.batch = 5});
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].name == "y") return shapes.known.at(i).value();
  }
  FAIL("no y");
  return {};
}

// Looks at each element.
Nonzeros SlowNonzeros(const KnownTensor& mask) {
  const std::vector<int64_t>& elements = mask.elements();
  const int64_t size = mask.stored.back();
  const bool is_square = mask.stored.size() > 1 && mask.stored[mask.stored.size() - 2] == size;
  bool all = true, none = true, lower = is_square, upper = is_square;
  for (size_t i = 0; i < elements.size(); ++i) {
    const bool is_left = static_cast<int64_t>(i) % size <= static_cast<int64_t>(i) / size % size;
    all &= elements[i] != 0;
    none &= elements[i] == 0;
    lower &= (elements[i] != 0) == is_left;
    upper &= (elements[i] != 0) != is_left;
  }
  return all ? kAll : none ? kNone : lower ? kLower : upper ? kUpper : kMixed;
}

struct Row {
  std::string_view nodes;
  Nonzeros expected;
};

constexpr Row kRows[] = {
    {"y = LessOrEqual(row, column)", kLower},
    {"y = GreaterOrEqual(column, row)", kLower},
    {"y = Less(column, row)", kUpper},
    {"y = Greater(row, column)", kUpper},
    {"y = Less(row, column)", kMixed},  // not on the diagonal
    {"y = LessOrEqual(column, row)", kMixed},
    {"y = Equal(row, column)", kMixed},
    {"y = Less(row, next)", kLower},
    {"y = Greater(row, next)", kMixed},
    {"y = LessOrEqual(zeros, zero)", kAll},
    {"y = Less(zeros, zero)", kNone},
    {"fours = Expand(line, four)\n y = LessOrEqual(fours, column)", kLower},
    {"wide = Neg(line)\n y = LessOrEqual(wide, column)", kAll},
    {"down = Neg(row)\n left = Neg(column)\n y = GreaterOrEqual(down, left)", kLower},

    {"y = And(lower, yes)", kLower},
    {"y = And(yes, lower)", kLower},
    {"y = And(lower, no)", kNone},
    {"y = And(lower, lower)", kLower},
    {"y = And(lower, upper)", kNone},
    {"y = And(mixed, all)", kMixed},
    {"y = And(lower, mixed)", kMixed},
    {"y = Or(lower, no)", kLower},
    {"y = Or(upper, yes)", kAll},
    {"y = Or(upper, lower)", kAll},
    {"y = Or(none, mixed)", kMixed},
    {"y = Xor(upper, lower)", kAll},
    {"y = Xor(all, lower)", kUpper},
    {"y = Not(lower)", kUpper},
    {"y = Not(upper)", kLower},
    {"y = Not(none)", kAll},
    {"y = Not(mixed)", kMixed},
    // What is not a mask of its own size spreads over one.
    {"some = Equal(row, zero)\n y = And(some, all)", kMixed},
    {"some = Equal(column, zero)\n y = Or(some, none)", kMixed},
    {"each = GreaterOrEqual(row, zero)\n y = And(each, lower)", kLower},

    {"y = Expand(lower, four)", kLower},
    {"y = Expand(no, four)", kNone},
    {"some = Equal(row, zero)\n y = Expand(some, four)", kMixed},
    {"y = Unsqueeze(lower, first)", kLower},
    {"y = Reshape(upper, three)", kUpper},
    {"y = Transpose<perm = [1, 0]>(lower)", kMixed},
    {"z = Transpose<perm = [1, 0]>(upper)\n y = Not(z)", kMixed},
    {"y = Identity(lower)", kLower},
};

TEST_CASE("what operators say of a mask is what its elements say") {
  for (const Row& row : kRows) {
    CAPTURE(row.nodes);
    CHECK(MaskOf(row.nodes).nonzeros() == row.expected);
    const KnownTensor evaluated = MaskOf(row.nodes);
    CHECK(SlowNonzeros(evaluated) == row.expected);
    CHECK(evaluated.nonzeros() == row.expected);  // now by its elements
  }
}

TEST_CASE("masks that the file stores are read as they lie") {
  struct Stored {
    std::vector<uint8_t> elements;
    int64_t size;
    Nonzeros expected;
  };
  const Stored rows[] = {
      {{1, 0, 1, 1}, 2, kLower},
      {{0, 1, 0, 0}, 2, kUpper},
      {{1, 0, 1, 1, 1, 0, 1, 1}, 2, kLower},
      {{1, 0, 1, 1, 1, 1, 1, 1}, 2, kMixed},
      {{1, 0, 1, 1}, 0, kMixed},  // not asked for triangles
      {{1, 0, 0, 1, 1, 0, 1, 1, 1}, 3, kLower},
      {{1, 0, 0, 0, 1, 0, 1, 1, 1}, 3, kMixed},
      {{1, 1, 1, 1}, 2, kAll},
      {{0, 0, 0, 0}, 2, kNone},
      {{}, 0, kAll},
  };
  for (const Stored& row : rows) {
    CAPTURE(row.size);
    CHECK(NonzerosAmong(row.elements, row.size) == row.expected);
  }
}

}  // namespace
}  // namespace onnxfit::nonzeros_test
