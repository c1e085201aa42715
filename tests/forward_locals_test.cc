#include "estimator/locals/forward_locals.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/program/modules.h"
#include "tests/known_names.h"
#include "tests/trace_helpers.h"

namespace onnxfit::forward_locals_test {
namespace {

// "e until Add as wte": which value is held until which call has returned, and by which name.
std::string Known(const std::string& body, const char* x = "float[2, 3, 8] x") {
  std::string found;
  for (const HeldName& held : HeldNames("net (" + std::string(x) + R"() => (float[2, 3, 8] y)
             < float[9, 8] table = ["location": "none"],
               float[8, 8] square = ["location": "none"], int64[2] ids = {1, 2} > { )" +
                                        body + " }")) {
    found += held.value + " until " + held.until + " as " + held.name + "; ";
  }
  return found;
}

TEST_CASE("what an embedding returns is a local of its caller, unless it is scaled at once") {
  constexpr char kWords[] = "int64[2, 3] x";
  CHECK(Known(R"(["/m/wte/Gather"] e = Gather (table, x) ["/m/n/Neg"] n = Neg (e)
                 ["/m/Abs"] y = Abs (n))",
              kWords) == "e until /m/Abs as wte; ");
  CHECK(Known(R"(["/wte/Gather"] e = Gather (table, x) ["/n/Neg"] n = Neg (e)
                 ["/Abs"] y = Abs (n))",
              kWords)
            .empty());
  CHECK(Known(R"(two = Constant <value = float {2.0}> ()
                 ["/m/wte/Gather"] e = Gather (table, x) ["/m/Mul"] n = Mul (e, two)
                 ["/m/Abs"] y = Abs (n))",
              kWords)
            .empty());
  // input = module(input)
  CHECK(Known(R"(["/m/m.0/Gather"] e = Gather (table, x) ["/m/m.1/Neg"] n = Neg (e)
                 ["/m/m.2/Abs"] y = Abs (n))",
              kWords)
            .empty());
}

TEST_CASE("layers of a loop share a local, one after the other does not") {
  CHECK(Known(R"(["/m/block.0/Neg"] a = Neg (x) ["/m/block.1/Add"] b = Add (a, x)
                 ["/m/block.2/Add"] c = Add (b, a) ["/m/Abs"] y = Abs (c))") ==
        "a until /m/Abs as what the layers share; ");
  CHECK(Known(R"(["/m/block.0/Neg"] a = Neg (x) ["/m/block.1/Add"] b = Add (a, x)
                 ["/m/block.2/Neg"] c = Neg (b) ["/m/Abs"] y = Abs (c))")
            .empty());
}

TEST_CASE("modules of libraries are known by their children") {
  CHECK(Known(R"(six = Constant <value = int64[2] {6, 8}> ()
                 one = Constant <value = int64[3] {6, 1, 8}> ()
                 ["/m/message_fc/Abs"] f = Abs (x) ["/m/Reshape"] v = Reshape (f, six)
                 ["/m/message_ln/Abs"] l = Abs (v) ["/m/message_attn/Abs"] a = Abs (l)
                 ["/m/Add"] s = Add (v, a) ["/m/Reshape_1"] w = Reshape (s, one)
                 ["/m/Neg"] n = Neg (w) three = Constant <value = int64[3] {2, 3, 8}> ()
                 ["/o/Reshape"] y = Reshape (n, three))") ==
        "v until /m/Reshape_1 as msg_token; w until /m/Neg as msg_token; ");
  const std::string after = R"(["/m/wi_1/Abs"] b = Abs (x) ["/m/Mul"] c = Mul (a, b)
                               ["/m/wo/Neg"] y = Neg (c))";
  CHECK(Known(R"(["/m/wi_0/Neg"] g = Neg (x) ["/m/act/Tanh"] a = Tanh (g))" + after) ==
        "a until /m/wo/Neg as hidden_gelu; b until /m/wo/Neg as hidden_linear; ");
  CHECK(Known(R"(["/m/other/Neg"] g = Neg (x) ["/m/act/Tanh"] a = Tanh (g))" + after).empty());
  CHECK(Known(R"(["/m/o/dense/Neg"] a = Neg (x) ["/m/o/Add"] s = Add (a, x)
                 ["/m/o/LayerNorm/Neg"] n = Neg (s) ["/m/Abs"] y = Abs (n))") ==
        "a until /m/o/LayerNorm/Neg as hidden_states; ");
  CHECK(Known(R"(["/m/b/embeddings/Neg"] e = Neg (x) ["/m/b/encoder/a/Abs"] h = Abs (e)
                 ["/m/b/Tanh"] p = Tanh (h) ["/m/Abs"] y = Abs (p))") ==
        "e until /m/b/Tanh as embedding_output; h until /m/b/Tanh as encoder_outputs; "
        "h until /m/Abs as encoder_outputs; "
        "e until /m/b/Tanh as x; ");
}

TEST_CASE("an activation of a forward's own is in the statement of the child before it") {
  const auto known = [](const std::string& activation) {
    return Known(R"(["/m/a/Neg"] a = Neg (x) ["/m/b/Abs"] b = Abs (a) [")" + activation +
                 R"("] c = Tanh (b) ["/m/Exp"] y = Exp (c))");
  };
  CHECK(known("/m/Tanh") == "a until /m/Tanh as x; ");
  CHECK(known("/m/act/Tanh").empty());
}

// "F.tanh(self.gate(x)) * self.up(x)"
TEST_CASE("what two children read has a name until what they make of it is joined") {
  const auto known = [](const std::string& product) {
    return Known(R"(["/m/Sin"] h = Sin (x) ["/m/gate/Neg"] g = Neg (h) ["/m/Tanh"] t = Tanh (g)
                    ["/m/up/Abs"] u = Abs (h) ["/m/Mul"] p = )" +
                 product + R"( ["/m/Exp"] y = Exp (p))");
  };
  CHECK(known("Mul (t, u)").find("h until /m/Mul as x; ") != std::string::npos);
  CHECK(known("Mul (t, x)").find("h until /m/Mul") == std::string::npos);
}

TEST_CASE("and so is what F.normalize divides by its norm") {
  CHECK(Known(R"(tiny = Constant <value = float {0.000001}> () size = Shape (x)
      axes = Constant <value = int64[1] {-1}> () ["/m/a/Neg"] a = Neg (x)
      ["/m/b/Abs"] b = Abs (a) ["/m/ReduceL2"] l = ReduceL2 (b, axes) ["/m/Clip"] c = Clip (l, tiny)
      ["/m/Expand"] e = Expand (c, size) ["/m/Div"] n = Div (b, e) ["/m/Exp"] y = Exp (n))")
            .find("a until /m/Div as x; ") != std::string::npos);
}

TEST_CASE("a statement goes on with children until one is of the kind that began it") {
  CHECK(Known(R"(["/m/Exp"] a = Exp (x) ["/m/b/Abs"] b = Abs (a) ["/m/Tanh"] c = Tanh (b)
                 ["/m/d/Sin"] y = Sin (c))") == "a until /m/d/Sin as x; ");
  CHECK(Known(R"(["/m/Exp"] a = Exp (x) ["/m/b/Abs"] b = Abs (a) ["/m/Tanh"] c = Tanh (b)
                 ["/m/d/Abs"] y = Abs (c))") == "a until /m/Tanh as x; ");
  // "x = F.tanh(self.b(self.norm(x)))"
  CHECK(Known(R"(g = Constant <value = float[8] {1, 1, 1, 1, 1, 1, 1, 1}> () ["/m/Exp"] a = Exp (x)
                 ["/m/norm/LayerNormalization"] n = LayerNormalization (a, g)
                 ["/m/b/Abs"] b = Abs (n) ["/m/Tanh"] y = Tanh (b))") == "a until /m/Tanh as x; ");
}

TEST_CASE("what the outermost forward norms for its last layer has a name") {
  const auto known = [](const std::string& norm) {
    return Known(R"(g = Constant <value = float[8] {1, 1, 1, 1, 1, 1, 1, 1}> ()
                    ["/f/Abs"] a = Abs (x) )" +
                 norm + R"( ["/head/Neg"] y = Neg (n))");
  };
  CHECK(known(R"(["/ln/LayerNormalization"] n = LayerNormalization (a, g))") ==
        "a until /head/Neg as x; ");
  CHECK(known(R"(["/ln/Exp"] n = Exp (a))").empty());
  // "return F.log_softmax(self.proj(self.norm(x)), dim=-1)"
  CHECK(Known(R"(g = Constant <value = float[8] {1, 1, 1, 1, 1, 1, 1, 1}> () ["/f/Abs"] a = Abs (x)
                 ["/ln/LayerNormalization"] n = LayerNormalization (a, g)
                 ["/head/Neg"] h = Neg (n) ["/LogSoftmax"] y = LogSoftmax (h))") ==
        "a until /LogSoftmax as x; ");
}

TEST_CASE("what the outermost forward pools for its last layer has a name") {
  const auto known = [](const std::string& begin, const std::string& layer) {
    return Known(begin + R"( d = Constant <value = int64[1] {1}> ()
                    ["/ReduceMean"] m = ReduceMean (h, d) [")" +
                 layer + R"("] y = Neg (m))");
  };
  CHECK(known(R"(["/conv/Abs"] h = Abs (x))", "/head/Neg") == "h until /head/Neg as x; ");
  CHECK(known(R"(["/conv/Abs"] h = Abs (x))", "/Neg").empty());
  // torchvision's ShuffleNetV2: x = x.mean([2, 3]).
  CHECK(known(R"(["/maxpool/Abs"] a = Abs (x) ["/stage4/Abs"] b = Abs (a)
                 ["/conv5/Abs"] h = Abs (b))",
              "/fc/Neg") == "h until /ReduceMean as x; ");
}

// "x[:2] = y; return x + z"
TEST_CASE("the outermost forward's last line holds what lines have written into") {
  const auto known = [](const std::string& last) {
    return Known(R"(zero = Constant <value = int64 {0}> () one = Constant <value = int64 {1}> ()
      two = Constant <value = int64 {2}> () three = Constant <value = int64 {3}> ()
      eight = Constant <value = int64 {8}> () size = Constant <value = int64[3] {2, 3, 8}> ()
      up = Constant <value = int64[3] {2, 1, 1}> () mid = Constant <value = int64[2] {3, 1}> ()
      ends = Constant <value = int64[1] {3}> ()
      ["Range_1"] i = Range (zero, two, one) ["Range_2"] j = Range (zero, three, one)
      ["Range_3"] k = Range (zero, eight, one)
      r = Reshape (i, up) t = Reshape (j, mid) a = Expand (r, size) b = Expand (t, size)
      c = Expand (k, size) d = Unsqueeze (a, ends) e = Unsqueeze (b, ends) f = Unsqueeze (c, ends)
      ["/Concat"] p = Concat <axis = -1> (d, e, f) ["/Neg"] n = Neg (x) ["/Exp"] v = Exp (x)
      ["/ScatterND"] s = ScatterND (n, p, v) )" +
                 last);
  };
  CHECK(known(R"(["/Add"] g = Add (s, x) ["/Abs"] y = Abs (g))") == "s until /Abs as x; ");
  CHECK(known(R"(["/f/Abs"] g = Abs (s) ["/Add"] y = Add (g, x))").empty());
}

// "r as q; " of what is known where all calls of `body` are made in `line`.
std::string KnownInLine(const std::string& body, const char* line) {
  Program program =
      Build("net (float[2, 3, 8] x) => (float[2, 3, 8] y) { " + body + " }", {.mode = Mode::kEval})
          .program;
  const StatementId statement = program.source.Read(3, line);
  for (AtenCall& call : program.calls) call.frames = {statement};
  const auto last = static_cast<int64_t>(program.calls.size()) - 1;
  std::string names;
  for (const KnownName& name : FindKnownNames(program, ModuleRuns(program), last)) {
    names += program.values[Index(name.value)].name + " as " + name.name + "; ";
  }
  return names;
}

// torch.export shows no line of the caller's for what it made a graph of.
TEST_CASE("what a generated graph returns to layers is a local of its caller") {
  constexpr char kBody[] = R"(["/m/rope/Neg"] r = Neg (x) ["/m/block.0/Add"] a = Add (x, r)
                              ["/m/block.1/Add"] b = Add (a, r) ["/m/Abs"] y = Abs (b))";
  CHECK(KnownInLine(kBody, "neg = torch.ops.aten.neg.default(x);  x = None") ==
        "r as what the layers share; ");
  CHECK(KnownInLine(kBody, "r = self.rope(x)").empty());
}

TEST_CASE("what a later module reads has a name of its own, unless a sum takes the name") {
  const auto known = [](const std::string& reader) {
    return Known(R"(["/m/a/Neg"] a = Neg (x) ["/m/b/Abs"] b = Abs (a) )" + reader +
                 R"( ["/m/d/Neg"] d = Neg (c) ["/m/Abs"] y = Abs (d))");
  };
  CHECK(known(R"(["/m/c/Add"] c = Add (a, b))") == "a until /m/Abs as what is read later; ");
  CHECK(known(R"(["/m/Add"] c = Add (b, a))") == "a until /m/Abs as what is read later; ");
  CHECK(known(R"(["/m/Add"] c = Add (a, b))").empty());
  CHECK(known(R"(["/m/c/Neg"] c = Neg (b))").empty());
}

TEST_CASE("what like modules return is held as most of it is") {
  const auto known = [](const std::string& third) {
    return Known(R"(["/m/d1/Neg"] a = Neg (x) ["/m/d2/Abs"] b = Abs (a) ["/m/)" + third +
                 R"(/Neg"] c = Neg (b) ["/m/u/Abs"] d = Abs (c) ["/m/v/Add"] e = Add (d, b)
                    ["/m/w/Add"] y = Add (e, a))");
  };
  CHECK(known("d3").find("c until /m/w/Add as its like; ") != std::string::npos);
  CHECK(known("e").find("its like") == std::string::npos);
}

TEST_CASE("timm's forward holds what it gives forward_head") {
  const auto known = [](const std::string& pool) {
    return Known(R"(["/blocks/Neg"] f = Neg (x) [")" + pool + R"("] p = Abs (f)
                    ["/fc/Neg"] y = Neg (p))");
  };
  CHECK(known("/global_pool/pool/Abs") == "f until /fc/Neg as features; ");
  CHECK(known("/global_pool/Abs").empty());  // of somebody else
  CHECK(known("/other/pool/Abs").empty());
}

TEST_CASE("blocks of libraries hold what they pass on in one line") {
  CHECK(Known(R"(["/m/attn/qkv/Neg"] a = Neg (x) ["/m/attn/Abs"] b = Abs (a)
                 ["/m/attn/proj/Neg"] c = Neg (b) ["/Abs"] y = Abs (c))") ==
        "a until /m/attn/proj/Neg as qkv; ");
}

TEST_CASE("a layer that is called encoder returns no object with tensors in it") {
  const auto known = [](const std::string& encoder) {
    return Known("[\"/m/" + encoder + R"("] e = Neg (x) ["/m/decoder/Abs"] d = Abs (e)
                 ["/Exp"] y = Exp (d))");
  };
  CHECK(known("encoder/layer/Neg") == "e until /Exp as encoder_outputs; ");
  CHECK(known("encoder/Neg").empty());
}

TEST_CASE("lists that a loop goes through together share no local") {
  const auto known = [](const std::string& second) {
    return Known(R"(["/m/first/Neg"] a = Neg (x) ["/m/block.0/Abs"] b = Abs (a) ["/m/)" + second +
                 R"(/Exp"] c = Exp (a) ["/m/Add"] d = Add (b, c) ["/m/Neg"] y = Neg (d))");
  };
  CHECK(known("res.0").empty());
  CHECK(known("res.1") == "a until /m/Neg as what the layers share; ");
}

TEST_CASE("a list holds what its layers make for one concatenation") {
  const auto known = [](const std::string& second) {
    return Known(R"(["/m/convs.0/Neg"] a = Neg (x) ["/m/)" + second +
                 R"(/Abs"] b = Abs (x) ["/m/Concat"] c = Concat <axis = 1> (a, b)
                 ["/m/Slice"] d, e = Split <axis = 1> (c) ["/m/out/Neg"] y = Neg (d))");
  };
  CHECK(known("convs.1") ==
        "a until /m/out/Neg as what a list gathers; "
        "b until /m/out/Neg as what a list gathers; ");
  CHECK(known("pool").find("gathers") == std::string::npos);
}

TEST_CASE("a list of which some items are read behind the loop holds all of them") {
  const auto known = [](const std::string& first) {
    return Known(R"(["/m/stages.0/Neg"] a = Neg (x) ["/m/stages.1/Abs"] b = Abs (a)
                 ["/m/stages.2/Neg"] c = Neg (b) ["/m/top/Add"] d = Add (c, b)
                 ["/m/low/Add"] e = Add (d, )" +
                 first + R"() ["/m/Abs"] y = Abs (e))");
  };
  CHECK(known("b") ==
        "a until /m/Abs as what a list holds; b until /m/Abs as what a list holds; "
        "c until /m/Abs as what a list holds; ");
  CHECK(known("a").find("list") == std::string::npos);  // a loop may take each out again
}

TEST_CASE("a name holds all that the child has returned to it") {
  CHECK(Known(R"(["/m/backbone/a/Neg"] a = Neg (x) ["/m/backbone/b/Abs"] b = Abs (a)
                 ["/m/backbone/c/Neg"] c = Neg (b) ["/m/classifier/d/Add"] d = Add (a, c)
                 ["/m/Abs"] y = Abs (d))") ==
        "c until /m/Abs as features; a until /m/Abs as features; ");
}

// MultiHeadAttentionLayer with relative positions
TEST_CASE("relative attention has names for what its tables multiply, and what they make") {
  const std::string found = Known(R"(size = Constant <value = int64[3] {3, 2, 8}> ()
      ["/m/fc_q/Neg"] q = Neg (x) ["/m/fc_k/Abs"] k = Abs (x) ["/m/fc_v/Exp"] v = Exp (x)
      ["/m/Transpose"] kt = Transpose <perm = [0, 2, 1]> (k) ["/m/MatMul"] s = MatMul (q, kt)
      ["/m/Transpose_1"] r = Transpose <perm = [1, 0, 2]> (q)
      ["/m/Reshape"] rq = Reshape (r, size) ["/m/Softmax"] w = Softmax (s)
      ["/m/MatMul_1"] o = MatMul (w, v) ["/m/Transpose_2"] t = Transpose <perm = [2, 0, 1]> (w)
      shape = Shape (t) ["/m/Reshape_1"] w2 = Reshape (t, shape)
      ["/m/ReduceSum"] n = ReduceSum <keepdims = 0> (w2) ["/m/ReduceSum_1"] l = ReduceSum <keepdims = 0> (rq)
      ["/m/Add"] a = Add (o, n) ["/m/Mul"] b = Mul (a, l) ["/m/fc_o/Neg"] y = Neg (b))");
  CHECK(found.find("rq until /m/fc_o/Neg as r_q2; ") != std::string::npos);
}

// kp_module of CornerNet
TEST_CASE("an hourglass holds what it resizes") {
  const auto known = [](const std::string& third) {
    return Known(R"(["/m/up1/Neg"] a = Neg (x) ["/m/low1/Abs"] b = Abs (x)
                    ["/m/low2/Neg"] c = Neg (b) ["/m/)" +
                 third + R"(/Abs"] d = Abs (c)
                    ["/m/Exp"] e = Exp (d) ["/m/Add"] y = Add (a, e))");
  };
  CHECK(known("low3").find("d until /m/Add as low3; ") != std::string::npos);
  CHECK(known("low4").find("low3") == std::string::npos);
}

TEST_CASE("vector quantization holds distances and encodings") {
  const auto known = [](const std::string& distances) {
    return Known(R"(ends = Constant <value = int64[2] {0, 1}> ()
        depth = Constant <value = int64 {8}> () rows = Constant <value = int64[2] {6, 8}> ()
        ["/m/Reshape"] f = Reshape (x, rows) ["/m/Neg"] n = Neg (f)
        ["/m/Transpose"] t = Transpose <perm = [1, 0]> (square) ["/m/MatMul"] a = MatMul (f, t)
        ["/m/Sub"] d = )" +
                 distances + R"( ["/m/ArgMin"] i = ArgMin <axis = 1, keepdims = 0> (d)
        ["/m/OneHot"] o = OneHot (i, depth, ends) ["/m/Cast"] e = Cast <to = 1> (o)
        ["/m/MatMul_1"] q = MatMul (e, square) size = Shape (x) ["/m/Reshape_1"] r = Reshape (q, size)
        ["/m/Tanh"] y = Tanh (r))");
  };
  CHECK(known("Sub (n, a)") == "d until /m/Tanh as d; e until /m/Tanh as min_encodings; ");
  CHECK(known("Neg (a)") == "e until /m/Tanh as min_encodings; ");
}

// Until which call a method, whose lines the file does not show, holds what its first call makes.
std::string HeldByMethod(const std::string& loop, const char* line = "") {
  Program program = Build("net (float[2, 3, 8] x) => (float[2, 3, 8] y) " +
                              (R"({ ["/m/a/Neg"] a = Neg (x) ["/m/Abs"] b = Abs (a) )" + loop) +
                              R"( ["/m/Exp"] y = Exp (d) })",
                          {.mode = Mode::kEval})
                        .program;
  Statement method = {.first = 0, .last = 4, .in_helper = true, .level = 1};
  if (*line != '\0') method.source = program.source.Read(1, line);
  const int64_t until =
      HeldInHelper(program, ModuleRuns(program), method, 0, program.calls[0].outputs[0]);
  return program.calls[Index(until)].where;
}

TEST_CASE("a method binds anew what it gives to the first module of a loop alone") {
  CHECK(HeldByMethod(R"(["/m/block.0/Add"] c = Add (a, b)
                        ["/m/block.1/Neg"] d = Neg (c))") == "/m/block.0/Add");
  CHECK(HeldByMethod(R"(["/m/block.0/Add"] c = Add (a, b)
                        ["/m/block.1/Add"] d = Add (a, c))") == "/m/Exp");
  CHECK(HeldByMethod(R"(["/m/one/Add"] c = Add (a, b)
                        ["/m/other/Neg"] d = Neg (c))") == "/m/Exp");
}

TEST_CASE("a method whose result is added to something has returned by then") {
  constexpr char kReads[] = R"(["/m/Add"] c = Add (a, b) ["/m/Abs_1"] d = Abs (c))";
  CHECK(HeldByMethod(kReads, "y = self.attend(x)") == "/m/Exp");
  CHECK(HeldByMethod(kReads, "y = x + self.attend(x)") == "/m/Abs_1");
}

// Until which call a method holds what its call `maker` makes, of "a = Neg (x)" and `rest`.
std::string HeldOf(int64_t maker, const std::string& rest, std::vector<std::string> targets) {
  const Program program =
      Build("net (float[2, 3, 8] x) => (float[2, 24] y) { a = Neg (x) " + rest + " }",
            {.mode = Mode::kEval})
          .program;
  const auto last = static_cast<int64_t>(program.calls.size()) - 1;
  const Statement method = {
      .first = 0, .last = last, .targets = std::move(targets), .in_helper = true};
  const NameId name = program.calls[Index(maker)].outputs[0];
  return program.calls[Index(HeldInHelper(program, ModuleRuns(program), method, maker, name))]
      .where;
}

TEST_CASE("the weights of a method's attention have a name, unless it returns them") {
  constexpr char kWeights[] =
      "s = Constant <value = int64[2] {2, 24}> () w = Softmax (a) b = Reshape (w, s) y = Exp (b)";
  CHECK(HeldOf(1, kWeights, {"x"}) == "Exp #4");
  CHECK(HeldOf(1, kWeights, {"x", "weights"}) == "Softmax #2");
}

// x.transpose(1, 2).reshape(n) is a view at some sizes and a copy at others.
TEST_CASE("what is reshaped behind a permutation has no name for what comes later") {
  const auto held = [](const std::string& permuted) {
    return HeldOf(0, permuted + R"(s = Constant <value = int64[2] {2, 24}> () r = Reshape (t, s)
                                   b = Abs (x) c = Reshape (b, s) y = Add (c, r))",
                  {"x"});
  };
  CHECK(held("t = Transpose <perm = [0, 1, 2]> (a) ") == "Add #6");
  CHECK(held("t = Transpose <perm = [0, 2, 1]> (a) ") == "Neg #0");
}

// The same of a function that begins with call 1 of "a = Neg (x)", and then runs `rest`.
std::string HeldByFunction(const std::string& rest, const char* line = "y = bias(x)") {
  Program program = Build("net (float[2, 8] x) => (float[8, 2, 8] y) { a = Neg (x) " + rest + " }",
                          {.mode = Mode::kEval})
                        .program;
  Statement function = {.first = 0, .last = static_cast<int64_t>(program.calls.size()) - 1};
  function.source = program.source.Read(1, line);
  const int64_t until =
      HeldInHelper(program, ModuleRuns(program), function, 0, program.calls[0].outputs[0]);
  return program.calls[Index(until)].where;
}

TEST_CASE("a function names what it makes before what does not belong to the same expression") {
  constexpr char kSum[] = "d = Exp (w) y = Abs (d)";
  const auto sum = [&](const char* terms) {
    const std::string shape = "s = Constant <value = int64[3] {8, 2, 8}> () ";
    return shape + "b = Abs (x) c = Expand (b, s) w = Add (" + terms + ") " + kSum;
  };
  CHECK(HeldByFunction(sum("c, a")) == "Abs #6");  // b is made behind a, and read before it
  CHECK(HeldByFunction(sum("a, c")) == "Neg #0");  // f(x) + g(x)
  CHECK(HeldByFunction(sum("c, a"), "y = F.bias(x)") == "Neg #0");
  // What is read first, too: "return (a * x).view(n) + b", not "a = a * x".
  CHECK(HeldByFunction("b = Abs (x) s = Constant <value = int64[3] {8, 2, 8}> () "
                       "d = Mul (a, x) e = Expand (d, s) y = Add (e, b)") == "Add #5");
  CHECK(HeldByFunction("b = Abs (x) d = Mul (a, x) e = Add (b, d) "
                       "s = Constant <value = int64[3] {8, 2, 8}> () y = Expand (e, s)") ==
        "Neg #0");
}

// x = a * x + w; xs.append(-x), three times.
TEST_CASE("a further turn of a loop binds what it makes to the name of the one before") {
  const Program program = Build(R"(net (float[2, 8] x) => (float[2, 24] y) {
      ["/m/a/Neg"] w = Neg (x)
      ["/m/Mul"] p = Mul (w, x) ["/m/Add"] a = Add (p, w) ["/m/Neg"] n = Neg (a)
      ["/m/Mul_1"] q = Mul (w, a) ["/m/Add_1"] b = Add (q, w) ["/m/Neg_1"] o = Neg (b)
      ["/m/Mul_2"] r = Mul (w, b) ["/m/Add_2"] c = Add (r, w) ["/m/Neg_2"] s = Neg (c)
      ["/m/Concat"] y = Concat <axis = 1> (n, o, s) })",
                                {.mode = Mode::kEval})
                              .program;
  const Statement method = {.first = 1, .last = 10, .in_helper = true, .level = 1};
  const auto held = [&](int64_t maker) {
    const NameId name = program.calls[Index(maker)].outputs[0];
    const ModuleRuns runs(program);
    return program.calls[Index(HeldInHelper(program, runs, method, maker, name))].where;
  };
  CHECK(held(2) == "/m/Add_1");
  CHECK(held(5) == "/m/Add_2");
  CHECK(held(8) == "/m/Concat");  // that of the last turn, until the method returns
}

TEST_CASE("a loop over layers of a list binds anew what they return in pairs") {
  const std::string body = R"(["/m/b.0/Neg"] p = Neg (x) ["/m/b.0/Abs"] q = Abs (p)
      ["/m/Add"] r = Add (p, q) ["/m/b.1/Neg"] s = Neg (r) ["/m/b.1/Abs"] t = Abs (s)
      ["/m/Add_1"] u = Add (s, t) ["/m/Exp"] y = Exp (u))";
  CHECK(Known(body) ==
        "p until /m/b.1/Abs as what layers return; q until /m/b.1/Abs as what layers return; "
        "s until /m/Exp as what layers return; t until /m/Exp as what layers return; ");
}

TEST_CASE("parts have names, and so has what is read as a view behind another child") {
  const std::string split = R"(two = Constant <value = int64[2] {4, 4}> ()
      ["/m/Split"] a, b = Split <axis = 2> (x, two) )";
  CHECK(Known(split + R"(["/m/f/Neg"] f = Neg (a) ["/m/Concat"] y = Concat <axis = 2> (f, b))") ==
        "a until /m/Concat as parts; b until /m/Concat as parts; ");
}

TEST_CASE("what is read later is bound anew by the same child's next turn") {
  const auto known = [](const char* next) {
    return Known(std::string(R"(["/n/Neg"] a = Neg (x) ["/f/Abs"] b = Abs (a)
        ["/Concat"] c = Concat <axis = 0> (b, a) ["/)") +
                 next + R"(/Neg"] d = Neg (c) ["/f_1/Abs"] y = Abs (d))");
  };
  CHECK(known("n_1") == "a until /n_1/Neg as what is read later; ");
  CHECK(known("g") == "a until /f_1/Abs as what is read later; ");
}

TEST_CASE("positions that a model of words rotates by have a name") {
  const std::string model = R"(["/m/rotary_emb/Cast"] c = Cast <to = 1> (p)
      ["/m/rotary_emb/Cos"] r = Cos (c) ["/m/Add"] s = Add (e, r) ["/m/Neg"] y = Neg (s))";
  const std::string positions = R"(p = Constant <value = int64[3, 8] {0, 1, 2, 3, 4, 5, 6, 7, 8, 9,
      10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}> () )";
  CHECK(Known(positions + R"(["/m/other/Gather"] e = Gather (table, x))" + model, "int64[2, 3] x")
            .find("position_ids") == std::string::npos);
}

TEST_CASE("a neck holds lists, and returns what each layer of its last stage makes") {
  const std::string found = Known(R"(
      ["/n/reassemble_stage/a/Neg"] a = Neg (x) ["/n/convs.0/Abs"] b = Abs (a)
      ["/n/fusion_stage/layers.0/Neg"] c = Neg (b) ["/n/fusion_stage/layers.1/Abs"] d = Abs (c)
      ["/n/Exp"] e = Exp (d) ["/Neg"] y = Neg (e))");
  CHECK(found.find("a until /n/Exp as hidden_states; ") != std::string::npos);
  CHECK(found.find("b until /n/Exp as features; ") != std::string::npos);
  CHECK(found.find("c until /Neg as output; d until /Neg as output; ") != std::string::npos);
}

TEST_CASE("a layer of windows holds what it cuts up and puts together") {
  const std::string body = R"(
      six = Constant <value = int64[2] {6, 8}> () back = Constant <value = int64[3] {2, 3, 8}> ()
      none = Constant <value = int64[6] {0, 0, 0, 0, 0, 1}> ()
      less = Constant <value = int64[6] {0, 0, 0, 0, 0, -1}> ()
      ["/m/layernorm_before/Neg"] n = Neg (x) ["/m/Pad"] p = Pad (n, none)
      ["/m/Pad_1"] q = Pad (p, less)
      ["/m/Transpose"] t = Transpose <perm = [1, 0, 2]> (q) ["/m/Reshape"] w = Reshape (t, six) )";
  const std::string behind = R"( ["/m/Reshape_1"] c = Reshape (a, back)
      ["/m/Transpose_1"] u = Transpose <perm = [1, 0, 2]> (c) ["/m/Reshape_2"] r = Reshape (u, back)
      ["/m/layernorm_after/Neg"] l = Neg (r) ["/m/Exp"] y = Exp (l))";
  const std::string found = Known(body + R"(["/m/attention/self/Abs"] a = Abs (w))" + behind);
  CHECK(found.find("q until /m/Exp as shifted_hidden_states; ") != std::string::npos);
  CHECK(found.find("w until /m/Exp as hidden_states_windows; ") != std::string::npos);
  CHECK(found.find("r until /m/Exp as shifted_windows; ") != std::string::npos);
  CHECK(Known(body + R"(["/m/attention/Abs"] a = Abs (w))" + behind).find("windows") ==
        std::string::npos);
}

TEST_CASE("timm's MViT holds distances and products until its function has added them") {
  const std::string found = Known(R"(["/m/pool_q/Neg"] p = Neg (x) ["/m/norm_q/Abs"] q = Abs (p)
      ["/m/norm_k/Exp"] k = Exp (x) ["/m/Sub"] a = Sub (q, k) ["/m/Add"] d = Add (a, q)
      ["/m/Einsum"] r = Einsum <equation = "bij,bkj->bik"> (d, k)
      ["/m/Softmax"] s = Softmax (r) ["/m/MatMul"] y = MatMul (s, k))");
  CHECK(found.find("d until /m/Einsum as dist_h, dist_w; ") != std::string::npos);
  CHECK(found.find(" until /m/Einsum as rel_h, rel_w; ") != std::string::npos);
}

TEST_CASE("a norm behind an encoder takes the place of what that returns") {
  const auto known = [](const std::string& norm) {
    return Known(R"(["/m/embeddings/Neg"] e = Neg (x) ["/m/encoder/a/Abs"] b = Abs (e)
      ["/m/)" + norm +
                 R"(/Neg"] c = Neg (b) ["/m/Tanh"] d = Tanh (c) ["/Exp"] y = Exp (d))");
  };
  CHECK(known("pooler").find("b until /Exp as encoder_outputs; ") != std::string::npos);
  CHECK(known("layernorm").find("b until /Exp") == std::string::npos);
  CHECK(known("rms_norm").find("b until /Exp") == std::string::npos);
  CHECK(known("rms_norm").find("c until /Exp as last_hidden_state; ") != std::string::npos);
}

TEST_CASE("a layer holds the weights that its attention returns") {
  const auto known = [](const std::string& norm) {
    return Known(R"(["/m/layer_norm1/Neg"] n = Neg (x) ["/m/self_attn/Softmax"] w = Softmax (n)
      ["/m/self_attn/Abs"] a = Abs (w) ["/m/)" +
                 norm + R"(/Neg"] l = Neg (a)
      ["/m/mlp/Tanh"] f = Tanh (l) ["/m/Exp"] y = Exp (f))");
  };
  CHECK(known("layer_norm2").find("w until /m/Exp as _; ") != std::string::npos);
  CHECK(known("norm2").find(" as _; ") == std::string::npos);
}

TEST_CASE("a turn of a loop binds anew what layers of another list have shared") {
  const auto known = [](const std::string& other) {
    return Known(R"(["/m/ups.0/Neg"] a = Neg (x) ["/m/blocks.0/Abs"] b = Abs (a)
      ["/m/blocks.1/Exp"] c = Exp (a) ["/m/Add"] d = Add (b, c) ["/m/Sigmoid"] e = Sigmoid (d)
      ["/m/)" + other +
                 R"(/Tanh"] f = Tanh (e) ["/m/Sin"] y = Sin (f))");
  };
  CHECK(known("ups.1").find("a until /m/Sigmoid as what the layers share; ") != std::string::npos);
  CHECK(known("post").find("a until /m/Sin as what the layers share; ") != std::string::npos);
}

TEST_CASE(
    "an activation of what two layers are passed is made in each, though a file has it once") {
  const auto calls = [](const std::string& other) {
    const Program program =
        Build(R"(net (float[2, 8] x) => (float[2, 8] y)
            < float[8, 8] v = ["location": "none"], float[8, 8] w = ["location": "none"] > {
            ["/m/up/Neg"] u = Neg (x) ["/m/blocks.0/Relu"] a = Relu (u)
            ["/m/blocks.0/fc/MatMul"] b = MatMul (a, v) ["/m/)" +
                  other + R"(/MatMul"] c = MatMul (a, w) ["/m/Add"] y = Add (b, c) })",
              {.mode = Mode::kEval})
            .program;
    std::string text;
    for (const AtenCall& call : program.calls) {
      if (call.op == "relu") text += program.modules.PathOf(call.module) + " ";
    }
    return text;
  };
  CHECK(calls("blocks.1/fc") == "m.blocks.0 m.blocks.1 ");
  CHECK(calls("blocks.1/proj") == "m.blocks.0 ");
  CHECK(calls("head/fc") == "m.blocks.0 ");
}

TEST_CASE("a model replaces what an encoder with a head has made") {
  const auto known = [](const std::string& child) {
    return Known(R"(["/m/encoder/)" + child + R"(/Neg"] a = Neg (x) ["/m/Exp"] b = Exp (a)
                    ["/m/decoder/conv/Abs"] y = Abs (b))");
  };
  CHECK(known("head").find("encoder_outputs") == std::string::npos);
  CHECK(known("norm").find("a until /m/decoder/conv/Abs as encoder_outputs; ") !=
        std::string::npos);
}

TEST_CASE("a model holds what its backbone returns") {
  CHECK(Known(R"(["/m/backbone/norm/Neg"] a = Neg (x) ["/m/head/Abs"] b = Abs (a)
                 ["/m/Exp"] y = Exp (b))")
            .find("a until /m/Exp as outputs; ") != std::string::npos);
}

TEST_CASE("nor does one whose weight a parametrization norms") {
  const auto known = [](const std::string& v) {
    const Program program = Build(R"(net (float[2, 3, 8] x) => (float[2, 3, 8] y)
        < float[8, 1] original0 = ["location": "none"], float[8, 8] ")" +
                                      v + R"(" = ["location": "none"] > {
        ones = Constant <value = int64[1] {1}> () l = ReduceL2 (")" +
                                      v + R"(", ones)
        d = Div (")" + v + R"(", l) ["/m/encoder/weight/Mul"] w = Mul (d, original0)
        ["/m/encoder/MatMul"] e = MatMul (x, w) ["/m/decoder/Abs"] a = Abs (e)
        ["/Exp"] y = Exp (a) })",
                                  {.mode = Mode::kEval})
                                .program;
    std::string names;
    for (const KnownName& name : FindKnownNames(program, ModuleRuns(program), 3)) {
      names += name.name + " ";
    }
    return names;
  };
  CHECK(known("original1").find("encoder_outputs") == std::string::npos);
}

TEST_CASE("a selective scan holds what its function has made until that returns") {
  const auto known = [](const std::string& child) {
    return Known(R"(["/m/in_proj/Neg"] h = Neg (x) ["/m/x_proj/Abs"] p = Abs (h)
                    ["/m/)" +
                 child + R"(Softplus"] d = Softplus (p)
                    ["/m/Mul"] m = Mul (d, p) ["/m/Exp"] a = Exp (m) ["/m/Mul_1"] b = Mul (d, h)
                    ["/m/Mul_2"] u = Mul (b, h) ["/m/Mul_3"] s = Mul (a, u)
                    ["/m/out_proj/Neg"] y = Neg (s))");
  };
  const std::string scan = known("");
  CHECK(scan.find("d until /m/Mul_3 as dt; ") != std::string::npos);
  CHECK(scan.find("b until /m/Mul_3 as discrete_B; ") != std::string::npos);
  CHECK(known("dt_proj/").find("discrete_A") == std::string::npos);
}

TEST_CASE("a row may be of forwards that make a call of their own") {
  const auto known = [](const std::string& joined) {
    return Known("[\"/m/" + joined + R"(] c = Concat <axis = 2> (x)
                    ["/m/norm1/Abs"] n = Abs (c) ["/m/conv1/Neg"] a = Neg (n)
                    ["/m/norm2/Abs"] b = Abs (a) ["/m/conv2/Neg"] y = Neg (b))");
  };
  CHECK(known("Concat\"").find("a until /m/conv2/Neg as bottleneck_output; ") != std::string::npos);
  CHECK(known("join/Concat\"").find("bottleneck_output") == std::string::npos);
}

TEST_CASE("a cache holds keys and values until the forward that runs the layers returns") {
  const auto known = [](const std::string& values) {
    return Known(R"(["/m/h.0/Concat"] k = Concat <axis = 1> (x)
                    ["/m/h.0/)" +
                 values + R"(] v = Concat <axis = 1> (x)
                    ["/m/h.0/Transpose"] t = Transpose <perm = [0, 2, 1]> (k)
                    ["/m/h.0/MatMul"] s = MatMul (k, t) ["/m/h.0/Softmax"] w = Softmax (s)
                    ["/m/h.0/MatMul_1"] o = MatMul (w, v) ["/m/h.1/Neg"] n = Neg (o)
                    ["/m/Abs"] a = Abs (n) ["/o/Tanh"] y = Tanh (a))");
  };
  const std::string held = known("Concat_1\"");
  CHECK(held.find("k until /m/Abs as cache; v until /m/Abs as cache; ") != std::string::npos);
  CHECK(known("cat/Concat\"").find("cache") == std::string::npos);
}

TEST_CASE("what a forward fills for a child has a name") {
  const auto known = [](const std::string& child) {
    return Known(R"(["/m/Shape"] s = Shape (x) ["/m/ConstantOfShape"] z = ConstantOfShape (s)
                    ["/m/)" +
                 child + R"(] b = Add (x, z) ["/m/Abs"] y = Abs (b))");
  };
  CHECK(known("a/Add\"") == "z until /m/Abs as mask; ");
  CHECK(known("Add\"").empty());
}

}  // namespace
}  // namespace onnxfit::forward_locals_test
