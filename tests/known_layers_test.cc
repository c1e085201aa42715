#include "estimator/workspaces/known_layers.h"

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

namespace onnxfit::known_layers_test {
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

constexpr auto kForward = ConvolutionPass::kForward;

Convolution OfSize(int64_t size) {
  Convolution layer = ResnetLayer(kForward, 7);
  for (Dims* dims : {&layer.input, &layer.output}) (*dims)[2] = (*dims)[3] = size;
  return layer;
}

// Two tables, of 8.6 as planned and 9.0 as measured, of one layer at two sizes: 5 bytes at batch 4
// of 56 x 56; none and 126 at 4 and 64, and of 28 x 28 3 at 4.
std::string TwoTables() {
  std::string keys;
  for (const int64_t size : {28, 56}) {
    const std::string key = LayerKey(OfSize(size));
    keys += SizeOf(key) + key;
  }
  keys = Stored(keys);
  const std::string first = Stored(std::string{2, 0, 1, 4, 0, 1, 5});
  const std::string second = Stored(std::string{2, 1, 4, 2, 4, 64, 0, 3, 1, 0, 126});
  const std::string head = {
      2, 86, 28, 9, 0, SizeOf(first), 90, 100, 10, 1, SizeOf(second), SizeOf(keys)};
  return head + keys + first + second;
}

TEST_CASE("a table has what was asked for") {
  const std::string text = TwoTables();
  const KnownLayers layers(text);
  CHECK(layers.cards() == std::vector<KnownCard>{{86, 28, 9, false}, {90, 100, 10, true}});
  const Convolution forward = OfSize(56);
  CHECK(layers.Find(forward, 0) == std::vector<BatchWorkspace>{{.batch = 4, .bytes = 5}});
  CHECK(layers.Find(forward, 1) ==
        std::vector<BatchWorkspace>{{.batch = 4, .bytes = 0}, {.batch = 64, .bytes = 126}});
  CHECK(layers.Find(OfSize(28), 0).empty());
  CHECK(layers.Find(ResnetLayer(ConvolutionPass::kWeightGradient, 7), 1).empty());
}

TEST_CASE("a layer is found at all sizes of its pictures") {
  const std::string text = TwoTables();
  const KnownLayers layers(text);
  CHECK(layers.FindSizes(OfSize(31), 0) ==
        std::vector<SizedLayer>{{{56, 56}, {56, 56}, {{.batch = 4, .bytes = 5}}}});
  const std::vector<SizedLayer> both = layers.FindSizes(OfSize(31), 1);
  REQUIRE(both.size() == 2);
  CHECK(both[0].input == Dims{28, 28});
  CHECK(both[1].batches.size() == 2);
  Convolution strided = OfSize(31);
  strided.stride = {2, 2};
  CHECK(layers.FindSizes(strided, 1).empty());
}

TEST_CASE("tables that end early or are damaged are an error") {
  std::string text = TwoTables();
  CHECK_THROWS_AS(KnownLayers(std::string_view(text).substr(0, text.size() - 1)), const Error&);
  CHECK_THROWS_AS(KnownLayers(std::string_view(text).substr(0, 6)), const Error&);
  text.back() ^= 1;
  const KnownLayers damaged(text);
  CHECK_THROWS_AS(damaged.Find(OfSize(56), 1), const Error&);
}

TEST_CASE("the oldest version that is no older comes first, then the nearest") {
  const std::vector<KnownCard> cards = {{86, 28, 93}, {80, 108, 91}, {86, 28, 91}, {86, 28, 95}};
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

TEST_CASE("of two versions the one nearer to a third") {
  CHECK(IsNearerVersion(90100, 91900, 90100));
  CHECK(IsNearerVersion(91900, 90100, 90501));
  CHECK(IsNearerVersion(91900, 90100, 92600));
  CHECK_FALSE(IsNearerVersion(91900, 91900, 91900));
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
    const auto found = FindKnown(ResnetLayer(row.pass, 4),
                                 {.compute_capability = row.compute_capability}, row.cudnn);
    REQUIRE(found);
    CHECK(found->bytes == row.bytes);
  }
}

TEST_CASE("an answer is of that very convolution on a card as large, at that batch") {
  const DeviceProfile card = {.compute_capability = 86, .multiprocessors = 28};
  const DeviceProfile larger = {.compute_capability = 86, .multiprocessors = 82};
  CHECK(FindKnown(ResnetLayer(ConvolutionPass::kForward, 4), card, kNew)->is_very);
  CHECK_FALSE(FindKnown(ResnetLayer(ConvolutionPass::kForward, 5), card, kNew)->is_very);
  CHECK_FALSE(FindKnown(ResnetLayer(ConvolutionPass::kForward, 4), larger, kNew)->is_very);
  Convolution exact = ResnetLayer(ConvolutionPass::kForward, 4);
  exact.dtype = DType::kFloat64;
  CHECK_FALSE(FindKnown(exact, card, kNew));
  CHECK_FALSE(
      FindKnown(ResnetLayer(ConvolutionPass::kForward, 4), {.compute_capability = 61}, kNew));
}

// What torch 2.11.0 with cuDNN 9.19.0 asked for on an H200, to the byte.
TEST_CASE("an H200's are there") {
  const DeviceProfile card = {.compute_capability = 90, .multiprocessors = 132};
  CHECK(FindKnown(ResnetLayer(kForward, 32), card, kNew) ==
        KnownLayer{.bytes = 4 * 32 * 64 * 56 * 56 + 4 * 64 * 64 * 9 + 16,
                   .is_very = true,
                   .is_measured = true});
  CHECK(FindKnown(ResnetLayer(ConvolutionPass::kWeightGradient, 4), card, kNew) ==
        KnownLayer{.bytes = 15'040'512, .is_very = true, .is_measured = true});
  Convolution half = ResnetLayer(kForward, 32);
  half.dtype = DType::kFloat16;
  CHECK_FALSE(FindKnown(half, card, kNew)->is_very);  // bf16 was measured
}

// 86 x 86, as xMem's runs have it.
TEST_CASE("another size of pictures is told by those that were asked") {
  const DeviceProfile card = {.compute_capability = 86, .multiprocessors = 28};
  Convolution layer = OfSize(87);
  layer.input[0] = layer.output[0] = 96;
  const int64_t tensor = 4 * 96 * 64 * 87 * 87;
  const int64_t weight = 4 * 64 * 64 * 9;
  const auto found = FindKnown(layer, card, kOld);
  REQUIRE(found);
  CHECK_FALSE(found->is_very);
  CHECK(found->bytes >= tensor);
  CHECK(found->bytes <= tensor + 70 * weight);
  // A product of matrices follows no size.
  Convolution point = layer;
  point.weight = {64, 64, 1, 1};
  point.padding = {0, 0};
  CHECK_FALSE(FindKnown(point, card, kOld));
  point.dtype = DType::kBFloat16;
  CHECK(FindKnown(point, card, kOld));
  CHECK_FALSE(FindKnown(point, {.compute_capability = 90}, kOld));
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
}  // namespace onnxfit::known_layers_test
