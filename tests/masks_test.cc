#include "estimator/patterns/masks.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "tests/bound_model.h"
#include "tests/trace_helpers.h"

namespace onnxfit::masks_test {
namespace {

constexpr std::string_view kLinesKey = "pkg.torch.onnx.stack_trace";

// Scores, to which a mask is added that hides nothing, of `given`, which the code made before.
constexpr char kScores[] = R"(net (float[2, 4] x) => (float[2, 4] y) {
    size = Shape (x) one = Constant <value = float {1.0}> () given = Expand (one, size)
    shown = Cast <to = 9> (given)
    zero = Constant <value = float {0.0}> () low = Constant <value = float {-3.0e38}> ()
    mask = Where (shown, zero, low)
    s = Neg (x) t = Add (s, mask) y = Softmax (t)
  })";

std::string Frame(const std::string& file, const std::string& line) {
  return fmt::format("File \"{}\", line {}, in forward\n  {}\n", file, line.size(), line);
}

// The graph, where a line of `file` makes the mask of what another one made.
Graph Model(const std::string& file, const std::string& given, const std::string& mask) {
  static std::string lines[2];  // which must outlive the graph
  lines[0] = Frame(file, given);
  lines[1] = Frame(file, mask);
  Graph graph = ParseGraph(kScores);
  for (Node& node : graph.nodes) {
    const std::string_view op = node.op_type;
    if (op == "Expand") node.metadata.emplace_back(kLinesKey, lines[0]);
    if (op == "Cast" || op == "Where") node.metadata.emplace_back(kLinesKey, lines[1]);
  }
  return graph;
}

TEST_CASE("a library's mask that hides nothing is none in a run") {
  const auto is_added = [](const std::string& file, const std::string& line) {
    const BoundModel model(Model(file, "given = torch.ones(n)", line));
    for (const Rewritten& call : model.found.rewrites) {
      if (call.aten == kNoCall) return false;
    }
    return true;
  };
  CHECK_FALSE(is_added("transformers/models/bert.py", "mask = create_bidirectional_mask("));
  CHECK(is_added("mine/models/bert.py", "mask = create_bidirectional_mask("));
  CHECK(is_added("transformers/models/bert.py", "mask = torch.where(shown, 0, low)"));
}

TEST_CASE("without lines, a library's mask is told by how it asks for all positions") {
  const auto is_added = [](const std::string& least) {
    const BoundModel model(ParseGraph(R"(net (float[2, 4] x) => (float[2, 4] y) {
      none = Constant <value = int64 {)" +
                                      least + R"(}> ()
      positions = Constant <value = int64[4] {0, 1, 2, 3}> () size = Shape (x)
      ["/GreaterOrEqual"] g = GreaterOrEqual (positions, none) ["/Expand"] shown = Expand (g, size)
      zero = Constant <value = float {0.0}> () low = Constant <value = float {-3.0e38}> ()
      ["/Where"] mask = Where (shown, zero, low)
      s = Neg (x) ["/Add"] t = Add (s, mask) y = Softmax (t) })"));
    const auto& calls = model.found.rewrites;
    return std::ranges::find(calls, kNoCall, &Rewritten::aten) == calls.end();
  };
  CHECK_FALSE(is_added("0"));
  CHECK(is_added("-1"));  // all, too, but not the library's
}

TEST_CASE("what the library's mask would fill is left as it is") {
  const auto is_filled = [](const std::string& least) {
    const BoundModel model(ParseGraph(R"(net (float[2, 4] x) => (float[2, 4] y) {
      none = Constant <value = int64 {)" +
                                      least + R"(}> () last = Constant <value = int64[1] {1}> ()
      positions = Constant <value = int64[4] {0, 1, 2, 3}> ()
      size = Constant <value = int64[2] {4, 4}> () nothing = Constant <value = int64 {0}> ()
      ["/GreaterOrEqual"] g = GreaterOrEqual (positions, none) ["/Expand"] shown = Expand (g, size)
      h = Not (shown) n = Not (h) c = Cast <to = 7> (n) r = ReduceSum <keepdims = 0> (c, last)
      any = Greater (r, nothing) all = Not (any) a = Cast <to = 9> (all)
      zero = Constant <value = float {0.0}> () ["/Where"] y = Where (a, zero, x) })"));
    const auto& calls = model.found.rewrites;
    return std::ranges::find(calls, kNoCall, &Rewritten::aten) == calls.end();
  };
  CHECK_FALSE(is_filled("0"));
  CHECK(is_filled("-1"));
}

TEST_CASE("what a mask would be made of is made all the same") {
  const auto arguments = [](const std::string& given, const std::string& mask) {
    const BoundModel model(Model("transformers/models/bert.py", given, mask));
    std::string names;
    for (const ValueId value : FindArgumentsOfMasks(model.bound)) {
      names += std::string(model.bound.NameOf(value)) + " ";
    }
    return names;
  };
  CHECK(arguments("given = torch.ones(n)", "mask = create_causal_mask(") == "given ");
  CHECK(arguments("mask = torch.ones(n)", "mask = create_causal_mask(").empty());  // it is rebound
  CHECK(arguments("given = torch.ones(n)", "mask = given > 0").empty());
}

}  // namespace
}  // namespace onnxfit::masks_test
