#include "estimator/picture/page.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/files.h"
#include "tests/paths.h"
#include "tests/run_command.h"
#include "tests/temp_folder.h"

namespace onnxfit::page_test {
namespace {

std::string Model(const char* name) { return std::string(kSourceDir) + "/models/" + name; }

std::string PageOf(std::vector<std::string> args) {
  args.insert(args.begin(), "report");
  const CommandResult result = RunCommand(args);
  CHECK(result.err == "");
  return result.out;
}

bool Has(const std::string& page, const std::string& text) {
  return page.find(text) != std::string::npos;
}

size_t Count(const std::string& page, const std::string& text) {
  size_t count = 0;
  for (size_t at = page.find(text); at != std::string::npos; at = page.find(text, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("a page says the verdict, what takes most and when the peak is") {
  const std::string page = PageOf({Model("resnet18.train.onnx"), "-b", "8", "-g", "t4"});
  CHECK(page.starts_with("<!doctype html>\n<html lang=\"en\">"));
  CHECK(Has(page, "<strong>FITS</strong> on t4: "));
  CHECK(Has(page, "<li>Largest part: "));
  CHECK(Has(page, "<li>The peak is in step "));
  for (const char* id : {"step", "peak", "batch", "nodes", "trust"}) {
    CAPTURE(id);
    CHECK(Has(page, std::string("<section id=\"") + id + "\""));
  }
  CHECK(Count(page, "<h1>") == 1);
}

TEST_CASE("a page loads nothing from anywhere") {
  const std::string page = PageOf({Model("resnet18.train.onnx"), "-b", "8"});
  for (const char* word : {"http://", "https://", "src=", "href=", "@import", "url("}) {
    CAPTURE(word);
    CHECK_FALSE(Has(page, word));
  }
}

TEST_CASE("a page of resnet50 is below 300 kB") {
  CHECK(PageOf({Model("resnet50.train.onnx"), "-b", "32", "-g", "rtx3060"}).size() < 300'000);
}

TEST_CASE("what would make it fit is on the page, the first of it at the top") {
  const std::string page =
      PageOf({Model("resnet18.train.onnx"), "-b", "512", "-g", "gtx1650", "--exit-zero"});
  CHECK(Has(page, "<strong>OOM</strong>"));
  CHECK(Has(page, "To make it fit gtx1650, first: "));
  CHECK(Has(page, "<section id=\"advice\""));
}

TEST_CASE("names are text, whatever is in them") {
  const TempFolder folder;
  folder.Write("m.onnxtxt", R"(<ir_version: 8, opset_import: ["" : 17]>
net (float[N, 4] x) => (float[N, 2] y) <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}>
{ ["</script><b>"] y = MatMul(x, w) })");
  const CommandResult result = RunCommand({"report", folder.Path("m.onnxtxt"), "-b", "2"});
  REQUIRE(result.code == 0);
  CHECK_FALSE(Has(result.out, "</script><b>"));
}

TEST_CASE("batches around one are themselves among others, in order") {
  CHECK(BatchesAround(1) == std::vector<int64_t>{1, 2, 3, 4});
  CHECK(BatchesAround(32) == std::vector<int64_t>{1, 8, 16, 32, 48, 64, 96, 128});
}

TEST_CASE("report takes one run and one model, and no format") {
  CHECK(RunCommand({"report"}).code == 2);
  CHECK(RunCommand({"report", Model("lenet.onnxtxt"), "-b", "1,2"}).err ==
        "error: --batch: expected one value with report, found 2\n");
  CHECK(RunCommand({"report", Model("lenet.onnxtxt"), "--format", "json"}).code == 2);
}

TEST_CASE("a file that exists is not written over without --force") {
  const TempFolder folder;
  folder.Write("r.html", "mine");
  const std::vector<std::string> args = {"report",   Model("lenet.onnxtxt"), "-b", "4",
                                         "--output", folder.Path("r.html")};
  CHECK(RunCommand(args).code == 2);
  CHECK(ContentsOf(folder.Path("r.html")) == "mine");
  std::vector<std::string> forced = args;
  forced.push_back("--force");
  CHECK(RunCommand(forced).code == 0);
  CHECK(ContentsOf(folder.Path("r.html")).starts_with("<!doctype html>"));
}

}  // namespace onnxfit::page_test
