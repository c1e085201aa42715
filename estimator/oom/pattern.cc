#include "estimator/oom/pattern.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/oom/log_lines.h"

namespace onnxfit {
namespace {

using What = OomPattern::What;
using Piece = OomPattern::Piece;

constexpr size_t kFurthest = 400;  // letters that {} passes over
constexpr size_t kLongestWords = 120;
constexpr size_t kLongestSize = 24;

struct PatternUnit {
  std::string_view name;
  int64_t bytes;
};

// Longer names first: "gib" is no "g" with an "ib" behind it.  Kubernetes writes Ki and Mi,
// TensorFlow and XLA a bare G.
constexpr PatternUnit kPatternUnits[] = {{"gigabytes", kGiB},  {"megabytes", kMiB},
                                         {"kilobytes", kKiB},  {"bytes", 1},
                                         {"byte", 1},          {"kib", kKiB},
                                         {"mib", kMiB},        {"gib", kGiB},
                                         {"tib", 1024 * kGiB}, {"kb", kKiB},
                                         {"mb", kMiB},         {"gb", kGiB},
                                         {"tb", 1024 * kGiB},  {"ki", kKiB},
                                         {"mi", kMiB},         {"gi", kGiB},
                                         {"ti", 1024 * kGiB},  {"k", kKiB},
                                         {"m", kMiB},          {"g", kGiB},
                                         {"t", 1024 * kGiB},   {"b", 1}};

int64_t UnitNamed(std::string_view name) {
  const auto* unit = std::ranges::find(kPatternUnits, name, &PatternUnit::name);
  assert(unit != std::end(kPatternUnits));
  return unit->bytes;
}

std::string Squeezed(std::string_view text) {
  std::string letters;
  for (const char c : text) {
    if (!IsSpace(c)) letters += ToLower(c);
  }
  return letters;
}

// What is between braces: "", "?", "gpu", "tried", "MiB tried".
Piece PieceOf(std::string_view name) {
  if (name.empty()) return {.what = What::kAnything};
  if (name == "|") return {.what = What::kEdge};
  if (name == "?") return {.what = What::kMaybeMore};
  if (name[0] == '!') return {.what = What::kNot, .words = Squeezed(name.substr(1))};
  if (name == "gpu") return {.what = What::kGpu};
  if (name == "n") return {.what = What::kNumber};
  if (name == "count") return {.what = What::kCount};
  if (name == "told") return {.what = What::kTold};
  if (name == "node") return {.what = What::kNode};
  Piece piece = {.what = What::kSize};
  if (const size_t blank = name.find(' '); blank != std::string_view::npos) {
    piece.unit = UnitNamed(Squeezed(name.substr(0, blank)));
    name.remove_prefix(blank + 1);
  }
  size_t field = 0;
  while (field < kOomFields && ToString(static_cast<OomField>(field)) != name) ++field;
  assert(field < kOomFields);
  piece.field = static_cast<OomField>(field);
  return piece;
}

// Whether a word goes on at `at`: no "T" is the unit of "105578496 Try to set".
bool GoesOn(const Letters& letters, size_t at) {
  return at < letters.lower.size() && letters.gap[at] == 0 && letters.lower[at] >= 'a' &&
         letters.lower[at] <= 'z';
}

// A size at `at` and where it ends: with its unit, or without, if that unit belongs to the words.
struct ReadHere {
  PrintedBytes size;
  size_t end = 0;
};
std::vector<ReadHere> SizesAt(const Letters& letters, size_t at, int64_t unit,
                              size_t most = std::string_view::npos) {
  const Decimal decimal = ReadDecimal(std::string_view(letters.written).substr(at, most));
  if (decimal.letters == 0) return {};
  size_t end = at + decimal.letters;
  const std::string_view lower = letters.lower;
  std::vector<ReadHere> read;
  const bool ends_in_point = lower.substr(end).starts_with('.');  // "262. MiB"
  for (const PatternUnit& named : kPatternUnits) {
    if (!lower.substr(end + (ends_in_point ? 1 : 0)).starts_with(named.name)) continue;
    const size_t behind = end + (ends_in_point ? 1 : 0) + named.name.size();
    if (named.name.size() == 1 && GoesOn(letters, behind)) continue;
    read.push_back({SizeOf(decimal, named.bytes), behind});
  }
  read.push_back({SizeOf(decimal, unit), end});
  return read;
}

class Matcher {
 public:
  Matcher(const std::vector<Piece>& pieces, const Letters& letters, OomMessage& message)
      : pieces_(pieces), letters_(letters), message_(message) {}

  std::optional<size_t> Match(size_t piece, size_t at) {
    if (piece == pieces_.size()) return at;
    const Piece& now = pieces_[piece];
    switch (now.what) {
      case What::kWords:
        return Rest(at).starts_with(now.words) ? Match(piece + 1, at + now.words.size())
                                               : std::nullopt;
      case What::kSize:
        return MatchSize(piece, at);
      case What::kGpu:
      case What::kNumber:
      case What::kCount:
        return MatchNumber(piece, at);
      case What::kTold:
      case What::kNode:
        return MatchTold(piece, at);
      case What::kAnything:
        return MatchAnything(piece, at);
      case What::kNot:
        return Rest(at).starts_with(now.words) ? std::nullopt : Match(piece + 1, at);
      case What::kEdge:
        return IsEdge(at) ? Match(piece + 1, at) : std::nullopt;
      case What::kMaybeMore: {
        const OomMessage before = message_;
        if (const auto end = Match(piece + 1, at)) return end;
        message_ = before;
        return at;
      }
    }
    return std::nullopt;
  }

 private:
  bool IsEdge(size_t at) const {
    return at == 0 || at >= letters_.gap.size() || letters_.gap[at] == '\n';
  }

  // "4194304", and the next line begins with a date or a time: "2025-01-26", "11:03:41".
  bool IsDate(size_t at) const {
    const std::string_view rest = Rest(at);
    const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    return (digits == 2 || digits == 4) && digits + 1 < rest.size() && IsDigit(rest[digits + 1]) &&
           std::string_view("-:/").find(rest[digits]) != std::string_view::npos;
  }

  // How many letters a number may have that ends a pattern: terminals break it, a date ends it.
  size_t MostOf(size_t piece, size_t at) const {
    if (piece + 1 < pieces_.size()) return std::string_view::npos;
    for (size_t end = at + 1; end < letters_.gap.size() && IsDigit(letters_.lower[end]); ++end) {
      if (letters_.gap[end] == '\n' && IsDate(end)) return end - at;
    }
    return std::string_view::npos;
  }

  std::string_view Rest(size_t at) const {
    return std::string_view(letters_.lower).substr(std::min(at, letters_.lower.size()));
  }

  std::optional<size_t> MatchSize(size_t piece, size_t at) {
    const OomMessage before = message_;
    for (const ReadHere& here : SizesAt(letters_, at, pieces_[piece].unit, MostOf(piece, at))) {
      Put(pieces_[piece].field, here, at);
      if (const auto end = Match(piece + 1, here.end)) return end;
      message_ = before;
    }
    return std::nullopt;
  }

  void Put(OomField field, const ReadHere& here, size_t at) {
    if (CanBe(field, here.size.bytes)) {
      message_.Size(field) = here.size;
    } else {
      message_.doubted.push_back({field, letters_.Sentence(at, here.end, kLongestWords)});
    }
  }

  std::optional<size_t> MatchNumber(size_t piece, size_t at) {
    const Decimal decimal = ReadDecimal(Rest(at));
    if (decimal.letters == 0) return std::nullopt;
    if (pieces_[piece].what == What::kGpu) message_.gpu = decimal.whole;
    if (pieces_[piece].what == What::kCount) message_.count = decimal.whole;
    return Match(piece + 1, at + decimal.letters);
  }

  // At the end of a pattern the words go up to the first gap, or to the end of the sentence.
  std::optional<size_t> MatchTold(size_t piece, size_t at) {
    const size_t most = std::min(letters_.lower.size(), at + kLongestWords);
    const bool is_last = piece + 1 == pieces_.size();
    for (size_t end = at + 1; end <= most; ++end) {
      if (is_last && end < most && letters_.gap[end] == 0) continue;
      const auto behind = Match(piece + 1, end);
      if (!behind) continue;
      std::string& told = pieces_[piece].what == What::kTold ? message_.told : message_.node;
      if (told.empty() && pieces_[piece].what == What::kNode) {
        told = letters_.written.substr(at, end - at);
      }
      if (told.empty()) told = letters_.Sentence(at, end, kLongestWords);
      return behind;
    }
    return std::nullopt;
  }

  std::optional<size_t> MatchAnything(size_t piece, size_t at) {
    const size_t most = std::min(letters_.lower.size(), at + kFurthest);
    for (size_t end = at; end <= most; ++end) {
      if (const auto behind = Match(piece + 1, end)) return behind;
    }
    return std::nullopt;
  }

  const std::vector<Piece>& pieces_;
  const Letters& letters_;
  OomMessage& message_;
};

// Where a size begins that ends at `end`; nullopt where none does.
std::optional<size_t> SizeBefore(const Letters& letters, size_t end, int64_t unit) {
  for (size_t begin = end - std::min(end, kLongestSize); begin < end; ++begin) {
    if (!IsDigit(letters.lower[begin])) continue;
    for (const ReadHere& here : SizesAt(letters, begin, unit)) {
      if (here.end == end) return begin;
    }
    while (begin + 1 < end && IsDigit(letters.lower[begin + 1])) ++begin;
  }
  return std::nullopt;
}

}  // namespace

std::string_view OomPattern::Head() const {
  const auto words = std::ranges::find(pieces, What::kWords, &Piece::what);
  assert(words != pieces.end());
  return words->words;
}

OomPattern ReadPattern(std::string_view says) {
  OomPattern pattern;
  while (!says.empty()) {
    const size_t open = std::min(says.find('{'), says.size());
    if (std::string words = Squeezed(says.substr(0, open)); !words.empty()) {
      pattern.pieces.push_back({.words = std::move(words)});
    }
    says.remove_prefix(open);
    if (says.empty()) break;
    const size_t close = says.find('}');
    assert(close != std::string_view::npos);
    pattern.pieces.push_back(PieceOf(says.substr(1, close - 1)));
    says.remove_prefix(close + 1);
  }
  return pattern;
}

std::optional<size_t> MatchPattern(const OomPattern& pattern, const Letters& letters, size_t head,
                                   OomMessage& message) {
  const Piece& first = pattern.pieces[0];
  const auto begin =
      first.what == What::kSize ? SizeBefore(letters, head, first.unit) : std::optional(head);
  if (!begin) return std::nullopt;
  return Matcher(pattern.pieces, letters, message).Match(0, *begin);
}

}  // namespace onnxfit
