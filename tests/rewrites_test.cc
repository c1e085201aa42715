#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "tests/bound_model.h"
#include "tests/fx_text.h"
#include "tests/trace_helpers.h"

namespace onnxfit::rewrites_test {
namespace {

std::string ProgramText(const std::string& body) {
  return ToString(
      Build("net (float[2, 8] x) => (float[2, 8] y) { " + body + " }", {.mode = Mode::kEval})
          .program);
}

TEST_CASE("what exporters write as several nodes is one call") {
  struct Row {
    const char* name;
    const char* body;
    const char* program;
  };
  const Row rows[] = {
      {"gelu",
       "r = Constant <value = float {1.4142135}> () o = Constant <value = float {1.0}> () "
       "h = Constant <value = float {0.5}> () [d] d = Div (x, r) [e] e = Erf (d) [a] a = Add (e, "
       "o) "
       "[m] m = Mul (x, a) [y] y = Mul (m, h)",
       "\n%y = gelu(%x)  # y\n"},
      {"another half",
       "r = Constant <value = float {1.4142135}> () o = Constant <value = float {1.0}> () "
       "h = Constant <value = float {0.6}> () [d] d = Div (x, r) [e] e = Erf (d) [a] a = Add (e, "
       "o) "
       "[m] m = Mul (x, a) [y] y = Mul (m, h)",
       "\n%d = mul.Scalar(%x)  # d\n%e = erf(%d)  # e\n%a = add.Scalar(%e)  # a\n"
       "%m = mul(%x, %a)  # m\n%y = mul.Scalar(%m)  # y\n"},
      {"gelu with tanh",
       "h = Constant <value = float {0.5}> () o = Constant <value = float {1.0}> () "
       "b = Constant <value = float {0.7978846}> () k = Constant <value = float {0.044715}> () "
       "s = Mul (x, x) c = Mul (x, s) kc = Mul (k, c) a = Add (x, kc) i = Mul (b, a) t = Tanh (i) "
       "g = Add (o, t) m = Mul (x, g) [y] y = Mul (h, m)",
       "\n%y = gelu(%x)  # y\n"},
      {"silu", "[s] a = Sigmoid (x) [m] y = Mul (x, a)", "\n%y = silu(%x)  # m\n"},
      {"silu, other way round", "[s] a = Sigmoid (x) [m] y = Mul (a, x)", "\n%y = silu(%x)  # m\n"},
      {"hardswish", "[s] a = HardSigmoid <alpha = 0.16666667> (x) [m] y = Mul (x, a)",
       "\n%y = hardswish(%x)  # m\n"},
      {"mish", "[s] a = Softplus (x) b = Tanh (a) [m] y = Mul (x, b)", "\n%y = mish(%x)  # m\n"},
      {"mish of something else", "n = Neg (x) a = Softplus (n) b = Tanh (a) y = Mul (x, b)",
       "\n%n = neg(%x)  # Neg #0\n%a = softplus(%n)  # Softplus #1\n"
       "%b = tanh(%a)  # Tanh #2\n%y = mul(%x, %b)  # Mul #3\n"},
      {"another slope", "[s] a = HardSigmoid (x) [m] y = Mul (x, a)",
       "\n%a = hardsigmoid(%x)  # s\n%y = mul(%x, %a)  # m\n"},
      {"a gate of something else", "[n] n = Neg (x) [s] a = Sigmoid (n) [m] y = Mul (x, a)",
       "\n%n = neg(%x)  # n\n%a = sigmoid(%n)  # s\n%y = mul(%x, %a)  # m\n"},
      {"a sigmoid that is read twice",
       "[s] a = Sigmoid (x) [m] b = Mul (x, a) [add] y = Add (a, b)",
       "\n%a = sigmoid(%x)  # s\n%b = mul(%x, %a)  # m\n%y = add(%a, %b)  # add\n"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(ProgramText(row.body) == row.program);
  }
}

// Noise of the given shape, a number for each of its elements, times x.
std::string Noisy(const std::string& shape, const std::string& cast, Mode mode) {
  return ToString(Build("net (float[2, 8] x, float[" + shape + R"(] like) => (float[2, 8] y) {
                           p = Constant <value = float {0.8}> () [r] r = RandomUniformLike (like)
                           [l] l = Less (r, p) [c] c = )" +
                            cast + R"( [d] d = Div (c, p) [m] m = Mul (x, d) [n] y = Neg (m) })",
                        {.mode = mode, .loss = Loss::kNone})
                      .program);
}

TEST_CASE("noise times a tensor is dropout in place, or stochastic depth; in eval it is not run") {
  constexpr char kDropout[] = "\n%m = dropout_(%x)  # m\n%y = neg(%m)  # n\n";
  constexpr char kDepth[] = "\n%d = bernoulli(%x)  # d\n%m = mul(%x, %d)  # m\n%y = neg(%m)  # n\n";
  constexpr char kEval[] = "\n%y = neg(%x)  # n\n";
  for (const char* cast : {"Cast <to = 1> (l)", "CastLike (l, like)"}) {  // script, torch.export
    CAPTURE(cast);
    CHECK(Noisy("2, 8", cast, Mode::kTrain) == kDropout);
    CHECK(Noisy("2, 1", cast, Mode::kTrain) == kDepth);
    CHECK(Noisy("2, 8", cast, Mode::kEval) == kEval);
    CHECK(Noisy("2, 1", cast, Mode::kEval) == kEval);
  }
}

TEST_CASE("what transformers calls gelu_new is written by hand, and stays so") {
  CHECK(
      ProgramText(
          "h = Constant <value = float {0.5}> () o = Constant <value = float {1.0}> () "
          "b = Constant <value = float {0.7978846}> () k = Constant <value = float {0.044715}> () "
          "n = Constant <value = float {3.0}> () c = Pow (x, n) kc = Mul (c, k) a = Add (x, kc) "
          "i = Mul (a, b) t = Tanh (i) g = Add (t, o) m = Mul (x, h) [y] y = Mul (m, g)")
          .find("gelu") == std::string::npos);
}

TEST_CASE("a linear layer is a product and a sum") {
  const auto program = [](const char* bias) {
    return ToString(Build("net (float[2, 3, 8] x) => (float[2, 3, 4] y) < float[8, 4] w = "
                          "[\"location\": \"none\"], float" +
                              std::string(bias) +
                              " b = [\"location\": \"none\"] > { [m] m = MatMul (x, w) "
                              "[a] y = Add (b, m) }",
                          {.mode = Mode::kEval})
                        .program);
  };
  CHECK(program("[4]") == "\n%y = linear(%x, %w, %b)  # a\n");
  CHECK(ToString(Build(R"(net (float[2, 3, 8] x) => (float[2, 3, 4] y)
                          < float[4, 8] w = ["location": "none"], float[4] b = ["location": "none"] > {
                            [t] t = Transpose <perm = [1, 0]> (w) [m] m = MatMul (x, t) [a] y = Add (m, b)
                          })",
                       {.mode = Mode::kEval})
                     .program) == "\n%y = linear(%x, %w, %b)  # a\n");
  // "x @ table.weight.T + self.bias"
  const auto spelled = [](const std::string& weight, const std::string& sum) {
    Graph graph = ParseGraph(R"(net (float[2, 3, 8] x) => (float[2, 3, 4] y)
        < float[4, 8] w = ["location": "none"], float[4] b = ["location": "none"] > {
          ["/m/Transpose"] t = Transpose <perm = [1, 0]> (w) ["/m/MatMul"] m = MatMul (x, t)
          ["/m/Add"] y = Add )" +
                             sum + " }");
    for (Value& value : graph.values) {
      if (value.name == "w") value.name = weight;
      if (value.name == "b") value.name = "m.b";
    }
    return ToString(Build(graph, {.mode = Mode::kEval}).program);
  };
  CHECK(spelled("e.w", "(b, m)") == "\n%y = linear(%x, %e.w, %m.b)  # /m/Add\n");
  CHECK(spelled("m.w", "(m, b)") == "\n%y = linear(%x, %m.w, %m.b)  # /m/Add\n");
  CHECK(spelled("e.w", "(m, b)") ==
        "\n%t = permute(%e.w; 1, 0)  # /m/Transpose\n%m = matmul(%x, %t)  # /m/MatMul\n"
        "%y = add(%m, %m.b)  # /m/Add\n");
  const auto product = [](const char* perm) {
    return ToString(Build(R"(net (float[2, 3, 8] x) => (float[2, 3, 8] y)
                             < float[8, 8] w = ["location": "none"] > {
                               [t] t = Transpose <perm = )" +
                              std::string(perm) + "> (w) [m] y = MatMul (x, t) }",
                          {.mode = Mode::kEval})
                        .program);
  };
  const auto stored = [](const std::string& weight) {
    return ToString(Build("net (float[2, 3, 8] x) => (float[2, 3, 4] y) < float[8, 4] \"" + weight +
                              "\" = [\"location\": \"none\"] > { [m] y = MatMul (x, \"" + weight +
                              "\") }",
                          {.mode = Mode::kEval})
                        .program);
  };
  CHECK(stored("onnx::MatMul_9") == "\n%y = linear(%x, %onnx::MatMul_9)  # m\n");
  CHECK(stored("m.projection") == "\n%y = matmul(%x, %m.projection)  # m\n");
  CHECK(product("[1, 0]") == "\n%y = linear(%x, %w)  # m\n");
  CHECK(product("[0, 1]") == "\n%t = permute(%w; 0, 1)  # t\n%y = matmul(%x, %t)  # m\n");
  CHECK(program("[3, 4]") == "\n%m = matmul(%x, %w)  # m\n%y = add(%b, %m)  # a\n");
}

TEST_CASE("a group norm, which exporters write as an instance norm over groups") {
  const PreparedRun built = Build(R"(net (float[2, 8, 4, 4] x) => (float[2, 8, 4, 4] y)
    < float[8] "gn.weight" = ["location": "none"], float[8] "gn.bias" = ["location": "none"],
      float[2] ones = {1, 1}, float[2] zeros = {0, 0}, int64[3] grouped = {0, 2, -1},
      int64[4] full = {2, 8, 4, 4}, int64[2] axes = {1, 2} > {
      r = Reshape (x, grouped)
      n = InstanceNormalization (r, ones, zeros)
      u = Reshape (n, full)
      w = Unsqueeze ("gn.weight", axes)
      m = Mul (u, w)
      b = Unsqueeze ("gn.bias", axes)
      [gn] y = Add (m, b)
    })",
                                  {.mode = Mode::kEval});
  CHECK(ToString(built.program).ends_with("%y = group_norm(%x, %w, %b; 2)  # gn\n"));
  CHECK(built.roles.ParameterCount() == 8 + 8);  // not the ones and zeros
}

// Of [N, C, L] in C groups the second reshape does nothing, and weights are stored as [C, 1].
TEST_CASE("a group norm whose second reshape was taken out") {
  const auto program =
      [](const std::string& scale) {
        return ToString(Build(R"(net (float[2, 4, 8] x) => (float[2, 4, 8] y)
      < float[4, 1] "gn.weight" = ["location": "none"], float[4, 1] "gn.bias" = ["location": "none"],
        float[4] ones = {1, 1, 1, 1}, float[4] zeros = {0, 0, 0, 0}, int64[3] grouped = {0, 4, -1} > {
        r = Reshape (x, grouped)
        n = InstanceNormalization (r, ones, zeros)
        m = Mul (n, )" + scale + R"()
        [gn] y = Add (m, "gn.bias") })",
                              {.mode = Mode::kEval})
                            .program);
      };
  CHECK(program("\"gn.weight\"").ends_with("= group_norm(%x, %gn.weight, %gn.bias; 4)  # gn\n"));
  CHECK(program("x").find("group_norm") == std::string::npos);  // another product
}

// F.batch_norm (x, weight, None, None, None, training=True), as of a standardized weight.
TEST_CASE("a batch norm that keeps no statistics is one call") {
  const std::string zeros = "{0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}";
  const auto build = [&](const std::string& squared) {
    return Build(R"(net (float[2, 20, 3] x) => (float[2, 20, 3] y)
      < float[20] "bn.weight" = ["location": "none"] > {
        zeros = Constant <value = float[20] )" +
                     zeros + R"(> ()
        t = Transpose <perm = [0, 2, 1]> (x)
        m = ReduceMean <axes = [0, 1], keepdims = 0> (t)
        k = ReduceMean <axes = [0, 1]> (t) d = Sub (t, k) q = Mul (d, )" +
                     squared + R"()
        v = ReduceMean <axes = [0, 1], keepdims = 0> (q)
        [bn] y, rm, rv = BatchNormalization <training_mode = 1> (x, "bn.weight", zeros, m, v) })",
                 {});
  };
  const PreparedRun built = build("d");
  CHECK(ToString(built.program).find("%y = batch_norm(%x, %bn.weight, ") != std::string::npos);
  CHECK(ToString(built.program).find("mean") == std::string::npos);
  CHECK(built.roles.buffers.empty());  // not the zeros
  // What is read elsewhere is a call of its own.
  CHECK(ToString(build("d) z = Neg (d").program).find("mean") != std::string::npos);
}

TEST_CASE("a variance is one call, and its root") {
  const auto program = [](const std::string& centred, const std::string& end) {
    return ProgramText(
        R"(last = Constant <value = int64 {1}> () one = Constant <value = float {1}> ()
      shape = Shape (x) n = Gather (shape, last) c = Cast <to = 1> (n) l = Sub (c, one)
      k = ReduceMean <axes = [-1]> (x) d = Sub (x, k) q = Mul (d, )" +
        centred + R"() ["/v/ReduceMean"] m = ReduceMean <axes = [-1]> (q) s = Mul (m, c)
      ["/v/Div"] v = Div (s, l) )" +
        end);
  };
  CHECK(program("d", "[y] y = Add (x, v)") == "\n%v = var(%x)  # /v/Div\n%y = add(%x, %v)  # y\n");
  CHECK(program("d", R"(["/v/Sqrt"] r = Sqrt (v) [y] y = Add (x, r))") ==
        "\n%r = std(%x)  # /v/Sqrt\n%y = add(%x, %r)  # y\n");
  CHECK(program("x", "[y] y = Add (x, v)").find("var") == std::string::npos);
  CHECK(program("d", "e = Add (x, v) [y] y = Add (e, d)").find("var") == std::string::npos);
  CHECK(program("d", "e = Add (x, v) [y] y = Add (e, k)") ==
        "\n%v, %k = var_mean(%x)  # /v/Div\n%e = add(%x, %v)  # Add #12\n%y = add(%e, %k)  # y\n");
}

// The exporter counts places in nodes without a module; those of the model's own Range have one.
TEST_CASE("what TorchScript's exporter writes at places that it counts is copied into a slice") {
  const auto program = [](const std::string& range) {
    const std::string counted = R"(zero = Constant <value = int64 {0}> ()
      one = Constant <value = int64 {1}> () axis = Constant <value = int64[1] {1}> ()
      size = Constant <value = int64[2] {2, 8}> () two = Constant <value = int64 {2}> ()
      eight = Constant <value = int64 {8}> () up = Constant <value = int64[2] {2, 1}> ()
      ends = Constant <value = int64[1] {2}> ()
      [")" + range + R"("] i = Range (zero, two, one) ["Range_2"] j = Range (zero, eight, one)
      r = Reshape (i, up) a = Expand (r, size) b = Expand (j, size)
      c = Unsqueeze (a, ends) d = Unsqueeze (b, ends) ["/Concat"] p = Concat <axis = -1> (c, d)
      [n] n = Neg (x) [e] e = Exp (x) ["/ScatterND"] s = ScatterND (n, p, e) [y] y = Abs (s))";
    return ProgramText(counted);
  };
  CHECK(program("Range_1") ==
        "\n%n = neg(%x)  # n\n%e = exp(%x)  # e\n%s = copy_slice(%n, %e)  # /ScatterND\n"
        "%y = abs(%s)  # y\n");
}

TEST_CASE("a scaled product of batches beside another scaled tensor is their sum") {
  const auto text = [](const char* type, const char* scaled) {
    const std::string x = type;
    return ToString(Build("n (" + x + " a, " + x + " b, " + x + " x) => (" + x + R"( y) {
        two = Constant <value = float {2.0}> () three = Constant <value = float {3.0}> ()
        [m] m = MatMul (a, b) [p] p = Mul (m, two) [q] q = Mul ()" +
                              scaled + R"()
        [y] y = Add (p, q) })",
                          {.mode = Mode::kEval})
                        .program);
  };
  CHECK(text("float[2, 4, 4]", "x, three") == "\n%y = baddbmm(%x, %a, %b)  # y\n");
  CHECK(text("float[2, 4, 4]", "x, x").find("baddbmm") == std::string::npos);
  CHECK(text("float[4, 4]", "x, three").find("baddbmm") == std::string::npos);
}

TEST_CASE("the zeros in the place of a norm's bias are no buffer") {
  const std::string zeros = "{0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}";
  const auto built = Build(R"(net (float[2, 20] x) => (float[2, 20] y)
      < float[20] "ln.weight" = ["location": "none"] > {
        zeros = Constant <value = float[20] )" +
                               zeros + R"(> ()
        [ln] y = LayerNormalization (x, "ln.weight", zeros) })",
                           {});
  CHECK(built.roles.buffers.empty());
  CHECK(ToString(built.program).find("%y = layer_norm(%x, %ln.weight)  # ln") != std::string::npos);
}

// Autocast casts the transposed weight for each of them.
TEST_CASE("a product with a transposed weight is one where torch.export says so") {
  const auto program = [](const char* target) {
    Graph graph = ParseGraph(R"(n (float[2, 8] x) => (float[2, 4] y)
        < float[4, 8] w = ["location": "none"] > {
          [t] t = Transpose <perm = [1, 0]> (w) [y] y = MatMul (x, t)
        })");
    const std::string transpose = FxText("t", "t.default", "%w,");
    const std::string product = FxText("y", target, "%x, %t");
    Say(graph, 0, transpose);
    Say(graph, 1, product);
    const BoundModel model(graph);
    std::string calls;
    for (const Rewritten& call : model.found.rewrites) calls += fmt::format("{} ", call.aten);
    return calls;
  };
  CHECK(program("matmul.default").find("linear") == std::string::npos);
  CHECK(program("mm.default").find("linear") != std::string::npos);
}

}  // namespace
}  // namespace onnxfit::rewrites_test
