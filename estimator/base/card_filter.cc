#include "estimator/base/card_filter.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/card_names.h"
#include "estimator/base/cloud_instances.h"

namespace onnxfit {
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

std::string Lower(std::string_view text) {
  std::string lower;
  for (const char c : text) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of(kDigits) == std::string_view::npos;
}

// Makers write GB where they mean GiB, and people leave it out.
int64_t SoldSize(std::string_view text) {
  std::string size = Lower(text.substr(std::min(text.find_first_not_of(' '), text.size())));
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
  std::string unit = Lower(UnitOf(text));
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

// The cards that a cloud rents, or that are in a machine of that name.
std::optional<CardPredicate> CloudFilter(const std::string& text) {
  std::vector<const CloudInstances*> rows = CloudInstancesOf(text);
  if (rows.empty()) return std::nullopt;
  return [rows = std::move(rows)](const Card& card) {
    return std::any_of(rows.begin(), rows.end(),
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

// A family of the table goes before a cloud, a card's own name before a machine's ("p4", "l4").
CardPredicate FilterOf(const std::string& text) {
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
  for (const std::string& filter : filters) matches.push_back(FilterOf(filter));
  std::vector<const Card*> found;
  for (const Card& card : Cards()) {
    const auto holds = [&](const CardPredicate& one) { return one(card); };
    if (std::all_of(matches.begin(), matches.end(), holds)) found.push_back(&card);
  }
  return found;
}

}  // namespace onnxfit
