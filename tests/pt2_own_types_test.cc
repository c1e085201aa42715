#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/fit/file_types.h"
#include "estimator/operators/dispatch.h"
#include "estimator/pt2/own_types.h"
#include "tests/pt2_helpers.h"

namespace onnxfit::pt2_own_types_test {
namespace {

using namespace onnxfit::pt2;  // NOLINT(google-build-using-namespace): its helpers

constexpr DType kBf16 = DType::kBFloat16;
constexpr DType kFp32 = DType::kFloat32;

// logits = x @ w in 16 bits; logits = logits.float(), with no line that says so; softmax of that
// goes back to the type of x.  Beside w there is an adapter in fp32.
ExportedProgram Mixed() {
  ExportedBuilder builder;
  builder.Parameter("p_w", "w", {8, 64}, kBf16).Parameter("p_a", "adapter", {8, 2}, kFp32);
  builder.Input("x", {8}, kBf16).At("net.py", 3, "return loss_function(self.head(x))");
  builder.Make("torch.ops.aten.matmul.default", "logits",
               {{"self", Ref("x")}, {"other", Ref("p_w")}}, {64}, kBf16);
  builder.Make("torch.ops.aten.to.dtype", "wide",
               {{"self", Ref("logits")}, {"dtype", Text("float32")}}, {64}, kFp32);
  builder.Make("torch.ops.aten.softmax.int", "shares", {{"self", Ref("wide")}, {"dim", Number(-1)}},
               {64}, kFp32);
  builder.Make("torch.ops.aten.to.dtype", "y",
               {{"self", Ref("shares")}, {"dtype", Text("bfloat16")}}, {64}, kBf16);
  return builder.Return("y");
}

EstimateRequest RequestOf(Precision precision, bool keeps_types) {
  TrainingSettings settings = {.precision = precision, .mode = Mode::kEval};
  settings.keeps_types = keeps_types;
  return {.binding = {.batch = 4}, .settings = settings};
}

// "w:bfloat16 logits:bfloat16 …" of what has a name in the file.
std::string TypesOf(const ExportedProgram& exported, const EstimateRequest& request) {
  const onnxfit::Graph file = InputGraph(exported);
  const EstimateRequest own = WithTypesOf(file, request);
  const Program program = Dispatch(PrepareRun(file, own).program, own.settings);
  std::string text;
  for (const std::string_view name : {"w", "adapter", "x", "logits", "wide", "shares", "y"}) {
    for (const ProgramValue& value : program.values) {
      if (value.name != name) continue;
      text += (text.empty() ? "" : " ") + value.name + ":" + std::string(Name(value.type.dtype));
    }
  }
  return text;
}

std::vector<std::string> ToldOf(const ExportedProgram& exported, const EstimateRequest& request) {
  const onnxfit::Graph file = InputGraph(exported);
  return PrepareRun(file, WithTypesOf(file, request)).program.assumptions;
}

TEST_CASE("where nobody names a precision, every value has the file's type") {
  CHECK(TypesOf(Mixed(), RequestOf(Precision::kFp32, true)) ==
        "w:bfloat16 adapter:float32 x:bfloat16 logits:bfloat16 wide:float32 shares:float32 "
        "y:bfloat16");
}

TEST_CASE("the precision is then that of most parameters, or else of the inputs") {
  const auto precision = [](const ExportedProgram& exported) {
    return ToString(
        WithTypesOf(InputGraph(exported), RequestOf(Precision::kFp32, true)).settings.precision);
  };
  CHECK(precision(Mixed()) == "bf16");
  ExportedBuilder without;
  without.Input("x", {8}, DType::kFloat64);
  CHECK(precision(without.Return("x")) == "fp64");
}

TEST_CASE("autocast is around the file's types") {
  CHECK(TypesOf(Mixed(), RequestOf(Precision::kAmpBf16, true))
            .starts_with("w:bfloat16 adapter:float32 x:bfloat16 logits:bfloat16 wide:float32"));
}

TEST_CASE("a precision that is named casts the whole model, and that is said") {
  CHECK(TypesOf(Mixed(), RequestOf(Precision::kFp32, false))
            .starts_with("w:float32 adapter:float32 x:float32 logits:float32"));
  CHECK(
      ToldOf(Mixed(), RequestOf(Precision::kBf16, false)) ==
      std::vector<std::string>{"the file has 1.00 KiB bfloat16, 64 B float32 of parameters, all "
                               "counted in bfloat16 (without -p and --fp32-weights they keep their "
                               "types)"});
}

TEST_CASE("types that the precision's name does not say are told") {
  CHECK(ToldOf(Mixed(), RequestOf(Precision::kFp32, true)) ==
        std::vector<std::string>{
            "parameters have the types of the file: 1.00 KiB bfloat16, 64 B float32"});
}

TEST_CASE("a precision that all parameters have leaves the file's casts as they are") {
  ExportedProgram exported = Mixed();
  exported.graph.tensors["p_a"].dtype = kBf16;
  CHECK(HasTypesOf(Precision::kBf16, exported));
  CHECK(TypesOf(exported, RequestOf(Precision::kBf16, false)) ==
        "w:bfloat16 adapter:bfloat16 x:bfloat16 logits:bfloat16 wide:float32 shares:float32 "
        "y:bfloat16");
  CHECK(ToldOf(exported, RequestOf(Precision::kBf16, false)).empty());
}

TEST_CASE("a softmax that is told its type casts first, a sum that is reads 16 bits") {
  ExportedBuilder builder;
  builder.Parameter("p_w", "w", {8}, kBf16).Input("x", {8}, kBf16);
  builder.Make("torch.ops.aten.softmax.int", "s",
               {{"self", Ref("x")}, {"dim", Number(-1)}, {"dtype", Text("float32")}}, {8}, kFp32);
  builder.Make("torch.ops.aten.sum.dim_IntList", "y",
               {{"self", Ref("x")}, {"dim", Numbers({1})}, {"dtype", Text("float32")}}, {}, kFp32);
  const onnxfit::Graph file = InputGraph(builder.Return("y"));
  const EstimateRequest request = RequestOf(Precision::kBf16, true);
  CHECK(CallsOf(PrepareRun(file, WithTypesOf(file, request)).program) ==
        "to(x) softmax(s.cast) sum.dtype(x)");
}

}  // namespace
}  // namespace onnxfit::pt2_own_types_test
