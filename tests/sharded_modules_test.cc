#include "estimator/program/sharded_modules.h"

#include <doctest/doctest.h>

#include <string>

#include "estimator/base/index.h"
#include "tests/checkpointed_net.h"
#include "tests/trace_helpers.h"

namespace onnxfit::sharded_modules_test {
namespace {

std::string NamesOf(const Program& program, const std::vector<NameId>& names) {
  std::string text;
  for (const NameId name : names) text += " " + program.values[Index(name)].name;
  return text;
}

TEST_CASE("a block has its own tensors, the model what is left") {
  const Program program = Build(kTwoBlocks, {}).program;
  const std::vector<ShardedModule> modules = ShardedModules(program, {kAutoCheckpoint});
  REQUIRE(modules.size() == 3);
  CHECK(NamesOf(program, modules[0].parameters) == " head.weight");
  CHECK(modules[1].path == "h.0");
  CHECK(NamesOf(program, modules[1].parameters) == " h.0.fc.weight h.0.out.weight");
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

}  // namespace
}  // namespace onnxfit::sharded_modules_test
