// What TorchScript's exporter takes apart is one call again.
#include <doctest/doctest.h>

#include <string>

#include "tests/trace_helpers.h"

namespace onnxfit::scripted_calls_test {
namespace {

// The call that ends a graph of x [2, 8], y = -x, m = x > 0 and i, two places, and those before it
// that its nodes have become.
std::string CallsOf(const std::string& body) {
  const Program program = Build(R"(net (float[2, 8] x, int64[2] i) => (float r) {
        zero = Constant <value = float {0}> () one = Constant <value = float {1}> ()
        half = Constant <value = float {0.5}> () two = Constant <value = float {2}> ()
        tiny = Constant <value = float {0.000001}> () pi = Constant <value = float {3.14159274}> ()
        front = Constant <value = int64[1] {0}> () last = Constant <value = int64[1] {-1}> ()
        ones = Constant <value = int64[1] {1}> () most = Constant <value = int64[1] {9223372036854775807}> ()
        size_ = Constant <value = int64[2] {-1, 1}> ()
        three = Constant <value = int64[1] {3}> () five = Constant <value = int64[1] {5}> ()
        size = Shape (x) y = Neg (x) m = Greater (x, zero) )" +
                                    body + " }",
                                {.mode = Mode::kEval})
                              .program;
  std::string text;
  for (const AtenCall& call : program.calls) {
    const std::string& made = program.values[static_cast<size_t>(call.outputs[0])].name;
    if (made == "y" || made == "m") continue;
    text += (text.empty() ? "" : " ") + std::string(call.op) + "(";
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const NameId name = call.inputs[i];
      text += i == 0 ? "" : ",";
      text += name == kNoName ? "-" : program.values[static_cast<size_t>(name)].name;
    }
    text += ")";
    for (const int64_t number : call.ints) text += " " + std::to_string(number);
  }
  return text;
}

TEST_CASE("what TorchScript's exporter writes as several nodes is one call") {
  struct Row {
    const char* calls;
    const char* body;
  };
  const Row rows[] = {
      {"atan2(x,y)",
       R"(d = Div (x, y) a = Atan (d) g = Greater (x, zero) p = Add (a, pi) q = Sub (a, pi)
          w = Where (g, p, q) l = Less (y, zero) ["/Where"] r = Where (l, w, a))"},
      {"remainder(x,y)", R"(d = Div (x, y) f = Floor (d) p = Mul (f, y) ["/Sub"] r = Sub (x, p))"},
      {"div.Tensor_mode(x,y)", R"(d = Div (x, y) ["/Floor"] r = Floor (d))"},
      {"div.Tensor_mode(x,y)",
       R"(d = Div (x, y) w = Cast <to = 7> (d) ["/C"] r = Cast <to = 1> (w))"},
      {"clamp_min.Tensor(x,y)", R"(c = Cast <to = 1> (y) ["/Max"] r = Max (x, c))"},
      {"clamp_max.Tensor(x,y)", R"(c = Cast <to = 1> (y) ["/Min"] r = Min (x, c))"},
      {"clamp.Tensor(x,y,y)",
       R"(c = Cast <to = 1> (y) e = Cast <to = 1> (c) d = Cast <to = 1> (y) ["/Max"] a = Max (x, e)
          ["/Min"] r = Min (a, d))"},
      {"lerp.Tensor(x,y,x)",
       R"(d = Sub (y, x) l = Less (x, half) p = Mul (x, d) a = Add (x, p) u = Sub (one, x)
          q = Mul (d, u) s = Sub (y, q) ["/Where"] r = Where (l, a, s))"},
      {"addcmul(x,y,x)",
       R"(f = Constant <value = float[1] {1}> () p = Mul (y, x) q = Mul (p, f)
          ["/Add"] r = Add (x, q))"},
      {"logit(x)", R"(s = Sub (one, x) d = Div (x, s) ["/Log"] r = Log (d))"},
      {"nan_to_num(x)",
       R"(n = IsNaN (x) a = Where (n, zero, x) c = Cast <to = 11> (a) s = IsInf (c)
          g = Greater (a, zero) t = And (s, g) b = Where (t, two, a) d = Cast <to = 11> (b)
          u = IsInf (d) l = Less (b, zero) v = And (u, l) ["/Where"] r = Where (v, two, b))"},
      {"hardshrink(x)",
       R"(g = Greater (x, half) l = Less (x, half) p = Cast <to = 9> (g) q = Cast <to = 9> (l)
          o = Or (p, q) ["/Where"] r = Where (o, x, zero))"},
      {"softshrink(x)",
       R"(g = Greater (x, half) s = Sub (x, half) v = Where (g, s, zero) l = Less (x, half)
          a = Add (x, half) w = Where (l, a, zero) ["/Add"] r = Add (v, w))"},
      {"rrelu(x)", R"(n = RandomUniformLike (x) ["/PRelu"] r = PRelu (x, n))"},
      {"norm.largest(x)",
       R"(f = Reshape (x, last) a = Abs (f) ["/ReduceMax"] r = ReduceMax <keepdims = 0> (a))"},
      {"norm.power(x)",
       R"(f = Reshape (x, last) a = Abs (f) p = Pow (a, half) s = ReduceSum <keepdims = 0> (p)
          d = Div (one, half) ["/Pow"] r = Pow (s, d))"},
      {"cdist(x,y) 0",
       R"(a = Unsqueeze (x, ones) b = Unsqueeze (y, front) e = Add (two, tiny) q = Div (one, e)
          d = Sub (a, b) p = Pow (d, two) s = ReduceSum <keepdims = 0> (p, last)
          ["/Pow"] r = Pow (s, q))"},
      {"cosine_similarity(x,y) 1",
       R"(p = Mul (x, y) s = ReduceSum <keepdims = 0> (p, ones) q = Mul (x, x)
          t = ReduceSum <keepdims = 0> (q, ones) u = Mul (y, y) v = ReduceSum <keepdims = 0> (u, ones)
          w = Mul (t, v) z = Sqrt (w) n = Max (z, tiny) ["/Div"] r = Div (s, n))"},
      // at::norm (x1 - x2 + eps, p, -1)
      {"sub(x,y) add.Scalar(r.sub) norm(r.add.Scalar)",
       R"(e = Add (two, tiny) q = Div (one, e) d = Sub (x, y) p = Pow (d, two)
          s = ReduceSum <keepdims = 0> (p, last) ["/Pow"] r = Pow (s, q))"},
      {"binary_cross_entropy_with_logits(x,y) 1",
       R"(s = Sigmoid (x) l = Log (s) n = Sub (one, s) o = Sub (one, y) k = Log (n) a = Mul (y, l)
          b = Mul (o, k) c = Add (a, b) d = Neg (c) ["/ReduceMean"] r = ReduceMean <keepdims = 0> (d))"},
      {"expand(x) expand(y) mse_loss(r.expand,r.expand) 1",
       R"(z = ConstantOfShape (size) a = Add (z, x) b = Add (a, y) u = Shape (b) p = Expand (x, u)
          v = Shape (b) q = Expand (y, v) s = Sub (p, q) t = Sub (p, q) w = Mul (s, t)
          ["/ReduceMean"] r = ReduceMean <keepdims = 0> (w))"},
      {"index_put.accumulate(x,y,i)",
       R"(z = ConstantOfShape (size) u = Unsqueeze (i, last) v = Reshape (y, size)
          s = ScatterND (z, u, v) ["/Add"] r = Add (x, s))"},
      {"index_put(x,y,i)",
       R"(n = Shape (i) t = Slice (size, ones, most, front) c = Concat <axis = 0> (n, t)
          u = Unsqueeze (i, last) v = Reshape (y, c) ["/ScatterND"] r = ScatterND (x, u, v))"},
      {"masked_scatter(x,m,y)",
       R"(e = Expand (m, size) n = NonZero (e) t = Transpose <perm = [1, 0]> (n)
          f = Reshape (y, last) s = Slice (f, front, three, front)
          ["/ScatterND"] r = ScatterND (x, t, s))"},
      {"index(x,i,i)",
       R"(f = Flatten <axis = 2> (x) n = Gather <axis = 0> (size, ones) p = Mul (i, n) c = Add (i, p)
          g = Gather <axis = 0> (f, c) h = Reshape (g, last) w = Shape (c)
          ["/Reshape"] r = Reshape (h, w))"},
      // A list of Python's for each dimension, which is no buffer.
      {"view(x) index.host(z) 34",
       R"(k = Constant <value = int64[17] {0,0,0,0,0,0,0,0,1,1,1,1,1,1,1,1,1}> ()
          l = Constant <value = int64[17] {0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7,0}> ()
          z = Unsqueeze (x, front) t = Transpose <perm = [1, 2, 0]> (z) f = Flatten <axis = 2> (t)
          n = Gather <axis = 0> (size, ones) p = Mul (k, n) c = Add (l, p)
          g = Gather <axis = 0> (f, c) h = Reshape (g, size_)
          q = Transpose <perm = [1, 0]> (h) ["/Reshape"] r = Reshape (q, size_))"},
      // Views and moves.
      {"roll(x) 1",
       R"(a = Slice (x, three, most, ones) b = Slice (x, front, three, ones)
          ["/Concat"] r = Concat <axis = 1> (a, b))"},
      {"roll(x) 2",
       R"(a = Slice (x, three, most, ones) b = Slice (x, front, three, ones)
          ["/C"] c = Concat <axis = 1> (a, b) d = Slice (c, ones, most, front)
          e = Slice (c, front, ones, front) ["/D"] r = Concat <axis = 0> (d, e))"},
      {"view(x) view(v) pad.circular(w) 0 3 1 0",
       R"(v = Unsqueeze (x, front) w = Unsqueeze (v, front)
          two_ = Constant <value = int64[1] {2}> () a = Slice (w, last, most, two_)
          ["/C"] b = Concat <axis = 2> (a, w) c = Slice (b, front, three, three)
          ["/D"] r = Concat <axis = 3> (b, c))"},
      {"constant() index(x,n)",
       R"(n = Constant <value = int64[2] {1, 0}> () ["/Gather"] r = Gather (x, n))"},
      // torch.arange(2)[:, None] and [None, :], which are on the host
      {"index.host(x) 4",
       R"(c = Constant <value = float[2] {0, 1}> () u = Unsqueeze (c, ones) v = Unsqueeze (c, front)
          p = Mul (u, half) q = Mul (v, half) s = Sub (p, q) o = Mul (one, half) a = Add (s, o)
          n = Cast <to = 7> (a) ["/Gather"] r = Gather (x, n))"},
      {"unfold(x) 1 3 2",
       R"(two_ = Constant <value = int64[1] {2}> () a = Slice (x, front, three, ones)
          b = Transpose <perm = [0, 1]> (a) c = Unsqueeze (b, ones) d = Slice (x, two_, five, ones)
          e = Transpose <perm = [0, 1]> (d) f = Unsqueeze (e, ones)
          ["/Concat"] r = Concat <axis = 1> (c, f))"},
      {"view(x) view(v) im2col(w)",
       R"(v = Unsqueeze (x, front) w = Unsqueeze (v, front) n = Constant <value = int64 {1}> ()
          none = Constant <value = int64[8] {0, 0, 0, 0, 0, 0, 0, 0}> () p = Pad (w, none)
          h = Constant <value = int64[1, 2] {0, 1}> () a = Gather <axis = 2> (p, h)
          k = Constant <value = int64[2, 3] {0, 1, 2, 1, 2, 3}> () b = Gather <axis = 4> (a, k)
          t = Transpose <perm = [0, 1, 2, 4, 3, 5]> (b) u = Unsqueeze (n, front)
          c = Concat <axis = 0> (u, ones, last) ["/Reshape"] r = Reshape (t, c))"},
      {"as_strided(x) 1 2",
       R"(p = Constant <value = int64[2, 2] {0, 2, 1, 3}> () f = Reshape (x, last)
          ["/Gather"] r = Gather (f, p))"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.calls);
    CHECK(CallsOf(row.body) == std::string(row.calls));
  }
}

// z[mask] = y of zeros z [2, 3, 4] and a mask [2], and what PyTorch makes of the mask.
TEST_CASE("items that a mask of less dimensions picks are written in place") {
  const auto calls = [](const std::string& axes) {
    const Program program =
        Build(R"(net (float[2, 3, 4] x, float)" + std::string(axes == "1, 2" ? "[2]" : "[2, 3]") +
                  R"( p) => (float[2, 3, 4] r) {
              zero = Constant <value = float {0}> () front = Constant <value = int64[1] {0}> ()
              last = Constant <value = int64[1] {-1}> () all = Constant <value = int64[1] {24}> ()
              size = Shape (x) m = Greater (p, zero) z = ConstantOfShape (size)
              axes = Constant <value = int64[)" +
                  (axes == "1, 2" ? "2" : "1") + "] {" + axes +
                  R"(}> () u = Unsqueeze (m, axes) written = Shape (z) e = Expand (u, written)
              n = NonZero (e) t = Transpose <perm = [1, 0]> (n) f = Reshape (x, last)
              s = Slice (f, front, all, front) ["/ScatterND"] r = ScatterND (z, t, s) })",
              {.mode = Mode::kEval})
            .program;
    std::string text;
    for (const AtenCall& call : program.calls) {
      text += std::string(call.op) + (call.written_in_place == true ? "_ " : " ");
    }
    return text;
  };
  CHECK(calls("1, 2").ends_with("nonzero_ index_put_ "));
  CHECK(calls("2").ends_with("masked_scatter_ "));
}

TEST_CASE("what the code spells itself stays so") {
  const char* rows[] = {
      // what is read elsewhere
      R"(d = Div (x, y) f = Floor (d) p = Mul (f, y) s = Sub (x, p) ["/Add"] r = Add (s, p))",
      // a number is no tensor
      R"(d = Div (x, half) ["/Floor"] r = Floor (d))",
      // no cast
      R"(["/Max"] r = Max (x, y))",
      // another exporter
      R"(d = Div (x, y) [n] r = Floor (d))",
      // parts that overlap
      R"(a = Slice (x, front, most, ones) b = Slice (x, front, three, ones)
         ["/Concat"] r = Concat <axis = 1> (a, b))",
      // torch.arange(2, device=x.device).unsqueeze(-1)
      R"(c = Constant <value = float[2] {0, 1}> () u = Unsqueeze (c, last) v = Unsqueeze (c, front)
         p = Mul (u, half) q = Mul (v, half) s = Sub (p, q) o = Mul (one, half) a = Add (s, o)
         n = Cast <to = 7> (a) ["/Gather"] r = Gather (x, n))",
      // windows that come first
      R"(v = Unsqueeze (x, front) w = Unsqueeze (v, front) n = Constant <value = int64 {1}> ()
         none = Constant <value = int64[8] {0, 0, 0, 0, 0, 0, 0, 0}> () p = Pad (w, none)
         h = Constant <value = int64[1, 2] {0, 1}> () a = Gather <axis = 2> (p, h)
         k = Constant <value = int64[2, 3] {0, 1, 2, 1, 2, 3}> () b = Gather <axis = 4> (a, k)
         t = Transpose <perm = [0, 1, 3, 5, 2, 4]> (b) u = Unsqueeze (n, front)
         c = Concat <axis = 0> (u, ones, last) ["/Reshape"] r = Reshape (t, c))",
      // places that do not lie in a row
      R"(p = Constant <value = int64[2, 2] {0, 2, 1, 4}> () f = Reshape (x, last)
         ["/Gather"] r = Gather (f, p))",
  };
  for (const char* row : rows) {
    CAPTURE(row);
    const std::string calls = CallsOf(row);
    for (const char* op :
         {"remainder", "Tensor_mode", "clamp", "roll", "as_strided", "index.host", "im2col"}) {
      CHECK(calls.find(op) == std::string::npos);
    }
  }
}

TEST_CASE("noise of transformers' drop_path has the type of what it drops; in eval it is not run") {
  const auto text = [](Mode mode) {
    return ToString(Build(R"(net (float[2, 8] x) => (float r) {
        shape = Constant <value = int64[2] {2, 1}> () p = Constant <value = float {0.9}> ()
        z = ConstantOfShape (shape) n = RandomUniformLike (z) a = Add (n, p) f = Floor (a)
        d = Div (x, p) ["/Mul"] m = Mul (d, f) ["/Neg"] r = Neg (m) })",
                          {.mode = mode, .loss = Loss::kNone})
                        .program);
  };
  CHECK(text(Mode::kTrain) ==
        "\n%m.bernoulli = bernoulli(%x)  # /Mul\n"
        "%m.add.Scalar = add.Scalar(%m.bernoulli)  # /Mul\n"
        "%m.floor = floor(%m.add.Scalar)  # /Mul\n%m.mul.Scalar = mul.Scalar(%x)  # /Mul\n"
        "%m = mul(%m.mul.Scalar, %m.floor)  # /Mul\n%r = neg(%m)  # /Neg\n");
  CHECK(text(Mode::kEval) == "\n%r = neg(%x)  # /Neg\n");
}

TEST_CASE("a product with ones on a diagonal, of which sums are picked, is the diagonal") {
  const Program program = Build(R"(net (float[8, 8] x) => (float r) {
        shape = Constant <value = int64[2] {8, 8}> () zeros = ConstantOfShape (shape)
        last = Constant <value = int64[1] {-1}> () eye = EyeLike (zeros)
        places = Constant <value = int64[8, 1] {0, 1, 2, 3, 4, 5, 6, 7}> ()
        p = Mul (x, eye) s = ReduceSum <keepdims = 0> (p, last)
        ["/GatherND"] d = GatherND (s, places) r = Neg (d) })",
                                {.mode = Mode::kEval})
                              .program;
  CHECK(ToString(program) == "\n%d = diagonal(%x; 0, 1)  # /GatherND\n%r = neg(%d)  # Neg #8\n");
}

TEST_CASE("parts of size one that are squeezed are an unbind") {
  const Program program = Build(R"(net (float[2, 8] x) => (float r) {
        zero = Constant <value = int64[1] {0}> () sizes = Constant <value = int64[2] {1, 1}> ()
        a, b = Split <axis = 0> (x, sizes) ["/Squeeze"] c = Squeeze (a, zero)
        ["/Squeeze_1"] d = Squeeze (b, zero) r = Add (c, d) })",
                                {.mode = Mode::kEval})
                              .program;
  CHECK(ToString(program) ==
        "\n%c, %d = unbind(%x; 0)  # /Squeeze_1\n%r = add(%c, %d)  # Add #5\n");
}

TEST_CASE("a weight that a parametrization norms is one call") {
  const auto calls = [](const std::string& v) {
    const Program program = Build(R"(n (float[2, 8] x) => (float[2, 8] y)
        < float[2, 1] "c.original0" = {1, 2}, float[2, 8] ")" +
                                      v + R"(" = ["location": "none"] > {
        ones = Constant <value = int64[1] {1}> () l = ReduceL2 (")" +
                                      v + R"(", ones) d = Div (")" + v + R"(", l)
        ["/c/Mul"] w = Mul (d, "c.original0") ["/c/Add"] y = Add (x, w) })",
                                  {.mode = Mode::kEval})
                                .program;
    std::string text;
    for (const AtenCall& call : program.calls) text += std::string(call.op) + " ";
    return text;
  };
  CHECK(calls("c.original1") == "_weight_norm add ");
  CHECK(calls("c.weight") == "linalg_vector_norm div mul add ");  // which somebody spells
}

}  // namespace
}  // namespace onnxfit::scripted_calls_test
