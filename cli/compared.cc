#include "cli/compared.h"

#include <fmt/format.h>

#include <utility>

#include "cli/git.h"
#include "estimator/base/error.h"
#include "estimator/base/file_bytes.h"
#include "estimator/fit/load_model.h"
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
  Estimate estimate = MakeEstimate(graph, request);
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

}  // namespace onnxfit
