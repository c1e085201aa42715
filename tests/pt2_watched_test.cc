#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/pt2/exported_program.h"
#include "tests/pt2_helpers.h"
#include "tests/trace_helpers.h"

namespace onnxfit::pt2_watched_test {
namespace {

using namespace onnxfit::pt2;  // NOLINT(google-build-using-namespace): its helpers

constexpr std::string_view kRelu = "torch.ops.aten.relu.default";

// x → a → b → c, each a relu of the one before.
ExportedBuilder Chain() {
  ExportedBuilder builder;
  builder.Parameter("p_w", "fc.weight", {8, 8}).Input("x", {8});
  builder.Make("torch.ops.aten.linear.default", "a", {{"input", Ref("x")}, {"weight", Ref("p_w")}},
               {8});
  builder.Make(kRelu, "b", {{"self", Ref("a")}}, {8});
  builder.Make(kRelu, "c", {{"self", Ref("b")}}, {8});
  return builder;
}

// Watched, call by call.
ExportedProgram Watched(ExportedBuilder builder, const std::vector<WatchedCall>& calls,
                        std::string_view precision = "fp32") {
  builder.Return("c");
  ExportedProgram program = builder.program();
  program.watching = Watching{.precision = precision};
  for (size_t i = 0; i < calls.size(); ++i) {
    program.graph.calls[i].watched = std::make_shared<const WatchedCall>(calls[i]);
  }
  return program;
}

// "name:call" for every name that dies, in order.
std::string Deaths(const Program& program) {
  std::string text;
  for (const AtenCall& call : program.calls) {
    for (const NameId name : call.dies) {
      text += program.values[static_cast<size_t>(name)].name + ":" + call.where + " ";
    }
  }
  return text;
}

Program Evaluated(const ExportedProgram& program) {
  return Made(program, {.mode = Mode::kEval}).program;
}

TEST_CASE("values die behind the calls that a watched run says") {
  const Program made = Evaluated(Watched(Chain(), {{}, {}, {.dies = {"b", "a"}}}));
  CHECK(Deaths(made) == "x:c b:c a:c ");
  CHECK(Deaths(Evaluated(Watched(Chain(), {{}, {.dies = {"a"}}, {.dies = {"b"}}}))) ==
        "a:b x:c b:c ");
}

TEST_CASE("no value dies before it is read last") {
  CHECK(Deaths(Evaluated(Watched(Chain(), {{}, {.dies = {"a", "b"}}, {}}))) == "a:b x:c b:c ");
}

TEST_CASE("what nobody was seen to let go of lives beyond the step") {
  CHECK(Deaths(Evaluated(Watched(Chain(), {{}, {.dies = {"a"}}, {}}))) == "a:b x:c ");
  const Program rebound =
      Evaluated(Watched(Chain(), {{.dies_of_step_before = {"b"}}, {.dies = {"a"}}, {}}));
  CHECK(Deaths(rebound) == "b:a a:b x:c ");
}

TEST_CASE("a call that the first run alone made is made once") {
  const Program made =
      Evaluated(Watched(Chain(), {{.is_made_once = true}, {.dies = {}}, {.dies = {"b"}}}));
  CHECK(made.calls[0].made_once);
  CHECK_FALSE(made.calls[1].made_once);
  CHECK(Deaths(made) == "x:c b:c ");
}

TEST_CASE("a name in place of another keeps what both hold") {
  ExportedBuilder builder = Chain();
  builder.program().graph.calls[1].target = "torch.ops.aten.relu_.default";
  const std::vector<WatchedCall> calls = {{}, {}, {.dies = {"a", "b"}}};
  const Program made = Made(Watched(builder, calls)).program;
  CHECK(ToString(Train(made, {})).find("+b:") == std::string::npos);
}

TEST_CASE("modes around calls are those of the run") {
  const Program made = Evaluated(Watched(Chain(), {{.leaves_autograd = true},
                                                   {.leaves_autocast = true},
                                                   {.enters_autocast = DType::kFloat16}}));
  CHECK(made.calls[0].leaves_autograd);
  CHECK_FALSE(made.calls[1].leaves_autograd);
  CHECK(made.calls[1].leaves_autocast);
  CHECK(made.calls[2].enters_autocast == DType::kFloat16);
}

TEST_CASE("checkpoints are those of the run, and of several kinds none is computed again") {
  const auto under = [](const std::vector<WatchedCall>& calls) {
    return Made(Watched(Chain(), calls)).program.calls[1].checkpoint;
  };
  CHECK(under({{}, {.checkpoint = 0}, {}}) == 0);
  CHECK(under({{}, {.checkpoint = 0}, {.checkpoint = 1, .is_reentrant = true}}) == -1);
  CHECK(under({{.checkpoint = 0}, {.checkpoint = 1, .is_nested = true}, {}}) == -1);
}

TEST_CASE("casts are those of the precision that was watched") {
  ExportedBuilder builder = Chain();
  builder.program().graph.calls[1].target = "torch.ops.aten.to.dtype";
  builder.program().graph.calls[1].arguments = {{"self", Ref("a")}, {"dtype", Text("float32")}};
  const auto type = [&](std::string_view watched, Precision precision) {
    const Program made =
        Made(Watched(builder, {{}, {}, {}}, watched), {.precision = precision, .mode = Mode::kEval})
            .program;
    return made.values[static_cast<size_t>(made.calls[1].outputs[0])].type.dtype;
  };
  CHECK(type("bf16", Precision::kBf16) == DType::kFloat32);
  CHECK(type("fp32", Precision::kBf16) == DType::kBFloat16);  // another run: as the habits have it
}

}  // namespace
}  // namespace onnxfit::pt2_watched_test
