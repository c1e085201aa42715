#include "estimator/program/sharded_modules.h"

#include <doctest/doctest.h>

#include <string>

#include "estimator/base/index.h"
#include "tests/checkpointed_net.h"
#include "tests/trace_helpers.h"

namespace onnxfit::sharded_modules_test {
namespace {

TEST_CASE("a block has its own tensors, the model what is left") {
  const Program program = Build(kTwoBlocks, {}).program;
  const std::vector<ShardedModule> modules = ShardedModules(program, {kAutoCheckpoint});
  REQUIRE(modules.size() == 3);
  CHECK(NamesText(program, modules[0].parameters) == " head.weight");
  CHECK(modules[1].path == "h.0");
  CHECK(NamesText(program, modules[1].parameters) == " h.0.fc.weight h.0.out.weight");
  CHECK(modules[2].runs == std::vector<CallSpan>{{3, 5}});
}

TEST_CASE("tensors whose names say nothing are of the module that alone reads them") {
  Program program = Build(kTwoBlocks, {}).program;
  for (const NameId name : program.parameters) program.values[Index(name)].name = "p";
  const std::vector<ShardedModule> modules = ShardedModules(program, {kAutoCheckpoint});
  CHECK(modules[0].parameters.size() == 1);
  CHECK(modules[1].parameters.size() == 2);
  CHECK(modules[2].parameters.size() == 2);
}

// As of a vision tower in a run on text alone.
TEST_CASE("blocks that repeat and never run are modules of their own") {
  Program program = Build(kTwoBlocks, {}).program;
  const auto add = [&](const char* name) {
    program.parameters.push_back(static_cast<NameId>(program.values.size()));
    program.placement.push_back(program.parameters.back());
    program.values.push_back({.name = name, .type = {{DType::kFloat32, {64, 64}}, {}}});
  };
  add("visual.blocks.0.fc.weight");
  add("visual.blocks.1.fc.weight");
  add("visual.norms.0.weight");
  add("visual.head.0.fc.weight");
  const std::vector<ShardedModule> modules = ShardedModules(program, {kAutoCheckpoint});
  REQUIRE(modules.size() == 5);
  CHECK(modules[3].path == "visual.blocks.0");
  CHECK(modules[4].runs.empty());
  CHECK(NamesText(program, modules[4].parameters) == " visual.blocks.1.fc.weight");
  CHECK(ShardedModules(program, {"h.*"}).size() == 3);
}

}  // namespace
}  // namespace onnxfit::sharded_modules_test
