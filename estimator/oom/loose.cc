// Sentences of programs that have no row: any that say that there was no memory for them.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/oom/formats.h"
#include "estimator/oom/log_lines.h"
#include "estimator/oom/message.h"

namespace onnxfit {
namespace {

constexpr size_t kLongestSentence = 500;
constexpr size_t kWordsBefore = 28;  // letters in front of a number that say what it is
constexpr size_t kWordsBehind = 14;

// Where the words are that advise, ask or forbid: nothing has failed there.
constexpr std::string_view kConditions[] = {
    "ifyou",       "incaseof",    "toavoid",         "toprevent", "mightrunoutof",
    "mayrunoutof", "canrunoutof", "couldrunoutof",   "canleadto", "maylead",
    "mightlead",   "incasethe",   "--help",          "usage:",    "donotrunout",
    "don'trunout", "howto",       "fixout",          "fixedout",  "retryonoom",
    "handleoom",   "ifthe",       "ifgpu",           "ifthere",   "ifout",
    "incaseyour",  "unless",      "memory-efficient"};

// Words without which "failed to allocate" and its like are of something else: ports, names.
constexpr std::string_view kOfMemory[] = {"memory", "vram",    "ram", "byte",  "buffer",
                                          "heap",   "tensor",  "mem", "array", "gib",
                                          "mib",    "kvcache", "gb",  "mb",    "oom"};

constexpr std::string_view kOfCard[] = {
    "gpu",   "vram",   "cuda",    "device",      "video", "graphics", "hip",     "vulkan",
    "metal", "opencl", "texture", "accelerator", "npu",   "tpu",      "directx", "d3d"};
constexpr std::string_view kOfRam[] = {
    "ram",        "hostmem",     "systemmem", "heap",   "malloc", "swap",      "rss",
    "virtualmem", "physicalmem", "container", "cgroup", "pod",    "cpumemory", "mainmemory"};

struct LooseWord {
  std::string_view words;
  OomField field;
};
// In front of a number; the one that is nearest to it counts.
constexpr LooseWord kBefore[] = {
    {"allocate", OomField::kTried},   {"allocating", OomField::kTried},
    {"allocation", OomField::kTried}, {"requested", OomField::kTried},
    {"requesting", OomField::kTried}, {"request", OomField::kTried},
    {"tried", OomField::kTried},      {"trying", OomField::kTried},
    {"size", OomField::kTried},       {"need", OomField::kPlan},
    {"needed", OomField::kPlan},      {"needs", OomField::kPlan},
    {"require", OomField::kPlan},     {"required", OomField::kPlan},
    {"requires", OomField::kPlan},    {"available", OomField::kFree},
    {"avail", OomField::kFree},       {"free", OomField::kFree},
    {"have", OomField::kFree},        {"has", OomField::kFree},
    {"only", OomField::kFree},        {"left", OomField::kFree},
    {"remaining", OomField::kFree},   {"total", OomField::kTotal},
    {"capacity", OomField::kTotal},   {"limit", OomField::kAllowed},
    {"maximum", OomField::kAllowed},  {"max", OomField::kAllowed},
    {"allowed", OomField::kAllowed},  {"used", OomField::kUsed},
    {"usage", OomField::kUsed},       {"inuse", OomField::kUsed},
    {"using", OomField::kUsed},       {"allocated", OomField::kAllocated}};
// Behind it.
constexpr LooseWord kBehind[] = {
    {"free", OomField::kFree},     {"available", OomField::kFree},
    {"left", OomField::kFree},     {"remaining", OomField::kFree},
    {"isfree", OomField::kFree},   {"isavailable", OomField::kFree},
    {"total", OomField::kTotal},   {"needed", OomField::kPlan},
    {"required", OomField::kPlan}, {"requested", OomField::kTried},
    {"used", OomField::kUsed},     {"inuse", OomField::kUsed},
    {"limit", OomField::kAllowed}, {"allocated", OomField::kAllocated}};

template <size_t N>
bool HasAny(std::string_view text, const std::string_view (&words)[N]) {
  return std::ranges::any_of(
      words, [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

std::optional<OomField> FieldBehind(std::string_view behind) {
  for (const LooseWord& word : kBehind) {
    if (behind.starts_with(word.words)) return word.field;
  }
  return std::nullopt;
}

std::optional<OomField> FieldBefore(std::string_view before) {
  std::optional<OomField> field;
  size_t nearest = 0;
  for (const LooseWord& word : kBefore) {
    const size_t at = before.rfind(word.words);
    if (at == std::string_view::npos || (field && at + word.words.size() < nearest)) continue;
    field = word.field;
    nearest = at + word.words.size();
  }
  return field;
}

// The line around the place, and the one behind it, where numbers often stand.
struct Line {
  size_t begin = 0;
  size_t end = 0;
};
Line LineAround(const Letters& letters) {
  Line line = {.begin = letters.place, .end = letters.place};
  const auto ends_line = [&](size_t place) {
    return place < letters.gap.size() && letters.gap[place] == '\n';
  };
  while (line.begin > 0 && letters.place - line.begin < kLongestSentence &&
         !ends_line(line.begin)) {
    --line.begin;
  }
  while (line.end < letters.lower.size() && line.end - letters.place < kLongestSentence &&
         !ends_line(line.end)) {
    ++line.end;
  }
  return line;
}

// A size, and "12.34 G" too where a blank is behind the letter.
std::optional<ReadSizeResult> SizeAt(const Letters& letters, size_t at, size_t limit) {
  const std::string_view written = std::string_view(letters.written).substr(0, limit);
  auto size = ReadSize(written.substr(at));
  if (!size || size->has_unit) return size;
  const size_t end = at + size->letters;
  constexpr std::string_view kShort = "KMGT";
  const size_t power = end < limit ? kShort.find(written[end]) : std::string_view::npos;
  const bool ends = end + 1 >= limit || letters.gap[end + 1] != 0;
  if (power == std::string_view::npos || !ends) return size;
  const int64_t unit = int64_t{1} << (10 * (power + 1));
  return ReadSizeResult{SizeOf(ReadDecimal(written.substr(at)), unit), size->letters + 1, true};
}

// Sizes have units here, or are so long that they count bytes.
bool IsSizeLike(const ReadSizeResult& size) {
  constexpr int64_t kLong = 1'000'000;
  return size.has_unit || size.size.bytes >= kLong;
}

void ReadNumbers(const Letters& letters, const Line& line, OomMessage& message) {
  const std::string_view lower = std::string_view(letters.lower).substr(0, line.end);
  const std::string_view written = std::string_view(letters.written).substr(0, line.end);
  for (size_t at = line.begin; at < line.end;) {
    const auto size = IsDigit(written[at]) ? SizeAt(letters, at, line.end) : std::nullopt;
    if (!size) {
      ++at;
      continue;
    }
    const size_t from = std::max(line.begin, at - std::min(at, kWordsBefore));
    const size_t end = at + size->letters;
    auto field = FieldBehind(lower.substr(end, kWordsBehind));
    if (!field) field = FieldBefore(lower.substr(from, at - from));
    if (field && IsSizeLike(*size) && CanBe(*field, size->size.bytes) && !message.Size(*field)) {
      message.Size(*field) = size->size;
    }
    at = end;
  }
}

}  // namespace

void ReadLooseNumbers(const Letters& letters, OomMessage& message) {
  ReadNumbers(letters, LineAround(letters), message);
}

std::optional<OomMessage> ReadLooseMessage(const Letters& letters, size_t& end) {
  const Line line = LineAround(letters);
  const std::string_view text =
      std::string_view(letters.lower).substr(line.begin, line.end - line.begin);
  if (HasAny(text, kConditions) || !HasAny(text, kOfMemory)) return std::nullopt;
  const OomFormat& format = LooseFormat(HasAny(text, kOfCard), HasAny(text, kOfRam));
  OomMessage message = {.format = &format, .process = letters.process};
  ReadNumbers(letters, line, message);
  message.text = letters.Sentence(line.begin, line.end, kLongestSentence);
  end = line.end == 0 ? 0 : letters.at[line.end - 1] + 1;
  return message;
}

}  // namespace onnxfit
