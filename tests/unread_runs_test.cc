#include "estimator/lost/unread_runs.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>
#include <string>

#include "estimator/base/index.h"
#include "estimator/fit/estimate.h"
#include "tests/bound_model.h"
#include "tests/fx_text.h"
#include "tests/trace_helpers.h"

namespace onnxfit::unread_runs_test {
namespace {

constexpr char kSignature[] =
    "p_w: PARAMETER target='vit.encoder.norm.weight'\n"
    "p_n: PARAMETER target='vit.layernorm.weight'\n"
    "p_b: PARAMETER target='vit.layernorm.bias'\n"
    "p_d: PARAMETER target='vit.pooler.dense.weight'\n"
    "p_e: PARAMETER target='vit.pooler.dense.bias'\n";

// A tower of that class, whose encoder makes states that a head reads.
Graph Tower(const char* type) {
  static std::string classes;
  static const std::string kCall = FxText("h", "mul.Tensor", "%x, %p_w");
  static const std::string kTrace =
      "File \"net.py\", line 3, in forward\n  return self.vit(x)\n"
      "File \"vit.py\", line 7, in forward\n  states = self.encoder(x)\n"
      "File \"vit.py\", line 20, in forward\n  return x * self.weight\n";
  classes = fmt::format("['Net', '{}', 'Encoder', 'aten.mul.Tensor']", type);
  Graph graph = ParseGraph(R"(n (float[2, 3, 4] x) => (float[2, 3, 4] y)
    < float[4] "vit.encoder.norm.weight" = ["location": "none"] > {
      h = Mul (x, "vit.encoder.norm.weight") y = Neg (h) })");
  Say(graph, 0, kCall);
  graph.nodes[0].metadata.emplace_back("pkg.torch.onnx.stack_trace", kTrace);
  graph.nodes[0].metadata.emplace_back("pkg.torch.onnx.name_scopes",
                                       "['', 'vit', 'vit.encoder', 'h']");
  graph.nodes[0].metadata.emplace_back("pkg.torch.onnx.class_hierarchy", classes);
  graph.metadata.emplace_back("graph_signature", kSignature);
  return graph;
}

std::string Found(const char* type) {
  const BoundModel model(Tower(type));
  std::string text;
  for (const UnreadRun& run : FindUnreadRuns(model.bound)) {
    text += fmt::format("{}: {} {} behind {}; ", run.caller, run.row->norm, run.row->pooler,
                        model.bound.NameOf(run.states));
  }
  return text;
}

TEST_CASE("a norm and a pooler that no output needs run in towers that have them") {
  CHECK(Found("transformers.models.flava.modeling_flava.FlavaImageModel") ==
        "vit: layernorm pooler behind h; ");
  CHECK(Found("mine.Tower").empty());
}

TEST_CASE("their calls stand behind what they read") {
  const Program program = Build(Tower("transformers.models.flava.modeling_flava.FlavaImageModel"),
                                {.mode = Mode::kEval})
                              .program;
  std::string calls;
  for (const AtenCall& call : program.calls) {
    calls += fmt::format("{} {}; ", call.op, program.modules.PathOf(call.module));
  }
  CHECK(calls ==
        "mul vit.encoder; layer_norm vit.layernorm; select vit.pooler; "
        "linear vit.pooler.dense; tanh vit.pooler.activation; neg ; ");
}

TEST_CASE("in files without names what is lost tells the tower") {
  const auto found = [](const std::set<std::string>& lost) {
    const BoundModel model(ParseGraph(R"(n (float[2, 3, 4] x) => (float[2, 3, 4] y) {
      ["/m/vit/encoder/Neg"] h = Neg (x) ["/m/Abs"] y = Abs (h) })"));
    std::string text;
    for (const UnreadRun& run : FindUnreadRuns(
             model.bound, [&](const std::string& name) { return lost.contains(name); })) {
      text += fmt::format("{}: {} {}; ", run.caller, run.row->norm, run.row->pooler);
    }
    return text;
  };
  CHECK(found({"m.vit.layernorm.weight"}) == "m.vit: layernorm ; ");
  CHECK(found({"m.vit.layernorm.weight", "m.vit.pooler.dense.weight"}) ==
        "m.vit: layernorm pooler; ");
  CHECK(found({"m.vit.pooler.dense.weight"}) == "m.vit:  pooler; ");
  CHECK(found({"m.layernorm.weight"}).empty());
}

// Features that a box head reads, and parameters of an objectness head that no node reads.
TEST_CASE("a head that no output needs runs in front of the one that reads the same") {
  const auto found = [](const std::string& type) {
    Graph graph = ParseGraph(R"(n (float[2, 3, 4] x) => (float[2, 3, 4] y) <float[4, 4] w> {
      f = Abs (x) t = Transpose <perm = [1, 0]> (w) y = MatMul (f, t) })");
    const std::string call = FxText("y", "linear.default", "%f, %w");
    const std::string classes = fmt::format("['Net', '{}', 'Head', 'aten.linear']", type);
    for (const NodeId node : {1, 2}) {
      Say(graph, node, call);
      graph.nodes[Index(node)].metadata.emplace_back("pkg.torch.onnx.name_scopes",
                                                     "['', 'm', 'm.box_head', 'y']");
      graph.nodes[Index(node)].metadata.emplace_back("pkg.torch.onnx.class_hierarchy", classes);
    }
    const BoundModel model(graph);
    std::string text;
    for (const UnreadHead& head : FindUnreadHeads(model.bound)) {
      text += fmt::format("{} reads {} before {}; ", head.path, model.bound.NameOf(head.states),
                          head.before);
    }
    return text;
  };
  CHECK(found("transformers.models.owlv2.modeling_owlv2.Owlv2ForObjectDetection") ==
        "m.objectness_head reads f before 2; ");
  CHECK(found("mine.Detector").empty());
}

TEST_CASE("in files without classes what a head has lost tells the forward that runs it") {
  const BoundModel model(ParseGraph(R"(n (float[2, 3, 4] x) => (float[2, 3, 4] y) {
      f = Abs (x) ["/m/box_head/dense0/Neg"] y = Neg (f) })"));
  const auto found = [&](const std::string& lost) {
    return FindUnreadHeads(model.bound, [&](const std::string& name) { return name == lost; });
  };
  REQUIRE(found("m.objectness_head.dense0.weight").size() == 1);
  CHECK(found("m.objectness_head.dense0.weight")[0].path == "m.objectness_head");
  CHECK(found("m.head.dense0.weight").empty());
}

TEST_CASE("states that a forward gathers for nobody are copied") {
  const auto found = [](const std::string& name, const std::string& own) {
    const BoundModel model(ParseGraph("n (float[2, 3, 4] x) => (float[2, 3, 4] y) { [\"/m/" + name +
                                      "/encoder/Neg\"] h = Neg (x) [\"/m/" + name + "/" + own +
                                      "}"));
    return FindUnreadRuns(model.bound).size();
  };
  CHECK(found("vjepa2", "Abs\"] y = Abs (h) ") == 1);
  CHECK(found("video", "Abs\"] y = Abs (h) ") == 0);
}

// Words behind DeBERTa's embeddings, which have no table of types; `name` is what is given, too.
std::string Zeros(const std::string& type, const char* name) {
  Graph graph = ParseGraph(fmt::format(
      R"(n (int64[2, 3] ids, int64[2, 3] {}) => (float[2, 3, 4] y)
      < float[8, 4] t = ["location": "none"] > {{ y = Gather (t, ids) }})",
      name));
  const std::string call = FxText("y", "embedding.default", "%t, %ids");
  const std::string classes = fmt::format("['Net', '{}', 'Embeddings', 'aten.embedding']", type);
  Say(graph, 0, call);
  graph.nodes[0].metadata.emplace_back("pkg.torch.onnx.name_scopes",
                                       "['', 'm', 'm.embeddings', 'y']");
  graph.nodes[0].metadata.emplace_back("pkg.torch.onnx.class_hierarchy", classes);
  const BoundModel model(graph);
  std::string text;
  for (const UnreadTensorOfZeros& zeros : FindUnreadZeros(model.bound)) {
    text += fmt::format("{} before {}; ", zeros.level, zeros.before);
  }
  return text;
}

TEST_CASE("zeros that a forward makes where it is given none are made, whoever reads them") {
  const std::string deberta = "transformers.models.deberta_v2.modeling_deberta_v2.DebertaV2Model";
  CHECK(Zeros(deberta, "mask") == "1 before 0; ");
  CHECK(Zeros(deberta, "token_type_ids").empty());
  CHECK(Zeros("mine.Model", "mask").empty());
  CHECK(FindUnreadZeros(BoundModel(ParseGraph(R"(n (int64[2, 3] ids) => (float[2, 3, 4] y)
      < float[8, 4] t = ["location": "none"] > {
        ["/m/m.embeddings/Gather"] y = Gather (t, ids) })"))
                            .bound)
            .empty());  // no class is told
}

TEST_CASE("in files without classes a path below the forward tells that it makes zeros") {
  const auto made = [](const std::string& projection) {
    return FindUnreadZeros(BoundModel(ParseGraph(R"(n (int64[2, 3] ids) => (float[2, 3, 4] y)
      < float[8, 4] t = ["location": "none"] > {
        ["/m/embeddings/Gather"] e = Gather (t, ids)
        ["/m/encoder/layer.0/attention/self/)" + projection +
                                                 R"(/Neg"] y = Neg (e) })"))
                               .bound)
        .size();
  };
  CHECK(made("query_proj") == 1);
  CHECK(made("query") == 0);
}

}  // namespace
}  // namespace onnxfit::unread_runs_test
