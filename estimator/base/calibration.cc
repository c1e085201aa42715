#include "estimator/base/calibration.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <tuple>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/cards.h"

namespace onnxfit {
namespace {

// "9.19.0" as 9, 19, 0, so that it is newer than "9.9.0".
std::vector<int64_t> NumbersIn(std::string_view version) {
  std::vector<int64_t> numbers;
  const char* at = version.data();
  const char* end = at + version.size();
  while (at != end) {
    int64_t number = 0;
    const auto [after, code] = std::from_chars(at, end, number);
    if (code == std::errc()) numbers.push_back(number);
    at = after == end ? end : after + 1;
  }
  return numbers;
}

// Versions from the one of which the others follow; their text where numbers are equal.
auto KeyOf(const Calibration& calibration) {
  std::vector<std::vector<int64_t>> numbers;
  std::vector<std::string> texts;
  for (const std::string* version :
       {&calibration.driver, &calibration.cuda, &calibration.cublas, &calibration.cudnn}) {
    numbers.push_back(NumbersIn(*version));
    texts.push_back(*version);
  }
  return std::make_tuple(calibration.card, std::move(numbers), std::move(texts));
}

bool ComesBefore(const Calibration& a, const Calibration& b) { return KeyOf(a) < KeyOf(b); }

bool MeansSameCard(std::string_view a, std::string_view b) {
  const Card* card = FindCard(a);
  return a == b || (card != nullptr && card == FindCard(b));
}

constexpr auto kByConvolution = [](const ConvolutionWorkspace& a, const ConvolutionWorkspace& b) {
  return a.convolution < b.convolution;
};

auto MembersOf(const Convolution& c) {
  return std::tie(c.pass, c.dtype, c.input, c.weight, c.output, c.stride, c.padding, c.dilation,
                  c.groups, c.is_transposed, c.is_channels_last);
}

}  // namespace

bool Convolution::operator<(const Convolution& other) const {
  return MembersOf(*this) < MembersOf(other);
}

std::string VersionsText(const Calibration& calibration) {
  std::vector<std::string> texts;
  const auto add = [&](std::string_view what, const std::string& version) {
    if (!version.empty()) texts.push_back(fmt::format("{} {}", what, version));
  };
  add("driver", calibration.driver);
  add("CUDA", calibration.cuda);
  add("cuBLAS", calibration.cublas);
  add("cuDNN", calibration.cudnn);
  return fmt::format("{}", fmt::join(texts, ", "));
}

bool HaveSameKey(const Calibration& a, const Calibration& b) { return KeyOf(a) == KeyOf(b); }

void PutCalibration(Calibration calibration, std::vector<Calibration>& calibrations) {
  std::sort(calibration.convolutions.begin(), calibration.convolutions.end(), kByConvolution);
  std::erase_if(calibrations,
                [&](const Calibration& other) { return HaveSameKey(other, calibration); });
  const auto at =
      std::upper_bound(calibrations.begin(), calibrations.end(), calibration, ComesBefore);
  calibrations.insert(at, std::move(calibration));
}

SharedCalibration FindCalibration(std::span<const SharedCalibration> calibrations,
                                  std::string_view name) {
  const auto found = std::find_if(
      calibrations.rbegin(), calibrations.rend(),
      [&](const SharedCalibration& known) { return MeansSameCard(known->card, name); });
  return found == calibrations.rend() ? nullptr : *found;
}

std::optional<int64_t> FindWorkspace(const Calibration& calibration,
                                     const Convolution& convolution) {
  const std::vector<ConvolutionWorkspace>& known = calibration.convolutions;
  assert(std::is_sorted(known.begin(), known.end(), kByConvolution));
  const auto at = std::lower_bound(known.begin(), known.end(), ConvolutionWorkspace{convolution, 0},
                                   kByConvolution);
  if (at != known.end() && at->convolution == convolution) return at->bytes;
  return calibration.source ? calibration.source->Find(convolution) : std::nullopt;
}

DeviceProfile Calibrated(DeviceProfile device, SharedCalibration calibration) {
  int64_t bytes = 0;
  int64_t without_kernels = 0;  // of which a run loads those of its own precision
  for (const LoadedBytes& loaded : calibration->loaded) {
    bytes = CheckedAdd(bytes, loaded.bytes);
    if (!loaded.what.starts_with("kernels of ")) without_kernels += loaded.bytes;
  }
  if (bytes > 0) device.context = {bytes, without_kernels, bytes, Basis::kMeasured};
  device.calibration = std::move(calibration);
  return device;
}

}  // namespace onnxfit
