#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <limits>
#include <vector>

#include "cli/values.h"
#include "estimator/base/bytes.h"
#include "estimator/base/error.h"

namespace onnxfit {
namespace {

// One KEY:VALUE.
struct Item {
  std::string key;
  Typed value;  // its place names the key
};

constexpr std::string_view kListExample = "a list such as [256:1,512:2,>:4]";

// A comma is no list of values here, so there is no advice about one.
[[noreturn]] void RefuseOption(const Typed& typed, std::string_view expected) {
  throw Error({.where = typed.place,
               .text = fmt::format("expected {}, found {}", expected, Quoted(typed.text))});
}

std::string WithoutSpaces(std::string_view text) {
  std::string rest(text);
  std::erase_if(rest, [](unsigned char c) { return std::isspace(c) != 0; });
  return rest;
}

// The parts between commas that are in no brackets; nothing between commas is no part.
std::vector<std::string> SplitAtCommas(std::string_view text) {
  std::vector<std::string> parts(1);
  bool in_list = false;
  for (const char c : text) {
    if (c == '[') in_list = true;
    if (c == ']') in_list = false;
    if (c == ',' && !in_list) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  std::erase(parts, "");
  return parts;
}

Item SplitItem(const std::string& part, const std::string& place) {
  const size_t colon = part.find(':');
  const std::string key = part.substr(0, colon);
  const std::string value = colon == std::string::npos ? "" : part.substr(colon + 1);
  return {key, {.place = place + " " + key, .text = value}};
}

bool ParsePythonBool(const Typed& typed) {
  if (typed.text != "True" && typed.text != "False") RefuseOption(typed, "True or False");
  return typed.text == "True";
}

double ParseNumber(const Typed& typed, std::string_view expected) {
  double number = 0;
  const char* end = typed.text.data() + typed.text.size();
  const auto [last, code] = std::from_chars(typed.text.data(), end, number);
  if (code != std::errc() || last != end) RefuseOption(typed, expected);
  return number;
}

// Mebibytes from `least_bytes`.
int64_t ParseMiB(const Typed& typed, int64_t least_bytes) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / kMiB;
  return std::min(ParseWhole(typed, least_bytes / kMiB), kMost) * kMiB;
}

int64_t ParsePowerOf2(const Typed& typed, int64_t least) {
  const int64_t number = ParseWhole(typed, least);
  if (number != 0 && !std::has_single_bit(static_cast<uint64_t>(number))) {
    RefuseOption(typed, "a power of 2");
  }
  return number;
}

void SetLargeSegment(const Typed& value, AllocatorConf& conf) {
  conf.large_segment_bytes = ParseMiB(value, 11 * kMiB);  // more than kMinLargeAlloc
  conf.max_non_split_rounding_bytes = conf.large_segment_bytes;
}

void SetMaxSplit(const Typed& value, AllocatorConf& conf) {
  conf.max_split_bytes = ParseMiB(value, conf.large_segment_bytes);
}

void SetMaxNonSplitRounding(const Typed& value, AllocatorConf& conf) {
  conf.max_non_split_rounding_bytes = ParseMiB(value, conf.large_segment_bytes);
}

// The class of a size in MiB, a power of 2.
size_t SizeClass(const Typed& typed, size_t classes) {
  const auto size = static_cast<uint64_t>(ParsePowerOf2(typed, 1));
  return std::min<size_t>(std::bit_width(size), classes) - 1;
}

// SIZE:DIVISIONS,…, each for the class of its size; the first one for all smaller classes
// too, and ">" for those above the last.
void SetRoundupList(const Typed& value, AllocatorConf& conf) {
  if (value.text.size() < 2 || !value.text.ends_with(']')) RefuseOption(value, kListExample);
  auto& divisions = conf.roundup_divisions;
  size_t last = 0;
  bool is_first = true;
  for (const std::string& part : SplitAtCommas(value.text.substr(1, value.text.size() - 2))) {
    const Item item = SplitItem(part, value.place);
    const bool is_rest = item.key == ">";
    const size_t to =
        is_rest ? divisions.size() - 1 : SizeClass({value.place, item.key}, divisions.size());
    const size_t from = is_rest ? last + 1 : is_first ? 0 : to;
    const int64_t number = ParsePowerOf2(item.value, 0);
    for (size_t i = from; i <= to; ++i) divisions[i] = number;
    if (is_rest) continue;
    last = to;
    is_first = false;
  }
}

void SetRoundup(const Typed& value, AllocatorConf& conf) {
  conf.roundup_divisions.fill(0);
  if (value.text.starts_with('[')) return SetRoundupList(value, conf);
  conf.roundup_divisions.fill(ParsePowerOf2(value, 1));
}

void SetExpandable(const Typed& value, AllocatorConf& conf) {
  conf.expandable_segments = ParsePythonBool(value);
}

void SetFraction(const Typed& value, AllocatorConf& conf) {
  constexpr std::string_view kExpected = "a number from 0 to 1";
  conf.memory_fraction = ParseNumber(value, kExpected);
  if (!(conf.memory_fraction >= 0 && conf.memory_fraction <= 1)) RefuseOption(value, kExpected);
}

void SetGarbageCollection(const Typed& value, AllocatorConf& conf) {
  constexpr std::string_view kExpected = "a number between 0 and 1";
  const double threshold = ParseNumber(value, kExpected);
  if (!(threshold > 0 && threshold < 1)) RefuseOption(value, kExpected);
  conf.garbage_collection_threshold = threshold;
}

void SetBackend(const Typed& value, AllocatorConf& /*conf*/) {
  if (value.text != "native") RefuseOption(value, "native (cudaMallocAsync is not modelled)");
}

void RefuseReserve(const Typed& value, AllocatorConf& /*conf*/) {
  RefuseOption(value, "it left out (a bound of addresses is not modelled)");
}

// A switch of PyTorch that changes no byte on the card, and a number of the same kind.
void SetIdleSwitch(const Typed& value, AllocatorConf& /*conf*/) { ParsePythonBool(value); }
void SetIdleNumber(const Typed& value, AllocatorConf& /*conf*/) { ParseWhole(value, 1); }

struct OptionRow {
  std::string_view key;
  void (*set)(const Typed& value, AllocatorConf& conf);
  bool is_idle = false;  // changes no byte on the card
};

// In the order in which they are read: the large segment bounds the two after it.
constexpr OptionRow kOptions[] = {
    {"large_segment_size_mb", SetLargeSegment},
    {"max_split_size_mb", SetMaxSplit},
    {"max_non_split_rounding_mb", SetMaxNonSplitRounding},
    {"roundup_power2_divisions", SetRoundup},
    {"expandable_segments", SetExpandable},
    {"per_process_memory_fraction", SetFraction},
    {"garbage_collection_threshold", SetGarbageCollection},
    {"backend", SetBackend},
    {"release_lock_on_cudamalloc", SetIdleSwitch, true},
    {"release_lock_on_hipmalloc", SetIdleSwitch, true},
    {"graph_capture_record_stream_reuse", SetIdleSwitch, true},
    {"pinned_use_background_threads", SetIdleSwitch, true},
    {"pinned_use_cuda_host_register", SetIdleSwitch, true},
    {"pinned_use_hip_host_register", SetIdleSwitch, true},
    {"pinned_num_register_threads", SetIdleNumber, true},
    {"pinned_reserve_segment_size_mb", SetIdleNumber, true},
    {"pinned_max_round_threshold_mb", SetIdleNumber, true},
    {"pinned_max_cached_size_mb", SetIdleNumber, true},
    {"pinned_free_catch_all", SetIdleSwitch, true},
    {"throw_on_cudamalloc_oom", SetIdleSwitch, true},
    {"expandable_segments_reserve", RefuseReserve},
    {"expandable_segments_reserve_by_class", RefuseReserve},
};

std::vector<std::string_view> KeysOf(const FrameworkProfile& framework) {
  const std::span<const std::string_view> missing = framework.missing_alloc_options;
  std::vector<std::string_view> keys;
  for (const OptionRow& row : kOptions) {
    if (std::find(missing.begin(), missing.end(), row.key) == missing.end())
      keys.push_back(row.key);
  }
  return keys;
}

std::vector<Item> ReadItems(const Typed& typed, const FrameworkProfile& framework) {
  const std::vector<std::string_view> keys = KeysOf(framework);
  std::vector<Item> items;
  for (const std::string& part : SplitAtCommas(WithoutSpaces(typed.text))) {
    const Item item = SplitItem(part, typed.place);
    if (std::ranges::find(keys, item.key) == keys.end()) {
      throw Error(
          {.where = typed.place,
           .text = fmt::format("expected an option of PYTORCH_ALLOC_CONF in {}, found {}{}",
                               framework.name, Quoted(item.key), DidYouMean(item.key, keys))});
    }
    items.push_back(item);
  }
  if (items.empty()) RefuseOption(typed, "options such as expandable_segments:True");
  return items;
}

}  // namespace

AllocConf ParseAllocConf(const Typed& typed, const FrameworkProfile& framework) {
  AllocConf result = {.text = typed.text};
  const std::vector<Item> items = ReadItems(typed, framework);
  for (const OptionRow& row : kOptions) {
    for (const Item& item : items) {
      if (item.key != row.key) continue;
      row.set(item.value, result.conf);
      if (row.is_idle) result.idle_options.emplace_back(row.key);
    }
  }
  return result;
}

}  // namespace onnxfit
