#include "estimator/pt2/assigned_numbers.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/pt2_helpers.h"
#include "tests/trace_helpers.h"

namespace onnxfit::assigned_numbers_test {
namespace {

using namespace onnxfit::pt2;  // NOLINT(google-build-using-namespace): its helpers

std::string Calls(ExportedBuilder& builder) {
  return CallsOf(Made(builder.Return("y"), {.mode = Mode::kEval}).program);
}

ExportedBuilder Copied() {
  ExportedBuilder builder;
  builder.Input("x", {8});
  builder.Make("torch.ops.aten.clone.default", "y", {{"self", Ref("x")}}, {8});
  builder.Make("torch.ops.aten.select.int", "part",
               {{"self", Ref("y")}, {"dim", Number(1)}, {"index", Number(0)}}, {});
  return builder;
}

}  // namespace

// "y[:, 0] = 3", as torch.export of 2.11 has it on the meta device.
TEST_CASE("a number that a statement writes is on no device, nor are its views") {
  ExportedBuilder builder = Copied();
  builder.MakeFixed("torch.ops.aten.scalar_tensor.default", "n", {{"s", Number(3)}}, {});
  builder.MakeFixed("torch.ops.aten.view.default", "v", {{"self", Ref("n")}, {"size", Numbers({})}},
                    {});
  builder.Make("torch.ops.aten.expand.default", "e", {{"self", Ref("v")}, {"size", Numbers({2})}},
               {});
  builder.Make("torch.ops.aten.copy_.default", "written",
               {{"self", Ref("part")}, {"src", Ref("e")}}, {});
  CHECK(FindAssignedNumbers(builder.program().graph) == std::set<std::string_view>{"n", "v", "e"});
  CHECK(Calls(builder) == "clone(x) select(y;1)");
}

// The same on the CPU, and of tensors that are said to be on a card.
TEST_CASE("what a number fills is written over") {
  ExportedBuilder builder = Copied();
  builder.MakeFixed("torch.ops.aten.lift_fresh_copy.default", "n", {{"self", Ref("x")}}, {});
  builder.Make("torch.ops.aten.fill_.Tensor", "written",
               {{"self", Ref("part")}, {"value", Ref("n")}}, {});
  CHECK(Calls(builder) == "clone(x) select(y;1)");
}

TEST_CASE("a number that is read otherwise is a tensor of the device") {
  ExportedBuilder builder;
  builder.Input("x", {8});
  builder.MakeFixed("torch.ops.aten.scalar_tensor.default", "n", {{"s", Number(3)}}, {});
  builder.Make("torch.ops.aten.add.Tensor", "y", {{"self", Ref("x")}, {"other", Ref("n")}}, {8});
  CHECK(FindAssignedNumbers(builder.program().graph).empty());
  CHECK(Calls(builder) == "constant() add(x,n)");
}

}  // namespace onnxfit::assigned_numbers_test
