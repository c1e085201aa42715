// What PyTorch keeps and tries with torch.backends.cudnn.benchmark in the layers of common
// networks, as it was measured on one card of a kind, and comes with the command.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/calibration.h"
#include "estimator/base/device.h"

namespace onnxfit {

struct BenchmarkedBatch {
  int64_t batch = 0;
  int64_t bytes = 0;  // of the plan that was kept as the fastest
  int64_t tried = 0;  // the most that the first call took beside its result

  bool operator==(const BenchmarkedBatch&) const = default;
};

class BenchmarkedLayers {
 public:
  // `rows` as benchmarks/convolutions/pack.py writes them, sorted by key: the key's length, the
  // key (LayerKey), how many batches, then each one's three figures; all numbers as LEB128.
  // Throws Error where they end early.
  explicit BenchmarkedLayers(std::string rows);

  // By size of the batch; empty where that layer was not measured.  O(log layers).
  std::vector<BenchmarkedBatch> Find(const Convolution& convolution) const;

  size_t size() const { return rows_.size(); }

 private:
  struct Row {
    std::string_view key;
    std::string_view batches;
  };

  std::string text_;
  std::vector<Row> rows_;  // views of text_
};

// "an H200 (cuDNN 9.19.0)"; "" where no card like it was measured.
std::string_view BenchmarkedCard(const DeviceProfile& device);

// At its own batch alone: neither figure scales (benchmarks/convolutions/README.md).  Nullopt where
// that was not measured on a card of the same compute capability, or is of float64.
std::optional<BenchmarkedBatch> FindBenchmarked(const Convolution& convolution,
                                                const DeviceProfile& device);

}  // namespace onnxfit
