// What the [defaults] of ./onnxfit.toml say to commands other than check.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/parsed_options.h"
#include "tests/temp_folder.h"

namespace onnxfit::config_defaults_test {
namespace {

// A current folder with this onnxfit.toml, for as long as it lives.
class ScopedConfig {
 public:
  explicit ScopedConfig(const char* toml) : before_(std::filesystem::current_path()) {
    folder_.Write("onnxfit.toml", toml);
    std::filesystem::current_path(folder_.Path(""));
  }
  ~ScopedConfig() { std::filesystem::current_path(before_); }
  ScopedConfig(const ScopedConfig&) = delete;
  ScopedConfig& operator=(const ScopedConfig&) = delete;

 private:
  TempFolder folder_;
  std::filesystem::path before_;
};

}  // namespace

TEST_CASE("the config gives defaults, which the environment and flags overrule") {
  const ScopedConfig config(R"([defaults]
batch = 16
precision = ["bf16", "fp16"]
dims = { seq = 512 }
loss = "mse"
freeze = ["a.*", "b.*"]
ema = true
strict = true
)");
  const Options options = Parse({"m.onnx"});
  CHECK(options.request.binding.batch == 16);
  CHECK(options.sweep.precisions == std::vector{Precision::kBf16, Precision::kFp16});
  CHECK(options.request.binding.dims == std::map<std::string, int64_t>{{"seq", 512}});
  CHECK(options.request.settings.loss == Loss::kMse);
  CHECK(options.request.settings.freeze == std::vector<std::string>{"a.*", "b.*"});
  CHECK(options.request.settings.ema);
  CHECK(!options.is_strict);  // of checks

  setenv("ONNXFIT_BATCH", "8", 1);
  CHECK(Parse({"m.onnx"}).request.binding.batch == 8);
  CHECK(Parse({"m.onnx", "-b", "4"}).request.binding.batch == 4);
  unsetenv("ONNXFIT_BATCH");
  CHECK(Parse({"m.onnx", "-p", "fp32"}).sweep.empty());
  CHECK(!Parse({"m.onnx", "--ema=no"}).request.settings.ema);
  CHECK(Parse({"m.onnx", "--dim", "past=3"}).request.binding.dims ==
        std::map<std::string, int64_t>{{"past", 3}});
}

TEST_CASE("commands take of the config what they have flags for") {
  const ScopedConfig config("[defaults]\nbatch = 16\nloss = \"mse\"\n");
  CHECK(!Parse({"max-batch", "m.onnx"}).request.binding.batch);
  CHECK(Parse({"max-batch", "m.onnx"}).request.settings.loss == Loss::kMse);
  CHECK(Parse({"explain-oom", "x.log", "--model", "m"}).request.settings.loss == Loss::kMse);
  CHECK(Parse({"explain-oom", "x.log"}).log == "x.log");
  CHECK(Parse({"gpus"}).request.settings.loss == Loss::kCrossEntropy);
}

TEST_CASE("a config that is wrong ends the commands that read it") {
  const ScopedConfig config("[defaults]\nbatch = \"many\"\n[[check]]\nwrong = 1\n");
  CHECK(ErrorOf({"m.onnx"}) ==
        "onnxfit.toml: line 2: batch: expected a whole number from 1, found 'many'");
  CHECK(ErrorOf({"gpus"}).empty());
  CHECK(Parse({"--help"}).action == Action::kHelp);
  const ScopedConfig other("[[check]]\nwrong = 1\n");
  CHECK(ErrorOf({"m.onnx"}).empty());
  const ScopedConfig table("[defaults]\nprecision = [\"fp32\", \"bf16\"]\n");
  CHECK(ErrorOf({"m.onnx", "--why", "x"}) ==
        "--why: expected one run, found a table of 2 (2 of --precision) (try: one value for "
        "--precision)");
}

TEST_CASE("a value of the config that a flag makes wrong says where it stands") {
  const ScopedConfig config(R"([defaults]
framework = "pytorch-2.15"
alloc-conf = "graph_capture_record_stream_reuse:True"
)");
  CHECK(ErrorOf({"m.onnx"}).empty());
  CHECK(ErrorOf({"m.onnx", "--framework", "pytorch-2.6"}) ==
        "onnxfit.toml: line 3: alloc-conf: expected an option of PYTORCH_ALLOC_CONF in "
        "pytorch-2.6, found 'graph_capture_record_stream_reuse'");
}

}  // namespace onnxfit::config_defaults_test
