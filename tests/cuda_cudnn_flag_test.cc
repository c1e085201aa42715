// --cudnn, with the libcudnn that the toolkit's machine has.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "estimator/cuda/libraries.h"
#include "tests/paths.h"
#include "tests/run_command.h"
#include "tests/temp_folder.h"

namespace onnxfit::cuda_cudnn_flag_test {
namespace {

using Args = std::vector<std::string>;

CommandResult Resnet(Args more) {
  Args args = {std::string(kSourceDir) + "/models/resnet18.train.onnx", "-b", "8"};
  args.insert(args.end(), more.begin(), more.end());
  return RunCommand(args);
}

// Whether there is one that can be asked.
bool HasCudnn() {
  const auto libraries = OpenLibraries(PlacesOfEnvironment());
  return libraries->files().back().why_missing.empty();
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("--cudnn none: no convolution asks for a workspace, whatever comes with the command") {
  const CommandResult none = Resnet({"--cudnn", "none", "--gpu", "rtx3060", "--gpu", "h100"});
  CHECK(none.code == 0);
  CHECK(none.out.find("convolutions ask cuDNN for no workspace") != std::string::npos);
  CHECK(Resnet({"--gpu", "rtx3060"}).out.find("convolutions ask cuDNN for no workspace") ==
        std::string::npos);
}

TEST_CASE("--cudnn none leaves nothing open that cuDNN might ask for") {
  const auto tight = [](Args more) {
    more.insert(more.end(), {"--memory", "475MiB", "--overhead", "0"});
    return Resnet(more).out;
  };
  CHECK(Has(tight({}), "cuDNN may ask for up to"));
  CHECK(Has(tight({"--cudnn", "none"}), "FITS"));
}

TEST_CASE("a folder without cuDNN is refused") {
  const TempFolder folder;
  const CommandResult result = Resnet({"--cudnn", folder.Path(".")});
  CHECK(result.code == 2);
  CHECK(result.out == "");
  CHECK(result.err.starts_with("error: "));
  CHECK(Has(result.err, "--cudnn: "));
  CHECK(Has(result.err, "libcudnn.so.9"));
}

TEST_CASE("cuDNN's answers are for the card that is named") {
  if (!HasCudnn()) {
    CHECK(Resnet({"--cudnn", "auto"}).code == 2);
    return;
  }
  const CommandResult ampere = Resnet({"--cudnn", "auto", "--gpu", "a100-40gb"});
  CHECK(ampere.code == 0);
  CHECK(Has(ampere.out, "chooses for A100-SXM4-40GB, asked without it"));
  CHECK(Has(ampere.out, "workspaces in 32 of 32 passes"));
  const CommandResult turing = Resnet({"--cudnn", "auto", "--gpu", "t4"});
  CHECK(Has(turing.out, "chooses for Tesla T4, asked without it"));
  // One that cuDNN does not know does not keep the other from its answer.
  const CommandResult old = Resnet({"--cudnn", "auto", "--gpu", "t4", "--gpu", "k80"});
  CHECK(old.code == 0);
  CHECK(Has(old.out, turing.out.substr(0, turing.out.find('\n'))));
  CHECK(Has(old.out, "OF204"));
  CHECK(Has(old.out, "k80: cuDNN "));
  // Two cards in one run get what each gets alone.
  const CommandResult both = Resnet({"--cudnn", "auto", "--gpu", "a100-40gb", "--gpu", "t4"});
  CHECK(Has(both.out, ampere.out.substr(0, ampere.out.find('\n'))));
  CHECK(Has(both.out, turing.out.substr(0, turing.out.find('\n'))));
}

}  // namespace onnxfit::cuda_cudnn_flag_test
