#include "estimator/program/checkpointed_spans.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "estimator/base/error.h"
#include "tests/checkpointed_net.h"
#include "tests/trace_helpers.h"

namespace onnxfit::checkpointed_spans_test {
namespace {

// "h.0: 0..1" by the module of the first call.
std::string SpansOf(const std::vector<std::string>& globs) {
  const Program program = Build(kTwoBlocks, {}).program;
  std::string text;
  for (const CallSpan& span : CheckpointedSpans(program, globs)) {
    text += std::to_string(span.first) + ".." + std::to_string(span.last) + " ";
  }
  return text;
}

TEST_CASE("blocks that repeat are items of lists with modules in them") {
  CHECK(SpansOf({kAutoCheckpoint}) == "0..2 3..5 ");
}

TEST_CASE("globs name modules, the outermost counts") {
  CHECK(SpansOf({}).empty());
  CHECK(SpansOf({"h.1"}) == "3..5 ");
  CHECK(SpansOf({"*.act"}) == "1..1 4..4 ");
  CHECK(SpansOf({"h.*"}) == "0..2 3..5 ");
  CHECK(SpansOf({"h.0", "auto"}) == "0..2 3..5 ");
}

TEST_CASE("without globs the model's own checkpoints are") {
  Program program = Build(kTwoBlocks, {}).program;
  for (const int call : {1, 2, 4}) program.calls[static_cast<size_t>(call)].checkpoint = call / 3;
  CHECK(CheckpointedSpans(program, {}) == std::vector<CallSpan>{{1, 2}, {4, 4}});
  CHECK(CheckpointedSpans(program, {"h.0"}) == std::vector<CallSpan>{{0, 2}});
  TrainingSettings settings;
  program.has_reentrant_checkpoints = true;
  CHECK(AreReentrant(program, settings));
  settings.checkpoint = {"h.0"};
  CHECK_FALSE(AreReentrant(program, settings));
}

// Of the two products in a block the first is of a layer that transformers puts checkpoints around.
TEST_CASE("auto takes a library's own layers where their classes are known") {
  Program program = Build(kTwoBlocks, {}).program;
  const auto put = [&](std::string_view class_name) {
    for (const size_t call : {0UL, 3UL})
      program.modules.SetClass(program.calls[call].module, class_name);
    return CheckpointedSpans(program, {kAutoCheckpoint});
  };
  CHECK(put("net.DPTViTLayer").size() == 2);
  CHECK(put("transformers.models.dpt.modeling_dpt.DPTReassembleLayer").front() == CallSpan{0, 2});
  CHECK(put("transformers.models.dpt.modeling_dpt.DPTViTLayer") ==
        std::vector<CallSpan>{{0, 0}, {3, 3}});
  CHECK(OutermostRuns(program, {kAutoCheckpoint}, "--fsdp-modules").size() == 2);
}

TEST_CASE("every=2 counts modules as the model has them, not as they run") {
  Program program = Build(kTwoBlocks, {}).program;
  CHECK(CheckpointedSpans(program, {"every=2"}) == std::vector<CallSpan>{{3, 5}});
  std::ranges::reverse(program.placement);
  CHECK(CheckpointedSpans(program, {"every=2"}) == std::vector<CallSpan>{{0, 2}});
}

// Three blocks before those that run.
TEST_CASE("every=2 counts blocks that never run") {
  Program program = Build(kTwoBlocks, {}).program;
  std::vector<NameId> idle;
  for (const char* block : {"0", "1", "2"}) {
    idle.push_back(static_cast<NameId>(program.values.size()));
    program.values.emplace_back().name = "visual." + std::string(block) + ".fc.weight";
  }
  program.placement.insert(program.placement.begin(), idle.begin(), idle.end());
  CHECK(CheckpointedSpans(program, {"every=2"}) == std::vector<CallSpan>{{0, 2}});
  CHECK(CheckpointedSpans(program, {kAutoCheckpoint}).size() == 2);
}

TEST_CASE("a glob that names no module is an error with those that there are") {
  try {
    SpansOf({"h.7"});
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("--checkpoint") != std::string::npos);
  }
}

}  // namespace
}  // namespace onnxfit::checkpointed_spans_test
