#include "cli/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>

#include "estimator/base/bytes.h"
#include "estimator/base/cards.h"
#include "estimator/base/error.h"
#include "estimator/base/text.h"
#include "estimator/fit/sweep.h"
#include "estimator/report/layout.h"

namespace onnxfit {
namespace {

constexpr size_t kQuotedColumns = 40;

// Names that other tools have for ours.
struct Synonym {
  std::string_view typed;
  std::string_view meant;
};
constexpr Synonym kSynonyms[] = {
    {"half", "fp16"},           {"float16", "fp16"},         {"bfloat16", "bf16"},
    {"float", "fp32"},          {"float32", "fp32"},         {"double", "fp64"},
    {"float64", "fp64"},        {"--batch-size", "--batch"}, {"-bs", "--batch"},
    {"--bs", "--batch"},        {"--batchsize", "--batch"},  {"--batch_size", "--batch"},
    {"--dtype", "--precision"}, {"--device", "--gpu"},       {"--optim", "--optimizer"}};

// "" where `typed` is none, or means none of the candidates.
std::string_view MeantBy(std::string_view typed, std::span<const std::string_view> candidates) {
  for (const Synonym& row : kSynonyms) {
    const bool is_it = EditDistance(row.typed, typed) == 0;
    if (is_it && std::ranges::find(candidates, row.meant) != candidates.end()) return row.meant;
  }
  return "";
}

bool IsDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string Shown(std::string_view text) {
  return CutMiddle(Clean(text, false), kQuotedColumns, kUnicodeGlyphs.ellipsis);
}

std::string ListHint(std::string_view text) {
  return text.find(',') == std::string_view::npos ? "" : "one value at a time";
}

// NAME and what follows the last "=".
std::pair<std::string, Typed> SplitAssignment(const Typed& typed, std::string_view expected) {
  const size_t equals = typed.text.rfind('=');
  if (equals == std::string::npos || equals == 0) Refuse(typed, expected);
  const std::string name = typed.text.substr(0, equals);
  return {name, {typed.place + " " + Shown(name), typed.text.substr(equals + 1)}};
}

// The parts of `text` between `separator`s, at least one.
std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t end = text.find(separator); end != std::string_view::npos;) {
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
    end = text.find(separator);
  }
  parts.emplace_back(text);
  return parts;
}

// What rounds to a whole number from 1 to `most`; a fraction below 1 is none.
int64_t WholeCount(const Typed& typed, double value, int64_t most) {
  const bool is_count = value >= 1 && value <= static_cast<double>(most);
  if (!is_count) Refuse(typed, "a number such as 175e9, 7B or 350M");
  return std::llround(value);
}

constexpr int64_t kMostOfRange = kMostCombinations;

// "8:64:8".
std::vector<int64_t> ParseRange(const Typed& typed) {
  const std::vector<std::string> parts = Split(typed.text, ':');
  if (parts.size() != 3) Refuse(typed, "first:last:step such as 8:64:8");
  const int64_t first = ParseWhole({typed.place, parts[0]}, 1);
  const int64_t last = ParseWhole({typed.place, parts[1]}, 1);
  const int64_t step = ParseWhole({typed.place, parts[2]}, 0);
  if (step == 0) Refuse(typed, "a range with a step from 1");
  if (last < first) Refuse(typed, fmt::format("a range that ends at {} or later", first));
  const int64_t steps = (last - first) / step;
  if (steps >= kMostOfRange) {
    throw Error({.where = typed.place,
                 .text = fmt::format("expected at most {} values, found {} in {}", kMostOfRange,
                                     static_cast<uint64_t>(steps) + 1, Quoted(typed.text)),
                 .hint = "a larger step"});
  }
  std::vector<int64_t> values;
  for (int64_t i = 0; i <= steps; ++i) values.push_back(first + i * step);
  return values;
}

}  // namespace

std::string Quoted(std::string_view text) {
  if (text.empty()) return "nothing";
  return fmt::format("'{}'", Shown(text));
}

bool IsModelName(const std::string& path) {
  const std::string end = std::filesystem::path(path).extension().string();
  return end == ".onnx" || end == ".onnxtxt" || end == ".pt2";
}

std::string_view LikelyMeant(std::string_view typed, std::span<const std::string_view> candidates) {
  const std::string_view start = typed.substr(0, kQuotedColumns);
  const std::string_view meant = MeantBy(start, candidates);
  return meant.empty() ? Nearest(start, candidates) : meant;
}

std::string DidYouMean(std::string_view typed, std::span<const std::string_view> candidates) {
  if (typed.find(',') != std::string_view::npos) return "";
  const std::string_view nearest = LikelyMeant(typed, candidates);
  return nearest.empty() ? "" : fmt::format(" (did you mean '{}'?)", nearest);
}

std::string OneOf(std::span<const std::string_view> names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

void Refuse(const Typed& typed, std::string_view expected) {
  throw Error({.where = typed.place,
               .text = fmt::format("expected {}, found {}", expected, Quoted(typed.text)),
               .hint = ListHint(typed.text)});
}

void RefuseTwice(const Typed& typed, std::string_view name) {
  throw Error({.where = typed.place, .text = fmt::format("{} is given twice", Quoted(name))});
}

int64_t ParseWhole(const Typed& typed, int64_t least, int64_t most) {
  const bool is_bounded = most < std::numeric_limits<int64_t>::max();
  const std::string expected =
      fmt::format("a whole number from {}{}", least, is_bounded ? fmt::format(" to {}", most) : "");
  if (!IsDigits(typed.text)) Refuse(typed, expected);
  int64_t number = 0;
  const char* end = typed.text.data() + typed.text.size();
  if (std::from_chars(typed.text.data(), end, number).ec != std::errc()) {
    Refuse(typed, is_bounded ? expected : "a whole number below 2^63");
  }
  if (number < least || number > most) Refuse(typed, expected);
  return number;
}

int64_t ParseCount(const Typed& typed, int64_t most) {
  constexpr std::pair<char, double> kScales[] = {{'k', 1e3}, {'m', 1e6}, {'b', 1e9}, {'t', 1e12}};
  const std::string_view text = typed.text;
  double value = 0;
  const auto [last, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view rest = text.substr(static_cast<size_t>(last - text.data()));
  for (const auto& [letter, scale] : kScales) {
    const bool is_it = rest.size() == 1 && (rest[0] | 0x20) == letter;
    if (code == std::errc() && is_it) return WholeCount(typed, value * scale, most);
  }
  return WholeCount(typed, code == std::errc() && rest.empty() ? value : 0, most);
}

std::vector<Typed> SplitList(const Typed& typed) {
  std::vector<Typed> items;
  for (const std::string& part : Split(typed.text, ',')) {
    if (part.empty() && !typed.text.empty()) {
      throw Error({.where = typed.place,
                   .text = fmt::format("expected a value at both sides of each comma, found {}",
                                       Quoted(typed.text))});
    }
    items.push_back({typed.place, part});
  }
  return items;
}

std::vector<int64_t> ParseWholes(const Typed& typed) {
  std::vector<int64_t> all;
  std::set<int64_t> seen;
  for (const Typed& item : SplitList(typed)) {
    const bool is_range = item.text.find(':') != std::string::npos;
    for (const int64_t value : is_range ? ParseRange(item) : std::vector{ParseWhole(item, 1)}) {
      if (!seen.insert(value).second) RefuseTwice(typed, std::to_string(value));
      all.push_back(value);
    }
  }
  return all;
}

std::pair<std::string, std::vector<int64_t>> ParseDim(const Typed& typed) {
  const auto [name, sizes] = SplitAssignment(typed, "NAME=N such as seq=512");
  return {name, ParseWholes(sizes)};
}

std::pair<std::string, Dims> ParseShape(const Typed& typed) {
  const auto [name, sizes] = SplitAssignment(typed, "IN=SIZES such as input_ids=2x512");
  Dims dims;
  std::string_view rest = sizes.text;
  while (true) {
    const std::string_view size = rest.substr(0, rest.find('x'));
    if (!IsDigits(size)) Refuse(sizes, "sizes such as 2x512");
    dims.push_back(ParseWhole({sizes.place, std::string(size)}, 1));
    if (size.size() == rest.size()) return {name, dims};
    rest.remove_prefix(size.size() + 1);
  }
}

bool ParseSwitch(const Typed& typed) {
  constexpr std::string_view kOn[] = {"", "true", "yes", "on", "1"};
  constexpr std::string_view kOff[] = {"false", "no", "off", "0"};
  if (std::ranges::find(kOn, typed.text) != std::end(kOn)) return true;
  if (std::ranges::find(kOff, typed.text) != std::end(kOff)) return false;
  Refuse(typed, "yes or no");
}

void SetText(const Typed& typed, std::string_view expected, std::string& text) {
  if (typed.text.empty()) Refuse(typed, expected);
  text = typed.text;
}

void AddModules(const Typed& typed, std::vector<std::string>& globs) {
  constexpr std::string_view kEvery = "every=";
  constexpr int64_t kMostEvery = 1 << 20;
  if (typed.text.starts_with(kEvery)) {
    (void)ParseWhole({.place = typed.place, .text = typed.text.substr(kEvery.size())}, 1,
                     kMostEvery);
  }
  SetText(typed, "auto, every=N or names of modules such as layer1.*", globs.emplace_back());
}

namespace {

constexpr size_t kMostTold = 10;  // names in an error; of more, those that come near

// Those that come near are told, however far off the nearest is.
[[noreturn]] void RefuseOfMany(const Typed& typed, std::span<const std::string_view> names) {
  constexpr size_t kMostNear = 3;
  std::vector<std::string_view> near(names.begin(), names.end());
  const std::string_view meant = LikelyMeant(typed.text, names);
  std::ranges::stable_sort(near, {}, [&](std::string_view name) {
    return name == meant ? 0 : EditDistance(typed.text, name) + 1;
  });
  near.resize(kMostNear);
  std::string hint = ListHint(typed.text);
  if (hint.empty() && typed.place.starts_with("--"))
    hint = "onnxfit --help " + typed.place.substr(2);
  throw Error({.where = typed.place,
               .text = fmt::format("expected one of {} names, found {} (did you mean {}?)",
                                   names.size(), Quoted(typed.text), OneOf(near)),
               .hint = std::move(hint)});
}

}  // namespace

size_t ParseName(const Typed& typed, std::span<const std::string_view> names) {
  const auto found = std::find(names.begin(), names.end(), typed.text);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  if (names.size() > kMostTold) RefuseOfMany(typed, names);
  throw Error({.where = typed.place,
               .text = fmt::format("expected {}, found {}{}", OneOf(names), Quoted(typed.text),
                                   DidYouMean(typed.text, names)),
               .hint = ListHint(typed.text)});
}

// What follows reads budgets and allowances.
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
