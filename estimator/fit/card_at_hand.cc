#include "estimator/fit/card_at_hand.h"

#include <fmt/format.h>

#include <cctype>
#include <sstream>
#include <utility>

#include "estimator/base/bytes.h"

namespace onnxfit {
namespace {

// What the table calls it: "GeForce RTX 4060 Laptop" of "NVIDIA GeForce RTX 4060 Laptop GPU".
std::string PlainName(std::string_view name) {
  constexpr std::string_view kEnd = " GPU";
  std::string_view plain = WithoutMaker(name);
  if (plain.ends_with(kEnd)) plain.remove_suffix(kEnd.size());
  return std::string(plain);
}

// "rtx4060-laptop" of the same.
std::string GuessedAlias(const std::string& plain_name) {
  std::istringstream words(plain_name);
  std::string alias;
  for (std::string word; words >> word;) {
    for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (word == "geforce" || word == "tesla") continue;
    alias += word == "laptop" ? "-laptop" : word;
  }
  return alias;
}

// Makers count whole GiB, of which the card shows less.
int64_t GuessedGib(const DetectedGpu& gpu) {
  return RoundUp(gpu.smi_bytes.value_or(gpu.total_bytes), kGiB) / kGiB;
}

// The table's columns from the first to the size sold.
std::string NamesAndSize(const CardAtHand& card) {
  if (const Card* row = card.row) {
    return fmt::format(R"("{}", "{}", "{}", "{}", {})", row->alias, row->device.name, row->family,
                       row->memory_type, row->sold_bytes / kGiB);
  }
  const std::string name = PlainName(card.gpu.name);
  return fmt::format(R"("{}", "{}", "?", "?", {})", GuessedAlias(name), name, GuessedGib(card.gpu));
}

}  // namespace

CardAtHand LookUp(DetectedGpu gpu) {
  CardAtHand card = {.gpu = std::move(gpu)};
  card.row = FindCard(card.gpu.name);
  if (card.gpu.why_unusable.empty()) card.target = MakeTarget({.detected = &card.gpu});
  return card;
}

std::string TableRow(const CardAtHand& card) {
  const DetectedGpu& gpu = card.gpu;
  std::string row = fmt::format("{{{}, {}, {}, {}", NamesAndSize(card), gpu.compute_capability,
                                gpu.multiprocessors, gpu.total_bytes / kMiB);
  if (gpu.smi_bytes) row += fmt::format(", 0, {}", *gpu.smi_bytes / kMiB);
  return row + "},";
}

}  // namespace onnxfit
