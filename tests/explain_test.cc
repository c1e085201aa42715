#include <doctest/doctest.h>

#include <string>

#include "estimator/base/warning_texts.h"
#include "tests/files.h"
#include "tests/paths.h"
#include "tests/run_command.h"

namespace onnxfit::explain_test {
namespace {

TEST_CASE("a code is told at length, however it is typed") {
  const CommandResult result = RunCommand({"explain", "OF109"});
  CHECK(result.code == 0);
  CHECK(result.out.starts_with("OF109: the file leaves open what decides\n\nWhether nn.ReLU "));
  CHECK(result.out.find("\nWhat settles it\n  Type the flag") != std::string::npos);
  CHECK(RunCommand({"explain", "of109"}).out == result.out);
  CHECK(RunCommand({"explain", "109"}).out == result.out);
}

TEST_CASE("without a code there is a line for each") {
  const std::string out = RunCommand({"explain"}).out;
  for (const WarningText& warning : WarningTexts()) {
    CHECK(out.find(std::string(warning.code) + "    " + std::string(warning.title) + "\n") !=
          std::string::npos);
  }
}

TEST_CASE("a verdict is told by its word") {
  const std::string list = RunCommand({"explain"}).out;
  for (const char* word : {"FITS", "TIGHT", "OOM", "VERDICT"}) {
    CAPTURE(word);
    const CommandResult result = RunCommand({"explain", word});
    CHECK(result.code == 0);
    CHECK(result.out.starts_with(std::string(word) + ": "));
    CHECK(result.out.find("\nWhat settles it\n  ") != std::string::npos);
    CHECK(list.find(std::string("\n") + word + " ") != std::string::npos);
  }
  CHECK(RunCommand({"explain", "tight"}).out == RunCommand({"explain", "TIGHT"}).out);
}

TEST_CASE("a code that no warning has is an error that says where they are") {
  const CommandResult result = RunCommand({"explain", "OF999"});
  CHECK(result.code == 2);
  CHECK(result.err ==
        "error: expected the code of a warning, such as OF109, or a verdict, such as TIGHT, found "
        "'OF999' (try: onnxfit explain, which lists them)\n");
}

// The codes that warnings.h has, between quotes.
TEST_CASE("every warning has its text") {
  const std::string header = ContentsOf(std::string(kSourceDir) + "/estimator/base/warnings.h");
  size_t count = 0;
  for (size_t at = header.find("\"OF"); at != std::string::npos; at = header.find("\"OF", at + 1)) {
    const std::string code = header.substr(at + 1, 5);
    CAPTURE(code);
    CHECK(FindWarningText(code) != nullptr);
    ++count;
  }
  CHECK(count == WarningTexts().size());
}

}  // namespace
}  // namespace onnxfit::explain_test
