#include "estimator/workspaces/known_layers.h"

#include <algorithm>
#include <mutex>
#include <span>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/inflate.h"
#include "estimator/workspaces/layer_rows.h"
#include "estimator/workspaces/workspace_form.h"

namespace onnxfit {

// cudnn_layers.bin here, as CMake writes it into a source file.
extern const std::span<const unsigned char> kCudnnLayers;

namespace {

constexpr size_t kMostTableBytes = size_t{16} << 20;  // of one table; ten times as much as any has

std::string InflatedTable(std::string_view packed) {
  std::optional<std::string> text = Inflate(packed, kMostTableBytes);
  if (!text) throw Error({.where = "known layers", .text = "expected a stream of zlib's"});
  return *std::move(text);
}

}  // namespace

const KnownLayers& ShippedLayers() {
  static const KnownLayers layers(
      std::string_view(reinterpret_cast<const char*>(kCudnnLayers.data()), kCudnnLayers.size()));
  return layers;
}

// Unpacked when it is first asked.
struct KnownLayers::Table {
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

  std::vector<BatchWorkspace> At(size_t key) const {
    RowReader reader(rows[key]);
    std::vector<BatchWorkspace> found;
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

KnownLayers::KnownLayers(std::string_view packed) {
  RowReader reader(packed);
  std::vector<size_t> sizes;
  for (int64_t left = reader.Number(); left > 0; --left) {
    const auto capability = static_cast<int>(reader.Number());
    const int64_t multiprocessors = reader.Number();
    const auto cudnn = static_cast<int>(reader.Number());
    cards_.push_back({capability, multiprocessors, cudnn, reader.Number() != 0});
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

KnownLayers::~KnownLayers() = default;

const KnownLayers::Table& KnownLayers::Unpacked(size_t card) const {
  Table& table = *tables_[card];
  table.UnpackOnce(keys_.size());
  return table;
}

std::vector<BatchWorkspace> KnownLayers::Find(const Convolution& convolution, size_t card) const {
  const std::string key = LayerKey(convolution);
  const auto at = std::ranges::lower_bound(keys_, key);
  if (at == keys_.end() || *at != key) return {};
  return Unpacked(card).At(static_cast<size_t>(at - keys_.begin()));
}

std::vector<SizedLayer> KnownLayers::FindSizes(const Convolution& convolution, size_t card) const {
  const std::string kin = KinKey(convolution);
  const Table& table = Unpacked(card);
  std::vector<SizedLayer> found;
  for (auto at = std::ranges::lower_bound(keys_, kin); at != keys_.end(); ++at) {
    if (!at->starts_with(kin)) break;
    RowReader reader(at->substr(kin.size()));
    SizedLayer layer = {.input = Dims(convolution.stride.size()),
                        .output = Dims(convolution.stride.size())};
    for (int64_t& size : layer.input) size = reader.Number();
    for (int64_t& size : layer.output) size = reader.Number();
    layer.batches = table.At(static_cast<size_t>(at - keys_.begin()));
    if (!layer.batches.empty()) found.push_back(std::move(layer));
  }
  return found;
}

bool IsNearerVersion(int a, int b, int wanted) {
  const bool is_a_older = a < wanted;
  const bool is_b_older = b < wanted;
  if (is_a_older != is_b_older) return is_b_older;
  return is_a_older ? a > b : a < b;
}

std::vector<size_t> CardsLike(const std::vector<KnownCard>& cards, const DeviceProfile& device,
                              int cudnn) {
  std::vector<size_t> found;
  for (size_t i = 0; i < cards.size(); ++i) {
    if (cards[i].compute_capability == device.compute_capability) found.push_back(i);
  }
  std::ranges::sort(found, [&](size_t a, size_t b) {
    return IsNearerVersion(cards[a].cudnn, cards[b].cudnn, cudnn);
  });
  return found;
}

namespace {

std::optional<KnownLayer> FindVery(const Convolution& convolution, const DeviceProfile& device,
                                   size_t card) {
  std::vector<BatchWorkspace> batches = ShippedLayers().Find(convolution, card);
  if (batches.empty()) return std::nullopt;
  const KnownCard& known = ShippedLayers().cards()[card];
  const bool has_batch =
      std::ranges::count(batches, convolution.input[0], &BatchWorkspace::batch) > 0;
  // fp16 was not measured itself.
  const bool has_type = !known.is_measured || convolution.dtype != DType::kFloat16;
  return KnownLayer{
      .bytes = AtBatch(convolution, std::move(batches), FormedOn(device, convolution)),
      .is_very = has_batch && has_type && known.multiprocessors == device.multiprocessors,
      .is_measured = known.is_measured};
}

}  // namespace

std::optional<KnownLayer> FindKnown(const Convolution& convolution, const DeviceProfile& device,
                                    int cudnn) {
  if (convolution.dtype == DType::kFloat64) return std::nullopt;
  const std::vector<size_t> cards = CardsLike(ShippedLayers().cards(), device, cudnn);
  for (const size_t card : cards) {
    if (const auto found = FindVery(convolution, device, card)) return found;
  }
  if (RunsOnCublasLt(convolution, device)) return std::nullopt;
  for (const size_t card : cards) {
    const auto bytes = AtSize(convolution, ShippedLayers().FindSizes(convolution, card));
    if (bytes) return KnownLayer{.bytes = *bytes};
  }
  return std::nullopt;
}

std::optional<KnownCard> KnownCardLike(const DeviceProfile& device, int cudnn) {
  const std::vector<size_t> like = CardsLike(ShippedLayers().cards(), device, cudnn);
  return like.empty() ? std::nullopt : std::optional(ShippedLayers().cards()[like.front()]);
}

}  // namespace onnxfit
