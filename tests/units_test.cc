#include "estimator/recover/units.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/onnx/loader.h"
#include "estimator/recover/findings.h"
#include "tests/bound_model.h"
#include "tests/paths.h"
#include "tests/trace_helpers.h"

namespace onnxfit::units_test {
namespace {

// The units of a graph, and how often each of its nodes is in one.
struct Found {
  std::string text = {};
  std::vector<int> times = {};
};

const char* KindText(UnitKind kind) {
  constexpr const char* kTexts[] = {"call", "put back", "numbers", "batch norm", "node"};
  return kTexts[static_cast<size_t>(kind)];
}

Found FindIn(const Findings& findings) {
  const BoundGraph& bound = findings.bound;
  const TrainingSettings settings;
  const Roles roles = FindRoles(findings.bound, findings.tensors, settings);
  ProgramWriter writer(settings, "model.onnx");
  const DeviceValues values(bound, roles, writer);
  const Graph& graph = bound.graph();
  Found found = {.text = "\n", .times = std::vector<int>(graph.nodes.size())};
  for (const Unit& unit : FindUnits(bound, roles, values, findings.rewrites, {})) {
    found.text += fmt::format("{} at {}:", KindText(unit.kind), unit.at);
    for (const NodeId node : unit.nodes) {
      found.text += fmt::format(" {}", graph.nodes[Index(node)].op_type);
      ++found.times[Index(node)];
    }
    found.text += "\n";
  }
  return found;
}

TEST_CASE("nodes that are one call are a unit, others one each") {
  const Found found = FindIn(BoundModel(ParseGraph(R"(net (float[2, 3] x) => (float[2, 3] y) {
      s = Sigmoid (x) h = Mul (x, s) n = Shape (h) y = Reshape (h, n) })"))
                                 .found);
  CHECK_MESSAGE(found.text ==
                    "\n"
                    "call at 1: Sigmoid Mul\n"
                    "numbers at 2: Shape\n"
                    "node at 3: Reshape\n",
                found.text);
}

TEST_CASE("every node of every model is in exactly one unit") {
  int models = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(kSourceDir) + "/models")) {
    if (!entry.path().extension().string().starts_with(".onnx")) continue;
    CAPTURE(entry.path().string());
    const PreparedRun run = PrepareRun(LoadModel(entry.path()), {.binding = {.batch = 2}});
    const Found found = FindIn(*run.file->findings);
    for (const int times : found.times) REQUIRE(times == 1);
    ++models;
  }
  CHECK(models > 15);
}

}  // namespace
}  // namespace onnxfit::units_test
