#include "estimator/workspaces/planned_layers.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/framework.h"
#include "estimator/workspaces/cudnn_workspaces.h"
#include "estimator/workspaces/layer_rows.h"
#include "tests/resnet_layer.h"

namespace onnxfit::planned_layers_test {
namespace {

constexpr int kOld = 90100;
constexpr int kNew = 91900;

// --- A text of its own ---------------------------------------------------------------------------

// zlib's format with one block that is not deflated (RFC 1950, RFC 1951).  REQUIRES: size < 256.
std::string Stored(std::string_view text) {
  uint32_t a = 1;
  uint32_t b = 0;
  for (const char each : text) {
    a = (a + static_cast<unsigned char>(each)) % 65521;
    b = (b + a) % 65521;
  }
  const auto size = static_cast<char>(text.size());
  std::string stored = {'\x78', '\x01', '\x01', size, 0, static_cast<char>(~size), '\xff'};
  stored += text;
  for (const uint32_t byte : {b >> 8, b & 255, a >> 8, a & 255}) stored += static_cast<char>(byte);
  return stored;
}

char SizeOf(const std::string& text) { return static_cast<char>(text.size()); }

// Two tables, of 8.6 and 9.0, of one layer: 5 bytes at batch 4; none and 126 at 4 and 64.
std::string TwoTables() {
  const std::string key = LayerKey(ResnetLayer(ConvolutionPass::kForward, 1));
  const std::string keys = Stored(SizeOf(key) + key);
  const std::string first = Stored(std::string{1, 1, 4, 0, 5});
  const std::string second = Stored(std::string{1, 2, 4, 64, 0, 0, 126});
  std::string text = {2, 86, 28, 9, SizeOf(first), 90, 100, 10, SizeOf(second), SizeOf(keys)};
  return text + keys + first + second;
}

TEST_CASE("a table has what was asked for") {
  const std::string text = TwoTables();
  const PlannedLayers layers(text);
  CHECK(layers.cards() == std::vector<PlannedCard>{{86, 28, 9}, {90, 100, 10}});
  const Convolution forward = ResnetLayer(ConvolutionPass::kForward, 7);
  CHECK(layers.Find(forward, 0) == std::vector<MeasuredBatch>{{.batch = 4, .bytes = 5}});
  CHECK(layers.Find(forward, 1) ==
        std::vector<MeasuredBatch>{{.batch = 4, .bytes = 0}, {.batch = 64, .bytes = 126}});
  CHECK(layers.Find(ResnetLayer(ConvolutionPass::kWeightGradient, 7), 1).empty());
}

TEST_CASE("tables that end early or are damaged are an error") {
  std::string text = TwoTables();
  CHECK_THROWS_AS(PlannedLayers(std::string_view(text).substr(0, text.size() - 1)), const Error&);
  CHECK_THROWS_AS(PlannedLayers(std::string_view(text).substr(0, 6)), const Error&);
  text.back() ^= 1;
  const PlannedLayers damaged(text);
  CHECK_THROWS_AS(damaged.Find(ResnetLayer(ConvolutionPass::kForward, 7), 1), const Error&);
}

TEST_CASE("the oldest version that is no older comes first, then the nearest") {
  const std::vector<PlannedCard> cards = {{86, 28, 93}, {80, 108, 91}, {86, 28, 91}, {86, 28, 95}};
  struct Row {
    int cudnn;
    std::vector<size_t> order;
  };
  const Row rows[] = {{0, {2, 0, 3}},  {91, {2, 0, 3}}, {92, {0, 3, 2}},
                      {94, {3, 0, 2}}, {95, {3, 0, 2}}, {99, {3, 0, 2}}};
  for (const Row& row : rows) {
    CAPTURE(row.cudnn);
    CHECK(CardsLike(cards, {.compute_capability = 86}, row.cudnn) == row.order);
  }
  CHECK(CardsLike(cards, {.compute_capability = 61}, 95).empty());
}

// --- What comes with the command -----------------------------------------------------------------

struct PlanRow {
  int compute_capability;
  int cudnn;
  ConvolutionPass pass;
  int64_t bytes;
};

// Answers of the library at a batch of 4, to the byte.
TEST_CASE("cuDNN's plans are there by card and version") {
  constexpr PlanRow kRows[] = {{86, kOld, ConvolutionPass::kDataGradient, 409'856},
                               {86, kNew, ConvolutionPass::kDataGradient, 6'570'000},
                               {86, kOld, ConvolutionPass::kWeightGradient, 7'455'147},
                               {86, kNew, ConvolutionPass::kWeightGradient, 7'602'639},
                               {90, kOld, ConvolutionPass::kForward, 3'358'736}};
  for (const PlanRow& row : kRows) {
    CAPTURE(row.compute_capability);
    CAPTURE(row.cudnn);
    const auto found = FindPlanned(ResnetLayer(row.pass, 4),
                                   {.compute_capability = row.compute_capability}, row.cudnn);
    REQUIRE(found);
    CHECK(found->bytes == row.bytes);
  }
}

TEST_CASE("an answer is of that very convolution on a card as large, at that batch") {
  const DeviceProfile card = {.compute_capability = 86, .multiprocessors = 28};
  const DeviceProfile larger = {.compute_capability = 86, .multiprocessors = 82};
  CHECK(FindPlanned(ResnetLayer(ConvolutionPass::kForward, 4), card, kNew)->is_very);
  CHECK_FALSE(FindPlanned(ResnetLayer(ConvolutionPass::kForward, 5), card, kNew)->is_very);
  CHECK_FALSE(FindPlanned(ResnetLayer(ConvolutionPass::kForward, 4), larger, kNew)->is_very);
  Convolution exact = ResnetLayer(ConvolutionPass::kForward, 4);
  exact.dtype = DType::kFloat64;
  CHECK_FALSE(FindPlanned(exact, card, kNew));
  CHECK_FALSE(
      FindPlanned(ResnetLayer(ConvolutionPass::kForward, 4), {.compute_capability = 61}, kNew));
}

TrainingSettings SettingsOf(int compute_capability, int cudnn) {
  TrainingSettings settings;
  settings.device = {.compute_capability = compute_capability};
  settings.framework.cudnn = cudnn;
  return settings;
}

TEST_CASE("an estimate for a named card has those of its framework's version") {
  const Convolution gradient = ResnetLayer(ConvolutionPass::kDataGradient, 4);
  CHECK(WorkspaceBytes(gradient, SettingsOf(86, kOld)) == 409'856);
  CHECK(WorkspaceBytes(gradient, SettingsOf(86, kNew)) == 6'570'000);
  CHECK(ShippedPlansText(SettingsOf(86, 8902)) == "cuDNN 9.1.0 on such a card");
  CHECK(ShippedPlansText(SettingsOf(86, 91002)) == "cuDNN 9.19.0 on such a card");
  // Of Hopper's the new ones were measured.
  CHECK(ShippedPlansText(SettingsOf(90, kNew)) == "an H200 (cuDNN 9.19.0)");
  CHECK(ShippedPlansText(SettingsOf(90, kOld)) == "cuDNN 9.1.0 on such a card");
  CHECK(ShippedPlansText(SettingsOf(90, 91002)) == "an H200 (cuDNN 9.19.0)");
  CHECK(ShippedPlansText(SettingsOf(61, kOld)).empty());
}

TEST_CASE("nobody's card has none, nor one without cuDNN") {
  TrainingSettings settings = SettingsOf(80, kNew);
  CHECK(WorkspaceBytes(ResnetLayer(ConvolutionPass::kForward, 4), settings) > 0);
  for (const int capability : {80, 90}) {
    settings = SettingsOf(capability, kNew);
    settings.device.without_cudnn = true;  // --cudnn none
    CHECK(WorkspaceBytes(ResnetLayer(ConvolutionPass::kForward, 4), settings) == 0);
  }
  settings.device = DefaultDevice();
  CHECK(settings.device.compute_capability == 80);
  CHECK(WorkspaceBytes(ResnetLayer(ConvolutionPass::kForward, 4), settings) == 0);
  CHECK(ShippedPlansText(settings).empty());
}

}  // namespace
}  // namespace onnxfit::planned_layers_test
