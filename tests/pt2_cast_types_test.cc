// Whose types casts have that the file gives as fp32, in a run under autocast.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/operators/dispatch.h"
#include "tests/pt2_helpers.h"

namespace onnxfit::pt2::cast_types_test {
namespace {

const TrainingSettings kAmp = {.precision = Precision::kAmpBf16, .mode = Mode::kEval};

// A forward of which each call is of a line of its own: one operand, as "h = linear(x)" has it.
class Forward {
 public:
  Forward() { builder_.Parameter("p_w", "w", {6, 6}).Input("x", {6}); }

  Forward& Linear(const char* line, const char* from, const char* to) {
    Next(line).Make("torch.ops.aten.linear.default", to,
                    {{"input", Ref(from)}, {"weight", Ref("p_w")}}, {6});
    return *this;
  }
  Forward& Cast(const char* line, const char* from, const char* to, const char* method = "to") {
    Next(line).Make("torch.ops.aten.to.dtype", to,
                    {{"self", Ref(from)}, {"dtype", Text("float32")}}, {6});
    builder_.By(method);
    return *this;
  }
  Forward& Cos(const char* line, const char* from, const char* to) {
    Next(line).Make("torch.ops.aten.cos.default", to, {{"self", Ref(from)}}, {6});
    return *this;
  }
  Forward& Add(const char* line, const char* from, const char* other, const char* to) {
    Next(line).Make("torch.ops.aten.add.Tensor", to, {{"self", Ref(from)}, {"other", Ref(other)}},
                    {6});
    return *this;
  }

  // The type of `name` on a card.
  std::string TypeOf(const char* name) {
    const Program program = Dispatch(Made(builder_.Return(name), kAmp).program, kAmp);
    return std::string(Name(program.values[Index(program.outputs.front())].type.dtype));
  }

 private:
  // The same line twice is one.
  ExportedBuilder& Next(const char* line) {
    if (line != last_) ++number_;
    last_ = line;
    return builder_.At("net.py", number_, line);
  }

  ExportedBuilder builder_;
  std::string_view last_;
  int64_t number_ = 2;
};

TEST_CASE("a cast to the type that a variable holds goes back to that of what was cast to fp32") {
  const auto type = [](const char* up, const char* method, const char* back) {
    return Forward()
        .Linear("x = self.linear(x)", "x", "h")
        .Cast(up, "h", "wide", method)
        .Cos("out = torch.cos(x)", "wide", "c")
        .Cast(back, "c", "y")
        .TypeOf("y");
  };
  CHECK(type("x = x.float()", "float", "return out.to(in_dtype)") == "bfloat16");
  CHECK(type("x = x.to(torch.float32)", "to", "return out.to(dtype=orig_type)") == "bfloat16");
  CHECK(type("x = x.to(torch.float32)", "to", "return out.to(torch.float32)") == "float32");
}

TEST_CASE("what has been in fp32 stays so") {
  CHECK(Forward()
            .Cast("x = x.float()", "x", "wide", "float")
            .Cos("x = torch.cos(x)", "wide", "c")
            .Cast("return x.to(in_dtype)", "c", "y")
            .TypeOf("y") == "float32");
}

TEST_CASE("a cast has the type of the tensor that its line names") {
  const auto type = [](const char* back) {
    return Forward()
        .Linear("h = self.linear(x)", "x", "h")
        .Cos("out = torch.cos(x)", "x", "c")
        .Cast(back, "c", "y")
        .TypeOf("y");
  };
  CHECK(type("return out.to(h.dtype)") == "bfloat16");
  CHECK(type("return out.to(x.dtype)") == "float32");
  CHECK(type("return out.to(device, h.dtype)") == "bfloat16");
}

TEST_CASE("a line that binds several names binds what it makes in their order") {
  const auto type = [](const char* back) {
    constexpr const char* kBoth = "q, k = torch.cos(x), self.linear(x)";
    return Forward()
        .Cos(kBoth, "x", "q")
        .Linear(kBoth, "x", "k")
        .Add("s = q + k", "q", "k", "s")
        .Cast(back, "s", "y")
        .TypeOf("y");
  };
  CHECK(type("return s.to(q.dtype)") == "float32");
  CHECK(type("return s.to(k.dtype)") == "bfloat16");
}

// "h" of a module that is given both.
TEST_CASE("of what a forward is passed, a name is what lines read that name it") {
  ExportedBuilder builder;
  builder.Parameter("p_w", "w", {6, 6}).Input("x", {6}).At("net.py", 3, "h = self.linear(x)");
  builder.Make("torch.ops.aten.linear.default", "h", {{"input", Ref("x")}, {"weight", Ref("p_w")}},
               {6});
  std::vector<SourceLine> lines;
  const auto make = [&](const char* target, const char* result, Arguments arguments, int64_t line,
                        const char* text) {
    builder.In("part").At("net.py", 4, "return self.part(x, h)");
    builder.Make(target, result, std::move(arguments), {6});
    builder.program().graph.calls.back().lines.push_back(
        {.file = "net.py", .line = line, .function = "forward", .text = text});
  };
  make("torch.ops.aten.cos.default", "c", {{"self", Ref("x")}}, 9,
       "out = torch.cos(x).to(h.dtype)");
  make("torch.ops.aten.to.dtype", "t", {{"self", Ref("c")}, {"dtype", Text("float32")}}, 9,
       "out = torch.cos(x).to(h.dtype)");
  make("torch.ops.aten.mul.Tensor", "y", {{"self", Ref("t")}, {"other", Ref("h")}}, 10,
       "return out * h");
  const Program program = Dispatch(Made(builder.Return("y"), kAmp).program, kAmp);
  CHECK(Name(program.values[Index(program.outputs.front())].type.dtype) == "bfloat16");
}

// What the variable holds the type of is not read by the cast, so that it is gone by then.
TEST_CASE("a type that a variable holds keeps no tensor") {
  ExportedBuilder builder;
  builder.Parameter("p_w", "w", {6, 6}).Input("x", {6}).At("net.py", 3, "x = self.linear(x)");
  builder.Make("torch.ops.aten.linear.default", "h", {{"input", Ref("x")}, {"weight", Ref("p_w")}},
               {6});
  builder.At("net.py", 5, "x = x.float()")
      .Make("torch.ops.aten.to.dtype", "wide", {{"self", Ref("h")}, {"dtype", Text("float32")}},
            {6})
      .By("float");
  builder.At("net.py", 6, "out = torch.cos(x)")
      .Make("torch.ops.aten.cos.default", "c", {{"self", Ref("wide")}}, {6});
  builder.At("net.py", 7, "return out.to(in_dtype)")
      .Make("torch.ops.aten.to.dtype", "y", {{"self", Ref("c")}, {"dtype", Text("float32")}}, {6})
      .By("to");
  CHECK(CallsOf(Made(builder.Return("y"), kAmp).program) == "linear(x,w) to(h) cos(wide) to(c)");
}

// Positions, which are whole numbers: "dtype = self.weight.dtype" goes back to none of them.
TEST_CASE("a cast of whole numbers is none to go back from") {
  ExportedBuilder builder;
  builder.Input("ids", {6}, DType::kInt64).At("net.py", 3, "x = ids.to(torch.float32)");
  const auto cast = [&](const char* from, const char* to) {
    builder.Make("torch.ops.aten.to.dtype", to, {{"self", Ref(from)}, {"dtype", Text("float32")}},
                 {6});
    builder.By("to");
  };
  cast("ids", "x");
  builder.At("net.py", 4, "return x.to(dtype)");
  cast("x", "y");
  const Program program = Dispatch(Made(builder.Return("y"), kAmp).program, kAmp);
  CHECK(Name(program.values[Index(program.outputs.front())].type.dtype) == "float32");
}

}  // namespace
}  // namespace onnxfit::pt2::cast_types_test
