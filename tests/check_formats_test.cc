// The formats of a check that programs read, compared with the files in tests/golden/check/,
// which tests/check_schemas.py holds to their standards.  After a change that is meant:
// ONNXFIT_UPDATE_GOLDEN=1 ctest --preset dev -R check_formats_test, then read the difference.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "estimator/report/check.h"
#include "tests/files.h"
#include "tests/paths.h"
#include "tests/sample_check.h"

namespace onnxfit::check_formats_test {
namespace {

namespace fs = std::filesystem;

std::string SarifOf(const CheckAnswer& answer) { return ToSarif(answer, "0.1.0"); }

struct Format {
  const char* file;
  std::string (*write)(const CheckAnswer&);
};
constexpr Format kFormats[] = {{"junit.xml", ToJunit},   {"sarif.json", SarifOf},
                               {"github.txt", ToGithub}, {"gitlab.json", ToGitlab},
                               {"bench.json", ToBench},  {"comment.md", ToMarkdown}};

TEST_CASE("the formats of a check are as they were") {
  struct Sample {
    const char* name;
    CheckAnswer answer;
  };
  const Sample samples[] = {
      {"sample", SampleCheck()}, {"empty", EmptyCheck()}, {"many", ManyChecks(22, 12)}};
  const bool update = std::getenv("ONNXFIT_UPDATE_GOLDEN") != nullptr;
  const fs::path folder = fs::path(kSourceDir) / "tests/golden/check";
  for (const Sample& sample : samples) {
    for (const Format& format : kFormats) {
      const std::string file = std::string(sample.name) + "." + format.file;
      CAPTURE(file);
      const std::string text = format.write(sample.answer);
      if (update) std::ofstream(folder / file, std::ios::binary) << text;
      CHECK(text == ContentsOf(folder / file));
      CHECK(text.ends_with('\n'));
    }
  }
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("the URI of a path") {
  struct Row {
    const char* path;
    const char* uri;
  };
  const Row rows[] = {{"onnxfit.toml", "onnxfit.toml"}, {"../a-b_c~1/d.toml", "../a-b_c~1/d.toml"},
                      {"a b%:#?", "a%20b%25%3A%23%3F"}, {"a\\b", "a%5Cb"},
                      {"\xC3\xBC\xFF", "%C3%BC%FF"},    {"/a b", "file:///a%20b"}};
  for (const Row& row : rows) CHECK(UriOf(row.path) == row.uri);
}

TEST_CASE("annotations are ten, the worst first, and then a number") {
  CheckAnswer answer = ManyChecks(3, 10);
  CHECK(LinesOf(ToGithub(answer)).size() == 11);

  answer.rows.insert(answer.rows.begin(), RowOf("fresh", CheckStatus::kNew, kGiB));
  answer.rows.push_back(BrokenRow());
  const std::vector<std::string> lines = LinesOf(ToGithub(answer));
  REQUIRE(lines.size() == 12);
  CHECK(lines[0].starts_with("::error file=onnxfit.toml,line=12,title=onnxfit%3A broken::"));
  CHECK(lines[9].starts_with("::error file=onnxfit.toml,line=12,title=onnxfit%3A f8::"));
  CHECK(lines[10] == "and 2 more that are not shown here");
  CHECK(lines[11] == "ERROR: 1 error, 10 fail, 1 new, 3 pass");
}

TEST_CASE("what has no line of the config is of the file") {
  CheckAnswer answer = EmptyCheck();
  answer.rows = {BrokenRow()};
  answer.rows[0].line = 0;
  CHECK(SarifOf(answer).find("region") == std::string::npos);
  CHECK(ToGithub(answer).starts_with("::error file=onnxfit.toml,title=onnxfit%3A broken::"));
  CHECK(ToGitlab(answer).find("\"begin\": 1\n") != std::string::npos);
  CHECK(ToJunit(answer).find("onnxfit.toml") == std::string::npos);
}

TEST_CASE("a result names fifty nodes at most") {
  CheckAnswer answer = EmptyCheck();
  answer.rows = {GrownRow()};
  std::vector<std::string>& names = answer.rows[0].comparison->places[0].names;
  names.clear();
  for (int i = 0; i < 80; ++i) names.push_back("relu_" + std::to_string(i));
  const std::string sarif = SarifOf(answer);
  CHECK(sarif.find("\"relu_49\"") != std::string::npos);
  CHECK(sarif.find("\"relu_50\"") == std::string::npos);
  CHECK(sarif.find("fc2.weight\"\n") == std::string::npos);
}

TEST_CASE("passing rows beyond twenty are a number") {
  const std::string twenty = ToMarkdown(ManyChecks(20, 0));
  CHECK(twenty.find("| `p19` |") != std::string::npos);
  CHECK(twenty.find("more that") == std::string::npos);
  const std::string more = ToMarkdown(ManyChecks(23, 1));
  CHECK(more.find("| `f0` |") != std::string::npos);
  CHECK(more.find("| `p19` |") != std::string::npos);
  CHECK(more.find("| `p20` |") == std::string::npos);
  CHECK(more.find("\nand 3 more that pass\n") != std::string::npos);
}

TEST_CASE("a comment is no longer than GitHub takes it") {
  CheckAnswer answer = ManyChecks(50, 800);
  for (CheckRow& row : answer.rows) row.message = std::string(300, 'm');
  const std::string comment = ToMarkdown(answer);
  CHECK(comment.size() > 50'000);
  CHECK(comment.size() < 65'536);
  CHECK(comment.find("\nand 600 more that do not pass\n") != std::string::npos);
  CHECK(comment.find(" are left out.\n") != std::string::npos);
}

}  // namespace
}  // namespace onnxfit::check_formats_test
