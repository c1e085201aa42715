// CUBLAS_WORKSPACE_CONFIG, and what a run takes by it.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "cli/values.h"
#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/framework.h"
#include "tests/trace_helpers.h"

namespace onnxfit::cublas_conf_test {
namespace {

int64_t BytesOf(const std::string& text) { return ParseCublasConf({"--cublas-conf", text}).bytes; }

std::string ErrorOf(const std::string& text) {
  try {
    BytesOf(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("sizes times counts are of each handle") {
  CHECK(BytesOf(":4096:8") == 32 * kMiB);
  CHECK(BytesOf(":4096:2:16:8") == 8519680);  // PyTorch's own
  CHECK(BytesOf(":16:8") == 128 * kKiB);
  CHECK(BytesOf(":0:0") == 0);
}

TEST_CASE("what is no size and count is refused") {
  constexpr char kExpected[] =
      "--cublas-conf: expected sizes in KiB and counts such as :4096:8, found ";
  for (const char* text : {"", "4096:8", ":4096", ":4096:", ":4096:8:16", ":4096:8,"}) {
    CAPTURE(text);
    CHECK(!ErrorOf(text).empty());
  }
  CHECK(ErrorOf("4096:8") == std::string(kExpected) + "'4096:8'");
  CHECK(ErrorOf(":4096:-8") ==
        "--cublas-conf: expected a whole number from 0 to 2147483647, found '-8'");
}

TEST_CASE("each handle takes what the user says, before what a library's loop sets") {
  const auto takes = [](const std::string& config, LoopLibrary library = LoopLibrary::kPlain) {
    TrainingSettings settings;
    settings.loop.library = library;
    if (!config.empty()) settings.cublas = ParseCublasConf({"--cublas-conf", config});
    const std::string text = TraceText(kTwoLayers, settings);
    std::string taken;
    for (size_t at = text.find("+cuBLAS"); at != text.npos; at = text.find("+cuBLAS", at + 1)) {
      taken += text.substr(at, text.find(' ', at + 8) - at) + "\n";
    }
    return taken;
  };
  const std::string own = "+cuBLAS workspace:8519680\n";
  CHECK(takes("") == own + own);
  CHECK(takes(":16:8") == "+cuBLAS workspace:131072\n+cuBLAS workspace:131072\n");
  CHECK(takes(":0:0").empty());
  CHECK(takes("", LoopLibrary::kUltralytics).starts_with("+cuBLAS workspace:33554432"));
  CHECK(takes(":0:0", LoopLibrary::kUltralytics).empty());
}

// CublasHandlePool.cpp of PyTorch 2.11, and its events under the same variable.
TEST_CASE("cublasLt's workspace is no larger than cuBLAS's where PyTorch holds it within") {
  constexpr char kLinear[] = R"(
    net (float[16, 64] x) => (float[16, 48] y)
    < float[48, 64] w = ["location": "none"], float[48] b = ["location": "none"] > {
      y = Gemm <transB = 1> (x, w, b)
    })";
  const auto taken = [&](const std::string& config, std::string_view framework) {
    const auto is_it = [&](const FrameworkProfile& known) { return known.name == framework; };
    TrainingSettings settings;
    settings.framework = *std::ranges::find_if(Frameworks(), is_it);
    settings.cublas = ParseCublasConf({"--cublas-conf", config});
    const std::string text = TraceText(kLinear, settings);
    const size_t at = text.find("+cublasLt workspace:");
    return at == text.npos ? "" : text.substr(at + 20, text.find(' ', at + 20) - at - 20);
  };
  CHECK(taken(":4096:2", "pytorch-2.11") == "1048576");
  CHECK(taken(":16:8", "pytorch-2.11") == "131072");
  CHECK(taken(":0:0", "pytorch-2.11").empty());
  CHECK(taken(":0:0", "pytorch-2.6") == "1048576");
}

}  // namespace
}  // namespace onnxfit::cublas_conf_test
