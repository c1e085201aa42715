// The cards that we know: one row each in cards.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/device.h"

namespace onnxfit {

// How the size of a card came about.
enum class TotalSource : uint8_t {
  kSeen,         // CUDA was seen to show it
  kSeenWindows,  // the same, on Windows alone: Linux shows less
  kNvidiaSmi,    // derived from what nvidia-smi shows, which is more; of a slice the same
  kName,         // derived from what it is sold with
  kWithoutEcc,   // derived from what CUDA shows with ECC off
};

constexpr std::string_view ToString(TotalSource source) {
  constexpr std::string_view kNames[] = {"seen", "seen_on_windows", "nvidia_smi", "sold_size",
                                         "without_ecc"};
  return kNames[static_cast<size_t>(source)];
}

struct Card {
  std::string_view alias;   // as --gpu spells it: "t4"
  std::string_view family;  // "consumer", "laptop", "workstation", "datacenter", "cloud", "jetson",
                            // "edge" or "slice"
  std::string_view memory_type;  // "GDDR6"
  int64_t sold_bytes = 0;        // as makers count it: 16 GiB of a "16 GB" card
  int64_t total_bytes = 0;       // the smallest that CUDA shows (cudaMemGetInfo)
  TotalSource total_source = TotalSource::kSeen;
  int64_t without_ecc_bytes = 0;   // the same with ECC off, where total_bytes is with it; else 0
  int64_t slow_bytes = 0;          // of them, behind a narrower bus: the last of a GTX 970
  bool shares_memory = false;      // with the CPU: the operating system's share comes off first
  std::string_view slice_of = {};  // of a slice (slices.h), the alias of its card
  DeviceProfile device;            // device.name is the card's: "Tesla T4"
};

// Every card, in the order of the table: by family and generation.  Slices are in slices.h.
std::span<const Card> Cards();

// The card of that alias or name, or of what torch.cuda.get_device_name() says, whatever its
// case, spaces, dashes and maker ("RTX 3060", "nvidia rtx-3060", "3060"); with the size that it is
// sold with or without.  Also a slice of a card (slices.h), and what rents it
// (cloud_instances.h).  Null where there is none, or where several may be meant ("a100").
const Card* FindCard(std::string_view typed);

// A card's name as the table spells it: "A100-SXM4-40GB" of "NVIDIA A100-SXM4-40GB".
std::string_view WithoutMaker(std::string_view name);

// The aliases that come nearest to what was typed, best first, at most `most`: those that
// contain it, else those that differ least; none where all differ much.  For a slice that does not
// exist, all slices of its card.
std::vector<std::string_view> SuggestCards(std::string_view typed, size_t most = 3);

}  // namespace onnxfit
