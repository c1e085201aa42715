#include "estimator/recover/exporter_metadata.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "estimator/onnx/loader.h"
#include "tests/fx_text.h"

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

// 633 nodes, of which 12 Splits say nothing; 148 parameters and a tied one.
TEST_CASE("the calls of a real export") {
  const Graph graph =
      LoadGraph((std::filesystem::path(ONNXFIT_SOURCE_DIR) / "models/gpt2.dynamo.onnx").string());
  const ExporterMetadata metadata = ReadExporterMetadata(graph);
  CHECK(metadata.groups.size() == 410);
  CHECK(metadata.signature.size() == 149);
}

}  // namespace
}  // namespace onnxfit::exporter_metadata_test
