#include "estimator/recover/lowering.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "estimator/fit/estimate.h"
#include "estimator/operators/op_rule.h"
#include "estimator/program/like.h"
#include "tests/fx_text.h"
#include "tests/paths.h"
#include "tests/trace_helpers.h"

namespace onnxfit::lowering_test {
namespace {

Program Lowered(const std::string& text, const TrainingSettings& settings = {}) {
  return Build(text, settings).program;
}

// A name without a rule would run as an unknown operator.
TEST_CASE("every call that a row names has a rule") {
  CHECK(LoweringRows().size() > 80);
  for (const LoweringRow& row : LoweringRows()) {
    CAPTURE(row.op_type);
    for (const std::string_view aten : {row.aten, row.aten_of_scalar, row.aten_of_first_scalar}) {
      CAPTURE(aten);
      CHECK((aten.empty() || HasOpRule(RuleNameOf(aten))));
    }
  }
}

TEST_CASE("an instance norm of ones and zeros, in the type of its input, has no parameters") {
  const Program program = Lowered(R"(n (float[2, 3, 4, 4] x) => (float[2, 3, 4, 4] y)
      < float[3, 3, 1, 1] w = ["location": "none"] > {
        h = Conv (x, w)
        one = Constant <value = float {1.0}> () o = CastLike (one, h)
        n = Constant <value = int64[1] {3}> () ones = Expand (o, n)
        zero = Constant <value = float {0.0}> () z = CastLike (zero, h) zeros = Expand (z, n)
        y = InstanceNormalization (h, ones, zeros)
      })");
  for (const AtenCall& call : program.calls) {
    if (call.op == "instance_norm") CHECK(call.inputs.size() == 1);
  }
}

TEST_CASE("a number is an argument of the call, and which side it is on matters") {
  struct Row {
    const char* node;
    const char* op;
  };
  const Row rows[] = {
      {"Add (x, c)", "add.Scalar"},
      {"Add (c, x)", "add.Scalar"},
      {"Mul (c, x)", "mul.Scalar"},
      {"Sub (x, c)", "add.Scalar"},
      {"Sub (c, x)", "neg"},
      {"Div (x, c)", "mul.Scalar"},
      {"Pow (x, c)", "pow.Tensor_Scalar"},
      {"Pow (c, x)", "pow.Scalar"},
      {"Max (x, c)", "clamp_min"},
      {"Mul (x, x)", "mul"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.node);
    const Program program = Lowered(
        "net (float[2, 8] x) => (float[2, 8] y) { c = Constant <value = float {2.0}> () y = " +
            std::string(row.node) + " }",
        {.mode = Mode::kEval});
    REQUIRE(program.calls.size() == 1);
    CHECK(program.calls[0].op == row.op);
  }
}

TEST_CASE("a cast to a type that nothing else in the model has is the code's own") {
  const auto calls = [](const char* graph) {
    std::string found;
    for (const AtenCall& call : Lowered(graph, {.mode = Mode::kEval}).calls)
      found += std::string(call.op) + " ";
    return found;
  };
  CHECK(calls("n (float[4] x) => (double[4] y) { y = Cast <to = 11> (x) }") == "to ");
  CHECK(calls("n (float[4] x) => (float[4] y) "
              "{ d = Cast <to = 11> (x) e = Exp (d) y = Cast <to = 1> (e) }") == "to exp to ");
  CHECK(calls("n (float[4] x) => (float16[4] y) { y = Cast <to = 10> (x) }").empty());
  CHECK(calls("n (float[4] x, double[4] z) => (double[4] y) { y = Cast <to = 11> (x) }").empty());
}

// A cat of it with an empty tensor, as torch.export writes it.
TEST_CASE("what a cache begins with is made in the line that shows it") {
  Graph graph = ParseGraph("n (float[2, 4] x) => (float[2, 4] y) { k = Identity (x) y = Neg (k) }");
  const std::string says = FxText("k", "cat.default", "[%e, %x], 1");
  const std::string trace =
      "File \"a.py\", line 3, in forward\n  k, v = past_key_values.update(k, v)\n";
  Say(graph, 0, says);
  graph.nodes[0].metadata.emplace_back("pkg.torch.onnx.stack_trace", trace);
  const Program program = Build(graph, {.mode = Mode::kEval}).program;
  REQUIRE(program.calls[0].op == "cat");
  REQUIRE(program.calls[0].frames.size() == 1);
  CHECK(program.source.At(program.calls[0].frames[0]).Mentions("past_key_values.update("));
}

TEST_CASE("a loss of pixels is another kernel") {
  const auto calls = [](const char* graph) {
    return std::string(Lowered(graph, {.mode = Mode::kEval}).calls[0].op);
  };
  CHECK(calls("n (float[2, 3] x, int64[2] t) => (float y) "
              "{ y = NegativeLogLikelihoodLoss (x, t) }") == "nll_loss");
  CHECK(calls("n (float[2, 3, 4, 4] x, int64[2, 4, 4] t) => (float y) "
              "{ y = NegativeLogLikelihoodLoss (x, t) }") == "nll_loss2d");
}

TEST_CASE("what an ONNX operator is in PyTorch may depend on its inputs and attributes") {
  struct Row {
    const char* node;
    const char* calls;
  };
  const Row rows[] = {
      {"y = Div (c, x)", "reciprocal(x) mul.Scalar(reciprocal) "},
      {"y = Clip (x, c, c)", "hardtanh(x) "},
      {"y = Clip (x, c)", "clamp_min(x) "},
      {"y = Clip (x, , c)", "clamp_max(x) "},
      {"y = Max (x, c)", "clamp_min(x) "},
      {"y = Ceil (x)", "ceil(x) "},
      {"y = Mod (x, x)", "remainder(x x) "},
      {"y = Mod <fmod = 1> (x, c)", "fmod(x) "},
      {"y = Acosh (x)", "acosh(x) "},
      {"y = Shrink <lambd = 0.5> (x)", "hardshrink(x) "},
      {"y = Sign (x)", "sign(x) "},
      {"y = Trilu <upper = 0> (x)", "tril(x) "},
      {"y = ReduceMin <keepdims = 0> (x, a)", "min.dim(x) "},
      {"i = ArgMin (x) y = GatherElements (x, i)", "argmin(x) gather(x i) "},
      {"y = Pad (x, p)", "pad(x) "},
      {"y = Pad <mode = \"reflect\"> (x, p)", "pad.reflect(x) "},
      {"y = Pad <mode = \"edge\"> (x, p)", "pad.copies(x) "},
      {"y = ReduceMax <keepdims = 0> (x, a)", "max.dim(x) "},
      {"y = ReduceL2 (x, a)", "linalg_vector_norm(x) "},
      {"y, i = TopK (x, k)", "topk(x) "},
      {"i = ArgMax (x) y = GatherElements (x, i)", "argmax(x) gather(x i) "},
      {"i = ArgMax (x) j = BitwiseAnd (i, i) y = GatherElements (x, j)",
       "argmax(x) bitwise_and(i i) gather(x j) "},
      {"i = ArgMax (x) j = BitwiseNot (i) y = GatherElements (x, j)",
       "argmax(x) bitwise_not(i) gather(x j) "},
      {"v = Reshape (x, s) z = SpaceToDepth <blocksize = 2> (v) y = Flatten (z)",
       "view(x) pixel_unshuffle(v) view(z) "},
      {"i = ArgMax (x) o = OneHot (i, k, q) j = ArgMax (o) y = GatherElements (x, j)",
       "argmax(x) one_hot(i) argmax(o) gather(x j) "},
      {"v = Reshape (x, t) z = Col2Im (v, e, f) y = Flatten (z)", "view(x) col2im(v) view(z) "},
      {"v = Reshape (x, s) z = GridSample (v, v) y = Flatten (z)",
       "view(x) grid_sampler(v v) view(z) "},
      {"v = Reshape (x, s) z = GlobalMaxPool (v) y = Flatten (z)",
       "view(x) adaptive_max_pool2d(v) view(z) "},
      {"i = ArgMax <axis = 1> (x) j = GatherND (i, i) y = GatherElements (x, j)",
       "argmax(x) index(i i) gather(x j) "},
      {"i = ArgMax (x) y = ScatterElements (x, i, x)", "argmax(x) scatter(x i x) "},
      {"i = ArgMax (x) y = ScatterElements <reduction = \"add\"> (x, i, x)",
       "argmax(x) scatter_add(x i x) "},
  };
  for (const Row& row : rows) {
    CAPTURE(row.node);
    const Program program = Lowered(
        "net (float[2, 8] x) => (float[A, B] y) { c = Constant <value = float {2.0}> () "
        "p = Constant <value = int64[4] {0, 1, 0, 1}> () a = Constant <value = int64[1] {1}> () "
        "k = Constant <value = int64[1] {3}> () s = Constant <value = int64[4] {2, 2, 2, 2}> () "
        "t = Constant <value = int64[3] {1, 4, 4}> () e = Constant <value = int64[2] {4, 4}> () "
        "q = Constant <value = int64[2] {0, 1}> () f = Constant <value = int64[2] {2, 2}> () " +
            std::string(row.node) + " }",
        {.mode = Mode::kEval, .loss = Loss::kNone});
    std::string calls;
    for (const AtenCall& call : program.calls) {
      calls += std::string(call.op) + "(";
      for (const NameId name : call.inputs) {
        if (calls.back() != '(') calls += " ";
        calls += program.values[Index(name)].name;
      }
      calls += ") ";
    }
    CHECK(calls == row.calls);
  }
}

// Its value is in the file; training changes it.
TEST_CASE("what a parameter of one element feeds is computed") {
  const Program program = Lowered(R"(
    net (float[2, 8] x) => (float[2, 8] y)
    <float[1] "act.weight" = {0.25}, float "head.scale" = {2.0}, float[8, 8] w = ["location": "none"]> {
      a = MatMul (x, w)
      one = Constant <value = int64[1] {0}> ()
      s = Unsqueeze ("act.weight", one)
      p = PRelu (a, s)
      e = Exp ("head.scale")
      y = Mul (p, e)
    })",
                                  {.loss = Loss::kNone});
  std::string ops;
  for (const AtenCall& call : program.calls) ops += std::string(call.op) + " ";
  CHECK(ops == "matmul prelu exp mul ");
  CHECK(program.parameters.size() == 3);
}

TEST_CASE("a number stays one when it is cast or passed on") {
  const Program program = Lowered(R"(net (float[2, 8] x) => (float[2, 8] y) {
      c = Constant <value = int64 {2}> ()
      d = Cast <to = 1> (c)
      e = Identity (d)
      y = Div (x, e)
    })",
                                  {.mode = Mode::kEval});
  REQUIRE(program.calls.size() == 1);
  CHECK(program.calls[0].op == "mul.Scalar");
}

TEST_CASE("a norm's ones are not the module's, and an einsum may be a permutation") {
  const auto program = [](const char* node) {
    return ToString(
        Lowered("net (float[2, 3, 4] x) => (float[A, B, C] y) "
                "{ w = Constant <value = float[4] {1, 1, 1, 1}> () y = " +
                    std::string(node) + " }",
                {.mode = Mode::kEval, .loss = Loss::kNone}));
  };
  CHECK(program("LayerNormalization (x, w)") == "\n%y = layer_norm(%x)  # LayerNormalization #1\n");
  CHECK(program("LayerNormalization (x, x, w)") ==
        "\n%y = layer_norm(%x, %x)  # LayerNormalization #1\n");  // nor is a bias
  CHECK(program("Einsum <equation = \"abc->cab\"> (x)") ==
        "\n%y.einsum_operand = einsum_operand(%x)  # Einsum #1"
        "\n%y = permute(%y.einsum_operand; 2, 0, 1)  # Einsum #1\n");
  CHECK(program("Einsum <equation = \"abb->ab\"> (x)") == "\n%y = ?(%x)  # Einsum #1\n");
}

TEST_CASE("a number in front of a tensor fills it where a mask says so") {
  const auto op = [](const char* choice) {
    return Lowered(std::string("net (float[2, 8] x, bool[2, 8] m) => (float[2, 8] y) { "
                               "c = Constant <value = float {2.0}> () y = Where (m, ") +
                       choice + ") }",
                   {.mode = Mode::kEval})
        .calls.back()
        .op;
  };
  CHECK(op("c, x") == "masked_fill");
  CHECK(op("x, c") == "where");
  CHECK(op("x, x") == "where");
}

TEST_CASE("a choice makes a tensor of its number for itself") {
  const Program program = Lowered(R"(net (float[2, 8] x, bool[2, 8] m) => (float[2, 8] y) {
      c = Constant <value = float {2.0}> () z = Where (m, x, c) y = Where (m, c, z) })",
                                  {.mode = Mode::kEval});
  CHECK(program.calls.back().op == "masked_fill");
}

TEST_CASE("a dropout with p = 0 is none, nor is any in eval") {
  const auto calls = [](const std::string& ratio, Mode mode) {
    return Lowered(
               "net (float[2, 8] x) => (float[2, 8] y) { p = Constant <value = float {" + ratio +
                   "}> () t = Constant <value = bool {1}> () h = Neg (x) y = Dropout (h, p, t) }",
               {.mode = mode, .loss = Loss::kNone})
        .calls.size();
  };
  CHECK(calls("0.5", Mode::kTrain) == 2);
  CHECK(calls("0.0", Mode::kTrain) == 1);
  CHECK(calls("0.5", Mode::kEval) == 1);
}

TEST_CASE("calls that do not work in place are picked by node or module") {
  const auto trace = [](const std::vector<std::string>& globs) {
    return TraceText(
        R"(net (float[2, 8] x) => (float[2, 8] y) {
                          ["/net/f/Neg"] a = Neg (x) ["/net/act/Relu"] y = Relu (a)
                        })",
        {.mode = Mode::kEval, .in_place = InPlaceUse::kAlways, .out_of_place = globs, .steps = 1});
  };
  CHECK(trace({}).find("+y:64") == std::string::npos);
  CHECK(trace({"*/Relu"}).find("+y:64") != std::string::npos);
  CHECK(trace({"net.act"}).find("+y:64") != std::string::npos);
  CHECK(trace({"net.f"}).find("+y:64") == std::string::npos);
  CHECK_THROWS_WITH_AS(
      trace({"*/Gelu"}),
      "<text>: --out-of-place: expected names of nodes or modules (/net/f/Neg, net.f, "
      "/net/act/Relu …), found '*/Gelu'",
      Error);
}

TEST_CASE("results that a node leaves out are no results") {
  const char* graphs[] = {
      R"(net (float[2, 3, 8, 8] x) => (int64[2, 3, 4, 4] i) {
           "", i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
         })",
      R"(net (float[2, 8] x) => (bool[2, 8] m) { "", m = Dropout (x) })",
  };
  for (const char* graph : graphs) {
    for (const auto& mode : kModes) {
      CAPTURE(graph);
      const Estimate estimate =
          MakeEstimate(ParseGraph(graph), {.settings = {.mode = mode.value, .loss = Loss::kNone}});
      CHECK(estimate.device_bytes > 0);
      CHECK_FALSE(estimate.warnings.empty());
    }
  }
}

constexpr char kTwoHeads[] = R"(net (float[8, 4] x) => (float[8, 2] y, float[8, 3] z)
  < float[4, 2] a = ["location": "none"], float[4, 3] b = ["location": "none"] > {
    y = MatMul (x, a)
    z = MatMul (x, b)
  })";

TEST_CASE("DDP waits for gradients that do not come") {
  const auto raises = [](Strategy strategy) {
    EstimateRequest request;
    request.settings.ranks.strategy = strategy;
    const Warnings warnings = MakeEstimate(ParseGraph(kTwoHeads), request).warnings;
    return std::ranges::any_of(warnings, [](const Warning& warning) {
      return warning.text.find("find_unused_parameters=True") != std::string::npos;
    });
  };
  CHECK(raises(Strategy::kDdp));
  CHECK(raises(Strategy::kZeroRedundancy));
  CHECK_FALSE(raises(Strategy::kNone));
  CHECK_FALSE(raises(Strategy::kFsdp));
}

TEST_CASE("what the loss does not reach is said, and has neither gradient nor state") {
  const Program program = Lowered(kTwoHeads);
  REQUIRE(program.warnings.size() == 1);
  CHECK(program.warnings[0].code == "OF108");
  CHECK(program.warnings[0].text.starts_with("1 of 2 parameters are not on the way"));
  const std::string trace = ToString(Train(program, {.steps = 1}));
  CHECK(trace.find("a.exp_avg") != std::string::npos);
  CHECK(trace.find("b.exp_avg") == std::string::npos);
}

TEST_CASE("an exponent that is a parameter is trained") {
  const std::string trace = TraceText(
      R"(net (float[4, 8] x) => (float[4, 8] y) < float[8] "p.exponent" = ["location": "none"] > {
           y = Pow (x, "p.exponent")
         })",
      {.optimizer = Optimizer::kAdamW, .steps = 1});
  CHECK(trace.find("+p.exponent.exp_avg:32") != std::string::npos);
}

TEST_CASE("sizes that are zero in one dimension and absurd in others do not overflow") {
  const Estimate estimate =
      MakeEstimate(ParseGraph(R"(net (float[N, 1099511627776, 1099511627776, 0] x)
                    => (float[N, 1099511627776, 1099511627776, 0] y) { y = Relu (x) })"),
                   {.settings = {.mode = Mode::kEval}});
  CHECK(estimate.device_bytes > 0);
}

TEST_CASE("names with thousands of parts are no module paths") {
  std::string deep = "/";
  for (int i = 0; i < 20000; ++i) deep += "a/";
  const Program program =
      Lowered("net (float[2, 8] x) => (float[2, 8] y) { [\"" + deep + "\"] y = Relu (x) }",
              {.mode = Mode::kEval});
  CHECK(program.calls[0].module == kOutside);
}

// 4 × 1280 numbers: a mask of a byte and the result of four, or of two under autocast.
TEST_CASE("what is put back says how much it keeps") {
  const std::string path = std::string(kSourceDir) + "/models/";
  const auto assumed = [&](const TrainingSettings& settings, std::string_view text) {
    const Estimate estimate = MakeEstimate(LoadGraph(path + "mobilenet_v2.script.onnx"),
                                           {.binding = {.batch = 4}, .settings = settings});
    return std::ranges::any_of(estimate.assumptions, [&](const std::string& assumption) {
      return assumption.find(text) != std::string::npos;
    });
  };
  CHECK(assumed({}, "Gemm: 25.0 KiB more are kept for backward (--dropout 0"));
  CHECK(assumed({.precision = Precision::kAmpBf16}, "15.0 KiB more are kept for backward"));
  CHECK(assumed({}, "52 batch norms that the exporter folded into convolutions are put back: "));
  CHECK_FALSE(assumed({.mode = Mode::kEval}, "kept for backward"));
}

TEST_CASE("-v says what was taken as one call and what was put back") {
  const std::string models = std::string(kSourceDir) + "/models/";
  const Estimate mobilenet = MakeEstimate(LoadGraph(models + "mobilenet_v2.script.onnx"), {});
  const auto has = [](const Estimate& estimate, const std::string& note) {
    return std::find(estimate.notes.begin(), estimate.notes.end(), note) != estimate.notes.end();
  };
  CHECK(has(mobilenet, "dropout is put back before /model/classifier/classifier.1/Gemm"));
  CHECK(has(mobilenet,
            "52 x Conv run as convolution + batch_norm, the first at "
            "/model/features/features.0/features.0.0/Conv with model.features.0.0_batch_norm"));
  const Estimate silu = MakeEstimate(
      ParseGraph("net (float[2, 8] x) => (float[2, 8] y) { a = Sigmoid (x) y = Mul (x, a) }"),
      {.settings = {.mode = Mode::kEval}});
  CHECK(has(silu, "1 x Sigmoid + Mul run as silu, the first at Mul #1"));
}

}  // namespace
}  // namespace onnxfit::lowering_test
