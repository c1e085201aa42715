#include "estimator/base/card_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/cards.h"
#include "estimator/base/cloud_instances.h"
#include "estimator/base/slices.h"
#include "estimator/base/text.h"

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
    {"quadro-rtx5000", "RTX 5000"},
    {"quadro-rtx8000", "RTX 8000"},
    {"rtx4000-ada", "RTX 4000 SFF Ada Generation"},
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

// "1650" is a word of "GeForce GTX 1650", "16" is none.
bool HasWord(std::string_view name, std::string_view word) {
  const auto is_letter = [&](size_t at) {
    return at < name.size() && std::isalnum(static_cast<unsigned char>(name[at])) != 0;
  };
  for (size_t at = name.find(word); at != std::string_view::npos; at = name.find(word, at + 1)) {
    if ((at == 0 || !is_letter(at - 1)) && !is_letter(at + word.size())) return true;
  }
  return false;
}

// The shorter an alias that contains it, the less it differs; those that have it as a word come
// first: "a100" is an A100 of some size before it is an A1000.
std::vector<Candidate> Containing(const std::string& part, std::string (*form)(std::string_view)) {
  constexpr size_t kNoWord = 1000;
  std::vector<Candidate> candidates;
  if (part.empty()) return candidates;
  for (const Card& card : Cards()) {
    const std::string alias = form(card.alias);
    if (alias.find(part) == std::string::npos) continue;
    const size_t penalty = HasWord(card.alias, part) ? 0 : kNoWord;
    candidates.push_back({alias.size() + penalty, card.alias});
  }
  return candidates;
}

// Those that differ least, if that is not much.
std::vector<Candidate> NearestCards(const std::string& key) {
  std::vector<Candidate> candidates;
  // As for other words (Nearest), but two letters of three are another name: "aws" is no "a10".
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

std::string LowerCase(std::string_view text) {
  std::string lower;
  for (const char c : text) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

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
  if (const std::optional<SliceName> slice = ReadSlice(typed)) return FindSlice(*slice);
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
  if (const std::optional<SliceName> slice = ReadSlice(typed)) return SuggestSlices(*slice);
  std::vector<Candidate> candidates = Containing(Squeezed(typed), Squeezed);
  if (candidates.empty()) candidates = Containing(CardKey(typed), CardKey);
  if (candidates.empty()) candidates = NearestCards(CardKey(typed));
  return Best(std::move(candidates), most);
}

// What follows filters cards.
namespace {

using CardPredicate = std::function<bool(const Card&)>;

constexpr std::string_view kFlag = "FILTER";
constexpr std::string_view kDigits = "0123456789.";

struct Limit {
  std::string_view sign;
  bool (*holds)(int64_t sold, int64_t limit);
};

// Those of two letters first.
constexpr Limit kLimits[] = {
    {">=", [](int64_t sold, int64_t limit) { return sold >= limit; }},
    {"<=", [](int64_t sold, int64_t limit) { return sold <= limit; }},
    {">", [](int64_t sold, int64_t limit) { return sold > limit; }},
    {"<", [](int64_t sold, int64_t limit) { return sold < limit; }},
    {"=", [](int64_t sold, int64_t limit) { return sold == limit; }},
};

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of(kDigits) == std::string_view::npos;
}

// Makers write GB where they mean GiB, and people leave it out.
int64_t SoldSize(std::string_view text) {
  std::string size = LowerCase(text.substr(std::min(text.find_first_not_of(' '), text.size())));
  if (IsNumber(size)) size += "gb";
  const bool is_gb = size.ends_with("gb");
  if (is_gb) size.back() = 'i';
  if (is_gb) size += 'b';
  return ParseBytes(size, kFlag);
}

// "GiB" of "12GiB": the unit that the other end of a range may leave out.
std::string_view UnitOf(std::string_view size) {
  const size_t at = size.find_first_not_of(kDigits);
  return at == std::string_view::npos ? "" : size.substr(at);
}

std::optional<CardPredicate> RangeFilter(std::string_view text) {
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const std::string_view last = text.substr(dots + 2);
  std::string first(text.substr(0, dots));
  if (UnitOf(first).empty()) first += UnitOf(last);
  const int64_t low = SoldSize(first);
  const int64_t high = SoldSize(last);
  return [=](const Card& card) { return low <= card.sold_bytes && card.sold_bytes <= high; };
}

std::optional<CardPredicate> LimitFilter(std::string_view text) {
  for (const Limit& limit : kLimits) {
    if (!text.starts_with(limit.sign)) continue;
    const int64_t bytes = SoldSize(text.substr(limit.sign.size()));
    return [holds = limit.holds, bytes](const Card& card) { return holds(card.sold_bytes, bytes); };
  }
  return std::nullopt;
}

// "24GiB" and "512 MiB", not "3060", "3060ti" or "2080s".
bool IsSize(std::string_view text) {
  constexpr std::string_view kUnits[] = {"g", "gb", "gib", "m", "mb", "mib", "t", "tb", "tib"};
  std::string unit = LowerCase(UnitOf(text));
  unit.erase(0, unit.find_first_not_of(' '));
  const bool has_number = !text.empty() && kDigits.find(text[0]) != std::string_view::npos;
  return has_number && std::find(std::begin(kUnits), std::end(kUnits), unit) != std::end(kUnits);
}

CardPredicate IsOfSize(int64_t bytes) {
  return [=](const Card& card) { return card.total_bytes <= bytes && bytes <= card.sold_bytes; };
}

std::optional<CardPredicate> SizeFilter(std::string_view text) {
  if (!IsSize(text)) return std::nullopt;
  return IsOfSize(SoldSize(text));
}

// A size in GB, or a word of a name.
std::optional<CardPredicate> NumberFilter(const std::string& text) {
  if (!IsNumber(text) || text.find_first_not_of('.') == std::string::npos) return std::nullopt;
  return [text, is_of_size = IsOfSize(SoldSize(text))](const Card& card) {
    const std::vector<std::string_view> names = NamesOf(card);
    return is_of_size(card) || std::any_of(names.begin(), names.end(), [&](std::string_view name) {
             return HasWord(name, text);
           });
  };
}

// The cards that a cloud rents, or that are in a machine of that name, and the card that has the
// same name: an A2 is none of Google's machines of that family.
std::optional<CardPredicate> CloudFilter(const std::string& text) {
  std::vector<const CloudInstances*> rows = CloudInstancesOf(text);
  if (rows.empty()) return std::nullopt;
  return [rows = std::move(rows), key = CardKey(text)](const Card& card) {
    return IsNamed(card, key) ||
           std::any_of(rows.begin(), rows.end(),
                       [&](const CloudInstances* row) { return row->alias == card.alias; });
  };
}

CardPredicate NameFilter(std::string_view text) {
  return [squeezed = Squeezed(text), key = CardKey(text)](const Card& card) {
    const std::vector<std::string_view> names = NamesOf(card);
    const auto holds = [&](const std::string& part, std::string (*form)(std::string_view)) {
      return !part.empty() && std::any_of(names.begin(), names.end(), [&](std::string_view name) {
        return form(name).find(part) != std::string::npos;
      });
    };
    if (!squeezed.empty() && card.family.find(squeezed) != std::string_view::npos) return true;
    return holds(squeezed, Squeezed) || holds(key, CardKey);
  };
}

// "mig", "1g.10gb" and "a100 1g.10gb".
bool IsAboutSlices(const std::string& filter) {
  return Squeezed(filter) == kSliceMode || ReadSlice(filter).has_value();
}

// Those of that profile, of the card if one is named.
std::optional<CardPredicate> SliceFilter(const std::string& text) {
  const std::optional<SliceName> typed = ReadSlice(text);
  if (!typed) return std::nullopt;
  return [profile = ':' + typed->profile, key = CardKey(typed->card),
          of = FindCard(typed->card)](const Card& slice) {
    if (!slice.alias.ends_with(profile)) return false;
    return of != nullptr ? slice.slice_of == of->alias
                         : CardKey(slice.slice_of).find(key) != std::string::npos;
  };
}

// A family of the table goes before a cloud, a card's own name before a machine's ("p4", "l4").
CardPredicate FilterOf(const std::string& text) {
  if (auto slice = SliceFilter(text)) return *slice;
  if (auto range = RangeFilter(text)) return *range;
  if (auto limit = LimitFilter(text)) return *limit;
  if (auto size = SizeFilter(text)) return *size;
  if (auto number = NumberFilter(text)) return *number;
  if (auto cloud = CloudFilter(text)) return *cloud;
  return NameFilter(text);
}

}  // namespace

bool IsAboutSize(std::string_view filter) {
  const auto begins = [&](const Limit& limit) { return filter.starts_with(limit.sign); };
  return filter.find("..") != std::string_view::npos || IsSize(filter) ||
         std::any_of(std::begin(kLimits), std::end(kLimits), begins);
}

std::vector<const Card*> FilterCards(std::span<const std::string> filters) {
  std::vector<CardPredicate> matches;
  bool of_slices = false;
  for (const std::string& filter : filters) {
    of_slices = of_slices || IsAboutSlices(filter);
    if (Squeezed(filter) != kSliceMode) matches.push_back(FilterOf(filter));
  }
  std::vector<const Card*> found;
  for (const Card& card : of_slices ? Slices() : Cards()) {
    const auto holds = [&](const CardPredicate& one) { return one(card); };
    if (std::all_of(matches.begin(), matches.end(), holds)) found.push_back(&card);
  }
  return found;
}

}  // namespace onnxfit
