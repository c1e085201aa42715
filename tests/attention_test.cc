#include <doctest/doctest.h>

#include <string>

#include "tests/bound_model.h"
#include "tests/fx_text.h"
#include "tests/trace_helpers.h"

namespace onnxfit::attention_test {
namespace {

// Attention of two heads over three positions: q, v [1, 2, 3, 4], `key` before its transpose.
std::string Attention(const std::string& body, Mode mode = Mode::kEval,
                      const std::string& key = "1, 3, 2, 4") {
  const std::string text = "net (float[1, 2, 3, 4] q, float[" + key + R"(] k, float[1, 2, 3, 4] v)
                            => (float[1, 2, 3, 4] y) {
      c = Constant <value = float {0.5}> ()
      zero = Constant <value = float {0.0}> ()
      hidden = Constant <value = float {-inf}> ()
      p = Constant <value = float {0.1}> ()
      )" + body + "}";
  return ToString(Build(text, {.mode = mode, .loss = Loss::kNone}).program);
}

constexpr char kScores[] = R"(
  qc = Mul (q, c)
  t = Transpose <perm = [0, 2, 3, 1]> (k)
  kc = Mul (t, c)
  s = MatMul (qc, kc)
)";

constexpr char kPlain[] =
    "\n%y.permute = permute(%k; 0, 2, 1, 3)  # sdpa\n"
    "%y = scaled_dot_product_attention(%q, %y.permute, %v, none; 0, 0)  # sdpa\n";

TEST_CASE("attention is known by the square root of its scale on both sides") {
  struct Row {
    std::string name;
    std::string body;
    const char* program;  // what is in it
  };
  const Row rows[] = {
      {"k's own transpose merged with the exporter's",
       kScores + std::string("w = Softmax (s) [sdpa] y = MatMul (w, v)"), kPlain},
      {"a bool mask is guarded against rows of nothing", kScores + std::string(R"(
         w = Softmax (s) n = IsNaN (w) g = Where (n, zero, w) [sdpa] y = MatMul (g, v))"),
       kPlain},
      {"written by hand: scaled once", R"(
         [t] t = Transpose <perm = [0, 2, 3, 1]> (k)
         [s] s = MatMul (q, t) [d] d = Div (s, c) [w] w = Softmax (d) [sdpa] y = MatMul (w, v))",
       "\n%t = permute(%k; 0, 2, 3, 1)  # t\n%s = matmul(%q, %t)  # s\n%d = mul.Scalar(%s)  # d\n"
       "%w = softmax(%d)  # w\n%y = matmul(%w, %v)  # sdpa\n"},
      {"weights that are read elsewhere", kScores + std::string(R"(
         w = Softmax (s) [other] o = MatMul (w, v) [sdpa] y = MatMul (w, o))"),
       "mul.Scalar"},
      {"another axis", kScores + std::string("w = Softmax <axis = 1> (s) y = MatMul (w, v)"),
       "mul.Scalar"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const std::string program = Attention(row.body);
    CHECK(program.find(row.program) != std::string::npos);
  }
}

// What fused kernels read is side by side: code copies what is transposed, which leaves no node.
TEST_CASE("transposed operands of TorchScript's attention are copied") {
  const auto program = [](const std::string& name, const std::string& root) {
    return Attention(R"(qt = Transpose <perm = [0, 1, 3, 2]> (q) qc = Mul (qt, c) r = )" + root +
                         R"( (c) kc = Mul (k, r) vt = Transpose <perm = [0, 1, 3, 2]> (v)
                     s = MatMul (qc, kc) w = Softmax (s) [")" +
                         name + R"("] o = MatMul (w, vt)
                     y = Transpose <perm = [0, 1, 3, 2]> (o))",
                     Mode::kEval, "1, 2, 3, 4");
  };
  CHECK(program("/sdpa", "Sqrt") ==
        "\n%qt = permute(%q; 0, 1, 3, 2)  # Transpose #4\n"
        "%vt = permute(%v; 0, 1, 3, 2)  # Transpose #8\n"
        "%o.permute = permute(%k; 0, 1, 3, 2)  # /sdpa\n"
        "%o.contiguous = contiguous(%qt)  # /sdpa\n"
        "%o.contiguous = contiguous(%o.permute)  # /sdpa\n"
        "%o.contiguous = contiguous(%vt)  # /sdpa\n"
        "%o = scaled_dot_product_attention(%o.contiguous, %o.contiguous, %o.contiguous, none; 0, 0)"
        "  # /sdpa\n%y = permute(%o; 0, 1, 3, 2)  # Transpose #12\n");
  CHECK(program("sdpa", "Sqrt").find("contiguous") == std::string::npos);
  CHECK(program("/sdpa", "Neg").find("scaled_dot") == std::string::npos);
}

TEST_CASE("heads are copied where queries are scaled first, and keys have no bias") {
  const auto program = [](const std::string& keys) {
    return ToString(Build(R"(net (float[1, 3, 8] x) => (float[1, 2, 3, 4] y)
        < float[8, 8] w = ["location": "none"] > {
      c = Constant <value = float {0.5}> () heads = Constant <value = int64[4] {1, 3, 2, 4}> ()
      ["/a/q_proj/MatMul"] ql = MatMul (x, w) ["/a/Mul"] qs = Mul (ql, c)
      ["/a/Reshape"] qh = Reshape (qs, heads)
      ["/a/Transpose"] q = Transpose <perm = [0, 2, 1, 3]> (qh)
      ["/a/)" + keys + R"(/MatMul"] kl = MatMul (x, w) ["/a/Reshape_1"] kh = Reshape (kl, heads)
      ["/a/v_proj/MatMul"] vl = MatMul (x, w) ["/a/Reshape_2"] vh = Reshape (vl, heads)
      ["/a/Transpose_1"] v = Transpose <perm = [0, 2, 1, 3]> (vh)
      ["/a/Transpose_2"] kt = Transpose <perm = [0, 2, 3, 1]> (kh)
      qc = Mul (q, c) kc = Mul (kt, c) s = MatMul (qc, kc) p = Softmax (s)
      ["/a/MatMul"] y = MatMul (p, v) })",
                          {.mode = Mode::kEval})
                        .program);
  };
  const std::string copies = program("k_proj");
  CHECK_MESSAGE(copies.find("%q.permute = permute(%qh; 0, 2, 1, 3)  # /a/Transpose\n"
                            "%q = contiguous(%q.permute)  # /a/Transpose\n") != std::string::npos,
                copies);
  CHECK(copies.find("%v = contiguous(%v.permute)") != std::string::npos);
  CHECK(copies.find("%y.contiguous = contiguous(%y.permute)") != std::string::npos);
  CHECK(program("key").find("contiguous") == std::string::npos);
}

TEST_CASE("a permuted bias of attention is copied") {
  const auto program = [](const std::string& perm) {
    return Attention(R"(["/Transpose"] t = Transpose <perm = )" + perm + R"(> (k)
                     one = Constant <value = int64[1] {0}> () b = Unsqueeze (t, one)
                     qc = Mul (q, c) qt = Transpose <perm = [0, 1, 3, 2]> (v) kc = Mul (qt, c)
                     s = MatMul (qc, kc) a = Add (s, b) w = Softmax (a) y = MatMul (w, v))",
                     Mode::kEval, perm == "[2, 0, 1]" ? "3, 3, 2" : "3, 2, 3");
  };
  CHECK(program("[2, 0, 1]")
            .starts_with("\n%t.permute = permute(%k; 2, 0, 1)  # /Transpose\n"
                         "%t = contiguous(%t.permute)  # /Transpose\n"
                         "%b = view(%t)"));
  CHECK(program("[1, 0, 2]").find("contiguous") == std::string::npos);
}

TEST_CASE("what a module permutes to [n, c, h, w] is copied where names tell") {
  const auto calls = [](const std::string& child, const char* blocks = "serial_blocks1.0") {
    return TraceText(R"(n (float[2, 4, 4, 8] x) => (float[2, 8, 4, 4] y) {
        ["/)" + child + R"(/Neg"] a = Neg (x)
        ["/)" + blocks + R"(/Abs"] b = Abs (a)
        ["/Transpose"] t = Transpose <perm = [0, 3, 1, 2]> (b) ["/Neg"] y = Neg (t) })",
                     {.mode = Mode::kEval, .steps = 1});
  };
  CHECK(calls("patch_embed1").find("+t:1024") != std::string::npos);
  CHECK(calls("patch_embed").find("+t:1024") == std::string::npos);
  CHECK(calls("patch_embeds.0", "pos_block.0").find("+t:1024") != std::string::npos);
  const auto calls_in = [](const std::string& module) {
    return TraceText(R"(n (float[2, 4, 4, 8] x) => (float[2, 8, 4, 4] y) {
        ["/)" + module + R"(/Abs"] b = Abs (x)
        ["/)" + module + R"(/Transpose"] t = Transpose <perm = [0, 3, 1, 2]> (b)
        ["/)" + module + R"(/layers.0/Neg"] y = Neg (t) })",
                     {.mode = Mode::kEval, .steps = 1});
  };
  CHECK(calls_in("reassemble_stage").find("+t:1024") != std::string::npos);
  CHECK(calls_in("fusion_stage").find("+t:1024") == std::string::npos);
}

TEST_CASE("what relative positions multiply is copied with its rows in front, where names tell") {
  const auto calls = [](const std::string& last) {
    return TraceText(R"(n (float[4, 2, 8] x) => (float[2, 4, 8] y) {
        ["/m/fc_q/Neg"] a = Neg (x) ["/m/Transpose"] t = Transpose <perm = [1, 0, 2]> (a)
        ["/m/)" + last + R"(/Abs"] y = Abs (t) })",
                     {.mode = Mode::kEval, .steps = 1});
  };
  CHECK(calls("fc_o").find("+t:256") != std::string::npos);
  CHECK(calls("fc_p").find("+t:256") == std::string::npos);
}

TEST_CASE("the features of a graph's edges are copied where they are permuted to [n, c, h, w]") {
  const auto calls = [](const std::string& sum) {
    return TraceText(R"(n (float[2, 4, 4, 8] x) => (float[2, 16, 4, 4] y) {
        f = Abs (x) d = Sub )" +
                         sum + R"( c = Concat <axis = 3> (d, x)
        ["/Transpose"] t = Transpose <perm = [0, 3, 1, 2]> (c) ["/Neg"] y = Neg (t) })",
                     {.mode = Mode::kEval, .steps = 1});
  };
  CHECK(calls("(f, x)").find("+t:2048") != std::string::npos);
  CHECK(calls("(x, f)").find("+t:2048") == std::string::npos);
}

TEST_CASE("and where its name tells, or of what is permuted before it is cut into rows") {
  const auto stage = [](const std::string& name) {
    return TraceText(R"(n (float[2, 4, 4, 8] x) => (float[2, 8, 4, 4] y) {
        ["/)" + name + R"(/Transpose"] t = Transpose <perm = [0, 3, 1, 2]> (x)
        ["/)" + name + R"(/layers.0/Neg"] y = Neg (t) })",
                     {.mode = Mode::kEval, .steps = 1});
  };
  CHECK(stage("reassemble_stage").find("+t:1024") != std::string::npos);
  CHECK(stage("stage").find("+t:1024") == std::string::npos);
  const auto maps = [](const std::string& child) {
    return TraceText(R"(n (float[2, 16, 8] x) => (float[2, 8, 4, 4] y) {
        s = Constant <value = int64[4] {2, 8, 4, 4}> () ["/backbone/embeddings/Neg"] a = Neg (x)
        ["/Transpose"] t = Transpose <perm = [0, 2, 1]> (a) ["/Reshape"] m = Reshape (t, s)
        ["/)" + child + R"(/Abs"] y = Abs (m) })",
                     {.mode = Mode::kEval, .steps = 1});
  };
  const std::string reshaped = TraceText(R"(n (float[2, 16, 8] x) => (float[2, 8, 4, 4] y) {
        s = Constant <value = int64[4] {2, 8, 4, 4}> () ["/reassemble_stage/a/Neg"] a = Neg (x)
        ["/reassemble_stage/Transpose"] t = Transpose <perm = [0, 2, 1]> (a)
        ["/reassemble_stage/Reshape"] m = Reshape (t, s)
        ["/reassemble_stage/layers.0/Abs"] y = Abs (m) })",
                                         {.mode = Mode::kEval, .steps = 1});
  CHECK(reshaped.find("+m:1024") == std::string::npos);
  CHECK(maps("head").find("+m:1024") != std::string::npos);
  CHECK(maps("neck").find("+m:1024") == std::string::npos);
}

TEST_CASE("and windows of a series that its name says are") {
  const auto patches = [](const std::string& module) {
    const auto named = [&](const std::string& node) {
      return "[\"/" + module + "/" + node + "\"] ";
    };
    return TraceText(
        "n (float[2, 8, 7] x) => (float[2, 7, 2, 4] y) <int64[1] o = {0}, int64[1] h = "
        "{4}, int64[1] e = {8}, int64[1] d = {-2}> { " +
            named("Slice") + "a = Slice (x, o, h, d) " + named("Slice_1") +
            "b = Slice (x, h, e, d) " + named("Transpose") +
            "at = Transpose <perm = [0, 2, 1]> (a) " + named("Transpose_1") +
            "bt = Transpose <perm = [0, 2, 1]> (b) " + named("Unsqueeze") +
            "ar = Unsqueeze (at, d) " + named("Unsqueeze_1") + "br = Unsqueeze (bt, d) " +
            named("Concat") + "w = Concat <axis = -2> (ar, br) " + named("Transpose_2") +
            "t = Transpose <perm = [0, 2, 1, 3]> (w) [\"/Neg\"] y = Neg (t) }",
        {.mode = Mode::kEval, .steps = 1});
  };
  CHECK(patches("patching").find("+t:448") != std::string::npos);
  CHECK(patches("windows").find("+t:448") == std::string::npos);
}

TEST_CASE("attention of a k that has its shape already, by either exporter") {
  constexpr char kDirect[] =
      "\n%y = scaled_dot_product_attention(%q, %k, %v, none; 0, 0)  # sdpa\n";
  CHECK(Attention(R"(qc = Mul (q, c) t = Transpose <perm = [0, 1, 3, 2]> (k) kc = Mul (t, c)
                     s = MatMul (qc, kc) w = Softmax (s) [sdpa] y = MatMul (w, v))",
                  Mode::kEval, "1, 2, 3, 4") == kDirect);
  CHECK(Attention(R"(flat = Constant <value = int64[3] {-1, 3, 4}> ()
                     full = Constant <value = int64[4] {1, 2, 4, 3}> ()
                     f = Reshape (k, flat) t = Transpose <perm = [0, 2, 1]> (f)
                     u = Reshape (t, full) qc = Mul (q, c) kc = Mul (u, c)
                     s = MatMul (qc, kc) w = Softmax (s) [sdpa] y = MatMul (w, v))",
                  Mode::kEval, "1, 2, 3, 4") == kDirect);
}

// With sizes that are numbers k's own view and the exporter's [-1, S, D] are one Reshape, or none.
TEST_CASE("attention of a k whose own view is merged with the exporter's") {
  const auto program = [](const char* key, const std::string& flatten) {
    return Attention(flatten + R"( t = Transpose <perm = [0, 2, 1]> (f)
                     full = Constant <value = int64[4] {1, 2, 4, 3}> ()
                     u = Reshape (t, full) qc = Mul (q, c) kc = Mul (u, c)
                     s = MatMul (qc, kc) w = Softmax (s) [sdpa] y = MatMul (w, v))",
                     Mode::kEval, key);
  };
  CHECK(program("2, 3, 4", "f = Identity (k)") ==
        "\n%y.view = view(%k)  # sdpa\n"
        "%y = scaled_dot_product_attention(%q, %y.view, %v, none; 0, 0)  # sdpa\n");
  CHECK(program("6, 4", "flat = Constant <value = int64[3] {2, 3, 4}> () f = Reshape (k, flat)") ==
        "\n%y.view = view(%k)  # sdpa\n"
        "%y = scaled_dot_product_attention(%q, %y.view, %v, none; 0, 0)  # sdpa\n");
  CHECK(Attention(R"(t = Transpose <perm = [0, 2, 1]> (k)
                     full = Constant <value = int64[4] {1, 2, 4, 3}> ()
                     u = Reshape (t, full) qc = Mul (q, c) kc = Mul (u, c)
                     s = MatMul (qc, kc) w = Softmax (s) y = MatMul (w, v))",
                  Mode::kEval, "4, 3, 2")
            .find("scaled_dot") == std::string::npos);
}

TEST_CASE("attention drops out in training, where it has a dropout above 0") {
  const auto with = [](const char* ratio, Mode mode) {
    return Attention(kScores + std::string("w = Softmax (s) d = Dropout (w, ") + ratio +
                         ") [sdpa] y = MatMul (d, v)",
                     mode);
  };
  CHECK(with("p", Mode::kTrain).find("none; 1, 0)") != std::string::npos);
  CHECK(with("zero", Mode::kTrain).find("none; 0, 0)") != std::string::npos);
  CHECK(with("p", Mode::kEval).find("none; 0, 0)") != std::string::npos);
}

TEST_CASE("what a mask means") {
  struct Row {
    std::string name;
    std::string mask;
    const char* program;  // behind k's transpose
  };
  const std::string indices = R"(
      n0 = Constant <value = int64 {0}> () n1 = Constant <value = int64 {1}> ()
      n3 = Constant <value = int64 {3}> () one = Constant <value = int64[1] {1}> ()
      columns = Range (n0, n3, n1) rows = Unsqueeze (columns, one) )";
  const Row rows[] = {
      {"hides nothing", indices + "keep = GreaterOrEqual (rows, n0) m = Where (keep, zero, hidden)",
       "%y = scaled_dot_product_attention(%q, %y.permute, %v, none; 0, 0, 0, 1)  # sdpa\n"},
      {"a triangle",
       indices + "keep = GreaterOrEqual (rows, columns) m = Where (keep, zero, hidden)",
       "%y = scaled_dot_product_attention(%q, %y.permute, %v, none; 0, 1)  # sdpa\n"},
      {"a triangle turned round",
       indices + "drop = Less (rows, columns) m = Where (drop, hidden, zero)",
       "%y = scaled_dot_product_attention(%q, %y.permute, %v, none; 0, 1)  # sdpa\n"},
      {"another triangle",
       indices + "keep = LessOrEqual (rows, columns) m = Where (keep, zero, hidden)",
       "%y = scaled_dot_product_attention(%q, %y.permute, %v, %keep; 0, 0)  # sdpa\n"},
      {"TorchScript's is_causal", R"(
         size = Constant <value = int64[2] {3, 3}> () f1 = Constant <value = float {1.0}> ()
         ones = Expand (f1, size) low = Trilu <upper = 0> (ones) behind = Equal (low, zero)
         m = Where (behind, hidden, zero))",
       "%y = scaled_dot_product_attention(%q, %y.permute, %v, none; 0, 1)  # sdpa\n"},
      {"a bias that is masked nowhere",
       indices + "keep = GreaterOrEqual (rows, n0) bias = Neg (v4) m = Where (keep, bias, hidden)",
       "%y = scaled_dot_product_attention(%q, %y.permute, %v, %bias; 0, 0)  # sdpa\n"},
      {"a bias behind a triangle",
       indices +
           "keep = GreaterOrEqual (rows, columns) bias = Neg (v4) m = Where (keep, bias, hidden)",
       "%y.constant = constant()  # sdpa\n%y.constant = constant()  # sdpa\n"
       "%y.ge = ge(%y.constant, %y.constant)  # sdpa\n"
       "%y.constant = constant()  # sdpa\n"
       "%y.where = where(%y.ge, %bias, %y.constant)  # sdpa\n"
       "%y = scaled_dot_product_attention(%q, %y.permute, %v, %y.where; 0, 0)  # sdpa\n"},
      {"of a tensor", "m = Neg (v4)",
       "%y = scaled_dot_product_attention(%q, %y.permute, %v, %m; 0, 0)  # sdpa\n"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const std::string bias = "[1, 2, 3, 3]";
    const std::string program = ToString(
        Build("net (float[1, 2, 3, 4] q, float[1, 3, 2, 4] k, float[1, 2, 3, 4] v, float" + bias +
                  " v4) => (float[1, 2, 3, 4] y) { c = Constant <value = float {0.5}> () "
                  "zero = Constant <value = float {0.0}> () "
                  "hidden = Constant <value = float {-inf}> () " +
                  row.mask + kScores + "a = Add (s, m) x = Softmax (a) [sdpa] y = MatMul (x, v) }",
              {.mode = Mode::kEval, .loss = Loss::kNone})
            .program);
    CAPTURE(program);
    CHECK(program.ends_with(row.program));
  }
}

TEST_CASE("zeros in the place of a bias have the type of the query") {
  const auto type = [](const std::string& reader) {
    const Program program =
        Build(
            R"(net (float[1, 2, 3, 4] q, float[1, 3, 2, 4] k, float[1, 2, 3, 4] v) => (float[1, 2, 3, 4] y)
            { c = Constant <value = float {0.5}> () hidden = Constant <value = float {-inf}> ()
              size = Constant <value = int64[4] {1, 2, 3, 3}> () yes = Constant <value = bool {1}> ()
              z = ConstantOfShape (size) m = Where (yes, z, hidden))" +
                std::string(kScores) + reader + " x = Softmax (a) y = MatMul (x, v) }",
            {.precision = Precision::kAmpBf16, .mode = Mode::kEval})
            .program;
    for (const ProgramValue& value : program.values) {
      if (value.name == "z") return Name(value.type.dtype);
    }
    return std::string_view();
  };
  CHECK(type("a = Add (s, m)") == "bfloat16");
  CHECK(type("n = Neg (m) a = Add (s, n)") == "float32");
}

TEST_CASE("MultiheadAttention copies its projection before it takes q, k and v apart") {
  const auto program = [](const char* reader) {
    return ToString(Build(R"(net (float[5, 2, 12] p) => (float[5, 2, 4] y) {
        shape = Constant <value = int64[4] {5, 2, 3, 4}> ()
        first = Constant <value = int64[1] {0}> () last = Constant <value = int64[1] {-2}> ()
        i0 = Constant <value = int64 {0}> () i1 = Constant <value = int64 {1}> ()
        [r] r = Reshape (p, shape) [u] u = Unsqueeze (r, first)
        [t] t = Transpose <perm = [3, 1, 2, 0, 4]> (u) [s] s = Squeeze (t, last)
        [q] q = Gather <axis = 0> (s, i0) )" +
                              std::string(reader) + " [y] y = Add (q, k) }",
                          {.mode = Mode::kEval})
                        .program);
  };
  CHECK(program("[k] k = Gather <axis = 0> (s, i1)")
            .find("%s.view = view(%t)  # s\n%s = contiguous(%s.view)  # s\n") != std::string::npos);
  CHECK(program("[k] k = ReduceSum <keepdims = 0> (s, first)").find("contiguous") ==
        std::string::npos);
}

// torch.export leaves out products with 1, but says what its nodes came from.
TEST_CASE("attention that does not scale is known by its call") {
  const auto program = [](std::string_view target) {
    Graph graph = ParseGraph(R"(
        net (float[1, 2, 3, 4] q, float[1, 3, 2, 4] k, float[1, 2, 3, 4] v)
        => (float[1, 2, 3, 4] y) {
        t = Transpose <perm = [0, 2, 3, 1]> (k) s = MatMul (q, t) w = Softmax (s)
        y = MatMul (w, v) })");
    const std::string says = FxText("y", target, "%q, %k, %v");
    for (NodeId node = 0; node < 4; ++node) Say(graph, node, says);
    return ToString(Build(graph, {.mode = Mode::kEval}).program);
  };
  CHECK(program("scaled_dot_product_attention.default") ==
        "\n%y.permute = permute(%k; 0, 2, 1, 3)  # MatMul #3\n"
        "%y = scaled_dot_product_attention(%q, %y.permute, %v, none; 0, 0)  # MatMul #3\n");
  CHECK(program("einsum.default").find("%w = softmax(%s)") != std::string::npos);
}

// The exporter computes a small mask, and writes no dropout for it.
TEST_CASE("attention has the mask and the dropout that its call says") {
  const auto program = [](std::string_view arguments, Mode mode = Mode::kTrain) {
    Graph graph = ParseGraph(R"(
        net (float[1, 2, 3, 4] q, float[1, 2, 3, 4] k, float[1, 2, 3, 4] v)
        => (float[1, 2, 3, 4] y) {
        m = Constant <value = float[3, 3] {0, -inf, -inf, 0, 0, -inf, 0, 0, 0}> ()
        t = Transpose <perm = [0, 1, 3, 2]> (k) s = MatMul (q, t) a = Add (s, m) w = Softmax (a)
        y = MatMul (w, v) })");
    const std::string says = FxText("y", "scaled_dot_product_attention.default", arguments);
    for (NodeId node = 1; node < 6; ++node) Say(graph, node, says);
    return ToString(Build(graph, {.mode = mode, .loss = Loss::kNone}).program);
  };
  CHECK(program("%q, %k, %v, None, 0.1, True").find("%v, none; 1, 1)") != std::string::npos);
  CHECK(program("%q, %k, %v, None, 0.1, True", Mode::kEval).find("%v, none; 0, 1)") !=
        std::string::npos);
  CHECK(program("%q, %k, %v, None, 0.0, True").find("%v, none; 0, 1)") != std::string::npos);
  CHECK(program("%q, %k, %v, %m, 0.1").find("%v, %m; 1, 0)") != std::string::npos);
  CHECK(program("%q, %k, %v, %m").find("%v, %m; 0, 0)") != std::string::npos);
}

TEST_CASE("one head of keys and values is broadcast unless its call repeats it") {
  const auto program = [](const std::string& named) {
    Graph graph = ParseGraph(R"(
        net (float[1, 2, 3, 4] q, float[1, 1, 3, 4] k, float[1, 1, 3, 4] v)
        => (float[1, 2, 3, 4] y) {
        t = Transpose <perm = [0, 1, 3, 2]> (k) s = MatMul (q, t) w = Softmax (s)
        y = MatMul (w, v) })");
    const std::string says =
        FxText("y", "scaled_dot_product_attention.default", "%q, %k, %v, None, 0.0, False" + named);
    for (NodeId node = 0; node < 4; ++node) Say(graph, node, says);
    return ToString(Build(graph, {.mode = Mode::kEval}).program);
  };
  CHECK(program("").find("%v, none; 0, 0, 1)") != std::string::npos);
  CHECK(program(", None, True").find("%v, none; 0, 0)") != std::string::npos);
}

TEST_CASE("TorchScript's exporter writes no attention that repeats heads") {
  const auto program = [](const char* name) {
    const std::string text = fmt::format(
        R"(net (float[1, 2, 3, 4] q, float[1, 1, 3, 4] k, float[1, 1, 3, 4] v)
        => (float[1, 2, 3, 4] y) < float c = {{0.7071}} > {{
        ["{0}/Transpose"] t = Transpose <perm = [0, 1, 3, 2]> (k)
        ["{0}/Mul"] a = Mul (q, c) ["{0}/Mul_1"] b = Mul (t, c)
        ["{0}/MatMul"] s = MatMul (a, b) ["{0}/Softmax"] w = Softmax <axis = -1> (s)
        ["{0}/MatMul_1"] y = MatMul (w, v) }})",
        name);
    return ToString(Build(ParseGraph(text), {.mode = Mode::kEval}).program);
  };
  CHECK(program("/attention").find("; 0, 0, 1)") != std::string::npos);
  CHECK(program("attention").find("; 0, 0)") != std::string::npos);
}

// Libraries leave out a causal mask that they make, but while torch.export traces them.
TEST_CASE("a causal mask that the model's own lines make stays a tensor") {
  const auto has_mask = [](const std::string& line) {
    Graph graph = ParseGraph(R"(n (float[1, 2, 3, 4] q, float[1, 2, 3, 4] k, float[1, 2, 3, 4] v)
                                => (float[1, 2, 3, 4] y) {
        size = Constant <value = int64[2] {3, 3}> () one = Constant <value = float {1.0}> ()
        zero = Constant <value = float {0.0}> () hidden = Constant <value = float {-inf}> ()
        c = Constant <value = float {0.5}> ()
        ones = Expand (one, size) low = Trilu <upper = 0> (ones) given = Cast <to = 9> (low)
        qc = Mul (q, c) t = Transpose <perm = [0, 1, 3, 2]> (k) kc = Mul (t, c)
        s = MatMul (qc, kc) mask = Where (given, zero, hidden) a = Add (s, mask) w = Softmax (a)
        y = MatMul (w, v)
      })");
    const std::string says =
        FxText("y", "scaled_dot_product_attention.default", "%q, %k, %v, %given");
    const std::string trace =
        "File \"transformers/models/a/modeling_a.py\", line 3, in forward\n  " + line + "\n";
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const bool is_mask = graph.nodes[i].op_type == "Cast";
      if (is_mask) graph.nodes[i].metadata.emplace_back("pkg.torch.onnx.stack_trace", trace);
      if (i > 7) Say(graph, static_cast<NodeId>(i), says);
    }
    const BoundModel model(graph);
    for (const Rewritten& call : model.found.rewrites) {
      if (call.aten == "scaled_dot_product_attention") return call.inputs[3] != kNoValue;
    }
    FAIL("no attention");
    return false;
  };
  CHECK(has_mask("mask = torch.ones(3, 3).tril().bool()"));
  CHECK_FALSE(has_mask("mask = create_causal_mask("));
}

TEST_CASE("without lines Falcon's attention tells that its mask is made") {
  const auto has_mask = [](const std::string& bias) {
    const BoundModel model(ParseGraph(R"(n (float[1, 2, 3, 4] q, float[1, 2, 3, 4] k,
                                           float[1, 2, 3, 4] v) => (float[1, 2, 3, 4] y)
      < float[4] ")" + bias + R"(" = ["location": "none"] > {
        size = Constant <value = int64[2] {3, 3}> () one = Constant <value = float {1.0}> ()
        zero = Constant <value = float {0.0}> () hidden = Constant <value = float {-inf}> ()
        c = Constant <value = float {0.5}> ()
        ones = Expand (one, size) low = Trilu <upper = 0> (ones) given = Cast <to = 9> (low)
        ["/t/h.0/self_attention/Mul"] qc = Mul (q, c)
        ["/t/h.0/self_attention/Transpose"] t = Transpose <perm = [0, 1, 3, 2]> (k)
        ["/t/h.0/self_attention/Mul_1"] kc = Mul (t, c)
        ["/t/h.0/self_attention/MatMul"] s = MatMul (qc, kc)
        ["/t/h.0/self_attention/Where"] mask = Where (given, zero, hidden)
        ["/t/h.0/self_attention/Add"] a = Add (s, mask)
        ["/t/h.0/self_attention/Softmax"] w = Softmax (a)
        ["/t/h.0/self_attention/MatMul_1"] p = MatMul (w, v)
        ["/t/h.0/self_attention/Add_1"] y = Add (p, ")" +
                                      bias + R"(") })"));
    for (const Rewritten& call : model.found.rewrites) {
      if (call.aten == "scaled_dot_product_attention") return call.inputs[3] != kNoValue;
    }
    FAIL("no attention");
    return false;
  };
  CHECK(has_mask("t.h.0.self_attention.query_key_value.bias"));
  CHECK_FALSE(has_mask("t.h.0.self_attention.dense.bias"));
}

}  // namespace
}  // namespace onnxfit::attention_test
