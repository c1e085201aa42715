// What cuDNN was measured to ask for in the layers of common networks, on one card of a kind, as it
// comes with the command.
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

struct MeasuredBatch {
  int64_t batch = 0;
  int64_t bytes = 0;
  int64_t tried = 0;  // beside its result, by the first call; of benchmarked layers

  bool operator==(const MeasuredBatch&) const = default;
};

// A layer is a convolution but for the size of its batch.
class MeasuredLayers {
 public:
  // `rows` as benchmarks/convolutions/pack.py writes them, sorted by key: the key's length, the
  // key (LayerKey), how many batches, then each one's size and bytes, of benchmarked layers what
  // was tried, too; all numbers as LEB128.  Throws Error where they end early.
  explicit MeasuredLayers(std::string rows, bool are_benchmarked = false);

  // By size of the batch; empty where that layer was not measured.  O(log layers).
  std::vector<MeasuredBatch> Find(const Convolution& convolution) const;

  size_t size() const { return rows_.size(); }

 private:
  struct Row {
    std::string_view key;
    std::string_view batches;
  };

  std::string text_;
  std::vector<Row> rows_;  // views of text_
  bool are_benchmarked_;
};

// Of a card of the same compute capability, with as many multiprocessors where there is one; null
// where none was measured.  The first call unpacks them, which takes milliseconds.
const MeasuredLayers* MeasuredLayersOf(const DeviceProfile& device);

// "an H200 (cuDNN 9.19.0)"; "" where none was measured.
std::string_view MeasuredLayersCard(const DeviceProfile& device);

// What that layer asks for at its batch, from what it asked for at others: copies of the same
// tensors, or nothing, as at the nearest that asked for such (where two differ, as the closed form
// has it), else on the line through the two nearest.  REQUIRES: one at least.
int64_t AtBatch(const Convolution& convolution, std::vector<MeasuredBatch> measured);

// What such a card tells of a convolution.
struct KnownLayer {
  int64_t bytes = 0;
  int64_t tried = 0;     // as MeasuredBatch has it
  bool is_very = false;  // of that very convolution, on a card with as many multiprocessors

  bool operator==(const KnownLayer&) const = default;
};

// At its batch or scaled to it (AtBatch); nullopt where the layer was not measured on a card like
// `device`, or is of float64.
std::optional<KnownLayer> FindLayer(const Convolution& convolution, const DeviceProfile& device);

// With torch.backends.cudnn.benchmark: of the plan that was kept as the fastest, and of trying all
// of them.  At its own batch alone: neither scales (benchmarks/convolutions/README.md).
std::optional<KnownLayer> FindBenchmarked(const Convolution& convolution,
                                          const DeviceProfile& device);

}  // namespace onnxfit
