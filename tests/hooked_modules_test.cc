#include "estimator/ranks/hooked_modules.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "tests/checkpointed_net.h"
#include "tests/trace_helpers.h"

namespace onnxfit::hooked_modules_test {
namespace {

HookedModules HooksOf(const Program& program) {
  return FindHookedModules(program, program.calls.size(), program.parameters);
}

std::string Owned(const Program& program, const std::vector<size_t>& parameters) {
  std::vector<NameId> names;
  for (const size_t i : parameters) names.push_back(program.parameters[i]);
  return NamesText(program, names);
}

TEST_CASE("every module has its own tensors, and runs within those around it") {
  const Program program = Build(kTwoBlocks, {}).program;
  const HookedModules modules = HooksOf(program);
  CHECK(modules.parameters[0].empty());
  REQUIRE(modules.runs.size() > 2);
  const HookedRun& block = modules.runs[0];
  CHECK(modules.parameters[Index(block.module)].empty());
  CHECK(modules.runs[1].span.first == block.span.first);
  CHECK(modules.runs[1].span.last < block.span.last);
  CHECK(Owned(program, modules.parameters[Index(modules.runs[1].module)]) == " h.0.fc.weight");
}

TEST_CASE("a weight that another module reads is of both") {
  Program program = Build(kTwoBlocks, {}).program;
  program.values[Index(program.parameters.back())].name = "h.0.fc.weight2";
  const HookedModules modules = HooksOf(program);
  int owners = 0;
  for (const std::vector<size_t>& owned : modules.parameters) {
    owners += static_cast<int>(std::ranges::count(owned, program.parameters.size() - 1));
  }
  CHECK(owners == 2);
}

TEST_CASE("a forward that asks for the type of another's weight has it, too") {
  CHECK(OutsideReaderOf("m.block.0.DenseReluDense.wo.weight") == "m.block.0.DenseReluDense");
  CHECK(OutsideReaderOf("vit.embeddings.patch_embeddings.projection.weight") == "vit");
  CHECK_FALSE(OutsideReaderOf("m.beit.embeddings.patch_embeddings.projection.weight"));
}

TEST_CASE("blocks of experts are taken for a whole") {
  const char* line = "_, top_k_weights, top_k_index = self.gate(hidden_states)";
  CHECK(IsLeafForward("transformers/models/mixtral/modeling_mixtral.py", line));
  CHECK_FALSE(IsLeafForward("transformers/models/llama/modeling_llama.py", line));
}

TEST_CASE("calls outside of all modules are layers, as far as they read parameters") {
  const Program program = Build(kTwoLayers, {}).program;
  const HookedModules modules = HooksOf(program);
  REQUIRE(modules.runs.size() == 2);
  CHECK(modules.runs[0].span == CallSpan{0, 0});
  CHECK(Owned(program, modules.parameters[Index(modules.runs[1].module)]) == " w2");
}

}  // namespace
}  // namespace onnxfit::hooked_modules_test
