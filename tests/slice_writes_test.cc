#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "estimator/exporters/exported_groups.h"
#include "estimator/patterns/rewrites.h"
#include "tests/bound_model.h"
#include "tests/fx_text.h"
#include "tests/trace_helpers.h"

namespace onnxfit::slice_writes_test {
namespace {

// c[1, 0:2] = v of a copy c of x, whose first row was copied before.
constexpr char kWrite[] = R"(n (float[4, 8] x, float[2] v) => (float[4, 8] y, float[8] k) {
    c = Neg (x)
    first = Constant <value = int64 {0}> () second = Constant <value = int64 {1}> ()
    r = Gather (c, first)
    k = Identity (r)
    s = Gather (c, second)
    at = Constant <value = int64[2] {0, 1}> ()
    t = ScatterElements (s, at, v)
    row = Constant <value = int64[1, 1] {1}> () axis = Constant <value = int64[1] {0}> ()
    u = Unsqueeze (t, axis)
    y = ScatterND (c, row, u)
  })";

std::string Writes(const std::string& text = kWrite) {
  const std::string scatter = FxText("t", "slice_scatter.default", "%s, %v, 0, 0, 2");
  const std::string whole = FxText("y", "select_scatter.default", "%c, %t, 0, 1");
  const std::vector<std::pair<std::string, std::string>> calls = {
      {"c", FxText("c", "neg.default", "%x,")},
      {"r", FxText("r", "select.int", "%c, 0, 0")},
      {"k", FxText("k", "clone.default", "%r,")},
      {"s", FxText("s", "select.int", "%c, 0, 1")},
      {"t", scatter},
      {"u", whole},
      {"y", whole}};
  Graph graph = ParseGraph(text);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const std::string_view made = graph.values[Index(graph.nodes[i].outputs[0])].name;
    for (const auto& [name, call] : calls) {
      if (name == made) Say(graph, static_cast<NodeId>(i), call);
    }
  }
  const BoundModel model(graph);
  std::string found;
  for (const Rewritten& call : FindSliceWrites(ExportedGroups(model.bound))) {
    found += fmt::format("{}(", call.aten);
    for (const ValueId input : call.inputs) found += fmt::format("{} ", model.bound.NameOf(input));
    found += fmt::format(")={} of {}; ", model.bound.NameOf(model.bound.At(call.last).outputs[0]),
                         call.nodes.size());
  }
  return found;
}

TEST_CASE("torch.export's scatters are writes into a part, and clones of parts stay") {
  CHECK(Writes() == "copy_slice(c v )=y of 4; clone(r )=k of 1; ");
}

TEST_CASE("what is read behind the scatter as it was is not written") {
  std::string text = kWrite;
  text.replace(text.find("float[8] k)"), 11, "float[8] k, float[4, 8] z)");
  text.insert(text.rfind('}'), "z = Exp (c) ");
  CHECK(Writes(text).empty());
}

}  // namespace
}  // namespace onnxfit::slice_writes_test
