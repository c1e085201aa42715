#include "estimator/program/cached_functions.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "estimator/names/lifetimes.h"
#include "estimator/writer/program_writer.h"
#include "tests/trace_helpers.h"

namespace onnxfit::cached_functions_test {
namespace {

constexpr char kSine[] = "return self.build_sine_position_embedding(";

// Calls of `line`, which make tables of these sizes, each behind a call of the forward's own.
Program Of(const char* line, const std::vector<int64_t>& sizes, bool reads = false) {
  Program program;
  program.inputs = {AddValue(program, "x", {DType::kFloat32, {4}})};
  const ModuleId module = program.modules.Enter({"m"});
  NameId x = 0;
  const auto add = [&](const char* op, std::vector<NameId> inputs, NameId made,
                       StatementId statement) {
    program.calls.push_back({.op = op,
                             .where = program.values[static_cast<size_t>(made)].name,
                             .inputs = std::move(inputs),
                             .outputs = {made},
                             .module = module,
                             .frames = {statement}});
  };
  for (const int64_t size : sizes) {
    const std::string number = std::to_string(program.calls.size());
    const NameId table = AddValue(program, "t" + number, {DType::kFloat32, {size}});
    add(reads ? "relu" : "constant", reads ? std::vector<NameId>{0} : std::vector<NameId>(), table,
        program.source.Read(3, line));
    const NameId next = AddValue(program, "y" + number, {DType::kFloat32, {4}});
    add("relu", {x}, next, program.source.Read(4, "x = relu(x)"));
    x = next;
  }
  program.outputs = {x};
  return program;
}

// "first-last kept; " of each run.
std::string Runs(const Program& program) {
  std::string text;
  for (const CachedRun& run : FindCachedRuns(program)) {
    text += std::to_string(run.first) + "-" + std::to_string(run.last);
    text += run.is_kept ? " kept; " : "; ";
  }
  return text;
}

}  // namespace

TEST_CASE("a cache keeps what it has room for, and what is made of sizes alone") {
  CHECK(Runs(Of(kSine, {8})) == "0-0 kept; ");
  CHECK(Runs(Of(kSine, {8, 8})) == "0-0 kept; 2-2 kept; ");
  CHECK(Runs(Of(kSine, {8, 6})) == "0-0; 2-2; ");
  CHECK(Runs(Of(kSine, {8}, /*reads=*/true)) == "0-0; ");
  CHECK(Runs(Of("x = get_patches_center_coordinates(n)", {8, 6})) == "0-0 kept; 2-2 kept; ");
  CHECK(Runs(Of("x = self.sines(n)", {8})).empty());
}

TEST_CASE("one result takes the place of the other, the last one in the next step") {
  Program program = Of(kSine, {8, 6});
  const TrainingSettings settings = {.mode = Mode::kEval, .loss = Loss::kNone, .steps = 2};
  PlaceDeaths(program, settings);
  const std::string text = ToString(Train(std::move(program), settings));
  const size_t second = text.find("+t0", text.find("+t0") + 1);
  CHECK_MESSAGE(text.find("+t2:24 -t0") != text.npos, text);
  CHECK_MESSAGE(text.substr(second).starts_with("+t0:32 -t2"), text);
}

}  // namespace onnxfit::cached_functions_test
