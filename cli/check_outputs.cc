#include "cli/check_outputs.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <ostream>

#include "cli/lock_file.h"
#include "cli/output.h"
#include "estimator/base/error.h"
#include "estimator/report/check.h"

namespace onnxfit {
namespace {

std::string ReportOf(const CheckAnswer& answer, CheckFormat format, const TextOptions& text) {
  switch (format) {
    case CheckFormat::kText:
      return ToText(answer, text);
    case CheckFormat::kJson:
      return ToJson(answer, {.version = ONNXFIT_VERSION});
    case CheckFormat::kMarkdown:
      return ToMarkdown(answer);
    case CheckFormat::kJunit:
      return ToJunit(answer);
    case CheckFormat::kSarif:
      return ToSarif(answer, ONNXFIT_VERSION);
    case CheckFormat::kGithub:
      return ToGithub(answer);
    case CheckFormat::kGitlab:
      return ToGitlab(answer);
    case CheckFormat::kBench:
      return ToBench(answer);
  }
  return "";
}

void WriteFile(const std::string& path, const std::string& report) {
  std::error_code ignored;
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << report << std::flush;
  if (!file) {
    throw Error({.file = path, .where = "--format", .text = "the report could not be written"});
  }
}

// A report never takes the place of what it is about.
void RefuseInput(const std::string& file, const CheckAnswer& answer) {
  std::error_code ignored;
  std::vector<std::string> inputs = {answer.config, LockPathOf(answer.config)};
  for (const CheckRow& row : answer.rows) inputs.push_back(row.model);
  for (const std::string& input : inputs) {
    if (file.empty() || !std::filesystem::equivalent(file, input, ignored)) continue;
    throw Error({.file = file,
                 .where = "--format",
                 .text = "expected another file than the config, the lock and the models"});
  }
}

}  // namespace

void WriteOutputs(const CheckAnswer& answer, const Options& options, std::ostream& out) {
  std::vector<FormattedOutput> outputs = options.check.outputs;
  for (const FormattedOutput& output : outputs) RefuseInput(output.file, answer);
  const bool has_standard = std::any_of(outputs.begin(), outputs.end(),
                                        [](const FormattedOutput& o) { return o.file.empty(); });
  if (!has_standard) outputs.push_back({});
  std::optional<Error> failed;
  for (const FormattedOutput& output : outputs) {
    TextOptions text = output.file.empty() ? WithColor(options, out) : options.text;
    const std::string report = ReportOf(answer, output.format, text);
    try {
      if (output.file.empty()) {
        WriteReport(report, options, out);
      } else {
        WriteFile(output.file, report);
      }
    } catch (const Error& error) {
      failed = error;
    }
  }
  if (failed) throw Error(*failed);
}

}  // namespace onnxfit
