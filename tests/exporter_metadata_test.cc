#include "estimator/exporters/exporter_metadata.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "estimator/onnx/loader.h"
#include "tests/fx_text.h"
#include "tests/paths.h"

namespace onnxfit::exporter_metadata_test {
namespace {

TEST_CASE("nodes of one call are one group, with or without others between") {
  Graph graph = ParseGraph(R"(n (float[N] x) => (float[N] y) {
      a = Sigmoid (x) b = Neg (x) c = Mul (a, b) y = Abs (c)
    })");
  const char* calls[] = {"silu", "neg", "silu", ""};
  std::vector<std::string> texts;
  for (const char* call : calls) texts.push_back(FxText(call, call, "%x,"));
  for (NodeId node = 0; node < 3; ++node) Say(graph, node, texts[Index(node)]);
  const ExporterMetadata metadata = ReadExporterMetadata(graph);
  REQUIRE(metadata.groups.size() == 2);
  CHECK(metadata.groups[0].nodes == std::vector<NodeId>{0, 2});
  CHECK(metadata.groups[1].nodes == std::vector<NodeId>{1});
  CHECK(metadata.CallOf(2)->name == "silu");
  CHECK(metadata.CallOf(3) == nullptr);
}

TEST_CASE("modules from the outermost in, as either exporter writes them") {
  Graph graph = ParseGraph(R"(n (float[N] x) => (float[N] y) {
      ["/model/layer1/layer1.0/conv1/Conv"] a = Neg (x) b = Neg (a)
      ["/model/layer1/layer1.0/Add"] c = Neg (b) ["plain"] y = Neg (c)
    })");
  graph.nodes[1].metadata.emplace_back("pkg.torch.onnx.name_scopes",
                                       "['layer1', 'layer1.0', 'conv2d']");
  const ExporterMetadata metadata = ReadExporterMetadata(graph);
  const auto names = [&](NodeId node) { return metadata.modules.NamesOf(metadata.ModuleOf(node)); };
  CHECK(names(0) == std::vector<std::string>{"model", "layer1", "layer1.0", "conv1"});
  CHECK(names(1) == std::vector<std::string>{"layer1", "layer1.0"});
  CHECK(metadata.PathOf(2) == "model.layer1.0");
  CHECK(metadata.ModuleOf(3) == kOutside);
  CHECK(metadata.modules.CallerOf(metadata.ModuleOf(0)) == metadata.ModuleOf(2));
}

// The modules around a node below a line of the encoder's forward.
std::vector<std::string> ModulesBelow(const std::string& line) {
  Graph graph = ParseGraph("n (float[N] x) => (float[N] y) { y = Neg (x) }");
  graph.nodes[0].metadata.emplace_back("pkg.torch.onnx.name_scopes",
                                       "['', 'encoder', 'encoder.layers.0.attention', 'neg']");
  const std::string trace =
      "File \"a.py\", line 3, in forward\n  x = self.encoder(x)\n"
      "File \"a.py\", line 9, in forward\n  " +
      line +
      "\nFile \"a.py\", line 12, in forward\n  x = self.attention(x)\n"
      "File \"a.py\", line 15, in forward\n  return -x\n";
  graph.nodes[0].metadata.emplace_back("pkg.torch.onnx.stack_trace", trace);
  const ExporterMetadata metadata = ReadExporterMetadata(graph);
  return metadata.modules.NamesOf(metadata.ModuleOf(0));
}

TEST_CASE("a module whose forward is called by its name is around what that calls") {
  using Names = std::vector<std::string>;
  CHECK(ModulesBelow("x = layer.forward(x)") ==
        Names{"", "encoder", "encoder.layers.0", "encoder.layers.0.attention"});
  CHECK(ModulesBelow("x = super().forward(x)") ==
        Names{"", "encoder", "encoder.layers.0.attention"});
}

TEST_CASE("frames with their lines, the innermost last") {
  Graph graph;
  graph.nodes.emplace_back();
  graph.nodes[0].metadata = {{"pkg.torch.onnx.stack_trace",
                              "File \"a.py\", line 3, in forward\n    x = f(x)\n"
                              "File \"b.py\", line 40, in forward\n    y = g(x)\n"
                              "File \"c.py\", line 500, in forward\n"
                              "File \"d.py\", line, in f\n  z\n"}};
  const ExporterMetadata metadata = ReadExporterMetadata(graph);
  const NodeLines& lines = metadata.LinesOf(0);
  REQUIRE(lines.frames.size() == 4);
  CHECK(metadata.source.At(lines.frames[0]).line == 3);
  CHECK(metadata.source.At(lines.frames[0]).text == "x = f(x)");
  CHECK(metadata.source.At(lines.frames[2]).line == 500);
  CHECK(metadata.source.At(lines.frames[2]).text.empty());
  CHECK(lines.frames[3] == kNoStatement);
  CHECK(lines.innermost == "z");
}

// 633 nodes, of which 12 Splits say nothing; 148 parameters and a tied one.
TEST_CASE("the calls of a real export") {
  const Graph graph =
      LoadGraph((std::filesystem::path(kSourceDir) / "models/gpt2.dynamo.onnx").string());
  const ExporterMetadata metadata = ReadExporterMetadata(graph);
  CHECK(metadata.groups.size() == 410);
  CHECK(metadata.signature.size() == 149);
}

}  // namespace
}  // namespace onnxfit::exporter_metadata_test
