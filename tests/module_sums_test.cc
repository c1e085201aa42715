#include "estimator/fit/module_sums.h"

#include <doctest/doctest.h>

#include "estimator/fit/estimate.h"
#include "estimator/fit/predict.h"
#include "estimator/onnx/loader.h"
#include "estimator/picture/module_lines.h"
#include "estimator/program/modules.h"
#include "tests/paths.h"

namespace onnxfit::module_sums_test {
namespace {

std::string ModelPath(const std::string& name) {
  return std::string(kSourceDir) + "/models/" + name;
}

std::vector<ModuleSum> SumsOf(const std::string& model) {
  const Graph graph = LoadModel(ModelPath(model));
  return MakeEstimate(graph, {.binding = {.batch = 2}, .modules = true}).modules;
}

TEST_CASE("the model has all that is exact, and each module what is in it at least") {
  for (const char* model : {"resnet18.train.onnx", "gpt2.dynamo.onnx", "lenet.onnxtxt"}) {
    CAPTURE(model);
    const Graph graph = LoadModel(ModelPath(model));
    const Estimate estimate = MakeEstimate(graph, {.binding = {.batch = 2}, .modules = true});
    const std::vector<ModuleSum>& sums = estimate.modules;
    int64_t exact = 0;
    for (const BreakdownRow& row : estimate.breakdown) {
      const bool is_of_allocator =
          row.kind == "rounding" || row.kind == "cached" || row.kind == "context";
      if (!is_of_allocator) exact += row.bytes;
    }
    CHECK(sums[0].bytes() == exact);
    CHECK(sums[0].parameters == estimate.model.parameters);
    for (size_t i = 0; i < sums.size(); ++i) {
      int64_t inside = 0;
      for (size_t j = i + 1; j < sums.size() && sums[j].depth > sums[i].depth; ++j) {
        if (sums[j].depth == sums[i].depth + 1) inside += sums[j].bytes();
      }
      CAPTURE(sums[i].path);
      CHECK(sums[i].bytes() >= inside);
    }
  }
}

TEST_CASE("modules are called as in Python, without the model's own name") {
  const std::vector<ModuleSum> sums = SumsOf("resnet18.train.onnx");
  CHECK(sums[0].path.empty());
  CHECK(sums[1].path == "conv1");
  CHECK(sums[1].parameters == 64 * 3 * 7 * 7);
  CHECK(sums[1].weight_bytes == 4 * 64 * 3 * 7 * 7);
}

TEST_CASE("a file that names no modules is all the model's own") {
  const Graph graph = ParseGraph(R"(
    net (float[2, 4] x) => (float[2, 4] y)
    < float[4, 4] w = ["location": "none"] > { y = MatMul (x, w) })");
  const Estimate estimate = MakeEstimate(graph, {.modules = true});
  REQUIRE(estimate.modules.size() == 1);
  CHECK(estimate.modules[0].parameters == 16);
}

ModuleSum Sum(const std::string& path, size_t depth, int64_t bytes);

std::string Names(const std::vector<ModuleSum>& sums) {
  std::string text;
  for (const ModuleSum& sum : sums) text += sum.path + " ";
  return text;
}

TEST_CASE("the largest modules lie apart, and one with more than half is split, but for a list") {
  const std::vector<ModuleSum> modules = {
      Sum("", 0, 100),        Sum("body", 1, 90),     Sum("body.h", 2, 80), Sum("body.h.0", 3, 40),
      Sum("body.h.1", 3, 40), Sum("body.wte", 2, 10), Sum("head", 1, 6),    Sum("none", 1, 0)};
  CHECK(Names(LargestModules(modules, 8)) == "body.h body.wte head ");
  CHECK(Names(LargestModules(modules, 2)) == "body.h body.wte ");
  CHECK(Names(LargestModules({Sum("", 0, 100), Sum("m", 1, 90), Sum("m.small", 2, 5)}, 8)) == "m ");
  CHECK(LargestModules({Sum("", 0, 100)}, 8).empty());
  CHECK(LargestModules({}, 8).empty());
}

ModuleSum Sum(const std::string& path, size_t depth, int64_t bytes) {
  return {.path = path, .depth = depth, .weight_bytes = bytes};
}

TEST_CASE("a path of many parts has as many modules as there can be") {
  std::string deep;
  for (int i = 0; i < 30'000; ++i) deep += "m.";
  const Graph graph = ParseGraph(R"(net (float[2, 4] x) => (float[2, 4] y)
    < float[4, 4] ")" + deep + R"(weight" = ["location": "none"] > {
      y = MatMul (x, ")" + deep + R"(weight") })");
  const std::vector<ModuleSum> sums = MakeEstimate(graph, {.modules = true}).modules;
  CHECK(sums.size() <= kMostModuleDepth + 1);
  CHECK(FoldModules(sums).size() == sums.size());
}

TEST_CASE("what a module has itself is what those in it have not") {
  const std::vector<ModuleSum> modules = {Sum("", 0, 100), Sum("a", 1, 60), Sum("a.b", 2, 50),
                                          Sum("c", 1, 30)};
  CHECK(ModulesIn(modules, 0) == std::vector<size_t>{1, 3});
  CHECK(ModulesIn(modules, 1) == std::vector<size_t>{2});
  CHECK(ModulesIn(modules, 3).empty());
  CHECK(EndOfModule(modules, 1) == 3);
  CHECK(OwnOf(modules, 0).bytes() == 10);
  CHECK(OwnOf(modules, 1).bytes() == 10);
  CHECK(OwnOf(modules, 2).bytes() == 50);
}

TEST_CASE("neighbours with numbers that take the same are one line") {
  const std::vector<ModuleLine> lines =
      FoldModules({Sum("", 0, 100), Sum("h", 1, 90), Sum("h.0", 2, 20), Sum("h.0.a", 3, 20),
                   Sum("h.1", 2, 20), Sum("h.1.a", 3, 20), Sum("h.2", 2, 50), Sum("head", 1, 10)});
  std::string text;
  for (const ModuleLine& line : lines) {
    text += std::string(line.sum.depth, ' ') + line.name + " " + std::to_string(line.count) + "\n";
  }
  CHECK(text == "(model) 1\n h 1\n  0..1 2\n   a 2\n  2 1\n head 1\n");
}

TEST_CASE("numbers that do not count on are no range") {
  const std::vector<ModuleLine> lines = FoldModules(
      {Sum("", 0, 40), Sum("0", 1, 10), Sum("1", 1, 10), Sum("3", 1, 10), Sum("2", 1, 10)});
  std::string text;
  for (const ModuleLine& line : lines) text += line.name + " ";
  CHECK(text == "(model) 0..1 3 2 ");
}

TEST_CASE("what has the same sum but other modules stays apart") {
  const std::vector<ModuleLine> lines =
      FoldModules({Sum("", 0, 40), Sum("0", 1, 20), Sum("0.a", 2, 20), Sum("1", 1, 20),
                   Sum("1.b", 2, 20), Sum("2", 1, 0)});
  CHECK(lines.size() == 6);
}

}  // namespace
}  // namespace onnxfit::module_sums_test
