#include "estimator/workspaces/benchmarked_layers.h"

#include <algorithm>
#include <span>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/inflate.h"
#include "estimator/workspaces/layer_rows.h"

namespace onnxfit {

// benchmark_h200.bin here, as CMake writes it into a source file: torch 2.11.0+cu130, driver
// 580.159.04; benchmark_h200.json.xz and tried_h200.json.xz in benchmarks/convolutions/data.
extern const std::span<const unsigned char> kH200Benchmarked;

namespace {

constexpr size_t kMostBytes = size_t{16} << 20;  // ten times as much as it has
constexpr int64_t kFigures = 3;                  // of a batch
constexpr int kMeasuredCapability = 90;          // times ten

const BenchmarkedLayers& OfAnH200() {
  static const BenchmarkedLayers layers = [] {
    const std::string_view packed(reinterpret_cast<const char*>(kH200Benchmarked.data()),
                                  kH200Benchmarked.size());
    std::optional<std::string> rows = Inflate(packed, kMostBytes);
    if (!rows) throw Error({.where = "benchmarked layers", .text = "expected a stream of zlib's"});
    return BenchmarkedLayers(*std::move(rows));
  }();
  return layers;
}

}  // namespace

BenchmarkedLayers::BenchmarkedLayers(std::string rows) : text_(std::move(rows)) {
  RowReader reader(text_);
  while (!reader.AtEnd()) {
    const std::string_view key = reader.Take(static_cast<size_t>(reader.Number()));
    const std::string_view from = reader.rest();
    for (int64_t left = kFigures * reader.Number(); left > 0; --left) reader.Number();
    rows_.push_back({key, from.substr(0, from.size() - reader.rest().size())});
  }
}

std::vector<BenchmarkedBatch> BenchmarkedLayers::Find(const Convolution& convolution) const {
  const std::string key = LayerKey(convolution);
  const auto at = std::ranges::lower_bound(rows_, key, {}, &Row::key);
  if (at == rows_.end() || at->key != key) return {};
  RowReader reader(at->batches);
  std::vector<BenchmarkedBatch> found(static_cast<size_t>(reader.Number()));
  for (BenchmarkedBatch& each : found) {
    each.batch = reader.Number();
    each.bytes = reader.Number();
    each.tried = reader.Number();
  }
  return found;
}

std::string_view BenchmarkedCard(const DeviceProfile& device) {
  return device.compute_capability == kMeasuredCapability ? "an H200 (cuDNN 9.19.0)" : "";
}

std::optional<BenchmarkedBatch> FindBenchmarked(const Convolution& convolution,
                                                const DeviceProfile& device) {
  const bool is_measured = !BenchmarkedCard(device).empty();
  if (!is_measured || convolution.dtype == DType::kFloat64) return std::nullopt;
  const std::vector<BenchmarkedBatch> measured = OfAnH200().Find(convolution);
  const auto found = std::ranges::find(measured, convolution.input[0], &BenchmarkedBatch::batch);
  return found == measured.end() ? std::nullopt : std::optional(*found);
}

}  // namespace onnxfit
