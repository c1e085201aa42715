#include "estimator/workspaces/measured_layers.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/inflate.h"
#include "estimator/base/tensor_type.h"
#include "estimator/workspaces/cudnn_workspaces.h"
#include "estimator/workspaces/layer_rows.h"

namespace onnxfit {

// cudnn_h200.bin and benchmark_h200.bin here, as CMake writes them into source files.
extern const std::span<const unsigned char> kH200Layers;
extern const std::span<const unsigned char> kH200Benchmarked;

namespace {

constexpr size_t kMostBytes = size_t{16} << 20;  // twenty times as much as the first one has

// --- Cards ---------------------------------------------------------------------------------------

MeasuredLayers Unpack(std::span<const unsigned char> bytes, bool are_benchmarked) {
  const std::string_view packed(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::optional<std::string> rows = Inflate(packed, kMostBytes);
  if (!rows) throw Error({.where = "measured layers", .text = "expected a stream of zlib's"});
  return MeasuredLayers(*std::move(rows), are_benchmarked);
}

using LayersOf = const MeasuredLayers& (*)();

template <const std::span<const unsigned char>& bytes>
const MeasuredLayers& Layers() {
  static const MeasuredLayers layers = Unpack(bytes, /*are_benchmarked=*/false);
  return layers;
}

template <const std::span<const unsigned char>& bytes>
const MeasuredLayers& Benchmarked() {
  static const MeasuredLayers layers = Unpack(bytes, /*are_benchmarked=*/true);
  return layers;
}

struct MeasuredCard {
  int compute_capability;  // times ten
  int64_t multiprocessors;
  std::string_view name;
  LayersOf layers;
  LayersOf benchmarked;  // null where nobody measured them
};

// torch 2.11.0+cu130, driver 580.159.04; card_h200.json.xz and benchmark_h200.json.xz in
// benchmarks/convolutions/data.
constexpr MeasuredCard kCards[] = {
    {90, 132, "an H200 (cuDNN 9.19.0)", Layers<kH200Layers>, Benchmarked<kH200Benchmarked>}};

const MeasuredCard* CardLike(const DeviceProfile& device) {
  const MeasuredCard* like = nullptr;
  for (const MeasuredCard& card : kCards) {
    if (card.compute_capability != device.compute_capability) continue;
    if (card.multiprocessors == device.multiprocessors) return &card;
    if (like == nullptr) like = &card;
  }
  return like;
}

// --- Other batches -------------------------------------------------------------------------------

// cuDNN's plans ask for some bytes beside what they copy.
constexpr int64_t kMostBesideCopies = 600;

// The nearest batch first, by ratio.
void SortByDistance(int64_t batch, std::vector<MeasuredBatch>& measured) {
  std::ranges::stable_sort(measured, {}, [batch](const MeasuredBatch& each) {
    return static_cast<double>(std::max(each.batch, batch)) /
           static_cast<double>(std::min(each.batch, batch));
  });
}

Convolution WithBatch(Convolution convolution, int64_t batch) {
  convolution.input[0] = convolution.output[0] = batch;
  return convolution;
}

// Each of its tensors as it lies, or with channels that fill 16 bytes.
std::array<int64_t, 3> TensorBytes(const Convolution& c, bool filled) {
  const int64_t width = filled ? 128 / BitsOf(c.dtype) : 1;
  return {FilledBytes(c.dtype, c.input, {1}, width), FilledBytes(c.dtype, c.weight, {0, 1}, width),
          FilledBytes(c.dtype, c.output, {1}, width)};
}

int64_t SumOf(const std::array<int64_t, 3>& bytes, unsigned which) {
  int64_t sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if ((which >> i & 1) != 0) sum = CheckedAdd(sum, bytes[i]);
  }
  return sum;
}

// Copies of some of its tensors, or nothing, where that is what it asked for at `measured`.
std::optional<int64_t> CopiesLike(const MeasuredBatch& measured, const Convolution& c) {
  for (const bool filled : {false, true}) {
    const auto then = TensorBytes(WithBatch(c, measured.batch), filled);
    for (unsigned which = 0; which < 8; ++which) {
      const int64_t beside = measured.bytes - SumOf(then, which);
      if (beside < 0 || beside > kMostBesideCopies) continue;
      return CheckedAdd(SumOf(TensorBytes(c, filled), which), beside);
    }
  }
  return std::nullopt;
}

// On the line through both; one through the origin where both lie on the same side of it.
int64_t OnLine(const MeasuredBatch& near, const MeasuredBatch& far, int64_t batch) {
  const bool is_between = (near.batch < batch) != (far.batch < batch);
  const MeasuredBatch from = is_between ? far : MeasuredBatch{};
  const int64_t rise = CheckedMul(near.bytes - from.bytes, batch - from.batch);
  return from.bytes + rise / (near.batch - from.batch);
}

// That of its very batch; null where there is none.
const MeasuredBatch* FindBatch(const Convolution& convolution,
                               const std::vector<MeasuredBatch>& measured) {
  const auto found = std::ranges::find(measured, convolution.input[0], &MeasuredBatch::batch);
  return found == measured.end() ? nullptr : &*found;
}

// fp16 was not measured itself.
bool IsSame(const Convolution& convolution, const DeviceProfile& device, const MeasuredCard& card) {
  return card.multiprocessors == device.multiprocessors && convolution.dtype != DType::kFloat16;
}

}  // namespace

MeasuredLayers::MeasuredLayers(std::string rows, bool are_benchmarked)
    : text_(std::move(rows)), are_benchmarked_(are_benchmarked) {
  const int64_t figures = are_benchmarked ? 3 : 2;
  RowReader reader(text_);
  while (!reader.AtEnd()) {
    const std::string_view key = reader.Take(static_cast<size_t>(reader.Number()));
    const std::string_view from = reader.rest();
    for (int64_t left = figures * reader.Number(); left > 0; --left) reader.Number();
    rows_.push_back({key, from.substr(0, from.size() - reader.rest().size())});
  }
}

std::vector<MeasuredBatch> MeasuredLayers::Find(const Convolution& convolution) const {
  const std::string key = LayerKey(convolution);
  const auto at = std::ranges::lower_bound(rows_, key, {}, &Row::key);
  if (at == rows_.end() || at->key != key) return {};
  RowReader reader(at->batches);
  std::vector<MeasuredBatch> found(static_cast<size_t>(reader.Number()));
  for (MeasuredBatch& each : found) {
    each.batch = reader.Number();
    each.bytes = reader.Number();
    if (are_benchmarked_) each.tried = reader.Number();
  }
  return found;
}

const MeasuredLayers* MeasuredLayersOf(const DeviceProfile& device) {
  const MeasuredCard* card = CardLike(device);
  return card == nullptr ? nullptr : &card->layers();
}

std::string_view MeasuredLayersCard(const DeviceProfile& device) {
  const MeasuredCard* card = CardLike(device);
  return card == nullptr ? "" : card->name;
}

int64_t AtBatch(const Convolution& convolution, std::vector<MeasuredBatch> measured) {
  const int64_t batch = convolution.input[0];
  SortByDistance(batch, measured);
  if (measured.front().batch == batch) return measured.front().bytes;
  std::vector<int64_t> copies;
  for (const MeasuredBatch& each : measured) {
    const std::optional<int64_t> found = CopiesLike(each, convolution);
    if (found && (*found > 0 || &each == &measured.front())) copies.push_back(*found);
  }
  if (copies.empty()) return OnLine(measured[0], measured[measured.size() > 1 ? 1 : 0], batch);
  const int64_t formed = FormedWorkspaceBytes(convolution);
  const auto is_formed = [&](int64_t bytes) {
    return std::abs(bytes - formed) <= kMostBesideCopies;
  };
  const auto found = std::ranges::find_if(copies, is_formed);
  return found != copies.end() ? *found : copies.front();
}

std::optional<KnownLayer> FindLayer(const Convolution& convolution, const DeviceProfile& device) {
  const MeasuredCard* card = CardLike(device);
  if (card == nullptr || convolution.dtype == DType::kFloat64) return std::nullopt;
  std::vector<MeasuredBatch> measured = card->layers().Find(convolution);
  if (measured.empty()) return std::nullopt;
  const bool is_very =
      FindBatch(convolution, measured) != nullptr && IsSame(convolution, device, *card);
  return KnownLayer{.bytes = AtBatch(convolution, std::move(measured)), .is_very = is_very};
}

std::optional<KnownLayer> FindBenchmarked(const Convolution& convolution,
                                          const DeviceProfile& device) {
  const MeasuredCard* card = CardLike(device);
  const bool is_measured = card != nullptr && card->benchmarked != nullptr;
  if (!is_measured || convolution.dtype == DType::kFloat64) return std::nullopt;
  const std::vector<MeasuredBatch> measured = card->benchmarked().Find(convolution);
  const MeasuredBatch* found = FindBatch(convolution, measured);
  if (found == nullptr) return std::nullopt;
  return KnownLayer{found->bytes, found->tried, IsSame(convolution, device, *card)};
}

}  // namespace onnxfit
