#include "estimator/fit/lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <numbers>
#include <optional>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/base/quote.h"
#include "estimator/base/split_mix.h"

namespace onnxfit {
namespace {

constexpr int64_t kLongest = 1 << 24;  // no model takes more tokens at once
constexpr std::string_view kUniform = "uniform:";
constexpr std::string_view kLogNormal = "lognormal:";

template <typename Number>
std::optional<Number> NumberIn(std::string_view text) {
  Number number = {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<int64_t> LengthIn(std::string_view text) {
  const std::optional<int64_t> length = NumberIn<int64_t>(text);
  return length && *length >= 1 && *length <= kLongest ? length : std::nullopt;
}

std::vector<std::string_view> Split(std::string_view text, std::string_view marks) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = text.find_first_of(marks);
    if (end != 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return parts;
}

std::optional<LengthSource> Uniform(std::string_view text) {
  const size_t slash = text.find('/');
  const std::string_view ends = text.substr(0, slash);
  const size_t dots = ends.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const auto least = LengthIn(ends.substr(0, dots));
  const auto most = LengthIn(ends.substr(dots + 2));
  const auto stride = slash == std::string_view::npos ? std::optional<int64_t>(1)
                                                      : LengthIn(text.substr(slash + 1));
  if (!least || !most || !stride || *least > *most) return std::nullopt;
  return LengthSource{.least = *least, .most = *most, .stride = *stride};
}

std::optional<LengthSource> LogNormal(std::string_view text) {
  const std::vector<std::string_view> parts = Split(text, ",");
  if (parts.size() != 3) return std::nullopt;
  const auto median = NumberIn<double>(parts[0]);
  const auto sigma = NumberIn<double>(parts[1]);
  const auto most = LengthIn(parts[2]);
  if (!median || !sigma || !most || !(*median >= 1) || !(*sigma > 0) || *sigma > 10) {
    return std::nullopt;
  }
  return LengthSource{
      .kind = LengthSource::Kind::kLogNormal, .most = *most, .median = *median, .sigma = *sigma};
}

[[noreturn]] void Refuse(const std::string& text) {
  throw Error({.where = "--lengths",
               .text = "expected uniform:LEAST..MOST, lognormal:MEDIAN,SIGMA,MOST or a file of "
                       "lengths, found " +
                       Quote(text),
               .hint = "--lengths uniform:64..512"});
}

LengthSource Listed(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) Refuse(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  LengthSource source = {.kind = LengthSource::Kind::kList};
  for (const std::string_view part : Split(text, " \t\r\n,;[]")) {
    const std::optional<int64_t> length = LengthIn(part);
    if (!length) {
      throw Error({.file = path,
                   .text = fmt::format("expected lengths from 1 to {}, found {}", kLongest,
                                       Quote(std::string(part.substr(0, 40))))});
    }
    source.list.push_back(*length);
  }
  if (source.list.empty()) throw Error({.file = path, .text = "expected lengths, found none"});
  source.least = std::ranges::min(source.list);
  source.most = std::ranges::max(source.list);
  return source;
}

// Box and Muller, A Note on the Generation of Random Normal Deviates, 1958.
double Normal(SplitMix64& random) {
  const double radius = std::sqrt(-2 * std::log(random.Fraction()));
  return radius * std::cos(2 * std::numbers::pi * random.Fraction());
}

int64_t Draw(const LengthSource& source, SplitMix64& random) {
  if (source.kind == LengthSource::Kind::kUniform) {
    const int64_t count = (source.most - source.least) / source.stride + 1;
    return source.least +
           source.stride * static_cast<int64_t>(random.Below(static_cast<uint64_t>(count)));
  }
  const double length = source.median * std::exp(source.sigma * Normal(random));
  const double most = static_cast<double>(source.most);
  return std::max<int64_t>(1, std::llround(std::min(length, most)));
}

}  // namespace

LengthSource ReadLengths(const std::string& text) {
  const std::string_view view = text;
  std::optional<LengthSource> source;
  if (view.starts_with(kUniform))
    source = Uniform(view.substr(kUniform.size()));
  else if (view.starts_with(kLogNormal))
    source = LogNormal(view.substr(kLogNormal.size()));
  else
    return Listed(text);
  if (!source) Refuse(text);
  return *source;
}

std::vector<StepShape> DrawSteps(const LengthOptions& options, int64_t batch, uint64_t seed) {
  SplitMix64 random(seed);
  const std::vector<int64_t>& list = options.source.list;
  size_t next = 0;
  const auto one = [&] {
    return list.empty() ? Draw(options.source, random) : list[next++ % list.size()];
  };
  int64_t left = options.samples;  // of this epoch
  std::vector<StepShape> steps;
  while (steps.size() < Index(options.steps)) {
    StepShape step = {options.samples > 0 ? std::min(batch, left) : batch, one()};
    for (int64_t sample = 1; options.of_samples && sample < step.batch; ++sample) {
      step.length = std::max(step.length, one());
    }
    step.length = RoundUp(step.length, options.pad_to);
    if (options.tokens > 0) step.batch = std::max<int64_t>(1, options.tokens / step.length);
    left = left > step.batch ? left - step.batch : options.samples;
    steps.push_back(step);
  }
  return steps;
}

}  // namespace onnxfit
