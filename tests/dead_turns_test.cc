#include "estimator/recover/dead_turns.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "estimator/base/index.h"
#include "tests/known_names.h"
#include "tests/trace_helpers.h"

namespace onnxfit::dead_turns_test {
namespace {

// "residual, skip = layers[i](x); x = x + residual; skips = skips + skip", whose last turn lacks
// what no output needs.
std::string Loop(int turns) {
  std::string tensors;
  std::string nodes = "g = Sin (x) ";
  std::string x = "x";
  std::string sum = "g";
  for (int i = 0; i < turns; ++i) {
    const std::string n = std::to_string(i);
    const std::string layer = "/layers." + n + "/";
    nodes += "[\"" + layer + "net/Relu\"] r" + n + " = Relu (" + x + ") ";
    if (i + 1 < turns) {
      tensors += "float[4] \"layers." + n + ".out.w\" = {1, 2, 3, 4}, ";
      nodes += "[\"" + layer + "out/Mul\"] o" + n + " = Mul (r" + n + ", \"layers." + n +
               ".out.w\") [\"" + layer + "Mul\"] p" + n + " = Mul (o" + n + ", g) ";
      nodes += "[\"/Add_" + n + "\"] a" + n + " = Add (" + x + ", p" + n + ") ";
    }
    nodes += "[\"" + layer + "skip/Abs\"] s" + n + " = Abs (r" + n + ") ";
    nodes += "[\"/Add_1" + n + "\"] t" + n + " = Add (" + sum + ", s" + n + ") ";
    x = "a" + n;
    sum = "t" + n;
  }
  return "n (float[4] x) => (float[4] y) < " + tensors + "float[1] z = {0} > { " + nodes +
         "y = Neg (" + sum + ") }";
}

// The calls from the last layer's first one on: "relu mul add".
std::string LastTurn(const std::string& net, const std::string& layer) {
  std::string found;
  const Program program = Build(net, {.mode = Mode::kEval}).program;
  for (const AtenCall& call : program.calls) {
    const bool is_inside = program.modules.PathOf(call.module).starts_with(layer);
    if (is_inside || !found.empty()) found += std::string(call.op) + " ";
  }
  return found;
}

}  // namespace

TEST_CASE("what a last turn makes and nobody reads runs as in the turn before") {
  CHECK(LastTurn(Loop(4), "layers.3") == "relu mul mul add abs add neg ");
}

TEST_CASE("two turns of which the last lacks a child may be all that there is") {
  CHECK(LastTurn(Loop(2), "layers.1") == "relu abs add neg ");
}

// "x, skip = layers[i](x)", whose last one returns `last` beside it; what ends the net reads `y`.
std::string Carried(const std::string& last, const std::string& y = "t2") {
  std::string nodes;
  for (int i = 0; i < 3; ++i) {
    const std::string n = std::to_string(i);
    const std::string layer = "/layers." + n + "/";
    const std::string x = i == 0 ? "x" : "a" + std::to_string(i - 1);
    nodes += "[\"" + layer + "net/Relu\"] r" + n + " = Relu (" + x + ") ";
    nodes += i < 2 ? "[\"" + layer + "Add\"] a" + n + " = Add (" + x + ", r" + n + ") " : last;
    nodes += "[\"" + layer + "skip/Abs\"] s" + n + " = Abs (r" + n + ") ";
    nodes += i == 0 ? "[\"/Sin\"] t0 = Sin (s0) "
                    : "[\"/Add_" + n + "\"] t" + n + " = Add (t" + std::to_string(i - 1) + ", s" +
                          n + ") ";
  }
  return "n (float[4] x) => (float[4] y) { " + nodes + "y = Neg (" + y + ") }";
}

TEST_CASE("what turns hand on to one another and nobody reads in the end runs in the last, too") {
  CHECK(LastTurn(Carried(""), "layers.2") == "relu add abs add neg ");
  const std::vector<HeldName> held = HeldNames(Carried(""));
  CHECK(std::ranges::any_of(held, [](const HeldName& name) {
    return name.value == "a1.last" && name.name == "what is not read" && name.until_last;
  }));
}

// "if i < 2: x = x + h": what it adds is read in its place.
TEST_CASE("not where something else reads in the last turn what the call would read") {
  CHECK(LastTurn(Carried("", "r2"), "layers.2") == "relu neg ");
  CHECK(LastTurn(Carried("[\"/layers.2/Cos\"] c2 = Cos (r2) "), "layers.2").find("relu add") ==
        std::string::npos);
}

TEST_CASE("each turn reads what is made before all of them, and has its own of what it makes") {
  const Program program = Build(Loop(4), {.mode = Mode::kEval}).program;
  std::vector<std::string> reads;
  for (const AtenCall& call : program.calls) {
    if (program.modules.PathOf(call.module) != "layers.3" || call.op != "mul") continue;
    for (const NameId name : call.inputs) reads.push_back(program.values[Index(name)].name);
  }
  REQUIRE(reads.size() == 2);
  CHECK(reads[0] == "o2.last");
  CHECK(reads[1] == "g");
}

TEST_CASE("what is made and never read has a name until the forward returns") {
  std::string held;
  for (const HeldName& name : HeldNames(Loop(4))) {
    if (name.name == "what is not read") held += name.value + (name.until_last ? " " : "? ");
  }
  CHECK(held == "a2.last ");
}

}  // namespace onnxfit::dead_turns_test
