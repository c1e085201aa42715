#include "estimator/optimizers/parameter_groups.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "estimator/base/index.h"
#include "tests/trace_helpers.h"

namespace onnxfit::parameter_groups_test {
namespace {

// A layer whose bias has two dimensions, a norm, and an embedding of positions.
constexpr char kNet[] = R"(
  net (float[2, 3, 4] x) => (float[2, 3, 4] y)
  < float[3, 4] pos_embed = ["location": "none"], float[4, 4] w = ["location": "none"],
    float[1, 4] fc_bias = ["location": "none"], float[4] n = ["location": "none"],
    float[4] n_bias = ["location": "none"] > {
    p = Add (x, pos_embed)
    h = MatMul (p, w)
    b = Add (h, fc_bias)
    y = LayerNormalization <axis = -1> (b, n, n_bias)
  })";

// "pos_embed w | n": the groups, "-" before those that do not decay.
std::string GroupsOf(const TrainingSettings& settings) {
  Program program = Build(kNet, settings).program;
  for (ProgramValue& value : program.values) {  // the text has no dots in names
    if (value.name.ends_with("_bias")) value.name.replace(value.name.size() - 5, 1, ".");
  }
  std::string text;
  for (const ParameterGroup& group : ParameterGroupsOf(program, settings)) {
    if (!text.empty()) text += " |";
    if (!group.decays) text += " -";
    for (const size_t i : group.parameters) {
      text += ' ' + program.values[Index(program.parameters[i])].name;
    }
  }
  return text;
}

std::string Groups(ParamGroups groups) {
  return GroupsOf({.param_groups = groups, .loss = Loss::kMse});
}

TEST_CASE("which parameters decay, by who sorts them") {
  CHECK(Groups(ParamGroups::kOne) == " pos_embed w fc.bias n n.bias");
  CHECK(Groups(ParamGroups::kMatrices) == " pos_embed w fc.bias | - n n.bias");
  CHECK(Groups(ParamGroups::kTransformers) == " pos_embed w | - fc.bias n n.bias");
  CHECK(Groups(ParamGroups::kTimm) == " - pos_embed fc.bias n n.bias | w");
  CHECK(Groups(ParamGroups::kUltralytics) == " pos_embed w | - n | - fc.bias n.bias");
}

TEST_CASE("a loop's library has its groups unless others are asked for") {
  TrainingSettings settings = {.loss = Loss::kMse};
  CHECK(GroupsOf(settings) == Groups(ParamGroups::kOne));
  settings.loop.library = LoopLibrary::kTimm;
  CHECK(GroupsOf(settings) == Groups(ParamGroups::kTimm));
  settings.param_groups = ParamGroups::kMatrices;
  CHECK(GroupsOf(settings) == Groups(ParamGroups::kMatrices));
}

}  // namespace
}  // namespace onnxfit::parameter_groups_test
