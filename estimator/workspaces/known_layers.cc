#include "estimator/workspaces/planned_layers.h"

#include <algorithm>
#include <mutex>
#include <span>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/inflate.h"
#include "estimator/workspaces/layer_rows.h"

namespace onnxfit {

// cudnn_plans.bin here, as CMake writes it into a source file.
extern const std::span<const unsigned char> kCudnnPlans;

namespace {

constexpr size_t kMostTableBytes = size_t{16} << 20;  // of one table; ten times as much as any has

std::string InflatedTable(std::string_view packed) {
  std::optional<std::string> text = Inflate(packed, kMostTableBytes);
  if (!text) throw Error({.where = "planned layers", .text = "expected a stream of zlib's"});
  return *std::move(text);
}

const PlannedLayers& Shipped() {
  static const PlannedLayers layers(
      std::string_view(reinterpret_cast<const char*>(kCudnnPlans.data()), kCudnnPlans.size()));
  return layers;
}

// Whether a table of version `a` is rather taken for `wanted` than one of `b`.
bool IsNearer(int a, int b, int wanted) {
  const bool is_a_older = a < wanted;
  const bool is_b_older = b < wanted;
  if (is_a_older != is_b_older) return is_b_older;
  return is_a_older ? a > b : a < b;
}

}  // namespace

// Unpacked when it is first asked.
struct PlannedLayers::Table {
  explicit Table(std::string_view deflated) : packed(deflated) {}

  std::string_view packed;
  std::mutex mutex = {};  // of all that follows, until it is unpacked
  bool is_unpacked = false;
  std::string text = {};
  std::vector<std::vector<int64_t>> lists = {};  // of batches
  std::vector<std::string_view> rows = {};       // views of `text`, each from a key's numbers on

  void UnpackOnce(size_t keys) {
    const std::lock_guard lock(mutex);
    if (!std::exchange(is_unpacked, true)) Unpack(keys);
  }

  std::vector<MeasuredBatch> At(size_t key) const {
    RowReader reader(rows[key]);
    std::vector<MeasuredBatch> found;
    for (const int64_t batch : ListAt(reader)) {
      found.push_back({.batch = batch, .bytes = reader.Number()});
    }
    return found;
  }

 private:
  void Unpack(size_t keys) {
    text = InflatedTable(packed);
    RowReader reader(text);
    lists.resize(static_cast<size_t>(reader.Number()));
    for (std::vector<int64_t>& batches : lists) {
      batches.resize(static_cast<size_t>(reader.Number()));
      for (int64_t& batch : batches) batch = reader.Number();
    }
    for (size_t i = 0; i < keys; ++i) {
      rows.push_back(reader.rest());
      for (size_t left = ListAt(reader).size(); left > 0; --left) reader.Number();
    }
  }

  const std::vector<int64_t>& ListAt(RowReader& reader) const {
    return lists.at(static_cast<size_t>(reader.Number()));
  }
};

PlannedLayers::PlannedLayers(std::string_view packed) {
  RowReader reader(packed);
  std::vector<size_t> sizes;
  for (int64_t left = reader.Number(); left > 0; --left) {
    const auto capability = static_cast<int>(reader.Number());
    const int64_t multiprocessors = reader.Number();
    cards_.push_back({capability, multiprocessors, static_cast<int>(reader.Number())});
    sizes.push_back(static_cast<size_t>(reader.Number()));
  }
  keys_text_ = InflatedTable(reader.Take(static_cast<size_t>(reader.Number())));
  for (RowReader keys(keys_text_); !keys.AtEnd();) {
    keys_.push_back(keys.Take(static_cast<size_t>(keys.Number())));
  }
  for (const size_t size : sizes) {
    tables_.push_back(std::make_unique<Table>(reader.Take(size)));
  }
}

PlannedLayers::~PlannedLayers() = default;

std::vector<MeasuredBatch> PlannedLayers::Find(const Convolution& convolution, size_t card) const {
  const std::string key = LayerKey(convolution);
  const auto at = std::ranges::lower_bound(keys_, key);
  if (at == keys_.end() || *at != key) return {};
  Table& table = *tables_[card];
  table.UnpackOnce(keys_.size());
  return table.At(static_cast<size_t>(at - keys_.begin()));
}

std::vector<size_t> CardsLike(const std::vector<PlannedCard>& cards, const DeviceProfile& device,
                              int cudnn) {
  std::vector<size_t> found;
  for (size_t i = 0; i < cards.size(); ++i) {
    if (cards[i].compute_capability == device.compute_capability) found.push_back(i);
  }
  std::ranges::sort(
      found, [&](size_t a, size_t b) { return IsNearer(cards[a].cudnn, cards[b].cudnn, cudnn); });
  return found;
}

std::optional<KnownLayer> FindPlanned(const Convolution& convolution, const DeviceProfile& device,
                                      int cudnn) {
  if (convolution.dtype == DType::kFloat64) return std::nullopt;
  for (const size_t card : CardsLike(Shipped().cards(), device, cudnn)) {
    std::vector<MeasuredBatch> batches = Shipped().Find(convolution, card);
    if (batches.empty()) continue;
    const bool has_batch =
        std::ranges::count(batches, convolution.input[0], &MeasuredBatch::batch) > 0;
    return KnownLayer{
        .bytes = AtBatch(convolution, std::move(batches)),
        .is_very = has_batch && Shipped().cards()[card].multiprocessors == device.multiprocessors};
  }
  return std::nullopt;
}

int PlansVersion(const DeviceProfile& device, int cudnn) {
  const std::vector<size_t> like = CardsLike(Shipped().cards(), device, cudnn);
  return like.empty() ? 0 : Shipped().cards()[like.front()].cudnn;
}

}  // namespace onnxfit
