#include "cli/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>

#include "estimator/base/error.h"

namespace onnxfit {
namespace {

// "" where it is not set.
std::string_view VariableOf(const Variables& environment, const char* name) {
  const char* text = environment.get(name);
  return text == nullptr ? "" : text;
}

// "en_US" of "en_US.UTF-8@euro" has none; the whole of "UTF-8", as macOS sets it.
std::string_view CharsetOf(std::string_view locale) {
  const size_t dot = locale.find('.');
  if (dot != std::string_view::npos) locale.remove_prefix(dot + 1);
  return locale.substr(0, locale.find('@'));
}

bool NamesUtf8(std::string_view charset) {
  std::string letters;
  for (const char c : charset) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter)) letters += static_cast<char>(std::tolower(letter));
  }
  return letters == "utf8";
}

bool IsOff(std::string_view value) { return value == "0" || value == "false"; }

}  // namespace

bool ShowsUtf8(const Variables& environment) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view locale = VariableOf(environment, name);
    if (!locale.empty()) return NamesUtf8(CharsetOf(locale));
  }
  return false;
}

bool WantsColor(const Variables& environment, bool is_terminal) {
  if (!VariableOf(environment, "NO_COLOR").empty()) return false;
  const std::string_view forced = VariableOf(environment, "FORCE_COLOR");
  if (!forced.empty()) return !IsOff(forced);
  const std::string_view clicolor_forced = VariableOf(environment, "CLICOLOR_FORCE");
  if (!clicolor_forced.empty() && !IsOff(clicolor_forced)) return true;
  const std::string_view terminal = VariableOf(environment, "TERM");
  const bool has_colors = !terminal.empty() && terminal != "dumb";
  return is_terminal && has_colors && VariableOf(environment, "CLICOLOR") != "0";
}

// What follows checks and writes outputs.
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

void CheckTerminal(const Options& options, const std::ostream& out, const char* what) {
  if (!IsStandardOutput(options, out) || isatty(STDOUT_FILENO) != 1) return;
  throw Error({.where = "--output",
               .text = fmt::format("expected a file: {} is nothing for a terminal", what)});
}

void CheckTextOrJson(const Options& options, const char* flag) {
  const bool is_ours = options.format == Format::kText || options.format == Format::kJson;
  if (is_ours && !options.file_format) return;
  throw Error({.where = "--format", .text = fmt::format("expected text or json beside {}", flag)});
}

JsonOptions WithVersion() { return {.version = ONNXFIT_VERSION}; }

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

// What follows replaces a file.
namespace {

[[noreturn]] void FailToWrite(const std::string& path, std::string_view what, int error) {
  throw Error({.file = path,
               .text = fmt::format("the {} could not be written: {}", what, std::strerror(error)),
               .hint = fmt::format("a folder that can be written; the old {} is as it was", what)});
}

// A file that is gone unless it was kept.
class NewFile {
 public:
  explicit NewFile(const std::string& path)
      : path_(path), fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {}
  ~NewFile() {
    if (fd_ >= 0) close(fd_);
    if (!path_.empty()) unlink(path_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // On the disk when it returns.
  bool Write(std::string_view text) {
    while (fd_ >= 0 && !text.empty()) {
      const ssize_t count = write(fd_, text.data(), text.size());
      if (count < 0 && errno != EINTR) return false;
      if (count > 0) text.remove_prefix(static_cast<size_t>(count));
    }
    return fd_ >= 0 && fsync(fd_) == 0;
  }

  void SetMode(fs::perms mode) { fchmod(fd_, static_cast<mode_t>(mode) & 0777); }

  bool RenameTo(const std::string& path) {
    if (std::rename(path_.c_str(), path.c_str()) != 0) return false;
    path_.clear();
    return true;
  }

 private:
  std::string path_;
  int fd_;
};

}  // namespace

void ReplaceFile(const std::string& path, std::string_view text, std::string_view what) {
  std::error_code ignored;
  const bool is_link = fs::is_symlink(path, ignored);
  const std::string target = is_link ? fs::weakly_canonical(path, ignored).string() : path;
  const fs::file_status old = fs::status(target, ignored);
  NewFile file(fmt::format("{}.{}.new", target, getpid()));
  if (!file.Write(text)) FailToWrite(path, what, errno);
  if (fs::is_regular_file(old)) file.SetMode(old.permissions());
  if (!file.RenameTo(target)) FailToWrite(path, what, errno);
}

}  // namespace onnxfit
