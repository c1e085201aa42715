#include "cli/shared_sizes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "cli/values.h"
#include "estimator/base/error.h"
#include "estimator/base/suggest.h"

namespace onnxfit {
namespace {

using Names = std::vector<std::string>;

bool IsIn(const Names& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

// A flag whose name neither side has.
struct UnknownName {
  std::string flag;  // "--dim"
  std::string name;
  std::string sizes;  // "64", "2x64"
  std::string what;   // "free dimension"
  Names before;       // what the sides have
  Names after;
};

std::string HasText(const std::string& side, const Names& names) {
  Names quoted;
  for (const std::string& name : names) quoted.push_back(Quoted(name));
  return quoted.empty() ? fmt::format("{} has none", side)
                        : fmt::format("{} has {}", side, fmt::join(quoted, ", "));
}

// The name that is meant, else one of each side: the last, which is no batch where there are two.
std::string HintFor(const UnknownName& unknown) {
  std::vector<std::string_view> all(unknown.before.begin(), unknown.before.end());
  all.insert(all.end(), unknown.after.begin(), unknown.after.end());
  const std::string nearest(Nearest(unknown.name, all));
  Names meant = {nearest};
  if (nearest.empty()) {
    meant.clear();
    for (const Names* side : {&unknown.before, &unknown.after}) {
      if (!side->empty() && !IsIn(meant, side->back())) meant.push_back(side->back());
    }
  }
  Names flags;
  for (const std::string& name : meant) {
    flags.push_back(fmt::format("{} {}={}", unknown.flag, name, unknown.sizes));
  }
  return fmt::format("{}", fmt::join(flags, " "));
}

[[noreturn]] void RefuseUnknown(const UnknownName& unknown, const NamedGraph& before,
                                const NamedGraph& after) {
  throw Error({.where = fmt::format("{} {}={}", unknown.flag, unknown.name, unknown.sizes),
               .text = fmt::format("no {} of either has this name: {}, {}", unknown.what,
                                   HasText(before.name, unknown.before),
                                   HasText(after.name, unknown.after)),
               .hint = HintFor(unknown)});
}

}  // namespace

std::set<std::string> NamesIn(const DimBinding& binding) {
  std::set<std::string> names;
  for (const auto& [name, size] : binding.dims) names.insert(name);
  for (const auto& [name, dims] : binding.inputs) names.insert(name);
  return names;
}

std::set<std::string> NamesOfAny(const DimBinding& binding, std::span<const Graph* const> graphs) {
  std::set<std::string> found;
  for (const Graph* graph : graphs) {
    const Names dims = FreeDims(*graph);
    const Names inputs = InputNames(*graph);
    for (const auto& [name, size] : binding.dims) {
      if (IsIn(dims, name)) found.insert(name);
    }
    for (const auto& [name, shape] : binding.inputs) {
      if (IsIn(inputs, name)) found.insert(name);
    }
  }
  return found;
}

DimBinding BindingForBoth(DimBinding binding, const NamedGraph& before, const NamedGraph& after) {
  const Graph* const graphs[] = {before.graph, after.graph};
  binding.optional = NamesOfAny(binding, graphs);
  for (const auto& [name, size] : binding.dims) {
    if (binding.optional.contains(name)) continue;
    RefuseUnknown({.flag = "--dim",
                   .name = name,
                   .sizes = std::to_string(size),
                   .what = "free dimension",
                   .before = FreeDims(*before.graph),
                   .after = FreeDims(*after.graph)},
                  before, after);
  }
  for (const auto& [name, dims] : binding.inputs) {
    if (binding.optional.contains(name)) continue;
    RefuseUnknown({.flag = "--shape",
                   .name = name,
                   .sizes = fmt::format("{}", fmt::join(dims, "x")),
                   .what = "input",
                   .before = InputNames(*before.graph),
                   .after = InputNames(*after.graph)},
                  before, after);
  }
  return binding;
}

}  // namespace onnxfit
