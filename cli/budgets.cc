#include "cli/budgets.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "estimator/base/bytes.h"
#include "estimator/base/cards.h"
#include "estimator/base/error.h"

namespace onnxfit {
namespace {

constexpr double kMostIncrease = 10;  // of what it took before; 63 bits hold that of any run

bool BeginsWithDigit(std::string_view text) {
  return !text.empty() && text[0] >= '0' && text[0] <= '9';
}

// 0.025 for "2.5"; nullopt for what is no number from 0.
std::optional<double> ShareIn(std::string_view percent) {
  double number = 0;
  const char* end = percent.data() + percent.size();
  const auto [last, code] = std::from_chars(percent.data(), end, number);
  const bool is_number = code == std::errc() && last == end && BeginsWithDigit(percent);
  return is_number && std::isfinite(number) ? std::optional(number / 100) : std::nullopt;
}

[[noreturn]] void RefuseCard(const Typed& typed, std::string_view card, std::string_view expected) {
  const std::vector<std::string_view> near = SuggestCards(card);
  const std::string meant = near.empty() ? "" : fmt::format(" (did you mean {}?)", OneOf(near));
  throw Error({.where = typed.place,
               .text = fmt::format("expected {}, found {}{}", expected, Quoted(card), meant),
               .hint = "onnxfit gpus"});
}

// A gate must be the same on every machine.
const Card* FindGateCard(const Typed& typed, std::string_view name) {
  if (name != kCardAtHand) return FindCard(name);
  throw Error({.where = typed.place,
               .text = fmt::format("expected a card's name, found {}: a check must be the same on "
                                   "every machine",
                                   Quoted(typed.text)),
               .hint = "onnxfit gpus --detect"});
}

Target TargetOf(const Card* card, TargetRequest common) {
  common.card = card;
  return MakeTarget(common);
}

Budget ParseShareOfCard(const Typed& typed, const TargetRequest& common) {
  constexpr std::string_view kOf = "% of ";
  const std::string_view text = typed.text;
  const size_t of = text.find(kOf);
  const std::optional<double> share = ShareIn(text.substr(0, of));
  if (of == std::string_view::npos || !share || *share <= 0 || *share > 1) {
    Refuse(typed, "up to 100% of a card, such as 80% of t4");
  }
  const std::string_view name = text.substr(of + kOf.size());
  const Card* card = FindGateCard(typed, name);
  if (card == nullptr) RefuseCard(typed, name, "a card");
  return {.text = typed.text, .target = TargetOf(card, common), .share = *share};
}

Budget ParseSize(const Typed& typed) {
  const int64_t bytes = ParseBytes(typed.text, typed.place);
  if (bytes == 0) Refuse(typed, "a size above 0, such as 8GiB");
  return {.text = typed.text, .bytes = bytes};
}

}  // namespace

Budget ParseBudget(const Typed& typed, const TargetRequest& common) {
  if (typed.text.find('%') != std::string::npos) return ParseShareOfCard(typed, common);
  const Card* card = FindGateCard(typed, typed.text);
  if (card == nullptr && BeginsWithDigit(typed.text)) return ParseSize(typed);
  if (card == nullptr) RefuseCard(typed, typed.text, "a size such as 16GiB or a card");
  return {.text = typed.text, .target = TargetOf(card, common)};
}

Allowance ParseAllowance(const Typed& typed) {
  const std::string_view text = typed.text;
  if (!BeginsWithDigit(text)) Refuse(typed, "0, a size such as 64MiB or a share such as 2%");
  if (!text.ends_with('%')) {
    return {.text = typed.text, .bytes = ParseBytes(text, typed.place)};
  }
  const std::optional<double> share = ShareIn(text.substr(0, text.size() - 1));
  if (!share || *share > kMostIncrease) Refuse(typed, "a share up to 1000%, such as 2%");
  return {.text = typed.text, .share = *share};
}

}  // namespace onnxfit
