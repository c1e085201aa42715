#include "estimator/operators/cudnn_convolutions.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "estimator/operators/dispatch.h"
#include "estimator/workspaces/cudnn_workspaces.h"
#include "tests/measured_card.h"
#include "tests/trace_helpers.h"

namespace onnxfit::cudnn_convolutions_test {
namespace {

std::string Dashed(const std::vector<int64_t>& numbers) {
  return fmt::format("{}", fmt::join(numbers, "x"));
}

// "forward float32 2x3x8x8 4x3x3x3 2x4x6x6 stride 1x1 padding 0x0 dilation 1x1 groups 1".
std::string TextOf(const Convolution& c) {
  constexpr const char* kPasses[] = {"forward", "data", "weight"};
  return fmt::format("{} {} {} {} {} stride {} padding {} dilation {} groups {}{}{}\n",
                     kPasses[static_cast<size_t>(c.pass)], Name(c.dtype), Dashed(c.input),
                     Dashed(c.weight), Dashed(c.output), Dashed(c.stride), Dashed(c.padding),
                     Dashed(c.dilation), c.groups, c.is_transposed ? " transposed" : "",
                     c.is_channels_last ? " channels last" : "");
}

Program Dispatched(const std::string& text, const TrainingSettings& settings = {}) {
  return Dispatch(Build(text, settings).program, settings);
}

std::string TextOf(const std::vector<Convolution>& convolutions) {
  std::string text = "\n";
  for (const Convolution& convolution : convolutions) text += TextOf(convolution);
  return text;
}

// Two convolutions; the first is run twice.
constexpr char kNet[] = R"(
  net (float[2, 3, 8, 8] x) => (float[2, 6, 3, 3] y)
  < float[3, 3, 3, 3] a = ["location": "none"], float[6, 3, 3, 3] b = ["location": "none"],
    float[6] bias = ["location": "none"] > {
    h = Conv <pads = [1, 1, 1, 1]> (x, a)
    k = Conv <pads = [1, 1, 1, 1]> (h, a)
    y = Conv <strides = [2, 2]> (k, b, bias)
  })";

}  // namespace

TEST_CASE("the convolutions of a training step, each pass once, as they come first") {
  CHECK(TextOf(ConvolutionsOf(Dispatched(kNet))) == R"(
forward float32 2x3x8x8 3x3x3x3 2x3x8x8 stride 1x1 padding 1x1 dilation 1x1 groups 1
weight float32 2x3x8x8 3x3x3x3 2x3x8x8 stride 1x1 padding 1x1 dilation 1x1 groups 1
data float32 2x3x8x8 3x3x3x3 2x3x8x8 stride 1x1 padding 1x1 dilation 1x1 groups 1
forward float32 2x3x8x8 6x3x3x3 2x6x3x3 stride 2x2 padding 0x0 dilation 1x1 groups 1
data float32 2x3x8x8 6x3x3x3 2x6x3x3 stride 2x2 padding 0x0 dilation 1x1 groups 1
weight float32 2x3x8x8 6x3x3x3 2x6x3x3 stride 2x2 padding 0x0 dilation 1x1 groups 1
)");
  CHECK(TextOf(ConvolutionsOf(Dispatched(kNet, {.mode = Mode::kEval}))) == R"(
forward float32 2x3x8x8 3x3x3x3 2x3x8x8 stride 1x1 padding 1x1 dilation 1x1 groups 1
forward float32 2x3x8x8 6x3x3x3 2x6x3x3 stride 2x2 padding 0x0 dilation 1x1 groups 1
)");
  CHECK(TextOf(ConvolutionsOf(
            Dispatched(kNet, {.precision = Precision::kAmpBf16, .freeze = {"a", "b"}}))) == R"(
forward bfloat16 2x3x8x8 3x3x3x3 2x3x8x8 stride 1x1 padding 1x1 dilation 1x1 groups 1
forward bfloat16 2x3x8x8 6x3x3x3 2x6x3x3 stride 2x2 padding 0x0 dilation 1x1 groups 1
)");
}

TEST_CASE("what a convolution is, by its node") {
  struct Row {
    const char* name;
    const char* node;
    const char* weight;
    const char* input;
    const char* output;
    const char* expected;  // of its forward pass, "" where it cannot be told
  };
  const Row rows[] = {
      {"along one dimension", "Conv <strides = [2], pads = [1, 1]> (x, w)", "4, 3, 3", "2, 3, 9",
       "2, 4, 5", "2x3x1x9 4x3x1x3 2x4x1x5 stride 1x2 padding 0x1 dilation 1x1 groups 1"},
      {"along three", "Conv <dilations = [1, 2, 1]> (x, w)", "4, 3, 3, 3, 3", "1, 3, 5, 7, 5",
       "1, 4, 3, 3, 3",
       "1x3x5x7x5 4x3x3x3x3 1x4x3x3x3 stride 1x1x1 padding 0x0x0 dilation 1x2x1 groups 1"},
      {"in groups", "Conv <group = 2> (x, w)", "4, 2, 3, 3", "1, 4, 5, 5", "1, 4, 3, 3",
       "1x4x5x5 4x2x3x3 1x4x3x3 stride 1x1 padding 0x0 dilation 1x1 groups 2"},
      {"transposed", "ConvTranspose <strides = [2, 2]> (x, w)", "4, 3, 2, 2", "1, 4, 5, 5",
       "1, 3, 10, 10",
       "1x4x5x5 4x3x2x2 1x3x10x10 stride 2x2 padding 0x0 dilation 1x1 groups 1 transposed"},
      {"as large as before", "Conv <auto_pad = \"SAME_UPPER\"> (x, w)", "4, 3, 5, 3", "1, 3, 8, 8",
       "1, 4, 8, 8", "1x3x8x8 4x3x5x3 1x4x8x8 stride 1x1 padding 2x1 dilation 1x1 groups 1"},
      {"the same, padded before by one more behind it", "Conv <auto_pad = \"SAME_UPPER\"> (x, w)",
       "4, 3, 2, 2", "1, 3, 8, 8", "1, 4, 8, 8",
       "1x3x9x9 4x3x2x2 1x4x8x8 stride 1x1 padding 0x0 dilation 1x1 groups 1"},
      {"one side padded more", "Conv <pads = [0, 0, 1, 1]> (x, w)", "4, 3, 2, 2", "1, 3, 8, 8",
       "1, 4, 8, 8", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const Program program = Dispatched(
        fmt::format("net (float[{}] x) => (float[{}] y) < float[{}] w = [\"location\": \"none\"] > "
                    "{{ y = {} }}",
                    row.input, row.output, row.weight, row.node),
        {.mode = Mode::kEval});
    const std::vector<Convolution> found = ConvolutionsOf(program);
    CHECK(CountMeasured(program, {.device = {}}).all == 1);
    const std::string expected = row.expected;
    CHECK((found.empty() ? "" : TextOf(found[0])) ==
          (expected.empty() ? "" : "forward float32 " + expected + "\n"));
  }
}

TEST_CASE("channel by channel, PyTorch's own kernels run most") {
  struct Row {
    const char* name;
    Precision precision;
    int64_t batch;
    int64_t channels;
    int64_t width;
    const char* weight;
    const char* attributes;
    bool asks;
  };
  constexpr char k3[] = "[C, 1, 3, 3]";
  const Row rows[] = {
      {"fp32", Precision::kFp32, 8, 64, 28, k3, "pads = [1, 1, 1, 1]", false},
      {"bf16", Precision::kBf16, 8, 64, 28, k3, "pads = [1, 1, 1, 1]", false},
      {"fp16", Precision::kFp16, 8, 64, 28, k3, "pads = [1, 1, 1, 1]", true},
      {"fp16 by autocast", Precision::kAmpFp16, 8, 64, 28, k3, "pads = [1, 1, 1, 1]", true},
      {"few channels", Precision::kFp16, 8, 31, 28, k3, "pads = [1, 1, 1, 1]", false},
      {"a small image", Precision::kFp16, 8, 64, 6, k3, "pads = [1, 1, 1, 1]", false},
      {"dilated", Precision::kFp16, 8, 64, 28, k3, "dilations = [2, 2]", false},
      {"a filter of 7", Precision::kFp16, 8, 64, 28, "[C, 1, 7, 7]", "pads = [3, 3, 3, 3]", false},
      {"a filter that is no square", Precision::kFp16, 8, 64, 28, "[C, 1, 1, 3]", "group = 64",
       false},
      {"stride 2", Precision::kFp16, 8, 64, 28, k3, "strides = [2, 2]", false},
      {"stride 2 of many channels", Precision::kFp16, 8, 512, 14, k3, "strides = [2, 2]", true},
      {"stride 2 of a wide image", Precision::kFp16, 8, 256, 28, k3, "strides = [2, 2]", true},
      {"stride 2 of one sample", Precision::kFp16, 1, 64, 28, k3, "strides = [2, 2]", true},
      {"strides that differ", Precision::kFp16, 8, 64, 28, k3, "strides = [1, 2]", false},
      {"stride 3", Precision::kFp16, 8, 512, 28, k3, "strides = [3, 3]", false},
      {"two outputs a channel", Precision::kFp32, 8, 64, 28, "[2C, 1, 3, 3]", "", false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    std::string weight = row.weight;
    const bool doubles = weight.starts_with("[2C");
    weight = fmt::format("[{}{}", row.channels * (doubles ? 2 : 1), weight.substr(doubles ? 3 : 2));
    std::string attributes = row.attributes;
    if (attributes.find("group") == std::string::npos) {
      attributes += fmt::format("{}group = {}", attributes.empty() ? "" : ", ", row.channels);
    }
    const TrainingSettings settings = {.precision = row.precision, .mode = Mode::kEval};
    const Program program = Dispatched(
        fmt::format("net (float[{0}, {1}, {2}, {2}] x) => (float[A, B, D, E] y) < float{3} w = "
                    "[\"location\": \"none\"] > {{ y = Conv <{4}> (x, w) }}",
                    row.batch, row.channels, row.width, weight, attributes),
        settings);
    CHECK(AsksCudnn(program, program.calls.back()) == row.asks);
    CHECK(ConvolutionsOf(program).size() == (row.asks ? 1 : 0));
    CHECK((MostCudnnWorkspaceBytes(program, {.device = {}}) > 0) == row.asks);
  }
}

TEST_CASE("a convolution of what lies in the order NHWC is asked for in that order") {
  const Program program = Dispatched(R"(
    net (float[2, 8, 8, 64] x) => (float[2, 64, 6, 6] y)
    < float[64, 1, 3, 3] w = ["location": "none"] > {
      t = Transpose <perm = [0, 3, 1, 2]> (x)
      y = Conv <group = 64> (t, w)
    })",
                                     {.mode = Mode::kEval});
  CHECK(AsksCudnn(program, program.calls.back()));
  CHECK(TextOf(ConvolutionsOf(program)) == R"(
forward float32 2x64x8x8 64x1x3x3 2x64x6x6 stride 1x1 padding 0x0 dilation 1x1 groups 64 channels last
)");
  CHECK(MostCudnnWorkspaceBytes(program, {.device = {}}) ==
        4 * (2 * 64 * 8 * 8 + 64 * 9 + 2 * 64 * 6 * 6));
}

TEST_CASE("measured workspaces are there while cuDNN runs, behind what it writes") {
  TrainingSettings settings = {.optimizer = Optimizer::kSgd, .steps = 1};
  const std::vector<Convolution> convolutions = ConvolutionsOf(Dispatched(kNet));
  settings.device = MeasuredDevice(Shared(CalibrationOf(Workspaces(convolutions, /*bytes=*/1000))));
  // Of the six above, in their order, the first asks for 1000 bytes, the second for 2000 ...
  CHECK(TraceText(kNet, settings) == R"(
setup     +a:324 +b:648 +bias:24
forward   +x:1536 +labels:144 +h:1536 +cuDNN workspace:1000 -cuDNN workspace +k:1536 +cuDNN workspace:1000 -cuDNN workspace +y:432 +cuDNN workspace:4000 -cuDNN workspace +log_probabilities:432 +loss.total_weight:4 +loss:4 -y
backward  +loss.grad:4 +log_probabilities.grad:432 -loss.total_weight +y.grad:432 -log_probabilities.grad -log_probabilities +k.grad:1536 +cuDNN workspace:5000 -cuDNN workspace +b.grad:648 +cuDNN workspace:6000 -cuDNN workspace +bias.grad:24 -y.grad -k +h.grad:1536 +cuDNN workspace:3000 -cuDNN workspace +a.grad:324 +cuDNN workspace:2000 -cuDNN workspace -k.grad -h +a.grad:324 +cuDNN workspace:2000 -cuDNN workspace -h.grad -a.grad -loss.grad
optimizer
)");
}

TEST_CASE("a pass that was not measured, or asks for nothing, is as it was") {
  TrainingSettings settings = {.optimizer = Optimizer::kSgd};
  const std::string before = TraceText(kNet, settings);
  const Program program = Dispatched(kNet);
  std::vector<ConvolutionWorkspace> nothing = Workspaces(ConvolutionsOf(program), 0);
  settings.device = MeasuredDevice(Shared(CalibrationOf(nothing)));
  CHECK(TraceText(kNet, settings) == before);
  CHECK(CountMeasured(program, settings).measured == 6);
  CHECK(MostCudnnWorkspaceBytes(program, settings) == 0);
  // Without the last: the weight gradient of the second convolution.
  nothing.pop_back();
  settings.device = MeasuredDevice(Shared(CalibrationOf(nothing)));
  CHECK(TraceText(kNet, settings) == before);
  CHECK(CountMeasured(program, settings).measured == 5);
  CHECK(MostCudnnWorkspaceBytes(program, settings) == 1536 + 648 + 432);
  CHECK(MostCudnnWorkspaceBytes(program, {.device = {}}) == 1536 + 324 + 1536);
}

}  // namespace onnxfit::cudnn_convolutions_test
