// Logs whose numbers cannot be: nothing that is told of them is below zero or endless.
#include <doctest/doctest.h>

#include <cctype>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "estimator/oom/explanation.h"
#include "estimator/oom/formats.h"
#include "estimator/report/oom.h"
#include "tests/files.h"
#include "tests/paths.h"

namespace onnxfit::oom_numbers_test {
namespace {

struct OddLog {
  std::string name = {};
  std::string text = {};
};

// "\x5C" of a line is a byte.
std::string Unescaped(const std::string& line) {
  std::string text;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line.compare(i, 2, "\\x") == 0) {
      text += static_cast<char>(std::stoi(line.substr(i + 2, 2), nullptr, 16));
      i += 3;
    } else {
      text += line[i];
    }
  }
  return text;
}

std::vector<OddLog> OddLogs() {
  const auto path = std::filesystem::path(kSourceDir) / "tests/data/oom_odd_numbers.txt";
  std::istringstream lines(ContentsOf(path));
  std::vector<OddLog> logs;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("%%%% ")) {
      logs.push_back({.name = line.substr(5)});
    } else if (!logs.empty()) {
      logs.back().text += Unescaped(line) + "\n";
    }
  }
  return logs;
}

// JSON without its texts.
std::string NumbersIn(const std::string& json) {
  std::string numbers;
  bool is_text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    if (is_text && json[i] == '\\') {
      ++i;
      continue;
    }
    if (json[i] == '"') is_text = !is_text;
    if (!is_text) numbers += json[i];
  }
  return numbers;
}

// "-2.00 MiB", as bytes below zero are written.
bool HasNegative(const std::string& text) {
  for (size_t at = text.find('-'); at != std::string::npos; at = text.find('-', at + 1)) {
    const bool is_sign = at == 0 || text[at - 1] == ' ';
    if (is_sign && at + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[at + 1]))) {
      return true;
    }
  }
  return false;
}

void CheckNumbers(const std::vector<OomExplanation>& processes) {
  const std::string numbers = NumbersIn(ToJson("log", processes, std::nullopt, {}));
  CHECK(numbers.find('-') == std::string::npos);
  CHECK(numbers.find("null") == std::string::npos);
  for (const OomExplanation& e : processes) {
    for (const std::string& line : e.summary) CHECK(!HasNegative(line));
    for (const OomRemedy& remedy : e.remedies) CHECK(!HasNegative(remedy.why));
  }
}

TEST_CASE("numbers that cannot be are never reckoned with") {
  const std::vector<OddLog> logs = OddLogs();
  CHECK(logs.size() == 38);
  for (const OddLog& log : logs) {
    CAPTURE(log.name);
    std::vector<OomExplanation> processes;
    for (const ProcessOom& process : ReadOomLog(log.text).processes) {
      processes.push_back(ExplainOom(process));
    }
    CHECK(!processes.empty());
    CheckNumbers(processes);
  }
}

std::string Text(const char* tried, const char* total, const char* free, const char* reserved) {
  return std::string("CUDA out of memory. Tried to allocate ") + tried + " (GPU 0; " + total +
         " total capacity; 3.20 GiB already allocated; " + free + " free; " + reserved +
         " reserved in total by PyTorch)";
}

TEST_CASE("a number that cannot be counts as not said, and is told") {
  struct Row {
    std::string text;
    std::vector<DoubtedNumber> doubted;
  };
  const Row rows[] = {
      {Text("2.00 MiB", "3.95 GiB", "2.81 MiB", "3.22 GiB"), {}},
      {Text("2.00 MiB", "3.95 GiB", "-2.81 MiB", "3.22 GiB"), {{OomField::kFree, "-2.81 MiB"}}},
      {Text("0 bytes", "3.95 GiB", "1.00 MiB", "3.22 GiB"), {{OomField::kTried, "0 bytes"}}},
      {Text("2.00 MiB", "0 bytes", "1.00 MiB", "3.22 GiB"), {{OomField::kTotal, "0 bytes"}}},
      {Text("2.00 MiB", "3.95 GiB", "1.00 MiB", "17179869184.00 GiB"),
       {{OomField::kReserved, "17179869184.00 GiB"}}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const OomExplanation e = ExplainOom(ReadOomLog(row.text).processes.at(0));
    CHECK(e.message.doubted == row.doubted);
    for (const DoubtedNumber& doubted : row.doubted) {
      CHECK(!e.message.Size(doubted.field));
      bool is_told = false;
      for (const std::string& note : e.notes) {
        is_told = is_told || note.find("says " + doubted.text) != std::string::npos;
      }
      CHECK(is_told);
    }
    CheckNumbers({e});
  }
}

constexpr char kNothingAllowed[] =
    "MPS backend out of memory (MPS allocated: 9.20 GB, other allocations: 8.50 GB, max allowed: 0 "
    "GB). Tried to allocate 1.00 GB on shared pool.";

// Less reserved than allocated, more free than the card has or than was asked for, a card of
// nothing.
TEST_CASE("numbers that contradict one another give no bytes below zero") {
  for (const std::string& text :
       {Text("2.00 MiB", "3.95 GiB", "2.81 MiB", "1.22 GiB"),
        Text("2.00 GiB", "3.95 GiB", "23.81 GiB", "3.22 GiB"),
        Text("2.00 MiB", "3.95 GiB", "2.81 GiB", "3.90 GiB"), std::string(kNothingAllowed)}) {
    CAPTURE(text);
    CheckNumbers({ExplainOom(ReadOomLog(text).processes.at(0))});
  }
}

}  // namespace
}  // namespace onnxfit::oom_numbers_test
