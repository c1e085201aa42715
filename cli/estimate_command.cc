#include "cli/estimate_command.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "cli/exit_codes.h"
#include "estimator/base/error.h"
#include "estimator/graph/loader.h"
#include "estimator/report/json.h"
#include "estimator/report/text.h"

namespace onnxfit {
namespace {

namespace fs = std::filesystem;

// Says before the work is done what would keep its answer from being written.
void CheckOutput(const Options& options) {
  if (options.output.empty()) return;
  std::error_code ignored;
  const Error::Parts parts = {.file = options.output, .where = "--output"};
  const auto refuse = [&](const char* text, const char* hint) {
    throw Error({parts.file, parts.where, text, hint});
  };
  if (fs::is_directory(options.output, ignored)) refuse("expected a file, found a directory", "");
  if (fs::equivalent(options.output, options.model, ignored)) {
    refuse("expected another file than the model", "");
  }
  if (!options.force && fs::is_regular_file(options.output, ignored)) {
    refuse("the file exists", "--force");
  }
}

// https://no-color.org, and terminals that know no colours.
bool TerminalHasColors(const std::ostream& out) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool refused = no_color != nullptr && *no_color != '\0';
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return &out == &std::cout && isatty(STDOUT_FILENO) == 1 && !refused && !dumb;
}

std::string ReportOf(const Estimate& estimate, const Options& options, const std::ostream& out) {
  if (options.format == Format::kJson) {
    return ToJson(estimate, {.version = ONNXFIT_VERSION, .rows = options.text.rows});
  }
  TextOptions text = options.text;
  text.color =
      options.color == ColorMode::kAlways ||
      (options.color == ColorMode::kAuto && options.output.empty() && TerminalHasColors(out));
  return ToText(estimate, text);
}

void Write(const std::string& report, const std::string& name, std::ostream& out) {
  out << report << std::flush;
  if (!out) throw Error({.file = name, .text = "the report could not be written"});
}

}  // namespace

int RunEstimate(const Options& options, std::ostream& out) {
  CheckOutput(options);
  const Graph graph = LoadGraph(options.model);
  const std::string report = ReportOf(MakeEstimate(graph, options.request), options, out);
  if (options.output.empty()) {
    Write(report, "standard output", out);
  } else {
    std::ofstream file(options.output, std::ios::binary | std::ios::trunc);
    Write(report, options.output, file);
  }
  return kExitDone;
}

}  // namespace onnxfit
