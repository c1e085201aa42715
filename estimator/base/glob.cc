#include "estimator/base/glob.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "estimator/base/error.h"

namespace onnxfit {
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
