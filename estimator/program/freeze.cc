#include "estimator/program/freeze.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "estimator/base/error.h"

namespace onnxfit {
namespace {

constexpr std::string_view kWrapper = "model.";
constexpr size_t kNamesShown = 3;

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

// " (a, b, c …)": those that begin most like `glob`, in the module's order.
std::string NearestNames(const Roles& roles, std::string_view glob) {
  std::vector<std::string_view> names;
  for (const ModuleTensor& parameter : roles.parameters) names.push_back(parameter.name);
  std::ranges::stable_sort(names, std::greater(), [&](std::string_view name) {
    return SharedLetters(Unwrapped(name), Unwrapped(glob));
  });
  if (names.empty()) return ", of which there are none";
  const std::string_view more = names.size() > kNamesShown ? " …" : "";
  names.resize(std::min(names.size(), kNamesShown));
  return fmt::format(" ({}{})", fmt::join(names, ", "), more);
}

}  // namespace

std::vector<bool> FindFrozen(const Graph& graph, const Roles& roles,
                             const std::vector<std::string>& globs) {
  std::vector<bool> frozen(roles.parameters.size());
  for (const std::string& glob : globs) {
    bool found = false;
    for (size_t i = 0; i < frozen.size(); ++i) {
      if (!Matches(roles.parameters[i].name, glob)) continue;
      frozen[i] = true;
      found = true;
    }
    if (found) continue;
    throw Error({.file = graph.path,
                 .where = "--freeze",
                 .text = fmt::format("expected names of parameters{}, found '{}'",
                                     NearestNames(roles, glob), glob)});
  }
  return frozen;
}

}  // namespace onnxfit
