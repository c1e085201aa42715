#include "estimator/parameters/last_turns.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "estimator/onnx/loader.h"
#include "tests/bound_model.h"

namespace onnxfit::last_turns_test {
namespace {

// "layers.3.out.w": what the last turn of four has lost, whose layer is followed by `last`.
std::string Lost(const std::string& last, int turns = 4, const std::string& list = "layers.*.out") {
  std::string tensors;
  std::string nodes;
  std::string x = "x";
  std::string sum = "x";
  for (int i = 0; i < turns; ++i) {
    const std::string n = std::to_string(i);
    const std::string layer = "/layers." + n + "/";
    nodes += "[\"" + layer + "net/Relu\"] r" + n + " = Relu (" + x + ") ";
    const bool is_last = i + 1 == turns;
    if (!is_last) {
      std::string out = list;
      out.replace(out.find('*'), 1, n);
      std::string path = out;
      std::ranges::replace(path, '.', '/');
      if (const size_t number = path.find("/" + n); number != path.npos) path[number] = '.';
      tensors += "float[4] \"" + out + ".w\" = {1, 2, 3, 4}, ";
      nodes += "[\"/" + path + "/Mul\"] o" + n + " = Mul (r" + n + ", \"" + out + ".w\") ";
    }
    nodes += "[\"" + layer + (is_last ? last : "skip/Abs") + "\"] s" + n + " = Abs (r" + n + ") ";
    nodes += "[\"/Add_" + n + "\"] t" + n + " = Add (" + sum + ", s" + n + ") ";
    x = "o" + n;
    sum = "t" + n;
  }
  const BoundModel model(ParseGraph("n (float[4] x) => (float[4] y) < " + tensors +
                                    "float[1] z = {0} > { " + nodes + "y = Neg (" + sum + ") }"));
  std::set<std::string_view> names;
  for (const Initializer& initializer : model.bound.graph().initializers) {
    names.insert(model.bound.NameOf(initializer.value));
  }
  std::string text;
  for (const UnreadTensor& tensor : FindLastTurns(model.bound, names)) {
    text += tensor.name + " like " + std::string(tensor.like) + " in " + std::string(tensor.module);
  }
  return text;
}

}  // namespace

// "residual, skip = layer(x); x = x + residual; skips = skips + skip"
TEST_CASE("the last layer of a loop has what nothing needs of it, as the others have") {
  CHECK(Lost("skip/Abs") == "layers.3.out.w like layers.2.out.w in layers");
}

TEST_CASE("not where something else reads what it makes") { CHECK(Lost("head/Abs").empty()); }

// "x = layers[i](x); if i < 3: x = downs[i](x)"
TEST_CASE("a list beside the layers' may end before it") {
  CHECK(Lost("skip/Abs", 4, "downs.*").empty());
}

TEST_CASE("two layers are no loop") { CHECK(Lost("skip/Abs", 3).empty()); }

}  // namespace onnxfit::last_turns_test
