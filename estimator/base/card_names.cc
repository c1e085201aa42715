#include "estimator/base/card_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/cards.h"
#include "estimator/base/cloud_instances.h"
#include "estimator/base/suggest.h"

namespace onnxfit {
namespace {

// Never in the way, wherever they stand.  "Quadro" is: an RTX 6000 may be that or of the Ada
// generation.
constexpr std::string_view kFreeWords[] = {"nvidia", "geforce", "tesla",    "jetson",
                                           "grid",   "amd",     "instinct", "rtx",
                                           "gtx",    "gpu",     "graphics", "generation"};

constexpr std::pair<std::string_view, std::string_view> kSynonyms[] = {{"mobile", "laptop"},
                                                                       {"gib", "gb"}};

struct OtherName {
  std::string_view alias;
  std::string_view name;
};

// Each of one card alone.  Other forms of the same card, what torch.cuda.get_device_name() says of
// them, and what clouds call them.
constexpr OtherName kOtherNames[] = {
    {"jetson-agx-xavier", "AGX Xavier 16GB"},
    {"jetson-thor", "Jetson AGX Thor"},
    {"jetson-thor", "T5000"},
    {"gb10", "DGX Spark"},
    {"quadro-rtx4000", "RTX 4000"},
    {"quadro-rtx8000", "RTX 8000"},
    {"rtxpro6000", "RTX PRO 6000 Blackwell Workstation Edition"},
    {"rtxpro6000", "RTX PRO 6000 Blackwell Max-Q Workstation Edition"},
    {"rtxpro6000", "RTX PRO 6000 Blackwell Server Edition"},
    {"p100", "P100-SXM2-16GB"},
    {"v100-16gb", "V100-PCIE-16GB"},
    {"v100-32gb", "V100-PCIE-32GB"},
    {"v100-32gb", "V100-SXM3-32GB"},
    {"v100-32gb", "V100S-PCIE-32GB"},
    {"a100-40gb", "A100-PCIE-40GB"},
    {"a100-40gb", "A100-SXM-40GB"},
    {"a100-80gb", "A100-SXM-80GB"},
    {"a100-80gb-pcie", "A100-PCIE-80GB"},
    {"a800-80gb", "A800"},
    {"h100", "H100 SXM"},
    {"h100", "H100 SXM5"},
    {"h100", "H100-SXM5-80GB"},
    {"h100-pcie", "H100 80GB PCIe"},
    {"h800", "H800 SXM"},
    {"gh200", "GH200 120GB"},
    {"h200", "H200 SXM"},
    {"h200", "H200 NVL"},
    {"b300", "B300 SXM6 AC"},
};

void ReplaceAll(std::string& text, std::string_view word, std::string_view by) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + by.size())) {
    text.replace(at, word.size(), by);
  }
}

std::string_view WithoutParentheses(std::string_view name) {
  return name.substr(0, name.find(" ("));
}

bool IsNamed(const Card& card, const std::string& key) {
  const std::vector<std::string_view> names = NamesOf(card);
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view name) { return key == CardKey(name); });
}

// The first card that `matches`, null where there is none.  No two have a name in common.
template <typename Matches>
const Card* FirstCard(const Matches& matches) {
  const std::span<const Card> cards = Cards();
  const auto found = std::find_if(cards.begin(), cards.end(), matches);
  return found == cards.end() ? nullptr : &*found;
}

// "t416gb": the alias and the size that it is sold with.
bool IsAliasWithSize(const Card& card, const std::string& key) {
  return key == fmt::format("{}{}gb", CardKey(card.alias), card.sold_bytes / kGiB);
}

struct Candidate {
  size_t distance;
  std::string_view alias;
};

// Ties are in the order of the table.
std::vector<std::string_view> Best(std::vector<Candidate> candidates, size_t most) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.distance < b.distance; });
  std::vector<std::string_view> aliases;
  for (const Candidate& candidate : candidates) {
    if (aliases.size() < most) aliases.push_back(candidate.alias);
  }
  return aliases;
}

// The shorter an alias that contains it, the less it differs.
std::vector<Candidate> Containing(const std::string& part, std::string (*form)(std::string_view)) {
  std::vector<Candidate> candidates;
  if (part.empty()) return candidates;
  for (const Card& card : Cards()) {
    const std::string alias = form(card.alias);
    if (alias.find(part) != std::string::npos) candidates.push_back({alias.size(), card.alias});
  }
  return candidates;
}

// Those that differ least, if that is not much.
std::vector<Candidate> NearestCards(const std::string& key) {
  std::vector<Candidate> candidates;
  // As for other words (suggest.h), but two letters of three are another name: "aws" is no "a10".
  size_t limit = std::max<size_t>(key.size() > 3 ? 2 : 1, key.size() / 3);
  for (const Card& card : Cards()) {
    const size_t distance = EditDistance(key, CardKey(card.alias));
    if (distance > limit || distance >= key.size()) continue;
    if (distance < limit) candidates.clear();
    limit = distance;
    candidates.push_back({distance, card.alias});
  }
  return candidates;
}

}  // namespace

std::string Squeezed(std::string_view name) {
  std::string text;
  for (const char c : name) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter)) text += static_cast<char>(std::tolower(letter));
  }
  return text;
}

std::string CardKey(std::string_view name) {
  std::string key = Squeezed(name);
  for (const std::string_view word : kFreeWords) ReplaceAll(key, word, "");
  for (const auto& [word, other] : kSynonyms) ReplaceAll(key, word, other);
  return key;
}

std::vector<std::string_view> NamesOf(const Card& card) {
  const std::string_view name = card.device.name;
  std::vector<std::string_view> names = {card.alias, name, WithoutParentheses(name)};
  for (const OtherName& other : kOtherNames) {
    if (other.alias == card.alias) names.push_back(other.name);
  }
  return names;
}

const Card* FindCard(std::string_view typed) {
  const std::string key = CardKey(typed);
  const auto is_named = [&](const Card& card) { return IsNamed(card, key); };
  const auto is_sized = [&](const Card& card) { return IsAliasWithSize(card, key); };
  if (const Card* card = FirstCard(is_named)) return card;
  if (const Card* card = FirstCard(is_sized)) return card;
  const std::optional<RentedCard> rented = FindRentedCard(typed);
  if (!rented) return nullptr;
  return FirstCard([&](const Card& card) { return card.alias == rented->alias; });
}

std::string_view WithoutMaker(std::string_view name) {
  constexpr std::string_view kMaker = "NVIDIA ";
  return name.starts_with(kMaker) ? name.substr(kMaker.size()) : name;
}

std::vector<std::string_view> SuggestCards(std::string_view typed, size_t most) {
  std::vector<Candidate> candidates = Containing(Squeezed(typed), Squeezed);
  if (candidates.empty()) candidates = Containing(CardKey(typed), CardKey);
  if (candidates.empty()) candidates = NearestCards(CardKey(typed));
  return Best(std::move(candidates), most);
}

}  // namespace onnxfit
