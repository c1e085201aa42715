// Every message of tests/data/oom_messages.txt, as it is read and judged.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/oom/explanation.h"
#include "estimator/oom/formats.h"
#include "tests/files.h"
#include "tests/paths.h"

namespace onnxfit::oom_messages_test {
namespace {

struct Example {
  std::string expected = {};  // "FORMAT | VERDICT | what is read"
  std::string text = {};
};

std::vector<Example> Examples() {
  const auto path = std::filesystem::path(kSourceDir) / "tests/data/oom_messages.txt";
  std::istringstream lines(ContentsOf(path));
  std::vector<Example> examples;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("=== ")) {
      examples.push_back({.expected = line.substr(4)});
    } else if (!line.starts_with('#') && !examples.empty()) {
      examples.back().text += line + "\n";
    }
  }
  return examples;
}

std::string FieldsText(const OomMessage& message) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? " " : ", ") + part; };
  if (message.gpu) add(fmt::format("gpu {}", *message.gpu));
  for (size_t i = 0; i < kOomFields; ++i) {
    if (!message.sizes[i]) continue;
    add(fmt::format("{} {}", ToString(static_cast<OomField>(i)),
                    FormatBytes(message.sizes[i]->bytes)));
  }
  for (const OtherProcess& other : message.others) {
    add(fmt::format("{}: {}", other.pid, FormatBytes(other.bytes.bytes)));
  }
  if (message.tensor.dtype != DType::kUndefined) add(ToString(message.tensor));
  if (!message.node.empty()) add("at " + message.node);
  return text;
}

std::string Told(std::string_view log) {
  const OomLog read = ReadOomLog(log);
  if (read.processes.size() != 1) return fmt::format("{} processes", read.processes.size());
  const OomExplanation e = ExplainOom(read.processes[0]);
  return fmt::format("{} | {} |{}", e.message.format->name, ToString(e.judgement.verdict),
                     FieldsText(e.message));
}

// What is told of a size has the digits that stand in the message.
void CheckDigits(const std::string& log) {
  const OomLog read = ReadOomLog(log);
  if (read.processes.size() != 1) return;
  for (const std::optional<PrintedBytes>& size : read.processes[0].message.sizes) {
    if (!size || size->places == 0) continue;
    const std::string text = ToString(*size);
    CAPTURE(text);
    CHECK(log.find(text.substr(0, text.find(' '))) != std::string::npos);
  }
}

TEST_CASE("every format is read and judged") {
  std::set<std::string> seen;
  for (const Example& example : Examples()) {
    CAPTURE(example.text);
    CHECK(Told(example.text) == example.expected);
    CheckDigits(example.text);
    seen.insert(example.expected.substr(0, example.expected.find(' ')));
  }
  for (const OomFormat& format : OomFormats()) {
    CAPTURE(format.name);
    const bool is_shown = seen.contains(std::string(format.name));
    CHECK((is_shown || format.rank == OomRank::kNumbers));
  }
}

// As logs are read.
std::string Squeezed(std::string text) {
  std::erase(text, ' ');
  return text;
}

// c10/cuda/CUDACachingAllocator.cpp, format_size: halves go to the even digit, as printf rounds the
// binary number (1152 MiB are 1.125 GiB, 1224 MiB 1.1953125 GiB).
TEST_CASE("sizes are read and written as PyTorch prints them") {
  CHECK(PyTorchBytes(1024) == "1024 bytes");
  CHECK(PyTorchBytes(1025) == "1.00 KiB");
  CHECK(PyTorchBytes(kMiB) == "1024.00 KiB");
  CHECK(PyTorchBytes(kGiB) == "1024.00 MiB");
  CHECK(PyTorchBytes(1152 * kMiB) == "1.12 GiB");
  CHECK(PyTorchBytes(1224 * kMiB) == "1.20 GiB");
  for (int64_t bytes = 2 * kMiB; bytes < 40 * kGiB; bytes += 34 * kMiB) {
    const std::string text = PyTorchBytes(bytes);
    CAPTURE(text);
    const std::optional<ReadSizeResult> read = ReadSize(Squeezed(text));
    REQUIRE(read);
    CHECK(read->size.Prints(bytes));
    CHECK(ToString(read->size) == text);
    CHECK_FALSE(read->size.Prints(bytes + 12 * kMiB));
  }
  CHECK(ReadSize("1.12GiB")->size.Prints(1152 * kMiB));
  CHECK_FALSE(ReadSize("1.13GiB")->size.Prints(1152 * kMiB));
}

// As a terminal of `columns` breaks lines; each one behind `prefix`.
std::string Broken(const std::string& text, size_t columns, const std::string& prefix) {
  std::string broken;
  for (size_t at = 0; at < text.size(); at += columns) {
    broken += prefix + text.substr(at, columns) + "\n";
  }
  return broken;
}

TEST_CASE("prefixes, colours and line breaks change nothing") {
  for (const Example& example : Examples()) {
    if (example.text.find('\n') + 2 < example.text.size()) continue;  // of several lines already
    CAPTURE(example.text);
    CHECK(Told("[rank3]: " + example.text) == example.expected);
    CHECK(Told("Traceback:\n\033[31;1m" + example.text + "\033[0m\n") == example.expected);
    for (const size_t columns : {size_t{37}, size_t{80}}) {
      CHECK(Told(Broken(example.text, columns, "")) == example.expected);
    }
    CHECK(Told("> ```\r\n> " + example.text + ">\r\n") == example.expected);
  }
}

}  // namespace
}  // namespace onnxfit::oom_messages_test
