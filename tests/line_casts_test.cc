// Casts that did nothing in an fp32 export, by the lines that spell them: what is put back, before
// whom, and whose type it has.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/lost/lost_calls.h"
#include "tests/bound_model.h"
#include "tests/fx_text.h"
#include "tests/trace_helpers.h"

namespace onnxfit::line_casts_test {
namespace {

// What a node was made in: frames from the outermost in, "3: y = self.m(x)", and their modules.
struct Origin {
  std::vector<std::string> frames;
  std::vector<std::string> modules = {"net"};
};

class Exported {
 public:
  explicit Exported(const char* text) : graph_(ParseGraph(text)) {}

  // The next node, of a call by that name; a module's name is its path.
  Exported& Of(const char* target, const Origin& origin, const char* name = "") {
    Node& node = graph_.nodes[Index(next_)];
    std::string trace;
    for (const std::string& frame : origin.frames) {
      const size_t colon = frame.find(": ");
      trace += fmt::format("File \"net.py\", line {}, in forward\n  {}\n", frame.substr(0, colon),
                           frame.substr(colon + 2));
    }
    std::string scopes;
    for (const std::string& module : origin.modules) scopes += fmt::format("'{}', ", module);
    const std::string_view made = graph_.values[Index(node.outputs[0])].name;
    Add(node, "pkg.torch.onnx.stack_trace", trace);
    Add(node, "pkg.torch.onnx.name_scopes", fmt::format("[{}'call']", scopes));
    const std::string call = *name == 0 ? std::string(made) : name;
    Add(node, "pkg.torch.onnx.fx_node", FxText(call, target, "%x,"));
    ++next_;
    return *this;
  }

  // "to x before a, b; ": of all casts, those before several readers once.
  std::string Casts() const {
    const BoundModel model(graph_);
    std::string text;
    std::string last;
    for (const LostCall& call : FindLostCasts(model.bound)) {
      const auto made = [&](NodeId node) {
        return model.bound.NameOf(model.bound.At(node).outputs[0]);
      };
      if (call.name == last) {
        text.insert(text.size() - 2, fmt::format(", {}", made(call.before)));
        continue;
      }
      last = call.name;
      text += fmt::format("{} {}", call.op, model.bound.NameOf(call.input));
      if (call.like != kNoValue)
        text += fmt::format(" {} {}", call.is_type_held ? "held" : "like",
                            model.bound.NameOf(call.like));
      if (call.before != kNoNode) text += fmt::format(" before {}", made(call.before));
      if (call.behind != kNoNode) text += fmt::format(" behind {}", made(call.behind));
      text += "; ";
    }
    return text;
  }

 private:
  void Add(Node& node, std::string_view key, std::string value) {
    node.metadata.emplace_back(key, texts_.emplace_back(std::move(value)));
  }

  Graph graph_;
  NodeId next_ = 0;
  std::list<std::string> texts_;
};

// "u" of the line before, and what a line makes of "g".
std::string CastsOfGate(const char* line) {
  return Exported(R"(n (float[2, 4] x) => (float[2, 4] y) {
             u = Neg (x) g = Abs (x) y = Mul (g, u) })")
      .Of("neg.default", {{"3: u = torch.neg(x)"}})
      .Of("abs.default", {{"4: g = torch.abs(x)"}})
      .Of("mul.Tensor", {{fmt::format("5: {}", line)}})
      .Casts();
}

TEST_CASE("a line casts what it names, to the type of what it names") {
  CHECK(CastsOfGate("return g.to(u.dtype) * u") == "type_as.inline g like u before y; ");
  CHECK(CastsOfGate("return g.type_as(u) * u") == "type_as.inline g like u before y; ");
  CHECK(CastsOfGate("return g.float() * u") == "to.inline g before y; ");
  CHECK(CastsOfGate("return g * u.to(x.dtype)") == "type_as.inline u like x before y; ");
  CHECK(CastsOfGate("return (g * u).to(x.dtype)") == "type_as.inline y like x behind y; ");
  CHECK(CastsOfGate("return g * u").empty());
}

TEST_CASE("which read of a name is cast is not told where a line has more than one") {
  CHECK(CastsOfGate("return g.float() * g").empty());
  CHECK(CastsOfGate("return g.to(other[0].dtype) * u").empty());
  CHECK(CastsOfGate("return g.to(u.device) * u").empty());
}

TEST_CASE("a variable holds the type of what its forward has cast to fp32 first") {
  const auto casts = [](const char* up, const char* back) {
    return Exported(R"(n (float[2, 4] x) => (float[2, 4] y) {
               h = Neg (x) s = Abs (h) y = Add (s, h) })")
        .Of("neg.default", {{"3: h = torch.neg(x)"}})
        .Of("abs.default", {{fmt::format("4: {}", up)}})
        .Of("add.Tensor", {{fmt::format("5: {}", back)}})
        .Casts();
  };
  CHECK(casts("s = torch.abs(h.float())", "return s.to(dtype) + h") ==
        "to.inline h before s; to.inline s held h before y; ");
  CHECK(casts("s=torch.abs(h.float())", "return s.to(dtype)+h") ==
        "to.inline h before s; to.inline s held h before y; ");
  CHECK(casts("s = torch.abs(h)", "return s.to(dtype) + h").empty());
}

TEST_CASE("a line casts tensors and results of its module's own") {
  const auto casts = [](const char* line) {
    return Exported(R"(n (float[2, 4] x) => (float[2, 4] y)
        < float[2, 4] scale = ["location": "none"] > { g = Neg (x) y = Mul (g, scale) })")
        .Of("neg.default", {{fmt::format("3: {}", line), "9: return torch.neg(x)"}, {"", "g"}})
        .Of("mul.Tensor", {{fmt::format("3: {}", line)}, {""}})
        .Casts();
  };
  CHECK(casts("return self.g(x) * self.scale.to(x.dtype)") ==
        "type_as.inline scale like x before y; ");
  CHECK(casts("return self.g(x).float() * self.scale") == "to.inline g before y; ");
  CHECK(casts("return self.h(x).float() * self.scale").empty());
}

TEST_CASE("a line casts the part of a table that it reads") {
  CHECK(Exported(R"(n (float[2, 4] x) => (float[2, 4] y)
      < float[2, 4] pe = ["location": "none"] > { p = Identity (pe) y = Add (x, p) })")
            .Of("alias.default", {{"3: return x + self.pe[:, :n].to(x.dtype)"}, {""}})
            .Of("add.Tensor", {{"3: return x + self.pe[:, :n].to(x.dtype)"}, {""}})
            .Casts() == "type_as.inline p like x before y; ");
}

TEST_CASE("a call by the name of a type_as goes back to what its forward has cast to fp32") {
  const auto casts = [](const char* maker) {
    return Exported(R"(n (float[2, 4] x) => (float[2, 4] y) {
               h = Neg (x) type_as_1 = Abs (h) y = Neg (type_as_1) })")
        .Of("neg.default", {{"3: h = torch.neg(x)"}})
        .Of("abs.default", {{"4: h = torch.abs(h.float())"}}, maker)
        .Of("neg.default", {{"6: return torch.neg(h)"}})
        .Casts();
  };
  CHECK(casts("abs_1") ==
        "to.inline h before type_as_1; type_as type_as_1 like h behind type_as_1; ");
  CHECK(casts("type_as_1") == "to.inline h before type_as_1; ");
}

// "return y.to(x.dtype)" of the module "m" has no node.
TEST_CASE("what a layer reads of a forward that casts is cast back in a line that the file lacks") {
  const auto casts = [](const char* line, const char* reader) {
    Exported exported(fmt::format(R"(n (float[2, 4] x) => (float[2, 4] y)
        < float[4, 4] w = ["location": "none"] > {{ h = Abs (x) y = {} }})",
                                  reader)
                          .c_str());
    return exported.Of("abs.default", {{"3: x = self.m(x)", fmt::format("9: {}", line)}, {"", "m"}})
        .Of("linear.default", {{"4: return self.l(x)", "19: return F.linear(input)"}, {"", "l"}})
        .Casts();
  };
  constexpr char kUp[] = "to.inline x before h; ";
  CHECK(casts("y = torch.abs(x.float())", "MatMul (h, w)") ==
        std::string(kUp) + "type_as h like x behind h; ");
  CHECK(casts("y = torch.abs(x.float())", "Neg (h)") == kUp);
  CHECK(casts("return torch.abs(x.float())", "MatMul (h, w)") == kUp);
}

// "super().forward(x)": both frames are of one module.
TEST_CASE("what a base's forward returns is cast in the frame that calls it") {
  CHECK(Exported("n (float[2, 4] x) => (float[2, 4] y) { h = Abs (x) y = Neg (h) }")
            .Of("abs.default", {{"3: x = self.m(x)", "9: return super().forward(x).to(x.dtype)",
                                 "19: return F.abs(input)"},
                                {"", "m"}})
            .Of("neg.default", {{"4: return torch.neg(x)"}, {""}})
            .Casts() == "type_as.inline h like x behind h; ");
}

// Of a module "m", whose lines are these: the square's, the products'.
std::string CastsOfNorm(const std::vector<const char*>& lines, const char* reader = "4: return x") {
  const auto frame = [&](size_t at) { return Origin{{"3: x = self.m(x)", lines[at]}, {"", "m"}}; };
  return Exported(R"(n (float[2, 4] x) => (float[2, 4] y)
             < float[4] w = ["location": "none"] > {
               s = Mul (x, x) m = ReduceMean <axes = [-1]> (s) a = Add (m, w) r = Sqrt (a)
               n = Div (x, r) v = Mul (n, w) y = Neg (v) })")
      .Of("mul.Tensor", frame(0))
      .Of("mean.dim", frame(0))
      .Of("add.Tensor", frame(0))
      .Of("sqrt.default", frame(0))
      .Of("div.Tensor", frame(1))
      .Of("mul.Tensor", frame(2))
      .Of("neg.default", {{reader}, {""}})
      .Casts();
}

TEST_CASE("a norm by hand may have casts of which a file has no trace") {
  constexpr char kUp[] = "to x before s, n; ";
  CHECK(CastsOfNorm({"9: r = mean(x * x)", "10: x = x / r", "11: out = x * self.w"}) ==
        std::string(kUp) + "type_as v like x behind v; ");
  CHECK(CastsOfNorm({"9: r = mean(x * x)", "10: n = x / r", "12: return n * self.w"}) ==
        std::string(kUp) + "type_as n like x before v; ");
  CHECK(CastsOfNorm({"9: r = mean(x * x)", "10: n = x / r", "11: return n * self.w"}).empty());
  CHECK(CastsOfNorm({"9: r = f(x * x)", "10: x = x / r", "11: out = x * self.w"}).empty());
}

// aten/src/ATen/native/layer_norm.cpp: "return result.type_as(input)".
TEST_CASE("the cast of PyTorch's own norm is not the line's") {
  const auto casts = [](const char* line) {
    return Exported(R"(n (float[2, 4] x) => (float[2, 4] y) {
               h = Sqrt (x) type_as_1 = Abs (h) y = Neg (type_as_1) })")
        .Of("sqrt.default", {{line}})
        .Of("abs.default", {{line}}, "abs_1")
        .Of("neg.default", {{"6: return torch.neg(h)"}})
        .Casts();
  };
  CHECK(casts("4: h = g(x.float())") == "to.inline x before h; ");
  CHECK(casts("4: h = torch.sqrt(x.float()).abs()") ==
        "to.inline x before h; type_as type_as_1 like x behind type_as_1; ");
}

}  // namespace
}  // namespace onnxfit::line_casts_test
