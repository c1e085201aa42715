#include "estimator/base/device.h"

#include <fmt/format.h>

#include <cstdio>

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

constexpr int kCudnn9 = 90000;  // from then on the major version counts 10,000

}  // namespace

const DeviceProfile& DefaultDevice() {
  static const DeviceProfile device = A100();
  return device;
}

std::string CudaVersionText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string CudnnVersionText(int version) {
  const int major = version >= kCudnn9 ? 10000 : 1000;
  return fmt::format("{}.{}.{}", version / major, version % major / 100, version % 100);
}

int CudnnVersionOf(const std::string& text) {
  int major = 0;
  int minor = 0;
  int patch = 0;
  if (std::sscanf(text.c_str(), "%d.%d.%d", &major, &minor, &patch) != 3) return 0;
  return major * (major >= 9 ? 10000 : 1000) + minor * 100 + patch;
}

}  // namespace onnxfit
