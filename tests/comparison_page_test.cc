#include "estimator/picture/comparison_page.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/paths.h"
#include "tests/run_command.h"
#include "tests/temp_folder.h"

namespace onnxfit::comparison_page_test {
namespace {

std::string Model(const char* name) { return std::string(kSourceDir) + "/models/" + name; }

bool Has(const std::string& page, const std::string& text) {
  return page.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("a page of two says what grew, and what the verdict was") {
  const CommandResult result =
      RunCommand({"report", Model("resnet18.train.onnx"), Model("resnet50.train.onnx"), "-b", "64",
                  "-g", "gtx1650", "--exit-zero"});
  REQUIRE(result.code == 0);
  CHECK(result.out.starts_with("<!doctype html>"));
  for (const char* text :
       {"<h1>resnet18.train.onnx → resnet50.train.onnx</h1>", "<strong>OOM</strong> on gtx1650",
        "<p>Before: ", "<li>Grew by ", "<path class=\"before\"", "before: allocated + context",
        "Nodes, parameters and inputs that changed", "\"increase_bytes\":"}) {
    CAPTURE(text);
    CHECK(Has(result.out, text));
  }
}

TEST_CASE("a model beside itself is as before") {
  const CommandResult result =
      RunCommand({"report", Model("resnet18.train.onnx"), Model("resnet18.train.onnx"), "-b", "2"});
  REQUIRE(result.code == 0);
  CHECK(Has(result.out, ", as before.</li>"));
  CHECK(Has(result.out, "All nodes, parameters and inputs are as before."));
}

TEST_CASE("a report beside a model has no curve of its own") {
  const TempFolder folder;
  const std::string old = folder.Write(
      "old.json",
      RunCommand({Model("resnet18.train.onnx"), "-b", "4", "-p", "bf16", "-f", "json"}).out);
  const CommandResult result = RunCommand({"report", old, Model("resnet18.train.onnx")});
  REQUIRE(result.code == 0);
  CHECK(Has(result.out,
            "The model is asked what the report was: --batch 4, --precision bf16, "
            "--framework pytorch-2.11."));
  CHECK(Has(result.out, "<section id=\"step\""));
  CHECK_FALSE(Has(result.out, "<path class=\"before\""));
  const CommandResult back = RunCommand({"report", Model("resnet18.train.onnx"), old});
  REQUIRE(back.code == 0);
  CHECK_FALSE(Has(back.out, "<section id=\"step\""));
}

TEST_CASE("a side that cannot be read is named") {
  const CommandResult result = RunCommand({"report", Model("none.onnx"), Model("lenet.onnxtxt")});
  CHECK(result.code == 2);
  CHECK(Has(result.err, "none.onnx"));
}

}  // namespace onnxfit::comparison_page_test
