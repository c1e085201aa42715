#include "estimator/pt2/embedded_program.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "estimator/fit/predict.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/loader.h"
#include "tests/pack_text.h"
#include "tests/pt2_archive.h"

namespace onnxfit::embedded_program_test {
namespace {

// What a tool wrote that does not know of relu(x).
constexpr std::string_view kNodes = R"(
net (float[s0, 3] x) => (float[s0, 3] y) { y = Sigmoid(x) })";

std::string Model(const std::string& metadata, std::string_view nodes = kNodes) {
  return fmt::format("<ir_version: 8, opset_import: [\"\": 17], metadata_props: [{}]>{}", metadata,
                     nodes);
}

std::string Entry(std::string_view key, std::string_view value) {
  return fmt::format("\"{}\": \"{}\"", key, value);
}

struct Keys {
  std::string version = "1";
  std::string graph = StructureDigest(ParseGraph(Model("")));
  std::string program = PackText(kSmallProgram);
  std::string ties = "";
  std::string notes = "";
};

std::string Metadata(const Keys& keys) {
  std::string text = Entry("onnxfit.metadata", keys.version) + ", " +
                     Entry("onnxfit.graph", keys.graph) + ", " +
                     Entry("onnxfit.program", keys.program);
  if (!keys.ties.empty()) text += ", " + Entry("onnxfit.ties", keys.ties);
  return keys.notes.empty() ? text : text + ", " + Entry("onnxfit.notes", keys.notes);
}

Graph Read(const Keys& keys, std::string_view nodes = kNodes) {
  return pt2::WithEmbeddedProgram(ParseGraph(Model(Metadata(keys), nodes)));
}

std::string WarningOf(const Keys& keys, std::string_view nodes = kNodes) {
  const Graph graph = Read(keys, nodes);
  if (graph.warnings.empty()) return "";
  CHECK(graph.embedded == nullptr);
  CHECK(graph.warnings[0].code == "OF114");
  return graph.warnings[0].text;
}

EstimateRequest RequestOf(int64_t batch) {
  EstimateRequest request;
  request.binding.batch = batch;
  request.settings.mode = Mode::kEval;
  return request;
}

TEST_CASE("the calls are those of the program") {
  const Graph graph = Read({});
  CHECK(graph.warnings.empty());
  REQUIRE(graph.embedded != nullptr);
  const Program program = PrepareRun(graph, RequestOf(4)).program;
  REQUIRE(program.calls.size() == 1);
  CHECK(program.calls[0].op == "relu");
  CHECK(program.calls[0].where == "relu");
}

TEST_CASE("the file keeps its name, digest and nodes") {
  const Graph graph = Read({});
  REQUIRE(graph.embedded != nullptr);
  CHECK(graph.nodes.size() == 1);
  CHECK(graph.embedded->path == graph.path);
  CHECK(graph.embedded->digest == graph.digest);
  CHECK(graph.embedded->notes.back() == "the calls are those of onnxfit.program in the metadata");
}

TEST_CASE("a file without the keys is as it was") {
  const Graph graph = pt2::WithEmbeddedProgram(ParseGraph(Model(Entry("producer", "x"))));
  CHECK(graph.embedded == nullptr);
  CHECK(graph.notes.empty());
  CHECK(graph.warnings.empty());
}

TEST_CASE("ties are read") {
  const Graph graph = Read({.ties = R"({\"w\": \"v\"})"});
  REQUIRE(graph.embedded != nullptr);
  CHECK(graph.embedded->exported->inputs[0].storage == "v");
  CHECK(Read({}).embedded->exported->inputs[0].storage == "w");
}

TEST_CASE("answers have what the export assumed") {
  const Graph graph = Read({.notes = R"({\"assumptions\": [\"net.py:3: if x: → False\"]})"});
  const std::vector<std::string> assumed = PrepareRun(graph, RequestOf(4)).program.assumptions;
  REQUIRE(!assumed.empty());
  CHECK(assumed.front() == "net.py:3: if x: → False");
}

constexpr std::string_view kNotUsed =
    "the calls in onnxfit.program are not used, but what its nodes say: ";

TEST_CASE("what is not as written is not used") {
  const auto why = [](const Keys& keys) {
    const std::string text = WarningOf(keys);
    CHECK(text.starts_with(kNotUsed));
    return text.substr(std::min(text.size(), kNotUsed.size()));
  };
  CHECK(why({.version = "2"}) == "onnxfit.metadata: 1 was expected, found '2'");
  CHECK(why({.graph = "0"}) ==
        "onnxfit.graph: the graph that was exported was expected, found "
        "one that was changed");
  CHECK(why({.program = ""}) ==
        "onnxfit.program: a text deflated by zlib was expected, found "
        "what is damaged or too long");
  CHECK(why({.program = "a.b="}) == "onnxfit.program: base64 was expected, found another text");
  CHECK(why({.program = "AAAA"}) ==
        "onnxfit.program: a text deflated by zlib was expected, found "
        "what is damaged or too long");
  CHECK(why({.program = PackText("{")}).starts_with("onnxfit.program: "));
  CHECK(why({.program = PackText("{}")}).starts_with("onnxfit.program: "));
  CHECK(why({.program =
                 PackText(Replaced(std::string(kSmallProgram), "\"major\": 8", "\"major\": 9"))})
            .find("schema 7 or 8 was expected") != std::string::npos);
  CHECK(why({.ties = "[]"}).starts_with("onnxfit.ties: "));
}

TEST_CASE("a changed graph is told from its own") {
  for (const std::string_view nodes : {
           "net (float[s0, 3] x) => (float[s0, 3] y) { y = Tanh(x) }",
           "net (float[s0, 4] x) => (float[s0, 4] y) { y = Sigmoid(x) }",
           "net (float[4, 3] x) => (float[4, 3] y) { y = Sigmoid(x) }",
           "net (float16[s0, 3] x) => (float16[s0, 3] y) { y = Sigmoid(x) }",
           "net (float[s0, 3] x) => (float[s0, 3] z) { z = Sigmoid(x) }",
           "net (float[s0, 3] x) => (float[s0, 3] y) <float[3] w = {1, 2, 3}> { y = Sigmoid(x) }",
       }) {
    CHECK(WarningOf({}, nodes).ends_with("found one that was changed"));
  }
}

TEST_CASE("names that the program does not have") {
  const std::string program = Replaced(std::string(kSmallProgram),
                                       R"({"name": "self", "arg": {"as_tensor": {"name": "x"}})",
                                       R"({"name": "self", "arg": {"as_tensor": {"name": "q"}})");
  CHECK(WarningOf({.program = PackText(program)})
            .ends_with("onnxfit.program: a tensor of the program was expected, found 'q'"));
}

TEST_CASE("what the program cannot answer is left to the nodes") {
  // It fixes its batch at 2.
  std::string program(kSmallProgram);
  program = Replaced(program, R"json({"as_expr": {"expr_str":
          "Symbol('s0', positive=True, integer=True)", "hint": {"as_int": 2}}})json",
                     R"json({"as_int": 2})json");
  program =
      Replaced(program, R"({"as_expr": {"expr_str": "s0", "hint": null}})", R"({"as_int": 2})");
  const Graph graph = Read({.program = PackText(program)});
  CHECK(PrepareRun(graph, RequestOf(2)).program.calls[0].op == "relu");
  const PreparedRun run = PrepareRun(graph, RequestOf(4));
  REQUIRE(run.program.calls.size() == 1);
  CHECK(run.program.calls[0].op == "sigmoid");
  REQUIRE(run.warnings.size() == 1);
  CHECK(run.warnings[0].code == "OF114");
  CHECK(run.warnings[0].text ==
        "the calls in onnxfit.program are not used, but what its nodes say: input 'x': dimension "
        "0 is 2 in the export, which has it fixed, found 4");
}

TEST_CASE("answers carry the warnings of the file") {
  const PreparedRun run = PrepareRun(Read({.graph = "0"}), RequestOf(4));
  REQUIRE(run.warnings.size() == 1);
  CHECK(run.warnings[0].code == "OF114");
}

TEST_CASE("a text of zeros that would fill the memory") {
  CHECK(WarningOf({.program = PackText(std::string(size_t{300} << 20, '0'))})
            .ends_with("found what is damaged or too long"));
}

}  // namespace
}  // namespace onnxfit::embedded_program_test
