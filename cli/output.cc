#include "cli/output.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "cli/terminal.h"
#include "estimator/base/error.h"

namespace onnxfit {
namespace {

namespace fs = std::filesystem;

bool IsStandardOutput(const Options& options, const std::ostream& out) {
  return options.output.empty() && &out == &std::cout;
}

void Write(const std::string& report, const std::string& name, std::ostream& out) {
  out << report << std::flush;
  if (!out) throw Error({.file = name, .text = "the report could not be written"});
}

}  // namespace

void CheckOutput(const Options& options, const std::string& input_path, const char* input) {
  if (options.output.empty()) return;
  std::error_code ignored;
  const Error::Parts parts = {.file = options.output, .where = "--output"};
  const auto refuse = [&](const std::string& text, const char* hint) {
    throw Error({parts.file, parts.where, text, hint});
  };
  if (fs::is_directory(options.output, ignored)) refuse("expected a file, found a directory", "");
  if (fs::equivalent(options.output, input_path, ignored)) {
    refuse(std::string("expected another file than ") + input, "");
  }
  if (!options.force && fs::is_regular_file(options.output, ignored)) {
    refuse("the file exists", "--force");
  }
}

TextOptions WithColor(const Options& options, const std::ostream& out) {
  TextOptions text = options.text;
  const Variables environment = {[](const char* name) -> const char* { return std::getenv(name); }};
  const bool is_shown = IsStandardOutput(options, out);
  const bool is_terminal = is_shown && isatty(STDOUT_FILENO) == 1;
  text.color =
      options.color == ColorMode::kAlways ||
      (options.color == ColorMode::kAuto && is_shown && WantsColor(environment, is_terminal));
  const bool is_for_people = options.format == Format::kText;
  text.ascii = text.ascii || (is_shown && is_for_people && !ShowsUtf8(environment));
  return text;
}

void WriteReport(const std::string& report, const Options& options, std::ostream& out) {
  if (options.output.empty()) {
    Write(report, "standard output", out);
  } else {
    std::ofstream file(options.output, std::ios::binary | std::ios::trunc);
    Write(report, options.output, file);
  }
}

}  // namespace onnxfit
