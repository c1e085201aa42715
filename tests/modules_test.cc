#include "estimator/program/modules.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "estimator/program/module_runs.h"

namespace onnxfit::modules_test {
namespace {

TEST_CASE("a path of modules is one id") {
  ModuleTree tree;
  const ModuleId conv = tree.Enter({"m", "m.layer", "m.layer.0"});
  CHECK(tree.Enter({"m", "m.layer", "m.layer.0"}) == conv);
  CHECK(tree.DepthOf(conv) == 3);
  CHECK(tree.NameAt(conv, 1) == "m.layer");
  CHECK(tree.PathOf(conv) == "m.layer.0");
  CHECK(tree.NamesOf(conv) == std::vector<std::string>{"m", "m.layer", "m.layer.0"});
  CHECK(tree.Enter(std::vector<std::string>()) == kOutside);
  CHECK(tree.PathOf(kOutside).empty());
}

TEST_CASE("what two modules share") {
  ModuleTree tree;
  const ModuleId a = tree.Enter({"m", "m.a", "m.a.x"});
  const ModuleId b = tree.Enter({"m", "m.b"});
  CHECK(tree.Shared(a, b) == 1);
  CHECK(tree.Shared(a, tree.CallerOf(a)) == 2);
  CHECK(tree.Shared(a, a) == 3);
  CHECK(tree.Shared(a, kOutside) == 0);
  CHECK(tree.Shared(tree.Enter({"n"}), b) == 0);
}

// "module:first-last" of every run, those that a run makes behind it.
std::string Runs(const std::vector<std::vector<std::string>>& modules) {
  Program program;
  for (const auto& names : modules) {
    program.calls.push_back({.op = "relu", .where = "", .module = program.modules.Enter(names)});
  }
  const ModuleRuns runs(program);
  std::string text;
  for (const ModuleRun& run : runs.all()) {
    CHECK(runs.EndOf(run.first, run.level) == run.last);
    text += program.modules.NameOf(run.module) + ":" + std::to_string(run.first) + "-" +
            std::to_string(run.last) + " ";
  }
  return text;
}

TEST_CASE("calls in a row that share a module are of one run") {
  CHECK(Runs({{"m", "a"}, {"m", "a"}, {"m"}, {"m", "a"}}) == "m:0-3 a:0-1 a:3-3 ");
  CHECK(Runs({{"m", "a"}, {"m", "b"}, {}, {"m"}}) == "m:0-1 a:0-0 b:1-1 m:3-3 ");
  CHECK(Runs({{}, {}}).empty());
}

TEST_CASE("the path of a module") {
  CHECK(ModulePath({}).empty());
  CHECK(ModulePath({"", "layer1", "layer1.0", "layer1.0.conv1"}) == "layer1.0.conv1");
  CHECK(ModulePath({"model", "layer1", "conv1"}) == "model.layer1.conv1");
}

TEST_CASE("the path of a module in a second call of its parent") {
  CHECK(ModulePath({"enc", "enc.block@1", "enc.block.ffn@1", "enc.block.ffn.act@1"}) ==
        "enc.block@1.ffn.act");
  CHECK(ModulePath({"enc", "enc.block@1", "enc.block.ffn", "enc.block.ffn.act"}) ==
        "enc.block@1.ffn.act");
  CHECK(ModulePath({"enc.block@1", "enc.block.act@2"}) == "enc.block@1.act@2");
}

}  // namespace
}  // namespace onnxfit::modules_test
