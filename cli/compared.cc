#include "cli/compared.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/asked_of_file.h"
#include "cli/git.h"
#include "cli/values.h"
#include "estimator/base/error.h"
#include "estimator/base/file_bytes.h"
#include "estimator/base/quote.h"
#include "estimator/base/text.h"
#include "estimator/fit/predict.h"
#include "estimator/onnx/named_sizes.h"
#include "estimator/report/snapshot_json.h"

namespace onnxfit {
namespace {

constexpr std::string_view kStandardInput = "<stdin>";

[[noreturn]] void Rename(const Error& error, const std::string& name) {
  Error::Parts parts = error.parts();
  if (parts.file.empty()) parts.file = name;
  throw Error(parts);
}

Loaded ReadReport(std::string_view text, const std::string& name) {
  try {
    std::vector<Snapshot> reports = ReadReports(text);
    if (reports.size() != 1) {
      throw Error({.text = fmt::format("expected one report, found {}", reports.size()),
                   .hint = "onnxfit estimate --format json of one batch and precision"});
    }
    return {.name = name, .report = std::move(reports[0])};
  } catch (const Error& error) {
    Rename(error, name);
  }
}

Loaded ReadBytes(std::string_view bytes, const std::string& path, const std::string& name) {
  if (LooksLikeJson(bytes)) return ReadReport(bytes, name);
  return {.name = name, .graph = LoadModelFrom(bytes, path, name)};
}

// "git:REF:PATH", of which a ref has no colon.
Loaded ReadFromGit(const std::string& text) {
  const std::string rest = text.substr(kGit.size());
  const size_t colon = rest.find(':');
  if (colon == std::string::npos || colon + 1 == rest.size()) {
    throw Error({.where = text, .text = "expected git:REF:PATH", .hint = "git:main:model.onnx"});
  }
  const std::string path = rest.substr(colon + 1);
  const GitRef ref(rest.substr(0, colon), ".");
  const std::optional<std::string> bytes = ref.Read(path);
  if (!bytes) {
    throw Error({.where = text, .text = "expected a file, the ref has none of this name"});
  }
  return ReadBytes(*bytes, path, text);
}

}  // namespace

Side SideOf(const Graph& graph, const EstimateRequest& request) {
  Estimate estimate = MakeEstimate(graph, AskedOf(graph, request));
  Snapshot snapshot = SnapshotOf(estimate, ONNXFIT_VERSION);
  return {.snapshot = std::move(snapshot), .estimate = std::move(estimate)};
}

bool LooksLikeJson(std::string_view bytes) {
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (bytes[first] == '{' || bytes[first] == '[');
}

Loaded LoadSide(const std::string& text) {
  if (text.starts_with(kGit)) return ReadFromGit(text);
  const std::string name = text == "-" ? std::string(kStandardInput) : text;
  try {
    const FileBytes file(text, [](std::string_view) {}, {.what = "a model or a report"});
    const bool is_model = text != "-" && !LooksLikeJson(file.bytes().substr(0, 4096));
    // Of a large file the loader lets go of what it has read.
    if (is_model) return {.name = name, .graph = LoadModel(text)};
    return ReadBytes(file.bytes(), text, name);
  } catch (const Error& error) {
    Rename(error, name);
  }
}

Side AnswerSide(const Loaded& loaded, const EstimateRequest& request) {
  if (loaded.report) return {.snapshot = *loaded.report};
  try {
    return SideOf(*loaded.graph, request);
  } catch (const Error& error) {
    Rename(error, loaded.name);
  }
}

// What follows is about sizes that both sides share.
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
    flags.push_back(
        fmt::format("{} {}", unknown.flag, ShellWord(fmt::format("{}={}", name, unknown.sizes))));
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
    const Names dims = NamedDims(*graph);
    const Names inputs = InputNames(*graph);
    for (const auto& [name, size] : binding.dims) {
      if (IsIn(dims, name) || MayNameSize(*graph, name)) found.insert(name);
    }
    for (const auto& [name, shape] : binding.inputs) {
      if (IsIn(inputs, name) || MayNameSize(*graph, name)) found.insert(name);
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
