// Where the figures come from: `nvidia-smi mig -lgip` as people published it, and NVIDIA's own
// bindings of NVML.  What nvidia-smi lists in sixteenths of a GiB is what CUDA shows to the byte
// wherever both were seen (4.75, 9.62, 9.75, 19.50, 19.62 GiB in banners and out-of-memory
// messages).  Where drivers differ the smallest is taken.
#include "estimator/base/slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "estimator/base/bytes.h"
#include "estimator/base/card_names.h"
#include "estimator/base/contexts.h"

namespace onnxfit {
namespace {

constexpr bool kSeenByCuda = true;

struct SliceRow {
  std::string_view alias;
  int64_t multiprocessors;
  int64_t mib;
  bool seen_by_cuda = false;
};

constexpr SliceRow kSliceRows[] = {
    // Summer-Lo/Docker_configuration:000-MIG/README.md
    {"a30:1g.6gb", 14, 5952},
    {"a30:2g.12gb", 28, 11968},
    {"a30:4g.24gb", 56, 24064},
    // NVIDIA/go-nvml:pkg/nvml/mock/gpus/a100.go
    {"a100-40gb:1g.5gb", 14, 4864, kSeenByCuda},
    {"a100-40gb:1g.10gb", 14, 9856, kSeenByCuda},
    {"a100-40gb:2g.10gb", 28, 9856},
    {"a100-40gb:3g.20gb", 42, 19968},
    {"a100-40gb:4g.20gb", 56, 19968},
    {"a100-40gb:7g.40gb", 98, 40192},
    // The same; 1g.10gb and 3g.40gb of nvidia-smi in MortalGPU's README.md, 2g.20gb also
    // XuehaiPan/nvitop#8.  Cards for PCIe have the same names (NVIDIA's MIG User Guide, r590).
    {"a100-80gb:1g.10gb", 14, 9728},
    {"a100-80gb:1g.20gb", 14, 19968},
    {"a100-80gb:2g.20gb", 28, 19968, kSeenByCuda},
    {"a100-80gb:3g.40gb", 42, 40192},
    {"a100-80gb:4g.40gb", 56, 40192},
    {"a100-80gb:7g.80gb", 98, 80384},
    {"a100-80gb-pcie:1g.10gb", 14, 9728},
    {"a100-80gb-pcie:1g.20gb", 14, 19968},
    {"a100-80gb-pcie:2g.20gb", 28, 19968, kSeenByCuda},
    {"a100-80gb-pcie:3g.40gb", 42, 40192},
    {"a100-80gb-pcie:4g.40gb", 56, 40192},
    {"a100-80gb-pcie:7g.80gb", 98, 80384},
    // https://jbarrow.ai/field_notes/nvidia-mig/
    {"h100:1g.10gb", 16, 9984, kSeenByCuda},
    {"h100:1g.20gb", 26, 20096},
    {"h100:2g.20gb", 32, 20096, kSeenByCuda},
    {"h100:3g.40gb", 60, 40448},
    {"h100:4g.40gb", 64, 40448},
    {"h100:7g.80gb", 132, 81152},
    // NVIDIA/gpu-operator#900, which shows no larger ones
    {"h100-nvl:1g.12gb", 16, 11008},
    {"h100-nvl:1g.24gb", 26, 22144},
    {"h100-nvl:2g.24gb", 32, 22144},
    // NVIDIA/mig-parted#120
    {"h200:1g.18gb", 16, 16384},
    {"h200:1g.35gb", 26, 33024},
    {"h200:2g.35gb", 32, 33024},
    {"h200:3g.71gb", 60, 71168},
    {"h200:4g.71gb", 64, 71168},
    {"h200:7g.141gb", 132, 143104},
    // NVIDIA/mig-parted#187, which shows no larger ones; NVIDIA/mig-parted#166 has 22.00 GiB of
    // 1g.23gb
    {"b200:1g.23gb", 18, 20992},
    {"b200:1g.45gb", 30, 45312},
    {"b200:2g.45gb", 36, 45312},
    // NVIDIA/mig-parted#227; 1g.24gb, of earlier boards, NVIDIA/gpu-operator#1303
    {"gb200:1g.23gb", 18, 22528},
    {"gb200:1g.24gb", 18, 20480},
    {"gb200:1g.47gb", 32, 46592},
    {"gb200:2g.47gb", 38, 46592},
    // bigstack-oss/cubecos#312; GoogleCloudPlatform/container-engine-accelerators#564 has 23.62 GiB
    // of 1g.24gb
    {"rtxpro6000:1g.24gb", 46, 23680},
    {"rtxpro6000:2g.48gb", 94, 47616},
};

constexpr std::string_view WholeOf(std::string_view alias) {
  return alias.substr(0, alias.find(':'));
}

constexpr std::string_view ProfileOf(std::string_view alias) {
  return alias.substr(alias.find(':') + 1);
}

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// 5 of "1g.5gb": what a profile is called by, as cards are.
int64_t SoldGib(std::string_view profile) {
  int64_t gib = 0;
  for (const char c : profile.substr(profile.find('.') + 1)) {
    if (IsDigit(c)) gib = gib * 10 + (c - '0');
  }
  return gib;
}

Card SliceOf(const SliceRow& row, const Card& whole) {
  Card slice = whole;
  slice.alias = row.alias;
  slice.slice_of = whole.alias;
  slice.family = "slice";
  slice.sold_bytes = SoldGib(ProfileOf(row.alias)) * kGiB;
  slice.total_bytes = row.mib * kMiB;
  slice.total_source = row.seen_by_cuda ? TotalSource::kSeen : TotalSource::kNvidiaSmi;
  slice.device.name = fmt::format("{} MIG {}", whole.device.name, ProfileOf(row.alias));
  slice.device.multiprocessors = row.multiprocessors;
  slice.device.context = ContextOfSlice(slice.device, whole);
  return slice;
}

std::vector<Card> AllSlices() {
  std::vector<Card> slices;
  for (const SliceRow& row : kSliceRows) {
    for (const Card& card : Cards()) {
      if (card.alias == WholeOf(row.alias)) slices.push_back(SliceOf(row, card));
    }
  }
  return slices;
}

// How long the profile is that `text` begins with: 6 of "1g.5gb+me", 0 of "1gb".
size_t ProfileLength(std::string_view text) {
  constexpr std::string_view kMiddle = "g.";
  constexpr std::string_view kEnd = "gb";
  if (text.empty() || !IsDigit(text[0]) || !text.substr(1).starts_with(kMiddle)) return 0;
  size_t at = 1 + kMiddle.size();
  const size_t digits = at;
  while (at < text.size() && IsDigit(text[at])) ++at;
  const bool is_profile = at > digits && text.substr(at).starts_with(kEnd);
  return is_profile ? at + kEnd.size() : 0;
}

// The card that stands before a profile, without what parts them.
std::string WithoutEnd(std::string_view text) {
  constexpr std::string_view kBetween = " :-_/@";
  const auto trim = [&] { text = text.substr(0, text.find_last_not_of(kBetween) + 1); };
  trim();
  if (LowerCase(text).ends_with(kSliceMode)) text.remove_suffix(kSliceMode.size());
  trim();
  return std::string(text);
}

std::vector<const Card*> SlicesCalled(std::string_view profile) {
  std::vector<const Card*> slices;
  for (const Card& slice : Slices()) {
    if (ProfileOf(slice.alias) == profile) slices.push_back(&slice);
  }
  return slices;
}

// Whether a slice is of the card that was named, "a100" of both sizes.
bool IsOf(const Card& slice, const std::string& card) {
  if (const Card* whole = FindCard(card)) return slice.slice_of == whole->alias;
  const std::string key = CardKey(card);
  return !key.empty() && CardKey(slice.slice_of).find(key) != std::string::npos;
}

}  // namespace

std::span<const Card> Slices() {
  static const std::vector<Card> slices = AllSlices();
  return slices;
}

std::vector<const Card*> SlicesOf(std::string_view alias) {
  std::vector<const Card*> slices;
  for (const Card& slice : Slices()) {
    if (slice.slice_of == alias) slices.push_back(&slice);
  }
  return slices;
}

std::optional<SliceName> ReadSlice(std::string_view typed) {
  const std::string lower = LowerCase(typed);
  for (size_t at = 0; at < lower.size(); ++at) {
    const size_t length = ProfileLength(std::string_view(lower).substr(at));
    if (length == 0) continue;
    const bool begins = at == 0 || (std::isalnum(static_cast<unsigned char>(lower[at - 1])) == 0 &&
                                    lower[at - 1] != '.');  // "1c.2g.10gb" is a part of a slice
    const char next = at + length < lower.size() ? lower[at + length] : '+';
    if (!begins || (next != '+' && next != '-')) continue;
    return SliceName{WithoutEnd(typed.substr(0, at)), lower.substr(at, length)};
  }
  return std::nullopt;
}

const Card* FindSlice(const SliceName& name) {
  std::vector<const Card*> found;
  for (const Card* slice : SlicesCalled(name.profile)) {
    if (name.card.empty() || IsOf(*slice, name.card)) found.push_back(slice);
  }
  return found.size() == 1 ? found[0] : nullptr;
}

std::vector<std::string_view> SuggestSlices(const SliceName& name) {
  std::vector<std::string_view> own;
  std::vector<std::string_view> called;
  for (const Card& slice : Slices()) {
    const bool is_own = !name.card.empty() && IsOf(slice, name.card);
    const bool is_called = ProfileOf(slice.alias) == name.profile;
    if (is_own) own.push_back(slice.alias);
    if (is_called && (is_own || name.card.empty())) called.push_back(slice.alias);
  }
  if (!called.empty()) return called;  // of several cards
  if (!own.empty()) return own;
  for (const Card* slice : SlicesCalled(name.profile)) called.push_back(slice->alias);
  return called;
}

}  // namespace onnxfit
