// What cuDNN plans for the layers of common networks, by kind of card and version, as it comes with
// the command.  The library itself was asked, on a card that it took for such a one: "Plans for
// other cards" in benchmarks/convolutions/README.md.
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
#include "estimator/workspaces/measured_layers.h"

namespace onnxfit {

// Whose plans a table has.
struct PlannedCard {
  int compute_capability = 0;  // times ten
  int64_t multiprocessors = 0;
  int cudnn = 0;  // 90100 is 9.1.0

  bool operator==(const PlannedCard&) const = default;
};

class PlannedLayers {
 public:
  // `packed` as benchmarks/convolutions/pack_plans.py writes it: the number of tables, of each one
  // its PlannedCard and how many bytes it is packed into, those of the keys, all as LEB128; then
  // the keys (LayerKey), each behind its length and sorted, and the tables, each deflated. A table
  // has how many batches, their sizes, then for each key and batch the workspace's bytes + 1, 0
  // where nobody asked. `packed` must live as long.  Throws Error where it ends early.
  explicit PlannedLayers(std::string_view packed);
  ~PlannedLayers();
  PlannedLayers(const PlannedLayers&) = delete;
  PlannedLayers& operator=(const PlannedLayers&) = delete;

  const std::vector<PlannedCard>& cards() const { return cards_; }

  // By size of the batch; empty where nobody asked.  The first call for a card unpacks its table,
  // which takes milliseconds.  O(log layers).  Several threads may call it.
  std::vector<MeasuredBatch> Find(const Convolution& convolution, size_t card) const;

 private:
  struct Table;

  std::vector<PlannedCard> cards_;
  std::string keys_text_;
  std::vector<std::string_view> keys_;  // views of keys_text_, sorted
  std::vector<std::unique_ptr<Table>> tables_;
};

// Which of `cards` tell of a card like `device` and that version, the best first: of the oldest
// version that is no older (9.8 and 9.10 plan as 9.19 does rather than as 9.1), then the others,
// the nearest first.
std::vector<size_t> CardsLike(const std::vector<PlannedCard>& cards, const DeviceProfile& device,
                              int cudnn);

// At its batch or scaled to it (AtBatch); nullopt where nobody asked of such a card, or for
// float64.
std::optional<KnownLayer> FindPlanned(const Convolution& convolution, const DeviceProfile& device,
                                      int cudnn);

// Of the table that is asked first: 90100 is 9.1.0; 0 where there is none of such a card.
int PlansVersion(const DeviceProfile& device, int cudnn);

}  // namespace onnxfit
