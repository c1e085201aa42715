#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <sstream>

#include "cli/commands.h"
#include "cli/config_file.h"
#include "cli/model_files.h"
#include "cli/output.h"
#include "estimator/base/error.h"
#include "estimator/report/layout.h"

namespace onnxfit {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHead =
    R"(# The checks of `onnxfit check`.  Each [[check]] is a run of a model, and what it
# may take.  Its keys are the flags of a run (`onnxfit --help all`) without their
# dashes (dims and shapes for --dim and --shape); a list makes a check for each value:
#
#   batch = [8, 16]
#   precision = "amp-bf16"
#
# What it may take, and what happens where it takes more:
#
#   budget = ["16GiB", "t4", "80% of t4"]  # each of them must hold
#   reserve = "1GiB"                       # of a card, left free for others
#   strict = true                          # a card that is TIGHT does not hold
#   max-increase = "2%"                    # over what it took before; 0 without this
#   level = "warn"                         # error, warn or off
#   lock = "optional"                      # it may lack the check; none: budgets alone
#   message = "Ask the vision team before raising this."
#
# A model that is Python, and no file: a function of a module in this folder, which
# returns the model and an example of its inputs.
#
#   model = "training.net:build"
#   python = ".venv/bin/python"            # which has torch and onnxfit; else python3

# For every check, and for other commands that run a model from this folder.
[defaults]
# optimizer = "adamw"
# precision = "fp32"
# budget = "t4"
)";

// `text` as comments of at most 80 columns.
std::string Commented(const std::string& text, size_t columns = kReportColumns - 2) {
  std::istringstream lines(Wrap("", Clean(text, false), columns));
  std::string comments;
  for (std::string line; std::getline(lines, line);) comments += TrimLines("# " + line + "\n");
  return comments;
}

std::string DimsText(const FoundModel& model) {
  std::string text;
  for (const auto& [name, size] : model.dims) {
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", TomlKey(name), size);
  }
  return fmt::format("dims = {{ {} }}  # left free by the file: set yours\n", text);
}

std::string HeadOf(const FoundModel& model) {
  return fmt::format("[[check]]\nname = {}\nmodel = {}\n", TomlString(model.name),
                     TomlString(model.path));
}

std::string CheckText(const FoundModel& model) {
  return HeadOf(model) + fmt::format("batch = {}\n", model.batch) +
         (model.dims.empty() ? "" : DimsText(model));
}

// Each line behind "# ", and why.
std::string LeftOutText(const FoundModel& model) {
  std::istringstream lines(HeadOf(model));
  std::string text = Commented("Left out: " + model.error);
  for (std::string line; std::getline(lines, line);) text += "# " + Clean(line, false) + "\n";
  return text;
}

std::string ConfigText(const std::vector<FoundModel>& models) {
  std::string text(kHead);
  for (const FoundModel& model : models) {
    text += '\n';
    text += model.error.empty() ? CheckText(model) : LeftOutText(model);
  }
  return text;
}

void CheckFolder(const Options& options, const std::string& path) {
  std::error_code ignored;
  if (!options.folder.empty() && !fs::is_directory(options.folder, ignored)) {
    throw Error({.file = options.folder, .text = "expected a folder, found none"});
  }
  if (!options.force && fs::exists(path, ignored)) {
    throw Error({.file = path, .text = "the file exists", .hint = "--force"});
  }
}

std::string Count(size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// `path` is as it may be shown.
std::string Summary(const std::vector<FoundModel>& models, const std::string& path, bool quiet) {
  const auto left_out = static_cast<size_t>(
      std::count_if(models.begin(), models.end(), [](const auto& m) { return !m.error.empty(); }));
  std::string text = fmt::format("{}: {}", path, Count(models.size() - left_out, "check"));
  if (left_out > 0) text += fmt::format(", {} left out (it says why)", Count(left_out, "model"));
  if (quiet) return text + "\n";
  return fmt::format("{}\nnext: write there what you train with, then onnxfit check{} --update\n",
                     text, path == kConfigName ? "" : " " + path);
}

}  // namespace

int RunInit(const Options& options, std::ostream& out) {
  const std::string path = (fs::path(options.folder) / kConfigName).string();
  CheckFolder(options, path);
  const std::vector<FoundModel> models = FindModels(options.folder);
  if (models.empty()) {
    throw Error(
        {.file = options.folder,
         .text = "expected .onnx or .pt2 files here or below, found none",
         .hint = "of a model that is Python write the check by hand: model = \"MODULE:FUNCTION\""});
  }
  Options to_file = options;
  to_file.output = path;
  WriteReport(ConfigText(models), to_file, out);
  out << Summary(models, Clean(path, options.text.ascii), options.text.quiet);
  return kExitDone;
}

}  // namespace onnxfit
