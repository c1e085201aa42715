#include "estimator/observed/observed_deaths.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/observed/observe.h"
#include "tests/pt2_helpers.h"

namespace onnxfit::observed_deaths_test {
namespace {

using namespace onnxfit::pt2;  // NOLINT(google-build-using-namespace): its helpers

// x → a → b → c, of a block with a child; it is `type`, or nobody says what it is.
Program Chain(std::string_view type) {
  ExportedBuilder builder;
  builder.Input("x", {8});
  builder.In("block", type);
  builder.Make("torch.ops.aten.relu.default", "a", {{"self", Ref("x")}}, {8});
  builder.Make("torch.ops.aten.sigmoid.default", "b", {{"self", Ref("a")}}, {8});
  builder.Make("torch.ops.aten.tanh.default", "c", {{"self", Ref("b")}}, {8});
  return Made(builder.Return("c"), {.mode = Mode::kEval}).program;
}

// "a:c" of what dies behind the call that makes c.
std::string Deaths(const Program& program, std::string_view known) {
  const std::string bytes = PackSkeletons("", ParseSkeletons(known));
  const auto* const first = reinterpret_cast<const unsigned char*>(bytes.data());
  const KnownSkeletons skeletons({first, bytes.size()});
  const KnownDeaths found = FindKnownDeaths(program, ModuleRuns(program), skeletons);
  std::string text;
  for (size_t name = 0; name < found.behind.size(); ++name) {
    if (!found.behind[name]) continue;
    text += program.values[name].name + ":" + program.calls[Index(*found.behind[name])].where + " ";
  }
  return text;
}

TEST_CASE("values of a class that was watched die as they did then") {
  constexpr std::string_view kKnown = "lib.Block\nrelu sigmoid tanh \n0.0-2 1.0-2 2.0 \n";
  CHECK(Deaths(Chain("lib.Block"), kKnown) == "a:c b:c ");
  CHECK(Deaths(Chain("other.Block"), kKnown) == "");
}

TEST_CASE("what the file does not call does not count") {
  constexpr std::string_view kKnown =
      "lib.Block\nrelu dropout sigmoid dropout tanh \n0.0-1 1.0-2 2.0-3 3.0-4 4.0 \n";
  CHECK(Deaths(Chain("lib.Block"), kKnown) == "a:a b:b ");
}

TEST_CASE("of several the one that is most like the file counts") {
  constexpr std::string_view kKnown =
      "lib.Block\nrelu tanh \n0.0-1 1.0 \n"
      "lib.Block\nrelu sigmoid tanh \n0.0-2 1.0-2 2.0 \n"
      "lib.Block\nrelu sigmoid mul \n0.0-1 1.0-2 2.0 \n";
  CHECK(Deaths(Chain("lib.Block"), kKnown) == "a:c b:c ");
}

TEST_CASE("of two that are as much like it the one counts where values live longer") {
  constexpr std::string_view kKnown =
      "lib.Block\nrelu sigmoid tanh \n0.0-1 1.0-2 2.0 \n"
      "lib.Block\nrelu sigmoid tanh \n0.0-2 1.0-2 2.0 \n";
  CHECK(Deaths(Chain("lib.Block"), kKnown) == "a:c b:c ");
}

TEST_CASE("one that has little in common with the file is not taken") {
  constexpr std::string_view kKnown =
      "lib.Block\nrelu exp log cos sin \n0.0-4 1.0-4 2.0-4 3.0-4 4.0 \n";
  CHECK(Deaths(Chain("lib.Block"), kKnown) == "");
}

TEST_CASE("what a child leaves dies in the forward that called it") {
  ExportedBuilder builder;
  builder.Input("x", {8});
  builder.In("block", "lib.Block");
  builder.Make("torch.ops.aten.relu.default", "a", {{"self", Ref("x")}}, {8});
  builder.Make("torch.ops.aten.sigmoid.default", "b", {{"self", Ref("a")}}, {8});
  builder.In("head", "lib.Head");
  builder.Make("torch.ops.aten.tanh.default", "c", {{"self", Ref("b")}}, {8});
  builder.Make("torch.ops.aten.exp.default", "d", {{"self", Ref("c")}}, {8});
  const Program program = Made(builder.Return("d"), {.mode = Mode::kEval}).program;
  CHECK(Deaths(program, "lib.Block\nrelu sigmoid \n0.0-1 1.0 \n") == "a:b ");
}

}  // namespace
}  // namespace onnxfit::observed_deaths_test
