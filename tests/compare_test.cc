#include "estimator/compare/compare.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <map>

#include "estimator/fit/estimate.h"
#include "estimator/onnx/loader.h"
#include "estimator/report/snapshot_json.h"
#include "tests/files.h"
#include "tests/paths.h"

namespace onnxfit::compare_test {
namespace {

namespace fs = std::filesystem;

Snapshot SnapshotAt(const std::string& model, int64_t batch) {
  const Graph graph = LoadGraph((fs::path(kSourceDir) / "models" / model).string());
  return SnapshotOf(MakeEstimate(graph, {.binding = {.batch = batch}, .wants_range = false}),
                    "0.1.0");
}

bool IsOfNoPlace(const std::string& kind) {
  return kind == "rounding" || kind == "cached" || kind == "context";
}

int64_t IncreaseOfPlaces(const Comparison& comparison) {
  int64_t sum = 0;
  for (const ChangedPlaces& places : comparison.places) sum += places.increase();
  return sum;
}

std::map<std::string, int64_t> IncreaseOfKinds(const Comparison& comparison) {
  std::map<std::string, int64_t> kinds;
  for (const ChangedKind& kind : comparison.kinds) {
    CHECK(kinds.emplace(kind.kind, kind.new_bytes - kind.old_bytes).second);
  }
  return kinds;
}

// Kinds and places add up to the whole, to the byte.
void CheckSums(const Comparison& comparison) {
  int64_t of_kinds = 0;
  int64_t of_places = IncreaseOfPlaces(comparison);
  for (const auto& [kind, increase] : IncreaseOfKinds(comparison)) {
    of_kinds += increase;
    if (IsOfNoPlace(kind)) of_places += increase;
  }
  CHECK(of_kinds == comparison.increase());
  CHECK(of_places == comparison.increase());
}

void CheckMirrored(const Comparison& there, const Comparison& back) {
  CHECK(there.increase() == -back.increase());
  CHECK(IncreaseOfPlaces(there) == -IncreaseOfPlaces(back));
  CHECK(there.settings.size() == back.settings.size());
  CHECK(there.peak_moved == back.peak_moved);
  for (const auto& [kind, increase] : IncreaseOfKinds(there)) {
    CHECK(IncreaseOfKinds(back).at(kind) == -increase);
  }
}

void CheckSame(const Snapshot& snapshot) {
  const Comparison comparison = Compare(snapshot, snapshot);
  CHECK(comparison.increase() == 0);
  CHECK(comparison.places.empty());
  CHECK(comparison.settings.empty());
  CHECK_FALSE(comparison.peak_moved);
  CHECK(comparison.has_places);
  CHECK(comparison.kinds.size() == snapshot.kinds.size());
}

void CheckLaws(const Snapshot& before, const Snapshot& after) {
  REQUIRE_FALSE(before.places.empty());
  CheckSame(before);
  CheckSame(after);
  CheckSums(Compare(before, after));
  CheckSums(Compare(after, before));
  CheckMirrored(Compare(before, after), Compare(after, before));
}

TEST_CASE("kinds and places add up, and the way back is the way there") {
  for (const fs::path& path : TextModels()) {
    const std::string name = path.filename().string();
    CAPTURE(name);
    CheckLaws(SnapshotAt(name, 2), SnapshotAt(name, 64));
  }
}

TEST_CASE("the same of two networks, and of one at two batches") {
  CheckLaws(SnapshotAt("resnet50.train.onnx", 4), SnapshotAt("resnet18.train.onnx", 4));
  CheckLaws(SnapshotAt("gpt2.dynamo.onnx", 1), SnapshotAt("gpt2.dynamo.onnx", 2));
  CheckLaws(SnapshotAt("unet.train.onnx", 1), SnapshotAt("vgg16.script.onnx", 1));
}

TEST_CASE("at two batches every node is itself, and the batch is what changed") {
  const Comparison comparison =
      Compare(SnapshotAt("gpt2.dynamo.onnx", 2), SnapshotAt("gpt2.dynamo.onnx", 3));
  REQUIRE(comparison.settings.size() == 1);
  CHECK(comparison.settings[0].name == "batch");
  CHECK(comparison.settings[0].old_value == "2");
  CHECK(comparison.settings[0].new_value == "3");
  for (const ChangedPlaces& places : comparison.places) {
    CAPTURE(places.name);
    CHECK(places.old_name.empty());
    CHECK(places.change != PlaceChange::kAdded);
    CHECK(places.change != PlaceChange::kRemoved);
  }
}

Snapshot SmallSnapshot() {
  Snapshot snapshot;
  snapshot.device_bytes = 100;
  snapshot.phase = "backward";
  snapshot.node = "relu_4";
  snapshot.kinds = {{"activations", 60}, {"cached", 40}};
  snapshot.places = {{"relu", "relu", 60}};
  snapshot.settings = {{"batch", "8"}, {"precision", "fp32"}};
  return snapshot;
}

TEST_CASE("kinds and settings that one side does not have") {
  const Snapshot before = SmallSnapshot();
  Snapshot after = before;
  after.kinds = {{"workspaces", 5}, {"cached", 95}};
  after.settings = {{"seq", "4"}, {"precision", "bf16"}};
  const Comparison comparison = Compare(before, after);
  REQUIRE(comparison.kinds.size() == 3);
  CHECK(comparison.kinds[0].kind == "workspaces");
  CHECK(comparison.kinds[0].old_bytes == 0);
  CHECK(comparison.kinds[2].kind == "activations");
  CHECK(comparison.kinds[2].new_bytes == 0);
  std::string settings;
  for (const ChangedSetting& setting : comparison.settings) {
    settings += setting.name + ":" + setting.old_value + ">" + setting.new_value + " ";
  }
  CHECK(settings == "seq:>4 precision:fp32>bf16 batch:8> ");
}

TEST_CASE("where the peak is") {
  struct Row {
    const char* phase;
    const char* node;
    bool moved;
  };
  const Row rows[] = {{"backward", "relu_4", false}, {"backward", "relu_5", false},
                      {"forward", "relu_4", true},   {"backward", "relu", true},
                      {"backward", "gelu_4", true},  {"backward", "", true}};
  for (const Row& row : rows) {
    CAPTURE(row.phase);
    CAPTURE(row.node);
    Snapshot after = SmallSnapshot();
    after.phase = row.phase;
    after.node = row.node;
    CHECK(Compare(SmallSnapshot(), after).peak_moved == row.moved);
  }
}

TEST_CASE("a side without places") {
  Snapshot bare = SmallSnapshot();
  bare.places.clear();
  CHECK_FALSE(Compare(SmallSnapshot(), bare).has_places);
  CHECK_FALSE(Compare(bare, SmallSnapshot()).has_places);
  CHECK(Compare(bare, SmallSnapshot()).places.empty());
  CHECK(Compare(SmallSnapshot(), SmallSnapshot()).before.places.empty());
}

TEST_CASE("what is allowed is the larger of both") {
  struct Row {
    Allowance allowance;
    int64_t old_bytes;
    int64_t allowed;
  };
  const Row rows[] = {{{}, 1000, 0},
                      {{.text = "", .bytes = 64}, 1000, 64},
                      {{.text = "", .share = 0.02}, 1000, 20},
                      {{.text = "", .share = 0.02}, 1049, 20},
                      {{.text = "", .bytes = 64, .share = 0.02}, 1000, 64},
                      {{.text = "", .bytes = 64, .share = 0.5}, 1000, 500},
                      {{.text = "", .bytes = INT64_MAX}, 1000, INT64_MAX},
                      {{.text = "", .share = 0.02}, 0, 0}};
  for (const Row& row : rows) CHECK(row.allowance.BytesOf(row.old_bytes) == row.allowed);
}

}  // namespace
}  // namespace onnxfit::compare_test
