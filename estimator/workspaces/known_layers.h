// What cuDNN asks for in the layers of common networks, by kind of card and version, as it comes
// with the command: as PyTorch was measured on a card, or as the library plans when it takes a card
// for another ("Plans for other cards" in benchmarks/convolutions/README.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/calibration.h"
#include "estimator/base/device.h"
#include "estimator/workspaces/other_sizes.h"

namespace onnxfit {

// Whose answers a table has.
struct KnownCard {
  int compute_capability = 0;  // times ten
  int64_t multiprocessors = 0;
  int cudnn = 0;             // 90100 is 9.1.0
  bool is_measured = false;  // else planned

  bool operator==(const KnownCard&) const = default;
};

class KnownLayers {
 public:
  // `packed` as benchmarks/convolutions/pack_layers.py writes it: the number of tables, of each one
  // its KnownCard and how many bytes it is packed into, those of the keys, all as LEB128; then the
  // keys (LayerKey), each behind its length and sorted, and the tables, each deflated.  A table has
  // how many lists of batches, each with its length; then for each key which list, and for each
  // batch of it the workspace's bytes.  `packed` must live as long.  Throws Error where it ends
  // early.
  explicit KnownLayers(std::string_view packed);
  ~KnownLayers();
  KnownLayers(const KnownLayers&) = delete;
  KnownLayers& operator=(const KnownLayers&) = delete;

  const std::vector<KnownCard>& cards() const { return cards_; }

  // By size of the batch; empty where nobody asked.  The first call for a card unpacks its table,
  // which takes milliseconds.  O(log layers), and below O(sizes) more.  Several threads may call
  // both.
  std::vector<BatchWorkspace> Find(const Convolution& convolution, size_t card) const;

  // The same layer at all sizes of its pictures that somebody asked of.
  std::vector<SizedLayer> FindSizes(const Convolution& convolution, size_t card) const;

 private:
  struct Table;

  const Table& Unpacked(size_t card) const;

  std::vector<KnownCard> cards_;
  std::string keys_text_;
  std::vector<std::string_view> keys_;  // views of keys_text_, sorted
  std::vector<std::unique_ptr<Table>> tables_;
};

// Those that come with the command.
const KnownLayers& ShippedLayers();

// Whether what version `a` plans is rather taken for `wanted` than what `b` does: the oldest
// version that is no older comes first (9.8 and 9.10 plan as 9.19 does rather than as 9.1), then
// the newest.
bool IsNearerVersion(int a, int b, int wanted);

// Which of `cards` tell of a card like `device`, those of the version nearest to `cudnn` first.
std::vector<size_t> CardsLike(const std::vector<KnownCard>& cards, const DeviceProfile& device,
                              int cudnn);

// What such a card tells of a convolution.
struct KnownLayer {
  int64_t bytes = 0;
  bool is_very = false;      // of that very convolution, on a card with as many multiprocessors
  bool is_measured = false;  // else planned

  bool operator==(const KnownLayer&) const = default;
};

// At its batch or carried over from others (AtBatch), else from other sizes of its pictures
// (AtSize) where it is no product of matrices, which cublasLt runs: those follow no size.  Nullopt
// where nobody asked of such a card, or for float64.
std::optional<KnownLayer> FindKnown(const Convolution& convolution, const DeviceProfile& device,
                                    int cudnn);

// The card that is asked first; nullopt where there is none like it.
std::optional<KnownCard> KnownCardLike(const DeviceProfile& device, int cudnn);

}  // namespace onnxfit
