#include "estimator/base/device.h"

#include <fmt/format.h>

#include "estimator/base/cards.h"

namespace onnxfit {
namespace {

// Of 40 or 80 GB: no answer without a card depends on its size.
DeviceProfile A100() {
  DeviceProfile device = FindCard("a100-40gb")->device;
  device.name = "A100";
  device.without_cudnn = true;
  return device;
}

}  // namespace

const DeviceProfile& DefaultDevice() {
  static const DeviceProfile device = A100();
  return device;
}

std::string CudaVersionText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string CudnnVersionText(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace onnxfit
