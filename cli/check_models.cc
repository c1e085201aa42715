#include "cli/check_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/check_keys.h"
#include "cli/model_globs.h"
#include "cli/values.h"
#include "estimator/base/error.h"

namespace onnxfit {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExpected = "the path of a model, a glob or a list of them";

std::string PatternIn(const TomlNode& node) {
  if (node.kind != TomlKind::kString) RefuseKind(node, "model", kExpected);
  if (node.text.empty()) Refuse({"model", ""}, kExpected);
  return node.text;
}

bool IsPattern(const std::string& text, const std::string& folder) {
  std::error_code ignored;
  return IsGlob(text) && !fs::exists(fs::path(folder) / text, ignored);
}

std::vector<std::string> FilesOf(const std::string& pattern, const std::string& folder) {
  if (!IsPattern(pattern, folder)) return {pattern};
  const std::vector<std::string> files = ExpandGlob(folder, pattern);
  if (!files.empty()) return files;
  throw Error({.where = "model",
               .text = fmt::format("expected files, found none that match {}", Quoted(pattern))});
}

}  // namespace

Models ModelsOf(const TomlNode& node, const std::string& folder) {
  if (!node.is_list()) {
    const std::string pattern = PatternIn(node);
    return {.paths = FilesOf(pattern, folder), .is_one = !IsPattern(pattern, folder)};
  }
  Models models;
  for (const TomlNode& item : node.children) {
    for (const std::string& path : FilesOf(PatternIn(item), folder)) {
      const bool is_new = std::ranges::find(models.paths, path) == models.paths.end();
      if (is_new) models.paths.push_back(path);
    }
  }
  if (!models.paths.empty()) return models;
  throw Error(
      {.where = "model", .text = fmt::format("expected {}, found an empty list", kExpected)});
}

}  // namespace onnxfit
