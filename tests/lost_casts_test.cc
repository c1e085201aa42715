#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "estimator/lost/lost_calls.h"
#include "tests/bound_model.h"
#include "tests/trace_helpers.h"

namespace onnxfit::lost_casts_test {
namespace {

constexpr std::string_view kLinesKey = "pkg.torch.onnx.stack_trace";

constexpr char kNorm[] = R"(net (float[2, 4] x) => (float[2, 4] y)
    < float[4] w = ["location": "none"] > {
      two = Constant <value = float {2.0}> () eps = Constant <value = float {0.00001}> ()
      p = Pow (x, two) m = ReduceMean <axes = [-1]> (p) a = Add (m, eps)
      s = Sqrt (a) r = Reciprocal (s) n = Mul (x, r) v = Mul (w, n) y = Neg (v)
    })";

std::string Frame(const std::string& line) {
  return fmt::format("File \"norm.py\", line 7, in forward\n  {}\n", line);
}

// What is put back, where the lines of the square and of the product with the weight are these.
std::string LostCasts(const std::string& squaring, const std::string& scaling,
                      const char* norm = kNorm) {
  Graph graph = ParseGraph(norm);
  const std::string first = Frame(squaring);
  const std::string last = Frame(scaling);
  for (Node& node : graph.nodes) {
    if (node.op_type == "Pow") node.metadata.emplace_back(kLinesKey, first);
    if (node.op_type == "Mul") node.metadata.emplace_back(kLinesKey, last);
  }
  const BoundModel model(graph);
  std::string text;
  for (const LostCall& call : FindLostCasts(model.bound)) {
    const auto name = [&](ValueId value) { return graph.values[Index(value)].name; };
    text += fmt::format("{} {}", call.op, name(call.input));
    if (call.like != kNoValue) text += fmt::format(" {}", name(call.like));
    text += fmt::format(" before {}", name(graph.nodes[Index(call.before)].outputs[0]));
    if (call.behind != kNoNode) {
      text += fmt::format(" behind {}", name(graph.nodes[Index(call.behind)].outputs[0]));
    }
    text += "; ";
  }
  return text;
}

TEST_CASE("source lines tell of an RMS norm's casts") {
  struct Row {
    const char* squaring;
    const char* scaling;
    const char* casts;
  };
  const Row rows[] = {
      {"variance = x.pow(2).mean(-1, keepdim=True)", "return self.weight * x.to(input_dtype)",
       "to x before p; to x before n; type_as n x before v; "},
      {"variance = x.pow(2).mean(-1, keepdim=True)", "return (self.weight * x).to(input_dtype)",
       "to x before p; to x before n; type_as.inline v x before y behind v; "},
      {"variance = x.to(torch.float32).pow(2).mean(-1)", "return self.weight * x",
       "to x before p; type_as n w before v; "},
      {"return self._norm(x.float())", "output = output * self.weight",
       "to x before p; to x before n; type_as v x before y behind v; "},
      {"variance = x.pow(2).mean(-1, keepdim=True)", "return self.weight * x", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.squaring);
    CHECK(LostCasts(row.squaring, row.scaling) == row.casts);
  }
}

TEST_CASE("of a norm in a helper, whose lines no file has, all code is taken to cast") {
  const std::string line = "h = self.rms(x, self.norms[0])";
  CHECK(LostCasts(line, line) == "to x before p; type_as n w before v; ");
  std::string weight_behind = kNorm;
  weight_behind.replace(weight_behind.find("Mul (w, n)"), 10, "Mul (n, w)");
  CHECK(LostCasts(line, line, weight_behind.c_str()) ==
        "to x before p; to x before n; type_as n x before v; ");
  CHECK(LostCasts(line, "x = x * self.weight").empty());
  const std::string whole = "x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w";
  CHECK(LostCasts(whole, whole).empty());
}

// Gemma's norms multiply with 1 + weight, which an exporter may have computed.
TEST_CASE("a norm's weight is cast, too, where its line says so") {
  const char* const squaring = "return self._norm(x.float())";
  const char* const scaling = "output = output * (1.0 + self.weight.float())";
  CHECK(LostCasts(squaring, scaling) ==
        "to x before p; to x before n; to w before v; type_as v x before y behind v; ");
  CHECK(LostCasts("variance = x.pow(2).mean(-1, keepdim=True)",
                  "return (self.weight.to(torch.float32) * x).to(input_dtype)") ==
        "to x before p; to x before n; to w before v; type_as.inline v x before y behind v; ");
  const char* const with_sum = R"(net (float[2, 4] x) => (float[2, 4] y)
    < float[4] w = ["location": "none"] > {
      one = Constant <value = float {1.0}> () f = Add (w, one)
      two = Constant <value = float {2.0}> () eps = Constant <value = float {0.00001}> ()
      p = Pow (x, two) m = ReduceMean <axes = [-1]> (p) a = Add (m, eps)
      s = Sqrt (a) r = Reciprocal (s) n = Mul (x, r) v = Mul (f, n) y = Neg (v)
    })";
  CHECK(LostCasts(squaring, scaling, with_sum) ==
        "to x before p; to x before n; to w before f; type_as v x before y behind v; ");
}

TEST_CASE("a cast to the type that there is already is no call") {
  CHECK(FindLostCasts(BoundModel(ParseGraph(kNorm)).bound).empty());  // no source line, no cast
}

TEST_CASE("a line casts its module's own parameters") {
  const auto casts = [](const std::string& line) {
    Graph graph = ParseGraph(R"(n (float[4] x) => (float[4] y)
        < float[4] A_log = ["location": "none"], float[4] D = ["location": "none"] > {
          e = Exp (A_log) p = Mul (e, D) y = Mul (x, p) })");
    const std::string trace = Frame(line);
    for (Node& node : graph.nodes) node.metadata.emplace_back(kLinesKey, trace);
    const BoundModel model(graph);
    std::string text;
    for (const LostCall& call : FindLostCasts(model.bound)) {
      text += fmt::format("{} {} before {}; ", call.op, model.bound.NameOf(call.input),
                          model.bound.NameOf(model.bound.At(call.before).outputs[0]));
    }
    return text;
  };
  CHECK(casts("A = -torch.exp(self.A_log.float()) * self.D") == "to.inline A_log before e; ");
  CHECK(casts("A = torch.exp(self.A_log.to(torch.float32)) * self.D.float()") ==
        "to.inline A_log before e; to.inline D before p; ");
  CHECK(casts("A = torch.exp(self.A_log) * self.D").empty());
}

TEST_CASE("a softmax in fp32 is cast back in its own line") {
  const auto casts = [](const std::string& line) {
    Graph graph = ParseGraph(
        "n (float[2, 4] x) => (float[2, 4] y) { s = Neg (x) w = Softmax (s) y = Neg (w) }");
    const std::string trace = Frame(line);
    graph.nodes[1].metadata.emplace_back(kLinesKey, trace);
    const BoundModel model(graph);
    std::string text;
    for (const LostCall& call : FindLostCasts(model.bound)) {
      text += fmt::format("{} {} ", call.op, graph.values[Index(call.input)].name);
    }
    return text;
  };
  constexpr char kBoth[] = "to.inline s type_as.inline w ";
  CHECK(casts("w = F.softmax(s.float(), dim=-1).type_as(s)") == kBoth);
  CHECK(casts("w = F.softmax(s, dim=-1, dtype=torch.float32).to(q.dtype)") == kBoth);
  CHECK(casts("w = F.softmax(s, dim=-1).float()") == "to.inline w ");
  CHECK(casts("w = F.softmax(s, dim=-1).to(q.dtype)") == "type_as.inline w ");
}

TEST_CASE("weights are cast to the type of what their line names") {
  const auto like = [](const std::string& line) {
    Graph graph = ParseGraph(R"(n (float[2, 2] x, float[2, 2] v) => (float[2, 2] y) {
        s = Neg (x) w = Softmax (s) y = MatMul (w, v) })");
    const std::string trace = Frame(line);
    graph.nodes[1].metadata.emplace_back(kLinesKey, trace);
    const BoundModel model(graph);
    return std::string(model.bound.NameOf(FindLostCasts(model.bound).back().like));
  };
  CHECK(like("w = F.softmax(s.float(), dim=-1).type_as(s)") == "s");
  CHECK(like("w = F.softmax(s.float(), dim=-1).to(s.dtype)") == "s");
  CHECK(like("w = F.softmax(s.float(), dim=-1).to(value_states.dtype)") == "v");
}

// "to s type_as w ": operators, and what they cast.
std::string LostCastsOf(const Graph& graph) {
  const BoundModel model(graph);
  std::string text;
  for (const LostCall& call : FindLostCasts(model.bound)) {
    text += fmt::format("{} {} ", call.op, model.bound.NameOf(call.input));
  }
  return text;
}

TEST_CASE("TorchScript's softmax runs in fp32 where the children of its module are known to") {
  const auto casts = [](const char* query, const char* module = "attentions.0") {
    const Graph graph = ParseGraph(fmt::format(
        R"(n (float[2, 4] x) => (float[2, 4] y) {{
          ["/{1}/{0}/Neg"] q = Neg (x) ["/{1}/k_lin/Neg"] k = Neg (x)
          ["/{1}/v_lin/Neg"] v = Neg (x) ["/{1}/Add"] s = Add (q, k)
          ["/{1}/Softmax"] w = Softmax (s) ["/{1}/Mul"] y = Mul (w, v) }})",
        query, module));
    return LostCastsOf(graph);
  };
  CHECK(casts("q_lin") == "to.inline s type_as.inline w ");
  CHECK(casts("query").empty());
  CHECK(casts("q_lin", "layer.0.attention").empty());
}

TEST_CASE("TorchScript's softmax has the casts that did nothing behind it") {
  const auto casts = [](const std::string& behind) {
    const Graph graph = ParseGraph(R"(n (float[2, 2] s, float[2, 2] v) => (float[2, 2] y) {
        ["/Softmax"] w = Softmax (s) )" +
                                   behind + R"( ["/MatMul"] y = MatMul (c, v) })");
    return LostCastsOf(graph);
  };
  CHECK(casts("a = Cast <to = 1> (w) c = Cast <to = 1> (a)") == "to.inline s type_as.inline w ");
  CHECK(casts("c = Cast <to = 1> (w)") == "type_as.inline w ");
  CHECK(casts("c = Neg (w)").empty());
}

// "type_as.inline x y " of what is put back, for x as y is typed.
std::string CastsLike(const Graph& graph) {
  const BoundModel model(graph);
  std::string text;
  for (const LostCall& call : FindLostCasts(model.bound)) {
    text += fmt::format("{} {} {} ", call.op, model.bound.NameOf(call.input),
                        model.bound.NameOf(call.like));
  }
  return text;
}

TEST_CASE("a rotary embedding returns what the layers are about to read the type of") {
  const auto casts = [](const std::string& module, const std::string& given) {
    const Graph graph = ParseGraph(fmt::format(
        R"(n (float[2, 4] x) => (float[2, 4] y) {{ two = Constant <value = float {{2.0}}> ()
          ["/embed/Neg"] h = Neg (x) ["/{0}/Cos"] c = Cos (x) ["/{0}/Mul"] m = Mul (c, two)
          ["/Exp"] e = Exp (h) ["/layers.0/Neg"] n = Neg ({1})
          ["/layers.0/Mul"] y = Mul (n, m) }})",
        module, given));
    return CastsLike(graph);
  };
  CHECK(casts("rotary_emb", "h") == "type_as.inline m h ");
  CHECK(casts("rotary_emb", "e") == "type_as.inline m h ");  // what e is made of
  CHECK(casts("rotary_emb", "x").empty());
  CHECK(casts("waves", "h").empty());
}

TEST_CASE("a table that the exporter has cast takes the type of what it is added to") {
  const auto casts = [](const std::string& line) {
    Graph graph = ParseGraph(R"(n (float[2, 4] x) => (float[2, 4] y)
        < float[4] _to_copy = ["location": "none"] > { h = Neg (x) y = Add (h, _to_copy) })");
    const std::string trace = Frame(line);
    graph.nodes[1].metadata.emplace_back(kLinesKey, trace);
    return CastsLike(graph);
  };
  CHECK(casts("x = x + self.table.detach().type_as(x).to(") == "type_as.inline _to_copy h ");
  CHECK(casts("x = x + self.table.to(x.device)").empty());
}

TEST_CASE("a norm without a weight may cast within its line, too") {
  constexpr char kPlain[] = R"(net (float[2, 4] x) => (float[2, 4] y) {
      two = Constant <value = float {2.0}> () eps = Constant <value = float {0.00001}> ()
      p = Pow (x, two) m = ReduceMean <axes = [-1]> (p) a = Add (m, eps)
      s = Sqrt (a) r = Reciprocal (s) n = Mul (x, r) y = Neg (n)
    })";
  const std::string line = "return self._norm(x.float()).type_as(x)";
  CHECK(LostCasts(line, line, kPlain) ==
        "to.inline x before p; to.inline x before n; type_as.inline n x before y behind n; ");
  CHECK(LostCasts("return self._norm(x)", "return self._norm(x)", kPlain).empty());
}

}  // namespace
}  // namespace onnxfit::lost_casts_test
