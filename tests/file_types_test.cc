#include "estimator/fit/file_types.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "estimator/base/index.h"
#include "estimator/fit/predict.h"
#include "estimator/onnx/loader.h"
#include "estimator/operators/dispatch.h"

namespace onnxfit::file_types_test {
namespace {

// w in bfloat16, which the model casts: x @ w.float().
constexpr char kMixed[] = R"(net (float[4, 64] x) => (float[4, 64] y)
  < bfloat16[64, 64] w = ["location": "none"] > {
    wide = Cast <to = 1> (w)
    y = MatMul (x, wide)
  })";

// As a tool writes it that converts to float16, inputs and outputs too.
constexpr char kHalf[] = R"(net (float16[4, 64] x) => (float16[4, 64] y)
  < float16[64, 64] w = ["location": "none"], float[4] scales = {1, 1, 2, 2} > {
    y = MatMul (x, w)
  })";

// The same behind casts, which keep inputs and outputs in float32.
constexpr char kHalfInside[] = R"(net (float[4, 64] x) => (float[4, 64] y)
  < float16[64, 64] w = ["location": "none"] > {
    narrow = Cast <to = 10> (x)
    product = MatMul (narrow, w)
    y = Cast <to = 1> (product)
  })";

constexpr char kFloat[] = R"(net (float[4, 64] x) => (float[4, 64] y)
  < float[64, 64] w = ["location": "none"] > { y = MatMul (x, w) })";

EstimateRequest RequestOf(Precision precision, bool keeps_types, Mode mode = Mode::kEval) {
  TrainingSettings settings = {.precision = precision, .mode = mode};
  settings.keeps_types = keeps_types;
  return {.binding = {}, .settings = settings};
}

// "x:float32 w:bfloat16 …" as the run has them, and whether types are the file's.
std::string TypesOf(std::string_view text, const EstimateRequest& request) {
  const Graph file = ParseGraph(text);
  const EstimateRequest own = WithTypesOf(file, request);
  const Program program = Dispatch(PrepareRun(file, own).program, own.settings);
  std::string types(ToString(own.settings.precision));
  for (const std::string_view name : {"x", "w", "wide", "narrow", "product", "y"}) {
    for (const ProgramValue& value : program.values) {
      if (value.name == name) types += " " + value.name + ":" + std::string(Name(value.type.dtype));
    }
  }
  return types;
}

TEST_CASE("tensors of an ONNX file have the file's types, where nobody names a precision") {
  for (const Mode mode : {Mode::kEval, Mode::kTrain}) {
    const EstimateRequest keeps = RequestOf(Precision::kFp32, true, mode);
    CHECK(TypesOf(kMixed, keeps) == "bf16 x:float32 w:bfloat16 wide:float32 y:float32");
    CHECK(TypesOf(kHalf, keeps) == "fp16 x:float16 w:float16 y:float16");
    CHECK(TypesOf(kHalfInside, keeps) ==
          "fp16 x:float32 w:float16 narrow:float16 product:float16 y:float32");
    CHECK(TypesOf(kFloat, keeps) == "fp32 x:float32 w:float32 y:float32");
  }
}

TEST_CASE("a precision that is named casts the model, and autocast stays autocast") {
  CHECK(
      TypesOf(kMixed, RequestOf(Precision::kFp32, false)).starts_with("fp32 x:float32 w:float32"));
  CHECK(TypesOf(kHalf, RequestOf(Precision::kBf16, false)) ==
        "bf16 x:bfloat16 w:bfloat16 y:bfloat16");
  CHECK(TypesOf(kFloat, RequestOf(Precision::kAmpBf16, true))
            .starts_with("amp-bf16 x:float32 w:float32"));
}

TEST_CASE("the answer says which types there are") {
  const Graph file = ParseGraph(kMixed);
  const EstimateRequest own = WithTypesOf(file, RequestOf(Precision::kFp32, true));
  const PreparedRun run = PrepareRun(file, own);
  // All of w is in the precision that the answer names.
  CHECK(own.settings.precision == Precision::kBf16);
  CHECK(run.program.parameters.size() == 1);
}

}  // namespace
}  // namespace onnxfit::file_types_test
