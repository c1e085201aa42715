#include "cli/python_models.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "cli/process.h"
#include "cli/values.h"
#include "cli/work_folder.h"
#include "estimator/base/error.h"
#include "estimator/base/file_bytes.h"
#include "estimator/base/quote.h"
#include "estimator/fit/predict.h"

namespace onnxfit {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVariable = "ONNXFIT_PYTHON";
constexpr const char* kPython = "python3";

// What says which Python it is, for hints.
constexpr std::string_view kOtherPython =
    "python = \".venv/bin/python\" in the config, or ONNXFIT_PYTHON, for another";

// As messages call it, and what is run: a path is one of a folder, a name is looked for in PATH.
struct ChosenPython {
  std::string name;
  fs::path folder;

  std::string program() const {
    const bool is_path = name.find('/') != std::string::npos;
    return is_path ? fs::absolute(folder / name).lexically_normal().string() : name;
  }
};

ChosenPython PythonOf(const PythonExport& python) {
  if (!python.python.empty()) return {.name = python.python, .folder = python.folder};
  return {.name = DefaultPython(), .folder = {}};
}

std::vector<std::string> ExportCommand(const PythonExport& python, const std::string& file) {
  std::vector<std::string> words = {PythonOf(python).program(),
                                    "-B",
                                    "-m",
                                    "onnxfit",
                                    "export",
                                    python.target,
                                    file,
                                    "--for-check"};
  if (python.is_eval) words.emplace_back("--eval");
  for (const std::string& input : python.inputs) {
    words.emplace_back("--input");
    words.push_back(input);
  }
  return words;
}

// A run that is recorded asks this command which way takes most memory.
std::vector<std::string> ExportVariables() {
  std::error_code ignored;
  const fs::path self = fs::read_symlink("/proc/self/exe", ignored);
  const bool is_told = std::getenv("ONNXFIT_BINARY") != nullptr || self.empty();
  return is_told ? std::vector<std::string>{} : std::vector{"ONNXFIT_BINARY=" + self.string()};
}

// The last line of `text` that begins with `start`, without that; with "" the last that says
// anything.
std::string LastLine(std::string_view text, std::string_view start) {
  while (!text.empty()) {
    const size_t end = text.find_last_not_of("\r\n ");
    if (end == std::string_view::npos) break;
    text = text.substr(0, end + 1);
    const size_t begin = text.rfind('\n') + 1;  // npos + 1 is 0
    const std::string_view line = text.substr(begin);
    if (line.starts_with(start)) return std::string(line.substr(start.size()));
    text = text.substr(0, begin);
  }
  return "";
}

[[noreturn]] void RefuseExport(const std::string& python, const ProcessResult& result) {
  if (result.err.find("No module named onnxfit") != std::string::npos) {
    throw Error({.where = python,
                 .text = "expected the Python package onnxfit, found none",
                 .hint = fmt::format("{} -m pip install . in the folder of onnxfit; {}",
                                     ShellWord(python), kOtherPython)});
  }
  const std::string said = LastLine(result.err, "error: ");
  if (!said.empty()) throw Error({.text = said});
  const std::string last = InALine(LastLine(result.err, ""));
  const std::string how = result.exit_code < 0 ? "a signal that ended it"
                                               : fmt::format("exit code {}", result.exit_code);
  throw Error(
      {.where = python + " -m onnxfit export",
       .text = fmt::format("expected a file, found {}{}", how, last.empty() ? "" : ": " + last)});
}

// Like RunProcess; a Python that does not run is a sentence of ours.
ProcessResult RunPython(const PythonExport& python, const std::string& file) {
  const std::vector<std::string> words = ExportCommand(python, file);
  try {
    return RunProcess(words, {.folder = python.folder, .variables = ExportVariables()});
  } catch (const Error& error) {
    throw Error(
        {.where = "python",
         .text = fmt::format("expected a Python that exports {}: {}", python.target, error.what()),
         .hint = std::string(kOtherPython)});
  }
}

}  // namespace

std::string DefaultPython() {
  const char* const chosen = std::getenv(kVariable);
  return chosen != nullptr && *chosen != '\0' ? chosen : kPython;
}

bool NamesPython(const std::string& text, const std::string& folder) {
  std::error_code ignored;
  const size_t colon = text.find(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) return false;
  return !IsModelName(text) && !fs::exists(fs::path(folder) / text, ignored);
}

Graph ExportPython(const PythonExport& python, const std::string& path) {
  const WorkFolder folder("the export");
  const std::string file = folder.File("model.pt2");
  const ProcessResult result = RunPython(python, file);
  std::error_code ignored;
  if (result.exit_code != 0 || !fs::is_regular_file(file, ignored)) {
    RefuseExport(PythonOf(python).name, result);
  }
  const FileBytes bytes(file, [](std::string_view) {}, {.what = "an export"});
  return LoadModelFrom(bytes.bytes(), path, path);
}

Graph LoadSource(const ModelSource& source) {
  return source.python ? ExportPython(*source.python, source.path) : LoadModel(source.path);
}

}  // namespace onnxfit
