#include "estimator/report/calibration_json.h"

#include <doctest/doctest.h>

#include "estimator/base/error.h"
#include "tests/measured_card.h"

namespace onnxfit::calibration_json_test {
namespace {

Convolution SmallConvolution(ConvolutionPass pass) {
  return {.pass = pass,
          .input = {2, 3, 8, 8},
          .weight = {4, 3, 3, 3},
          .output = {2, 4, 6, 6},
          .stride = {1, 1},
          .padding = {0, 0},
          .dilation = {1, 1}};
}

std::vector<Calibration> TwoCards() {
  std::vector<Calibration> all;
  PutCalibration(CalibrationOf({{SmallConvolution(ConvolutionPass::kWeightGradient), 4096},
                                {SmallConvolution(ConvolutionPass::kForward), 0}}),
                 all);
  Convolution transposed = {.pass = ConvolutionPass::kDataGradient,
                            .dtype = DType::kBFloat16,
                            .input = {1, 8, 4, 4, 4},
                            .weight = {8, 2, 2, 2, 2},
                            .output = {1, 4, 8, 8, 8},
                            .stride = {2, 2, 2},
                            .padding = {0, 0, 0},
                            .dilation = {1, 1, 1},
                            .groups = 2,
                            .is_transposed = true,
                            .is_channels_last = true};
  PutCalibration({.card = "GRID \"X\"", .convolutions = {{transposed, 1}}}, all);
  return all;
}

}  // namespace

TEST_CASE("the text of a calibration") {
  CHECK(ToJson(TwoCards()) == R"({
  "calibration": 1,
  "cards": [
    {
      "card": "GRID \"X\"",
      "compute_capability": 0,
      "multiprocessors": 0,
      "loaded": [],
      "convolutions": [
        {"pass":"data_gradient","dtype":"bfloat16","input":[1,8,4,4,4],"weight":[8,2,2,2,2],"output":[1,4,8,8,8],"stride":[2,2,2],"padding":[0,0,0],"dilation":[1,1,1],"groups":2,"transposed":true,"channels_last":true,"bytes":1}
      ]
    },
    {
      "card": "NVIDIA A100-SXM4-40GB",
      "compute_capability": 80,
      "multiprocessors": 108,
      "driver": "580.65.06",
      "cuda": "13.0",
      "cublas": "13.1.0",
      "cudnn": "9.19.0",
      "loaded": [
        {"what":"context","bytes":262144000},
        {"what":"kernels","bytes":52428800}
      ],
      "convolutions": [
        {"pass":"forward","dtype":"float32","input":[2,3,8,8],"weight":[4,3,3,3],"output":[2,4,6,6],"stride":[1,1],"padding":[0,0],"dilation":[1,1],"groups":1,"bytes":0},
        {"pass":"weight_gradient","dtype":"float32","input":[2,3,8,8],"weight":[4,3,3,3],"output":[2,4,6,6],"stride":[1,1],"padding":[0,0],"dilation":[1,1],"groups":1,"bytes":4096}
      ]
    }
  ]
}
)");
  CHECK(ToJson(std::vector<Calibration>()) == "{\n  \"calibration\": 1,\n  \"cards\": []\n}\n");
}

TEST_CASE("a calibration is read back, in whatever order it is written") {
  CHECK(ReadCalibrations(ToJson(TwoCards())) == TwoCards());
  std::vector<Calibration> mixed = {TwoCards()[1], TwoCards()[0]};
  std::swap(mixed[0].convolutions[0], mixed[0].convolutions[1]);
  CHECK(ReadCalibrations(ToJson(mixed)) == TwoCards());
  CHECK(ReadCalibrations(R"({"calibration": 1, "cards": []})").empty());
}

namespace {

std::string With(std::string text, const std::string& what, const std::string& other) {
  const size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), other);
}

std::string ErrorOf(const std::string& text) {
  try {
    ReadCalibrations(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a calibration that is broken says where, and what to do") {
  const std::vector<Calibration> cards = TwoCards();
  const std::string whole = ToJson(std::vector<Calibration>{cards[1]});
  const std::string twice = ToJson(std::vector<Calibration>{cards[1], cards[1]});
  const std::string first = "card 'NVIDIA A100-SXM4-40GB': convolution 1: ";
  struct Row {
    std::string text;
    std::string error;
  };
  const Row rows[] = {
      {"", "line 1, column 1: expected JSON, found the end of the file"},
      {"{}", "\"calibration\": expected this field, found none"},
      {R"({"lock": 1})", "\"calibration\": expected this field, found none"},
      {R"({"calibration": 2})",
       "\"calibration\": expected 1, found the calibration of another onnxfit"},
      {R"({"calibration": 1, "cards": {}})",
       "\"cards\": expected an array, found a value of type object"},
      {R"({"calibration": 1, "cards": [7]})", "card 1: \"card\": expected this field, found none"},
      {With(whole, "\"multiprocessors\"", "\"sms\""),
       "card 'NVIDIA A100-SXM4-40GB': \"multiprocessors\": expected this field, found none"},
      {With(whole, "\"compute_capability\": 80", "\"compute_capability\": 8000"),
       "card 'NVIDIA A100-SXM4-40GB': \"compute_capability\": expected ten times its number, such "
       "as "
       "80, found 8000"},
      {With(whole, "\"bytes\":262144000", "\"bytes\":-1"),
       "card 'NVIDIA A100-SXM4-40GB': \"bytes\": expected a whole number from 0, found -1"},
      {With(whole, "\"forward\"", "\"back\""),
       first + "\"pass\": expected forward or data_gradient or weight_gradient, found \"back\""},
      {With(whole, "\"float32\"", "\"int8\""),
       first + "\"dtype\": expected float32, float16, bfloat16 or float64, found \"int8\""},
      {With(whole, "[2,3,8,8]", "[2,3,8]"), first + "\"input\": expected 4 numbers, found 3"},
      {With(whole, "[2,3,8,8]", "[2,3,8,-8]"),
       first + "\"input\": expected a whole number from 0, found -8"},
      {With(whole, "[4,3,3,3]", "[4,3]"),
       first + "\"weight\": expected at least 3 numbers, found 2"},
      {With(whole, "\"stride\":[1,1]", "\"stride\":[1]"),
       first + "\"stride\": expected 2 numbers, found 1"},
      {With(whole, "\"groups\":1", "\"groups\":1,\"transposed\":1"),
       first + "\"transposed\": expected true or false, found 1"},
      {With(whole, "\"pass\":\"weight_gradient\"", "\"pass\":\"forward\""),
       "card 'NVIDIA A100-SXM4-40GB': expected each convolution once, found one twice"},
      {twice,
       "card 'NVIDIA A100-SXM4-40GB': expected each driver and its libraries once, found them "
       "twice"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(ErrorOf(row.text) ==
          row.error + " (try: delete it; onnxfit verify MODEL.onnx --save measures anew)");
  }
}

}  // namespace onnxfit::calibration_json_test
