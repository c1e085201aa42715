#include "estimator/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <set>
#include <vector>

#include "estimator/base/error.h"

namespace onnxfit {
namespace {

// What the lead byte of a sequence says.  Source: RFC 3629, section 4.
struct Lead {
  uint8_t mask;
  uint8_t bits;  // of the byte under `mask`
  size_t bytes;
  uint32_t smallest;  // anything below has a shorter form
};
constexpr Lead kLeads[] = {
    {0x80, 0x00, 1, 0}, {0xe0, 0xc0, 2, 0x80}, {0xf0, 0xe0, 3, 0x800}, {0xf8, 0xf0, 4, 0x10000}};

// Bytes of the sequence that `text` begins with, 0 where it is none.
size_t SequenceSize(std::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  for (const Lead& lead : kLeads) {
    if ((first & lead.mask) != lead.bits) continue;
    if (text.size() < lead.bytes) return 0;
    uint32_t code = first & static_cast<uint8_t>(~lead.mask);
    for (size_t i = 1; i < lead.bytes; ++i) {
      const auto byte = static_cast<uint8_t>(text[i]);
      if ((byte & 0xc0) != 0x80) return 0;
      code = code << 6 | (byte & 0x3f);
    }
    const bool surrogate = code >= 0xd800 && code <= 0xdfff;
    return code < lead.smallest || code > 0x10ffff || surrogate ? 0 : lead.bytes;
  }
  return 0;
}

bool StartsWithEightAscii(std::string_view text) {
  uint64_t word = 0;
  if (text.size() < sizeof(word)) return false;
  std::memcpy(&word, text.data(), sizeof(word));
  return (word & 0x8080808080808080) == 0;
}

}  // namespace

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t size = StartsWithEightAscii(text) ? 8 : SequenceSize(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::string_view Trimmed(std::string_view text, std::string_view blanks) {
  const size_t begin = std::min(text.find_first_not_of(blanks), text.size());
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

std::string Digest(std::string_view text) {
  // RFC 9923, for 64 bits.
  constexpr uint64_t kOffsetBasis = 0xCBF29CE484222325;
  constexpr uint64_t kPrime = 0x00000100000001B3;
  uint64_t hash = kOffsetBasis;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
  return fmt::format("{:016x}", hash);
}

// A thread takes as long to begin as 10 KiB take.
std::future<std::string> DigestMeanwhile(std::string_view text) {
  constexpr size_t kLong = size_t{1} << 20;
  const auto policy = text.size() < kLong ? std::launch::deferred : std::launch::async;
  return std::async(policy, [text] { return Digest(text); });
}

// What follows finds the nearest name.
namespace {

bool SameLetter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

}  // namespace

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);  // one at a time
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (SameLetter(a[i], b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string_view Nearest(std::string_view typed, std::span<const std::string_view> candidates) {
  std::string_view nearest;
  size_t best = std::string_view::npos;
  for (const std::string_view candidate : candidates) {
    const size_t distance = EditDistance(typed, candidate);
    if (distance >= best) continue;
    best = distance;
    nearest = candidate;
  }
  return best <= std::max<size_t>(2, nearest.size() / 3) ? nearest : std::string_view();
}

// What follows picks names by patterns.
namespace {

constexpr std::string_view kWrapper = "model.";
constexpr size_t kNamesShown = 3;

std::string_view Unwrapped(std::string_view name) {
  return name.starts_with(kWrapper) ? name.substr(kWrapper.size()) : name;
}

bool Matches(std::string_view name, std::string_view glob) {
  return MatchesGlob(name, glob) || MatchesGlob(Unwrapped(name), glob);
}

size_t SharedLetters(std::string_view a, std::string_view b) {
  const auto ends = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<size_t>(ends.first - a.begin());
}

// " (a, b, c …)": those that begin most like `glob`, in their order, each once.
std::string NearestNames(std::span<const std::string> all, std::string_view glob) {
  std::vector<std::string_view> names;
  std::set<std::string_view> seen = {""};
  for (const std::string_view name : all) {
    if (seen.insert(name).second) names.push_back(name);
  }
  std::ranges::stable_sort(names, std::greater(), [&](std::string_view name) {
    return SharedLetters(Unwrapped(name), Unwrapped(glob));
  });
  if (names.empty()) return ", of which there are none";
  const std::string_view more = names.size() > kNamesShown ? " …" : "";
  names.resize(std::min(names.size(), kNamesShown));
  return fmt::format(" ({}{})", fmt::join(names, ", "), more);
}

}  // namespace

// Takes as little as it can for each "*", and more where the rest does not match.
bool MatchesGlob(std::string_view name, std::string_view glob) {
  size_t n = 0;
  size_t g = 0;
  size_t star = std::string_view::npos;
  size_t taken = 0;  // what of `name` goes on behind the last star
  while (n < name.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      taken = n;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == name[n])) {
      ++g;
      ++n;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return glob.find_first_not_of('*', g) == std::string_view::npos;
}

std::vector<bool> PickNames(std::span<const std::string> names, std::span<const std::string> globs,
                            const GlobScope& scope) {
  std::vector<bool> picked(names.size());
  for (const std::string& glob : globs) {
    bool found = false;
    for (size_t i = 0; i < names.size(); ++i) {
      if (!Matches(names[i], glob)) continue;
      picked[i] = true;
      found = true;
    }
    if (found) continue;
    throw Error({.file = std::string(scope.file),
                 .where = std::string(scope.flag),
                 .text = fmt::format("expected names of {}{}, found '{}'", scope.what,
                                     NearestNames(names, glob), glob)});
  }
  return picked;
}

}  // namespace onnxfit
