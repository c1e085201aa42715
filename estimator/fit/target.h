// The card that an answer is about, and what of it a process can have: of the table, of a size, or
// at hand.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "estimator/base/calibration.h"
#include "estimator/base/cards.h"
#include "estimator/base/device.h"
#include "estimator/base/error.h"

namespace onnxfit {

// A machine of a cloud, as it was typed.
struct RentedMachine {
  std::string name;
  int64_t cards = 0;  // in it; 0 where machines of that name differ in that
};

// What is asked: a card of the table, the card at hand, a size, or a card of another size.
struct TargetRequest {
  const Card* card = nullptr;                            // --gpu
  const DetectedGpu* detected = nullptr;                 // --gpu auto, in the place of `card`
  std::optional<int64_t> memory_bytes = {};              // --memory
  std::optional<int64_t> overhead_bytes = {};            // --overhead: the context
  int64_t reserved_for_others = 0;                       // --reserve
  std::span<const SharedCalibration> calibrations = {};  // that of this card has a say
  std::optional<RentedMachine> machine = {};             // that was named instead of `card`
  bool is_listed = false;                                // not asked for by name: --all-gpus
  bool is_one_of_many = false;  // too small a card is an answer, whatever was typed
};

// What comes off a card's memory before a process has any of it.
struct Share {
  std::string what = {};  // "operating system and desktop"
  int64_t bytes = 0;
  int64_t low = 0;
  int64_t high = 0;
  Basis basis = Basis::kAssumed;
};

struct Target {
  std::string name = {};  // "t4", "8 GiB"; of a card at hand that has no row, CUDA's
  DeviceProfile device;   // whose kernels run, and what a context takes there
  int64_t total_bytes = 0;
  std::vector<Share> shares = {};  // of others: --reserve, processes, the operating system
  bool shares_memory = false;      // with the CPU
  Warnings warnings = {};          // about the card itself
  bool is_listed = false;          // one of a list: no verdict on it is a failure
  std::string unusable = {};       // why no run of PyTorch's begins on it, whatever fits

  int64_t usable_bytes() const;          // for this process, its context included
  int64_t capacity_bytes() const;        // for its tensors and cache: what is likely
  int64_t least_capacity_bytes() const;  // the same at the high end of context and shares
};

// The table's card, or the card at hand with what it says of itself (its context is of its row, by
// name, or of the rule) and what others hold of it now, or a size.  What was measured goes before
// the table, what was asked before both.  On boards whose memory the CPU shares, the context is
// the runtime's share: libraries and kernels in the host's memory.  Throws Error where a size that
// was typed leaves nothing for tensors: what there is, what is needed.
Target MakeTarget(const TargetRequest& request);

// A card of this machine, beside what the table has of it.
struct CardAtHand {
  DetectedGpu gpu;
  const Card* row = nullptr;          // by CUDA's name; null where the table has none
  std::optional<Target> target = {};  // as --gpu auto takes it; nullopt where it is unusable
};

CardAtHand LookUp(DetectedGpu gpu);

// What a row of cards.cc would say of it: {"h200", "H200", "?", "?", 140, 90, 132, 143155, 0,
// 143771}, with "?" for what no card says of itself, the alias and the size sold guessed.  Of a
// card that has a row, that with the sizes seen here.
std::string TableRow(const CardAtHand& card);

}  // namespace onnxfit
