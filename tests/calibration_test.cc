#include "estimator/base/calibration.h"

#include <doctest/doctest.h>

#include "estimator/base/bytes.h"
#include "estimator/base/cards.h"

namespace onnxfit::calibration_test {
namespace {

Calibration Measured(const std::string& card, const std::string& cudnn,
                     const std::string& driver = "580.65.06") {
  Calibration calibration;
  calibration.card = card;
  calibration.driver = driver;
  calibration.cudnn = cudnn;
  return calibration;
}

Convolution ConvolutionWith(int64_t batch, ConvolutionPass pass = ConvolutionPass::kForward) {
  return {.pass = pass,
          .input = {batch, 3, 8, 8},
          .weight = {4, 3, 3, 3},
          .output = {batch, 4, 6, 6},
          .stride = {1, 1},
          .padding = {0, 0},
          .dilation = {1, 1}};
}

std::vector<std::string> CudnnsOf(const std::vector<Calibration>& calibrations) {
  std::vector<std::string> texts;
  for (const Calibration& calibration : calibrations) {
    texts.push_back(calibration.card + " " + calibration.cudnn);
  }
  return texts;
}

SharedCalibration SharedCopy(const Calibration& calibration) {
  return std::make_shared<const Calibration>(calibration);
}

}  // namespace

TEST_CASE("calibrations are sorted by card, then from old to new, each once") {
  std::vector<Calibration> all;
  for (const char* cudnn : {"9.19.0", "9.9.0", "10.0.1", "9.19"}) {
    PutCalibration(Measured("b", cudnn), all);
  }
  PutCalibration(Measured("a", "9.19.0"), all);
  CHECK(CudnnsOf(all) ==
        std::vector<std::string>{"a 9.19.0", "b 9.9.0", "b 9.19", "b 9.19.0", "b 10.0.1"});
  Calibration again = Measured("b", "9.9.0");
  again.loaded = {{"context", 7}};
  PutCalibration(again, all);
  CHECK(all.size() == 5);
  CHECK(all[1] == again);
  PutCalibration(Measured("b", "9.9.0", "590.1"), all);
  CHECK(all.back() == Measured("b", "9.9.0", "590.1"));
}

TEST_CASE("a workspace is found by all that it depends on") {
  std::vector<Calibration> all;
  Calibration calibration;
  calibration.convolutions = {{ConvolutionWith(8), 80},
                              {ConvolutionWith(2), 20},
                              {ConvolutionWith(2, ConvolutionPass::kWeightGradient), 0}};
  PutCalibration(calibration, all);
  CHECK(FindWorkspace(all[0], ConvolutionWith(8)) == 80);
  CHECK(FindWorkspace(all[0], ConvolutionWith(2)) == 20);
  CHECK(FindWorkspace(all[0], ConvolutionWith(2, ConvolutionPass::kWeightGradient)) == 0);
  CHECK_FALSE(FindWorkspace(all[0], ConvolutionWith(4)));
  Convolution other = ConvolutionWith(8);
  other.dtype = DType::kFloat16;
  CHECK_FALSE(FindWorkspace(all[0], other));
  other = ConvolutionWith(8);
  other.dilation = {2, 2};
  CHECK_FALSE(FindWorkspace(all[0], other));
}

TEST_CASE("what was measured on a card is found by any of its names, the newest first") {
  std::vector<SharedCalibration> all;
  for (const auto& calibration :
       {Measured("NVIDIA A100-PCIE-40GB", "9.9.0"), Measured("NVIDIA A100-SXM4-40GB", "9.9.0"),
        Measured("NVIDIA A100-SXM4-40GB", "9.19.0"), Measured("NVIDIA X1", "9.19.0")}) {
    all.push_back(SharedCopy(calibration));
  }
  CHECK(FindCalibration(all, FindCard("a100-40gb")->device.name) == all[2]);
  CHECK(FindCalibration(all, "NVIDIA X1") == all[3]);  // in no table
  CHECK(FindCalibration(all, FindCard("a100-80gb")->device.name) == nullptr);
  CHECK(FindCalibration(all, DefaultDevice().name) == nullptr);
  CHECK(FindCalibration({}, "NVIDIA X1") == nullptr);
}

TEST_CASE("a measured context takes the place of the table's") {
  const DeviceProfile& device = FindCard("t4")->device;
  Calibration calibration = Measured("Tesla T4", "9.19.0");
  CHECK(Calibrated(device, SharedCopy(calibration)).context == device.context);
  calibration.loaded = {{"context", 100 * kMiB}, {"kernels", 20 * kMiB}};
  const DeviceProfile measured = Calibrated(device, SharedCopy(calibration));
  CHECK(measured.context == ContextBytes{120 * kMiB, 120 * kMiB, 120 * kMiB, Basis::kMeasured});
  CHECK_FALSE(SameKernels(device, measured));
  CHECK(SameKernels(measured, measured));
}

TEST_CASE("versions, as far as they are known") {
  Calibration calibration = Measured("x", "9.19.0");
  CHECK(VersionsText(calibration) == "driver 580.65.06, cuDNN 9.19.0");
  calibration.cuda = "13.0";
  calibration.cublas = "13.1.0";
  CHECK(VersionsText(calibration) == "driver 580.65.06, CUDA 13.0, cuBLAS 13.1.0, cuDNN 9.19.0");
  CHECK(VersionsText({}).empty());
}

}  // namespace onnxfit::calibration_test
