#include "estimator/workspaces/cudnn_workspaces.h"

#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "estimator/workspaces/workspace_form.h"
#include "tests/resnet_layer.h"

namespace onnxfit::cudnn_workspaces_test {
namespace {

constexpr auto kForward = ConvolutionPass::kForward;
constexpr auto kOfX = ConvolutionPass::kDataGradient;
constexpr auto kOfWeight = ConvolutionPass::kWeightGradient;

struct Row {
  const char* name;
  ConvolutionPass pass;
  DType dtype;
  Dims x, weight, y;
  int64_t stride, padding;
  int64_t bytes;
};

Convolution ConvolutionOf(const Row& row) {
  const size_t rank = row.x.size() - 2;
  return {.pass = row.pass,
          .dtype = row.dtype,
          .input = row.x,
          .weight = row.weight,
          .output = row.y,
          .stride = std::vector<int64_t>(rank, row.stride),
          .padding = std::vector<int64_t>(rank, row.padding),
          .dilation = std::vector<int64_t>(rank, 1)};
}

// To the byte what torch 2.11.0 with cuDNN 9.19.0 asked for on an H200.
TEST_CASE("the form says what an H200 asked for") {
  const Row rows[] = {
      {"x, y and the weight in NHWC",
       kForward,
       DType::kFloat32,
       {4, 32, 128, 128},
       {32, 32, 3, 3},
       {4, 32, 128, 128},
       1,
       1,
       2 * 4 * 4 * 32 * 128 * 128 + 4 * 32 * 32 * 9 + 16},
      {"in 16 bits",
       kForward,
       DType::kBFloat16,
       {8, 64, 64, 64},
       {64, 64, 3, 3},
       {8, 64, 64, 64},
       1,
       1,
       2 * 2 * 8 * 64 * 64 * 64 + 2 * 64 * 64 * 9 + 16},
      {"of the gradient of x",
       kOfX,
       DType::kFloat32,
       {4, 32, 128, 128},
       {32, 32, 3, 3},
       {4, 32, 128, 128},
       1,
       1,
       2 * 4 * 4 * 32 * 128 * 128 + 4 * 32 * 32 * 9 + 16},
      {"of three dimensions",
       kForward,
       DType::kFloat32,
       {8, 256, 4, 14, 14},
       {512, 256, 3, 3, 3},
       {8, 512, 2, 7, 7},
       2,
       1,
       4 * (8 * 256 * 4 * 14 * 14 + 8 * 512 * 2 * 7 * 7 + 512 * 256 * 27) + 16},
      {"a picture's channels",
       kForward,
       DType::kFloat32,
       {8, 3, 224, 224},
       {768, 3, 16, 16},
       {8, 768, 14, 14},
       16,
       0,
       0},
      {"as a ResNet begins",
       kForward,
       DType::kFloat32,
       {8, 3, 224, 224},
       {64, 3, 7, 7},
       {8, 64, 112, 112},
       2,
       3,
       4 * (8 * 3 * 224 * 224 + 8 * 64 * 112 * 112 + 64 * 147) + 16},
      {"points",
       kForward,
       DType::kFloat32,
       {32, 64, 56, 56},
       {256, 64, 1, 1},
       {32, 256, 56, 56},
       1,
       0,
       0},
      {"points of the gradient of x",
       kOfX,
       DType::kBFloat16,
       {8, 256, 56, 56},
       {64, 256, 1, 1},
       {8, 64, 56, 56},
       1,
       0,
       0},
      {"a weight for each sample",
       kOfWeight,
       DType::kFloat32,
       {32, 64, 56, 56},
       {64, 64, 1, 1},
       {32, 64, 56, 56},
       1,
       0,
       32 * 4 * 64 * 64},
      {"in fp32 of 16 bits, too",
       kOfWeight,
       DType::kBFloat16,
       {8, 64, 56, 56},
       {256, 64, 1, 1},
       {8, 256, 56, 56},
       1,
       0,
       8 * 4 * 256 * 64},
      {"points one step apart have copies",
       kForward,
       DType::kFloat32,
       {4, 128, 28, 28},
       {256, 128, 1, 1},
       {4, 256, 14, 14},
       2,
       0,
       4 * (4 * 128 * 28 * 28 + 4 * 256 * 14 * 14) + 16},
      {"one point",
       kOfWeight,
       DType::kFloat32,
       {4, 512, 1, 1},
       {32, 512, 1, 1},
       {4, 32, 1, 1},
       1,
       0,
       0},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    CHECK(FormedWorkspaceBytes(ConvolutionOf(row)) == row.bytes);
  }
}

// Channels of x and y, the weight's window, bytes as asked for.
TEST_CASE("in the order NHWC what does not fill 16 bytes is copied") {
  const Row rows[] = {
      {"83 channels as 88",
       kForward,
       DType::kBFloat16,
       {4, 83, 16, 24},
       {64, 83, 3, 3},
       {4, 64, 16, 24},
       1,
       1,
       2 * (4 * 88 * 16 * 24 + 64 * 88 * 9) + 16},
      {"3 of the result as 4",
       kOfX,
       DType::kFloat32,
       {32, 48, 96, 96},
       {3, 48, 3, 3},
       {32, 3, 96, 96},
       1,
       1,
       4 * (32 * 4 * 96 * 96 + 4 * 48 * 9) + 16},
      {"113 of x, for its gradient",
       kOfX,
       DType::kBFloat16,
       {4, 113, 4, 6},
       {48, 113, 3, 3},
       {4, 48, 4, 6},
       1,
       1,
       2 * (4 * 120 * 4 * 6 + 48 * 120 * 9) + 16},
      {"filled",
       kForward,
       DType::kBFloat16,
       {8, 64, 64, 64},
       {64, 64, 3, 3},
       {8, 64, 64, 64},
       1,
       1,
       0},
      {"a picture's channels",
       kForward,
       DType::kFloat32,
       {8, 3, 224, 224},
       {64, 3, 3, 3},
       {8, 64, 224, 224},
       1,
       1,
       0},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    Convolution convolution = ConvolutionOf(row);
    convolution.is_channels_last = true;
    CHECK(FormedWorkspaceBytes(convolution) == row.bytes);
  }
}

TEST_CASE("of Hopper alone, and not of what was measured") {
  CHECK(HasWorkspaceForm({.compute_capability = 90}));
  CHECK_FALSE(HasWorkspaceForm({.compute_capability = 80}));
  CHECK_FALSE(HasWorkspaceForm({.compute_capability = 100}));
  CHECK_FALSE(HasWorkspaceForm({}));
}

class AnswersOne : public WorkspaceSource {
 public:
  std::optional<int64_t> Find(const Convolution&) override { return 1; }
};

DeviceProfile Asked(int compute_capability, std::string cudnn = "9.19.0") {
  Calibration asked;
  asked.cudnn = std::move(cudnn);
  asked.basis = Basis::kModelled;
  asked.source = std::make_shared<AnswersOne>();
  return {.compute_capability = compute_capability,
          .calibration = std::make_shared<const Calibration>(asked)};
}

// A card takes cublasLt for them, whose plans cuDNN does not name without one.
TEST_CASE("asked without a card, cuDNN's answer for points is not taken") {
  const Row point = {
      "a point", kForward, DType::kFloat32, {4, 24, 9, 9}, {40, 24, 1, 1}, {4, 40, 9, 9}, 1, 0, 0};
  const Row window = {
      "a window", kForward, DType::kFloat32, {4, 24, 9, 9}, {40, 24, 3, 3}, {4, 40, 9, 9}, 1, 1, 1};
  for (const int capability : {80, 90}) {
    CHECK(WorkspaceBytes(ConvolutionOf(point), {.device = Asked(capability)}) == point.bytes);
    CHECK(WorkspaceBytes(ConvolutionOf(window), {.device = Asked(capability)}) == window.bytes);
  }
}

TEST_CASE("the form does not overrule an H200's, a measurement on the card does") {
  const Convolution forward = ResnetLayer(kForward, 32);
  constexpr int64_t kBytes = 4 * 32 * 64 * 56 * 56 + 4 * 64 * 64 * 9 + 16;
  DeviceProfile device = {.compute_capability = 90, .multiprocessors = 132};
  CHECK(FormedWorkspaceBytes(forward) != kBytes);
  CHECK(WorkspaceBytes(forward, {.device = device}) == kBytes);
  Calibration own;
  own.convolutions = {{forward, 77}};
  device.calibration = std::make_shared<const Calibration>(own);
  CHECK(WorkspaceBytes(forward, {.device = device}) == 77);
}

TEST_CASE("what was measured in that very call comes before what cuDNN says without a card") {
  TrainingSettings settings = {.device = Asked(90)};
  settings.device.multiprocessors = 132;
  settings.framework.cudnn = 91900;
  CHECK(WorkspaceBytes(ResnetLayer(kForward, 32), settings) > 1);
  CHECK(WorkspaceBytes(ResnetLayer(kForward, 16), settings) == 1);  // of 4 and 32 alone
  settings.device.multiprocessors = 114;
  CHECK(WorkspaceBytes(ResnetLayer(kForward, 32), settings) == 1);
}

struct AskedRow {
  const char* asked;
  int framework;  // the version that it brings
  bool is_asked;
};

// A layer of a ResNet, of which there are plans of 9.1.0 and 9.19.0 for an RTX 3060.
TEST_CASE("plans of a version nearer to the framework's come before the library's own") {
  constexpr AskedRow kRows[] = {{"9.19.0", 91900, true}, {"9.19.0", 90100, false},
                                {"9.1.0", 90100, true},  {"9.26.0", 91900, false},
                                {"9.10.2", 91002, true}, {"9.1.0", 91900, false},
                                {"9.26.0", 92600, true}, {"", 91900, false}};
  const Row known = {
      "a layer", kForward, DType::kFloat32, {4, 64, 56, 56}, {64, 64, 3, 3}, {4, 64, 56, 56}, 1,
      1,         0};
  const Row unknown = {
      "another", kForward, DType::kFloat32, {4, 61, 57, 57}, {67, 61, 3, 3}, {4, 67, 57, 57}, 1,
      1,         0};
  for (const AskedRow& row : kRows) {
    CAPTURE(row.asked);
    CAPTURE(row.framework);
    TrainingSettings settings = {.device = Asked(86, row.asked)};
    settings.framework.cudnn = row.framework;
    CHECK((WorkspaceBytes(ConvolutionOf(known), settings) == 1) == row.is_asked);
    CHECK(WorkspaceBytes(ConvolutionOf(unknown), settings) == 1);
    settings.device.without_cudnn = true;  // of a card that nobody named
    CHECK(WorkspaceBytes(ConvolutionOf(known), settings) == 1);
  }
}

}  // namespace
}  // namespace onnxfit::cudnn_workspaces_test
