#include "estimator/writer/kept_casts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "estimator/base/index.h"
#include "tests/trace_helpers.h"

namespace onnxfit::kept_casts_test {
namespace {

constexpr char kLine[] = "relative_position_embeddings = self.pe[:, start_idx:end_idx]";

// States through a layer, then twice the positions "pe" of a module, read in `line` of `file`.
Program Positions(const char* line, const char* file) {
  Program program = Build(R"(net (float[2, 3, 8] x) => (float[2, 3, 8] y)
      < float[1, 3, 8] pe = ["location": "none"] > {
      a = Neg (x) b = Abs (pe) c = Add (a, b) d = Mul (c, pe) y = Neg (d) })",
                          {.mode = Mode::kEval})
                        .program;
  for (AtenCall& call : program.calls) call.frames = {program.source.Read(3, line, file)};
  program.buffers = {*std::ranges::find(
      program.placement, "pe", [&](NameId name) { return program.values[Index(name)].name; })};
  KeepCastsOfBuffers(program);
  return program;
}

// "neg type_as abs …", and who reads the buffer itself.
std::string Calls(const Program& program) {
  std::string text;
  for (const AtenCall& call : program.calls) {
    const bool reads = std::ranges::find(call.inputs, program.buffers[0]) != call.inputs.end();
    text += std::string(call.op) + (reads ? "! " : " ");
  }
  return text;
}

}  // namespace

TEST_CASE("a buffer that its module casts in its first call is let go, and the cast is read") {
  const Program program = Positions(kLine, "transformers/models/a/b.py");
  CHECK(Calls(program) == "neg type_as! abs add mul neg ");
  CHECK(program.calls[1].made_once);
  CHECK(program.calls[1].dies == program.buffers);
  CHECK(program.values[Index(program.calls[1].inputs[1])].name == "a");
}

TEST_CASE("a buffer that other lines read stays as it is") {
  CHECK(Calls(Positions("y = self.pe[:, a:b]", "transformers/models/a/b.py")) ==
        "neg abs! add mul! neg ");
  CHECK(Calls(Positions(kLine, "mine.py")) == "neg abs! add mul! neg ");
}

}  // namespace onnxfit::kept_casts_test
