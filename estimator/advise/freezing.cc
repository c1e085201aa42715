// Globs for all parameters but those of the last modules.
#include <algorithm>

#include "estimator/advise/changes.h"
#include "estimator/base/error.h"
#include "estimator/base/text.h"

namespace onnxfit {
namespace {

constexpr size_t kMostGlobs = 4;  // more is nothing to be typed

constexpr int64_t kLeastShare = 200;  // one part in so many is worth a run

using Names = std::vector<std::string>;

// What all names begin with, up to a dot.
std::string_view CommonScope(const Names& names) {
  std::string_view common = names[0];
  for (const std::string& name : names) {
    const auto differ = std::mismatch(common.begin(), common.end(), name.begin(), name.end());
    common = common.substr(0, static_cast<size_t>(differ.first - common.begin()));
  }
  return common.substr(0, common.rfind('.') + 1);  // npos + 1 is 0
}

// The module of `name` within a scope of so many letters: "scope.layer1" of "scope.layer1.weight".
std::string_view ModuleOf(std::string_view name, size_t scope) {
  return name.substr(0, name.find('.', scope));
}

std::string_view WithoutNumber(std::string_view module) {
  while (!module.empty() && module.back() >= '0' && module.back() <= '9') module.remove_suffix(1);
  return module;
}

bool MatchesAny(const Names& names, std::string_view glob) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return MatchesGlob(name, glob); });
}

bool Contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// "layer*" for layer1 to layer4, where nothing that learns is called so.
std::string GlobOf(std::string_view module, size_t scope, const Names& frozen, const Names& learn) {
  const std::string_view stem = WithoutNumber(module);
  const std::string wide = std::string(stem) + "*";
  if (stem.size() > scope && !MatchesAny(learn, wide)) return wide;
  return std::string(module) + (Contains(frozen, module) ? "" : ".*");
}

// As --freeze reads them, which lets "model." be left out.
Names Shortened(const Names& globs) {
  constexpr std::string_view kWrapper = "model.";
  Names shorter;
  for (const std::string& glob : globs) {
    shorter.push_back(glob.starts_with(kWrapper) ? glob.substr(kWrapper.size()) : glob);
  }
  return shorter;
}

bool PicksAsMeant(const Names& names, const Names& globs, const Names& frozen) {
  const std::vector<bool> picked = PickNames(names, globs, {"--freeze", "parameters", "the model"});
  for (size_t i = 0; i < names.size(); ++i) {
    if (picked[i] != Contains(frozen, names[i])) return false;
  }
  return true;
}

// The last modules that together are worth a run.
FrozenGlobs KeepLast(std::span<const NamedCount> parameters, size_t scope) {
  int64_t all = 0;
  for (const NamedCount& p : parameters) all += p.numel;
  FrozenGlobs found;
  for (size_t i = parameters.size(); i-- > 0;) {
    const std::string_view module = ModuleOf(parameters[i].name, scope);
    if (!Contains(found.kept, module)) {
      if (!found.kept.empty() && found.learning > all / kLeastShare) break;
      found.kept.emplace_back(module);
    }
    found.learning += parameters[i].numel;
  }
  std::reverse(found.kept.begin(), found.kept.end());
  return found;
}

}  // namespace

std::optional<FrozenGlobs> GlobsBeforeLast(std::span<const NamedCount> parameters) {
  if (parameters.size() < 2) return std::nullopt;
  Names names;
  for (const NamedCount& p : parameters) names.push_back(p.name);
  const size_t scope = CommonScope(names).size();
  FrozenGlobs found = KeepLast(parameters, scope);
  Names frozen;
  Names learn;
  for (const std::string& name : names) {
    (Contains(found.kept, ModuleOf(name, scope)) ? learn : frozen).push_back(name);
  }
  for (const std::string& name : frozen) {
    const std::string glob = GlobOf(ModuleOf(name, scope), scope, frozen, learn);
    if (!Contains(found.globs, glob)) found.globs.push_back(glob);
  }
  if (found.globs.empty() || found.globs.size() > kMostGlobs) return std::nullopt;
  const Names shorter = Shortened(found.globs);
  if (PicksAsMeant(names, shorter, frozen)) {
    found.globs = shorter;
  } else if (!PicksAsMeant(names, found.globs, frozen)) {
    return std::nullopt;
  }
  return found;
}

}  // namespace onnxfit
