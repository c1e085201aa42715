// Which way casts go that did nothing in an export in 32 bits.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "estimator/pt2/call_rows.h"
#include "estimator/pt2/cast_ways.h"
#include "tests/pt2_helpers.h"

namespace onnxfit::pt2::cast_ways_test {
namespace {

constexpr const char* kCast = "torch.ops.aten.to.dtype";

ExportedBuilder& Cast(ExportedBuilder& builder, const char* from, const char* to) {
  return builder.Make(kCast, to, {{"self", Ref(from)}, {"dtype", Text("float32")}}, {8});
}

std::string Name(CastWay way) {
  switch (way) {
    case CastWay::kOtherOfArgument:
      return "other of argument";
    case CastWay::kOtherOfLocal:
      return "other of local";
    case CastWay::kSameOfArgument:
      return "same of argument";
    case CastWay::kSameOfLocal:
      return "same of local";
    case CastWay::kAgainOfArgument:
      return "again of argument";
    case CastWay::kBack:
      return "back";
    case CastWay::kForPower:
      return "for a power";
    case CastWay::kForProduct:
      return "for a product";
    case CastWay::kToFloat32:
      return "to fp32";
    case CastWay::kFloatOfArgument:
      return "fp32 of argument";
    case CastWay::kFloatOfLocal:
      return "fp32 of local";
  }
  return "";
}

// "to: back", a line each, in the order of the calls.
std::string WaysIn(const ExportedProgram& program) {
  const auto ways = FindCastWays(program.graph);
  std::string text;
  for (const Call& call : program.graph.calls) {
    const auto way = ways.find(&call);
    if (way == ways.end()) continue;
    text += std::string(call.results[0].text) + ": " + Name(way->second) + "\n";
  }
  return text;
}

// q, k = rotate(q, k), which casts both up, multiplies with what it was given, and casts back.
TEST_CASE("a helper's casts change the type, but for the last") {
  ExportedBuilder builder;
  builder.Input("q", {8}).At("net.py", 3, "q = rotate(q)");
  Cast(builder, "q", "up");
  builder.Make("torch.ops.aten.cos.default", "c", {{"self", Ref("up")}}, {8});
  Cast(builder, "c", "middle");
  Cast(builder, "middle", "down");
  CHECK(WaysIn(builder.Return("down")) == "up: other of argument\nmiddle: other of local\n");
}

// "(q.float() * cos + rotate_half(q.float()) * sin).to(dtype)" of a helper: the second cast, which
// did nothing, has the first one's result as its operand.
TEST_CASE("what a helper casts twice is read twice") {
  ExportedBuilder builder;
  builder.Input("q", {8}).At("net.py", 3, "q = rotate(q)");
  Cast(builder, "q", "first");
  builder.Make("torch.ops.aten.cos.default", "a", {{"self", Ref("first")}}, {8});
  Cast(builder, "first", "second");
  builder.Make("torch.ops.aten.sin.default", "b", {{"self", Ref("second")}}, {8});
  builder.Make("torch.ops.aten.add.Tensor", "sum", {{"self", Ref("a")}, {"other", Ref("b")}}, {8});
  Cast(builder, "sum", "back");
  CHECK(WaysIn(builder.Return("back")) == "first: other of argument\nsecond: again of argument\n");
  const TrainingSettings settings = {.precision = Precision::kAmpBf16, .mode = Mode::kEval};
  CHECK(CallsOf(Made(builder.Return("back"), settings).program) ==
        "to(q) cos(first) to(q) sin(second) add(a,b) to(sum)");
}

// mask = masked(x), which ends with "return (x * 2).float()".
TEST_CASE("x.float() of a helper is to fp32 where the file names the method") {
  const auto ways = [](std::string_view method) {
    ExportedBuilder builder;
    builder.Input("x", {8}).At("net.py", 3, "mask = masked(x)");
    builder.Make("torch.ops.aten.cos.default", "c", {{"self", Ref("x")}}, {8});
    Cast(builder, "c", "up").By(method);
    return WaysIn(builder.Return("up"));
  };
  CHECK(ways("float") == "up: fp32 of local\n");
  CHECK(ways("to") == "");
  CHECK(ways("") == "");
}

// "x * (x > 0).float()" of a lambda under autocast, and "x * (x > 0).to(x.dtype)".
TEST_CASE("a mask's x.float() has no other type under autocast") {
  const auto type = [](std::string_view method) {
    ExportedBuilder builder;
    builder.Parameter("p_w", "w", {8, 8}).Input("x", {8}).At("net.py", 3, "return self.f(x)");
    builder.Make("torch.ops.aten.linear.default", "h",
                 {{"input", Ref("x")}, {"weight", Ref("p_w")}}, {8});
    builder.Make("torch.ops.aten.gt.Scalar", "m", {{"self", Ref("h")}, {"other", Number(0)}}, {8},
                 DType::kBool);
    Cast(builder, "m", "f").By(method);
    builder.Make("torch.ops.aten.mul.Tensor", "y", {{"self", Ref("h")}, {"other", Ref("f")}}, {8});
    const TrainingSettings settings = {.precision = Precision::kAmpBf16, .mode = Mode::kEval};
    return CallsOf(Made(builder.Return("y"), settings).program);
  };
  CHECK(type("float") == "linear(x,w) gt(h) to(m) mul(h,f)");
  CHECK(type("to") == "linear(x,w) gt(h) type_as(m,h) mul(h,f)");
}

// "f(x.float()).to(dtype)", whose two casts are of one line.
TEST_CASE("x.to(dtype) is not to fp32 for the x.float() in its line") {
  Call call = {.target = kCast, .lines = {{.text = "return f(x.float()).to(dtype)"}}};
  CHECK(SpellsFloat32(call));
  call.method = "to";
  CHECK_FALSE(SpellsFloat32(call));
  call.method = "float";
  CHECK(SpellsFloat32(call));
  call = {.target = kCast, .lines = {{.text = "return x.to(torch.float32)"}}, .method = "to"};
  CHECK(SpellsFloat32(call));
}

// q, k, v = [x.to(torch.float32) for x in (q, k, v)], of which v has 32 bits before.
TEST_CASE("casts with views alone between them go to one type") {
  ExportedBuilder builder;
  builder.Input("q", {8}).Input("k", {8}).At("net.py", 2, "up = k.float()");
  builder.Make(kCast, "up", {{"self", Ref("k")}, {"dtype", Text("float32")}}, {8});
  builder.At("net.py", 3, "x = attend(q, k, up)");
  Cast(builder, "q", "a");
  Cast(builder, "k", "b");
  builder.Make("torch.ops.aten.view.default", "turned", {{"self", Ref("up")}}, {8});
  Cast(builder, "turned", "c");
  builder.Make("torch.ops.aten.mul.Tensor", "m", {{"self", Ref("b")}, {"other", Ref("c")}}, {8});
  builder.Make("torch.ops.aten.mul.Tensor", "n", {{"self", Ref("a")}, {"other", Ref("m")}}, {8});
  Cast(builder, "n", "down");
  const ExportedProgram program = builder.Return("down");
  CHECK(WaysIn(program) == "a: other of argument\nb: same of argument\nc: same of local\n");
  const TrainingSettings settings = {.precision = Precision::kBf16, .mode = Mode::kEval};
  CHECK(CallsOf(Made(program, settings).program) ==
        "to(k) to_other_width(q) to_other_width(k,a) view(up) to_other_width(turned,b) mul(b,c) "
        "mul(a,m) to(n)");
}

TEST_CASE("each turn of a loop calls the helper anew") {
  ExportedBuilder builder;
  builder.Input("x", {8});
  Cast(builder.At("net.py", 3, "x = self.attend(x)"), "x", "a");
  builder.At("net.py", 4, "x = x + 1").Make(kCast, "other", {}, {8});
  Cast(builder.At("net.py", 3, "x = self.attend(x)"), "a", "b");
  CHECK(WaysIn(builder.Return("b")).empty());
}

TEST_CASE("what is multiplied with a parameter has its type") {
  const auto ways = [](const char* product) {
    ExportedBuilder builder;
    builder.Parameter("p_w", "w", {8, 8}).Input("x", {8}).At("net.py", 3, "x = experts(x)");
    Cast(builder, "x", "a");
    builder.Make(product, "y", {{"self", Ref("a")}, {"other", Ref("p_w")}}, {8});
    Cast(builder, "y", "b");
    return WaysIn(builder.Return("b"));
  };
  CHECK(ways("torch.ops.aten.matmul.default").empty());
  CHECK(ways("torch.ops.aten.mul.Tensor") == "a: other of argument\n");
}

// y = torch.matmul(state.to(dtype), w) of a helper, which goes on with the state.
TEST_CASE("a helper's cast in a product is for the product alone") {
  ExportedBuilder builder;
  builder.Parameter("p_w", "w", {8, 8}).Input("x", {8}).At("net.py", 3, "x = scan(x)");
  builder.Make("torch.ops.aten.cos.default", "state", {{"self", Ref("x")}}, {8});
  Cast(builder, "state", "a");
  builder.Make("torch.ops.aten.matmul.default", "y", {{"self", Ref("a")}, {"other", Ref("p_w")}},
               {8});
  builder.Make("torch.ops.aten.sin.default", "next", {{"self", Ref("a")}}, {8});
  builder.Make("torch.ops.aten.mul.Tensor", "z", {{"self", Ref("next")}, {"other", Ref("y")}}, {8});
  Cast(builder, "z", "b");
  const ExportedProgram program = builder.Return("b");
  CHECK(WaysIn(program) == "a: for a product\n");
  const TrainingSettings settings = {.precision = Precision::kBf16, .mode = Mode::kEval};
  CHECK(CallsOf(Made(program, settings).program) ==
        "cos(x) to(state) matmul(a,w) sin(state) mul(next,y) to(z)");
}

// timm's linear attention: "q, k, v = q.float(), k.float(), v.float()".
TEST_CASE("a product of what casts have made has their type") {
  ExportedBuilder builder;
  builder.Input("q", {8}).Input("k", {8}).At("net.py", 3, "x = self._attn(q, k)");
  Cast(builder, "q", "a");
  Cast(builder, "k", "b");
  builder.Make("torch.ops.aten.matmul.default", "kv", {{"self", Ref("b")}, {"other", Ref("b")}},
               {8});
  builder.Make("torch.ops.aten.matmul.default", "y", {{"self", Ref("a")}, {"other", Ref("kv")}},
               {8});
  Cast(builder, "y", "down");
  CHECK(WaysIn(builder.Return("down")) == "a: other of argument\nb: same of argument\n");
}

// T5's norm as a method: "variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)".
TEST_CASE("a helper's cast that a power reads first is for the power alone") {
  ExportedBuilder builder;
  builder.Input("x", {8}).At("net.py", 3, "h = self.rms(x)");
  Cast(builder, "x", "a");
  builder.Make("torch.ops.aten.pow.Tensor_Scalar", "p",
               {{"self", Ref("a")}, {"exponent", Number(2)}}, {8});
  builder.Make("torch.ops.aten.mul.Tensor", "y", {{"self", Ref("a")}, {"other", Ref("p")}}, {8});
  Cast(builder, "y", "b");
  const ExportedProgram program = builder.Return("b");
  CHECK(WaysIn(program) == "a: for a power\n");
  const TrainingSettings settings = {.precision = Precision::kBf16, .mode = Mode::kEval};
  const std::string calls = CallsOf(Made(program, settings).program);
  CHECK_MESSAGE(calls.ends_with("mul(x,p) to(y)"), calls);
}

// In a bf16 model; the module is passed "y".
TEST_CASE("a cast that takes the name of what it casts is what others read") {
  const auto calls = [](const char* line) {
    ExportedBuilder builder;
    builder.Input("x", {8}).At("net.py", 3, "y = x.cos()");
    builder.Make("torch.ops.aten.cos.default", "y", {{"self", Ref("x")}}, {8});
    Cast(builder.At("net.py", 4, line), "y", "wide");
    builder.At("net.py", 5, "out = self.part(y)").In("part");
    builder.Make("torch.ops.aten.sin.default", "out", {{"self", Ref("wide")}}, {8});
    const TrainingSettings settings = {.precision = Precision::kBf16, .mode = Mode::kEval};
    return CallsOf(Made(builder.Return("out"), settings).program);
  };
  CHECK(calls("y = y.to(torch.float32)") == "cos(x) to(y) sin(wide)");
  CHECK(calls("wide = y.to(torch.float32)") == "cos(x) to(y) sin(y)");
}

TEST_CASE("under autocast, parameters' type is fp32 and a local may be known to hold it") {
  const auto calls = [](const char* file, const char* line) {
    ExportedBuilder builder;
    builder.Input("x", {8}).At(file, 3, "y = x.cos()");
    builder.Make("torch.ops.aten.cos.default", "y", {{"self", Ref("x")}}, {8});
    Cast(builder.At(file, 4, line), "y", "wide");
    builder.At(file, 5, "out = self.part(y)").In("part");
    builder.Make("torch.ops.aten.sin.default", "out", {{"self", Ref("wide")}}, {8});
    const TrainingSettings settings = {.precision = Precision::kAmpBf16, .mode = Mode::kEval};
    return CallsOf(Made(builder.Return("out"), settings).program);
  };
  constexpr char kFile[] = "diffusers/models/autoencoders/vae.py";
  CHECK(calls(kFile, "y = y.to(upscale_dtype)") == "cos(x) to(y) sin(wide)");
  CHECK(calls(kFile, "y = y.to(other_dtype)") == "cos(x) to(y) sin(y)");
  CHECK(calls("net.py", "y = y.to(upscale_dtype)") == "cos(x) to(y) sin(y)");
}

TEST_CASE("casts that a library is known for go where its row says") {
  const auto ways = [](const char* line) {
    ExportedBuilder builder;
    builder.Input("x", {8}).At("diffusers/models/attention_processor.py", 9, line);
    Cast(builder, "x", "a");
    builder.Make("torch.ops.aten.cos.default", "c", {{"self", Ref("a")}}, {8});
    Cast(builder, "c", "b");
    builder.Make("torch.ops.aten.slice.Tensor", "s", {{"self", Ref("b")}}, {8});
    builder.Make("torch.ops.aten.div.Tensor", "d", {{"self", Ref("s")}, {"other", Ref("s")}}, {8});
    Cast(builder, "d", "down");
    return WaysIn(builder.Return("down"));
  };
  CHECK(ways("return self.processor(self, hidden_states)") ==
        "a: other of argument\nb: fp32 of local\ndown: back\n");
  CHECK(ways("return self.process(hidden_states)") == "a: other of argument\nb: other of local\n");
}

TEST_CASE("a line that spells float32 and a cast behind it casts back what it makes") {
  const auto ways = [](const char* line) {
    ExportedBuilder builder;
    builder.Input("x", {8}).At("net.py", 3, line);
    Cast(builder, "x", "up");
    builder.Make("torch.ops.aten.cos.default", "c", {{"self", Ref("up")}}, {8});
    Cast(builder, "c", "down");
    return WaysIn(builder.Return("down"));
  };
  CHECK(ways("return norm(x.to(torch.float32)).to(dtype)") == "down: back\n");
  CHECK(ways("return norm(x.float()).type_as(x)") == "down: back\n");
  CHECK(ways("return norm(x.to(dtype)).to(torch.float32)").empty());
}

TEST_CASE("what is cast back has the type of what it is multiplied with") {
  ExportedBuilder builder;
  builder.Parameter("p_w", "w", {8, 8}).Input("x", {8});
  Cast(builder.At("net.py", 3, "return norm(x.to(torch.float32)).to("), "x", "up");
  builder.Make("torch.ops.aten.cos.default", "c", {{"self", Ref("up")}}, {8});
  Cast(builder, "c", "down");
  builder.At("net.py", 4, "x = self.linear(x)");
  builder.Make("torch.ops.aten.linear.default", "y",
               {{"input", Ref("down")}, {"weight", Ref("p_w")}}, {8});
  CHECK(WaysIn(builder.Return("y")) == "down: back\n");
}

// x = embed(ids).type(self.dtype) + self.positions.type(self.dtype), which a norm reads.
TEST_CASE("a norm's input has the type of its weights, as what is added to it has") {
  const auto ways = [](const char* read) {
    ExportedBuilder builder;
    builder.Parameter("p_pos", "pos", {8}).Parameter("p_w", "w", {8}).Input("x", {8});
    Cast(builder.At("net.py", 3, "x = self.encode(x)"), "x", "a");
    Cast(builder, "p_pos", "b");
    builder.Make("torch.ops.aten.add.Tensor", "s", {{"self", Ref("a")}, {"other", Ref("b")}}, {8});
    Cast(builder, "s", "c");
    builder.Make("torch.ops.aten.layer_norm.default", "y",
                 {{"input", Ref(read)}, {"normalized_shape", Text("[8]")}, {"weight", Ref("p_w")}},
                 {8});
    return WaysIn(builder.Return("y"));
  };
  CHECK(ways("s").empty());
  CHECK(ways("c") == "a: other of argument\nb: same of argument\n");
}

TEST_CASE("a helper's softmax has a type of its own where it is cast back") {
  const auto ways = [](bool casts) {
    ExportedBuilder builder;
    builder.Input("x", {8}).At("net.py", 3, "x = attention_interface(");
    builder.Make("torch.ops.aten.softmax.int", "s", {{"self", Ref("x")}}, {8});
    if (casts) Cast(builder, "s", "down");
    return WaysIn(builder.Return(casts ? "down" : "s"));
  };
  CHECK(ways(true) == "s: to fp32\n");
  CHECK(ways(false).empty());
}

TEST_CASE("so has a softmax whose statement ends with a cast in a line below") {
  ExportedBuilder builder;
  builder.Input("x", {8}).At("net.py", 3, "probs = softmax(");
  builder.Make("torch.ops.aten.softmax.int", "s", {{"self", Ref("x")}}, {8});
  builder.At("net.py", 7, ").type_as(weights)");
  builder.Make("torch.ops.aten.type_as.default", "y", {{"self", Ref("s")}, {"other", Ref("x")}},
               {8});
  CHECK(WaysIn(builder.Return("y")) == "s: to fp32\n");
}

}  // namespace
}  // namespace onnxfit::pt2::cast_ways_test
