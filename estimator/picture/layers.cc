#include "estimator/picture/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "estimator/base/bytes.h"

namespace onnxfit {
namespace {

constexpr Kind kFromBottom[] = {Kind::kParameter, Kind::kBuffer,   Kind::kOptimizerState,
                                Kind::kGradient,  Kind::kInput,    Kind::kActivation,
                                Kind::kTemporary, Kind::kWorkspace};

const std::vector<CurvePoint>& PointsOf(const Estimate& estimate) {
  return estimate.curve->curve.points;
}

int64_t ContextOf(const Estimate& estimate) {
  return estimate.device_bytes - estimate.peak.reserved_bytes;
}

int64_t ExactBytes(const CurvePoint& point) {
  int64_t bytes = 0;
  for (const int64_t of_kind : point.bytes) bytes += of_kind;
  return bytes;
}

void Append(Layer layer, std::vector<Layer>& layers) {
  const bool is_empty = std::ranges::all_of(layer.bytes, [](int64_t bytes) { return bytes == 0; });
  if (!is_empty) layers.push_back(std::move(layer));
}

}  // namespace

std::vector<Layer> LayersOf(const Estimate& estimate) {
  const std::vector<CurvePoint>& points = PointsOf(estimate);
  std::vector<Layer> layers;
  Append({"context", std::vector<int64_t>(points.size(), ContextOf(estimate))}, layers);
  for (const Kind kind : kFromBottom) {
    Layer layer = {ToString(kind), {}};
    for (const CurvePoint& point : points) {
      layer.bytes.push_back(point.bytes[static_cast<size_t>(kind)]);
    }
    Append(std::move(layer), layers);
  }
  Layer rounding = {"rounding", {}};
  for (const CurvePoint& point : points) {
    rounding.bytes.push_back(point.allocated_bytes - ExactBytes(point));
  }
  Append(std::move(rounding), layers);
  return layers;
}

namespace {

std::vector<int64_t> OnDevice(const Estimate& estimate, int64_t CurvePoint::*bytes) {
  std::vector<int64_t> sums;
  for (const CurvePoint& point : PointsOf(estimate)) {
    sums.push_back(point.*bytes + ContextOf(estimate));
  }
  return sums;
}

}  // namespace

std::vector<int64_t> ReservedOnDevice(const Estimate& estimate) {
  return OnDevice(estimate, &CurvePoint::reserved_bytes);
}

std::vector<int64_t> AllocatedOnDevice(const Estimate& estimate) {
  return OnDevice(estimate, &CurvePoint::allocated_bytes);
}

std::vector<int64_t> ByteTicks(int64_t most) {
  constexpr int64_t kLeastStep = 1024;
  constexpr int64_t kMostTicks = 5;
  int64_t unit = kLeastStep;
  while (unit <= most / (kMostTicks * 1024)) unit *= 1024;
  int64_t step = unit;
  for (const int64_t factor : {1, 2, 4, 5, 10, 20, 25, 50, 100, 200, 256, 512, 1024, 2048, 5120}) {
    step = unit * factor;
    if (step >= most / kMostTicks + (most % kMostTicks == 0 ? 0 : 1)) break;
  }
  std::vector<int64_t> ticks = {0};
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  while ((ticks.back() < most || ticks.size() == 1) && ticks.back() <= kMost - step) {
    ticks.push_back(ticks.back() + step);
  }
  return ticks;
}

std::string TickText(int64_t bytes) {
  constexpr std::pair<int64_t, const char*> kUnits[] = {{kGiB * kGiB, "EiB"}, {kMiB * kGiB, "PiB"},
                                                        {kKiB * kGiB, "TiB"}, {kGiB, "GiB"},
                                                        {kMiB, "MiB"},        {kKiB, "KiB"}};
  for (const auto& [size, unit] : kUnits) {
    if (bytes < size) continue;
    const double count = static_cast<double>(bytes) / static_cast<double>(size);
    return fmt::format("{:.6g} {}", std::round(count * 100) / 100, unit);
  }
  return bytes == 0 ? "0" : fmt::format("{} B", bytes);
}

namespace {

// "h3v-12h1…" behind the first height.
std::string Steps(std::span<const int64_t> heights) {
  std::string path;
  for (size_t i = 0; i < heights.size();) {
    size_t end = i + 1;
    while (end < heights.size() && heights[end] == heights[i]) ++end;
    path += fmt::format("h{}", end - i);
    if (end < heights.size()) path += fmt::format("v{}", heights[i] - heights[end]);
    i = end;
  }
  return path;
}

}  // namespace

std::string AreaPath(std::span<const int64_t> heights, int64_t height) {
  if (heights.empty()) return "";
  return fmt::format("M0 {}V{}{}V{}z", height, height - heights[0], Steps(heights), height);
}

std::string LinePath(std::span<const int64_t> heights, int64_t height) {
  if (heights.empty()) return "";
  return fmt::format("M0 {}{}", height - heights[0], Steps(heights));
}

}  // namespace onnxfit
