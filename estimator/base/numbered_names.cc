#include "estimator/base/numbered_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

namespace onnxfit {
namespace {

constexpr std::string_view kTenDigits = "0123456789";
constexpr size_t kMostNamed = 3;  // whose numbers are all written

// A name as text and number in turn, text first: "layer", "1", ".", "0", ".conv".
std::vector<std::string_view> PartsOf(std::string_view name) {
  std::vector<std::string_view> parts;
  while (!name.empty()) {
    const bool is_number = parts.size() % 2 == 1;
    const size_t end = std::min(name.size(), is_number ? name.find_first_not_of(kTenDigits)
                                                       : name.find_first_of(kTenDigits));
    parts.push_back(name.substr(0, end));
    name.remove_prefix(end);
  }
  return parts;
}

std::vector<std::string_view> Different(const std::vector<std::string_view>& texts) {
  std::vector<std::string_view> different;
  for (const std::string_view text : texts) {
    if (std::ranges::find(different, text) == different.end()) different.push_back(text);
    if (different.size() > kMostNamed) break;
  }
  return different;
}

}  // namespace

std::string NumberPattern(std::string_view name) {
  std::string pattern;
  const std::vector<std::string_view> parts = PartsOf(name);
  for (size_t i = 0; i < parts.size(); ++i) {
    pattern += i % 2 == 1 ? std::string_view("0") : parts[i];
  }
  return pattern;
}

std::string CommonName(std::span<const std::string> names) {
  std::vector<std::vector<std::string_view>> parts;
  for (const std::string& name : names) parts.push_back(PartsOf(name));
  const std::vector<std::string_view>& first = parts[0];
  std::vector<std::string> common(first.begin(), first.end());
  std::string few;  // the numbers at the last place where names differ
  std::vector<size_t> places;
  for (size_t i = 0; i < first.size(); ++i) {
    std::vector<std::string_view> numbers;
    for (const std::vector<std::string_view>& of_name : parts) numbers.push_back(of_name[i]);
    if (std::count(numbers.begin(), numbers.end(), first[i]) == std::ssize(numbers)) continue;
    places.push_back(i);
    few = fmt::format("{{{}}}", fmt::join(Different(numbers), ","));
  }
  const bool are_few = places.size() == 1 && names.size() <= kMostNamed;
  for (const size_t place : places) common[place] = are_few ? few : "*";
  return fmt::format("{}", fmt::join(common, ""));
}

}  // namespace onnxfit
