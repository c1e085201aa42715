#include "estimator/observed/observed_casts.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "estimator/base/index.h"
#include "tests/pt2_helpers.h"

namespace onnxfit::observed_casts_test {
namespace {

using namespace onnxfit::pt2;  // NOLINT(google-build-using-namespace): its helpers

// x → a → b → c, of a block.
Program Chain() {
  ExportedBuilder builder;
  builder.Input("x", {8});
  builder.In("block", "lib.Block");
  builder.Make("torch.ops.aten.relu.default", "a", {{"self", Ref("x")}}, {8});
  builder.Make("torch.ops.aten.sigmoid.default", "b", {{"self", Ref("a")}}, {8});
  builder.Make("torch.ops.aten.tanh.default", "c", {{"self", Ref("b")}}, {8});
  return Made(builder.Return("c"), {.mode = Mode::kEval}).program;
}

// "a = relu(x)", what each call makes of what, with 16 or 32 behind casts.
std::string Calls(Program program, Precision precision, std::string_view known) {
  const std::string bytes = PackSkeletons("lib 1.0", ParseSkeletons(known));
  const auto* const first = reinterpret_cast<const unsigned char*>(bytes.data());
  PlaceObservedCasts(program, {.precision = precision, .mode = Mode::kEval},
                     KnownSkeletons({first, bytes.size()}), false);
  std::string text;
  for (const AtenCall& call : program.calls) {
    const ProgramValue& made = program.values[Index(call.outputs[0])];
    text += made.name + "=" + std::string(call.op);
    if (call.op == "to") text += std::to_string(BitsOf(made.type.dtype));
    text += "(" + program.values[Index(call.inputs[0])].name + ") ";
  }
  return text + program.values[Index(program.outputs[0])].name;
}

constexpr std::string_view kNone = "a=relu(x) b=sigmoid(a) c=tanh(b) c";

TEST_CASE("casts that a file has lost are made where they were seen") {
  constexpr std::string_view kKnown =
      "lib.Block H\nrelu to=32 sigmoid to=16 tanh \n"
      "0.0-1 1.0-2 2.0-3 3.0-4 4.0 1<-1.0 1>1.0 3<-1.0 3>1.0 \n";
  CHECK(Calls(Chain(), Precision::kBf16, kKnown) ==
        "a=relu(x) a.cast=to32(a) b=sigmoid(a.cast) b.cast=to16(b) c=tanh(b.cast) c");
  CHECK(Calls(Chain(), Precision::kFp16, kKnown) ==
        "a=relu(x) a.cast=to32(a) b=sigmoid(a.cast) b.cast=to16(b) c=tanh(b.cast) c");
  CHECK(Calls(Chain(), Precision::kAmpBf16, kKnown) == kNone);  // was not seen under autocast
  CHECK(Calls(Chain(), Precision::kFp32, kKnown) == kNone);
}

TEST_CASE("what the forward is given is known by what reads its cast") {
  constexpr std::string_view kKnown =
      "lib.Block\nto=32 relu sigmoid tanh \n0.0-1 1.0-2 2.0-3 3.0 0>1.0 \n";
  CHECK(Calls(Chain(), Precision::kBf16, kKnown) ==
        "x.cast=to32(x) a=relu(x.cast) b=sigmoid(a) c=tanh(b) c");
}

TEST_CASE("what the forward returns is cast for all that read it") {
  constexpr std::string_view kKnown =
      "lib.Block\nrelu sigmoid tanh to=32 \n0.0-1 1.0-2 2.0-3 3.0 3<-1.0 \n";
  CHECK(Calls(Chain(), Precision::kBf16, kKnown) ==
        "a=relu(x) b=sigmoid(a) c=tanh(b) c.cast=to32(c) c.cast");
}

TEST_CASE("what is cast twice is read once") {
  constexpr std::string_view kKnown =
      "lib.Block\nrelu to=32 to=16 sigmoid tanh \n"
      "0.0-1 1.0-2 2.0-3 3.0-4 4.0 1<-1.0 1>1.0 2<-1.0 2>1.0 \n";
  CHECK(Calls(Chain(), Precision::kBf16, kKnown) ==
        "a=relu(x) a.cast=to32(a) a.cast.cast=to16(a.cast) b=sigmoid(a.cast.cast) c=tanh(b) c");
}

TEST_CASE("a cast that only other code read is read by what the file has") {
  ExportedBuilder builder;
  builder.Input("x", {8});
  builder.In("block", "lib.Block");
  const char* read = "x";
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    builder.Make("torch.ops.aten.relu.default", name, {{"self", Ref(read)}}, {8});
    read = name;
  }
  const Program program = Made(builder.Return("e"), {.mode = Mode::kEval}).program;
  CHECK(Calls(program, Precision::kBf16,
              "lib.Block\nrelu to=32 clone relu relu relu relu \n"
              "0.0-1 1.0-2 2.0-3 3.0-4 4.0-5 5.0-6 6.0 1<-1.0 1>1.0 \n") ==
        "a=relu(x) a.cast=to32(a) b=relu(a.cast) c=relu(b) d=relu(c) e=relu(d) e");
}

TEST_CASE("casts of a file whose class was watched are as they were seen") {
  ExportedBuilder builder;
  builder.Input("x", {8});
  builder.In("block", "lib.Block");
  builder.Make("torch.ops.aten.relu.default", "a", {{"self", Ref("x")}}, {8});
  builder.Make("torch.ops.aten.to.dtype", "t", {{"self", Ref("a")}, {"dtype", Number(7)}}, {8});
  builder.Make("torch.ops.aten.tanh.default", "c", {{"self", Ref("t")}}, {8});
  const Program program = Made(builder.Return("c"), {.mode = Mode::kEval}).program;
  CHECK(Calls(program, Precision::kBf16, "lib.Block\nrelu tanh \n0.0-1 1.0 \n") ==
        "a=relu(x) c=tanh(a) c");
  CHECK(Calls(program, Precision::kBf16,
              "lib.Block\nrelu to=32 tanh \n0.0-1 1.0-2 2.0 1<-1.0 1>1.0 \n") ==
        "a=relu(x) t=to32(a) c=tanh(t) c");
  CHECK(Calls(program, Precision::kBf16,
              "lib.Block\nrelu to=16 tanh \n0.0-1 1.0-2 2.0 1<-1.0 1>1.0 \n") ==
        "a=relu(x) a.cast=to16(a) c=tanh(a.cast) c");
  CHECK(Calls(program, Precision::kBf16, "lib.Other\nrelu tanh \n0.0-1 1.0 \n") ==
        "a=relu(x) t=to32(a) c=tanh(t) c");
}

TEST_CASE("casts stay where a step that was seen beside one is of another release") {
  ExportedBuilder builder;
  builder.Input("x", {8});
  builder.In("block", "lib.Block");
  for (const char* name : {"a", "b", "d", "e"}) {
    builder.Make("torch.ops.aten.relu.default", name, {{"self", Ref("x")}}, {8});
  }
  builder.Make("torch.ops.aten.to.dtype", "t", {{"self", Ref("e")}, {"dtype", Number(7)}}, {8});
  const Program program = Made(builder.Return("t"), {.mode = Mode::kEval}).program;
  // There a sigmoid is cast to 16 bits, which the file does not have.
  CHECK(Calls(program, Precision::kBf16,
              "lib.Block\nrelu relu relu relu sigmoid to=16 \n"
              "0.0-1 1.0-2 2.0-3 3.0-4 4.0-5 5.0 5<-1.0 \n") ==
        "a=relu(x) b=relu(x) d=relu(x) e=relu(x) t=to32(e) t");
}

}  // namespace
}  // namespace onnxfit::observed_casts_test
