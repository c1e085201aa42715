// What needs no card: where NVIDIA's libraries are looked for, what is said where there are none,
// and the plans that cuDNN makes for cards that are only described.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "benchmarks/cuda/on_host/host_cuda.h"
#include "estimator/base/error.h"
#include "estimator/cuda/libraries.h"
#include "estimator/cuda/loaded_bytes.h"
#include "estimator/cuda/shared_library.h"

namespace onnxfit::cuda_libraries_test {
namespace {

namespace fs = std::filesystem;

// A folder that is gone with the test.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / "onnxfit_cuda_libraries_test") {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

  void Write(const std::string& name) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << "no library\n";
  }

 private:
  fs::path path_;
};

constexpr DescribedCard kA100 = {
    .compute_capability = 80, .multiprocessors = 108, .threads_per_multiprocessor = 2048};
constexpr DescribedCard kT4 = {
    .compute_capability = 75, .multiprocessors = 40, .threads_per_multiprocessor = 1024};

// resnet50's first 3 x 3 convolution at batch 32.
Convolution Resnet(ConvolutionPass pass, DType dtype) {
  return {.pass = pass,
          .dtype = dtype,
          .input = {32, 64, 56, 56},
          .weight = {64, 64, 3, 3},
          .output = {32, 64, 56, 56},
          .stride = {1, 1},
          .padding = {1, 1},
          .dilation = {1, 1}};
}

// cuDNN's answers, those that are missing as -1; none where there is no cuDNN to ask.
std::vector<int64_t> Ask(const std::vector<Convolution>& convolutions, const DescribedCard& card) {
  const auto libraries = OpenLibraries(PlacesOfEnvironment());
  const LibraryFile& cudnn = libraries->files().back();
  REQUIRE(cudnn.name == "cudnn");
  if (!cudnn.why_missing.empty()) {
    MESSAGE("not asked: ", cudnn.why_missing);
    return {};
  }
  std::vector<int64_t> bytes;
  for (const Convolution& convolution : convolutions) {
    const PlannedWorkspaces answers = libraries->Workspaces({convolution}, card);
    CHECK(answers.found.size() + answers.missing.size() == 1);
    bytes.push_back(answers.found.empty() ? -1 : answers.found[0].bytes);
  }
  return bytes;
}

TEST_CASE("libraries are looked for where PyTorch has them") {
  const Folder folder;
  for (const char* file : {"venv/lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9",
                           "venv/lib/python3.12/site-packages/nvidia/cu13/lib/libcublas.so.13",
                           "venv/lib/python3.12/site-packages/nvidia/nothing/include/a.h",
                           "venv/lib/python2.7/site-packages/nvidia/cudnn/lib/libcudnn.so.9",
                           "conda/lib/python3.11/site-packages/nvidia/cublas/lib/libcublas.so.12",
                           "path/lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9",
                           "usr/lib/python3.11/dist-packages/nvidia/cublas/lib/libcublas.so.12"}) {
    folder.Write(file);
  }
  CHECK(LibraryFolders({.given = "/mine",
                        .virtual_env = folder / "venv",
                        .conda_prefix = folder / "conda",
                        .python = folder / "path",
                        .prefixes = {folder / "none", folder / "usr"},
                        .toolkit = "/toolkit"}) ==
        std::vector<std::string>{
            "/mine",
            folder / "venv/lib/python3.12/site-packages/nvidia/cu13/lib",
            folder / "venv/lib/python3.12/site-packages/nvidia/cudnn/lib",
            folder / "conda/lib/python3.11/site-packages/nvidia/cublas/lib",
            folder / "path/lib/python3.12/site-packages/nvidia/cudnn/lib",
            folder / "usr/lib/python3.11/dist-packages/nvidia/cublas/lib",
            "",
            "/toolkit",
        });
  CHECK(LibraryFolders({.virtual_env = folder / "none", .toolkit = ""}) ==
        std::vector<std::string>{""});
}

TEST_CASE("a library that is missing is a sentence") {
  const Folder folder;
  folder.Write("libonnxfit_none.so.2");
  const SharedLibrary missing({"/nowhere", ""}, {"libonnxfit_none.so.1", "libonnxfit_none.so"});
  CHECK_FALSE(missing.is_open());
  CHECK(missing.path().empty());
  CHECK(missing.why_missing() ==
        "no libonnxfit_none.so.1 or libonnxfit_none.so in /nowhere, the loader's path");

  const std::string file = folder / "libonnxfit_none.so.2";
  const SharedLibrary refused({fs::path(file).parent_path()}, {"libonnxfit_none.so.2"});
  CHECK_FALSE(refused.is_open());
  CHECK(refused.why_missing().starts_with("no libonnxfit_none.so.2 in "));
  CHECK(refused.why_missing().find("; " + file + ": ") != std::string::npos);  // the loader's words
}

TEST_CASE("a library that is there names its file, and what it lacks") {
  const SharedLibrary maths({"/nowhere", ""}, {"libonnxfit_none.so", "libm.so.6"});
  REQUIRE(maths.is_open());
  CHECK(maths.why_missing().empty());
  CHECK(fs::path(maths.path()).filename() == "libm.so.6");

  double (*cosine)(double) = nullptr;
  maths.Load("cos", cosine);
  CHECK(cosine(0) == 1);
  try {
    maths.Load("cosine_of_onnxfit", cosine);
    FAIL("expected an error");
  } catch (const Error& error) {
    CHECK(error.what() == maths.path() + ": has no function cosine_of_onnxfit");
  }
}

TEST_CASE("a meter tells what a card lost between two readings") {
  constexpr int64_t kPage = int64_t{2} << 20;
  MemoryMeter meter;
  const DeviceBuffer first(4096);
  meter.Read("a handle");
  const DeviceBuffer second(3 * kPage);
  meter.Read("kernels");
  const DeviceBuffer nobodys(kPage);
  meter.Restart();
  {
    const DeviceBuffer third(kPage);
    meter.Read("kernels");
  }
  CHECK(meter.loaded() == std::vector<LoadedBytes>{{.what = "a handle", .bytes = kPage},
                                                   {.what = "kernels", .bytes = 4 * kPage}});
}

TEST_CASE("a context is measured by a second one, which goes again") {
  MemoryMeter meter;
  MeasureContext(meter);
  CHECK(meter.loaded() ==
        std::vector<LoadedBytes>{{.what = "context", .bytes = TheHostCuda().context_bytes}});
  CHECK(TheHostCuda().held_bytes == 0);
}

TEST_CASE("every library is found or says why not") {
  const auto libraries = OpenLibraries(PlacesOfEnvironment());
  CHECK(libraries->files().size() == 3);
  for (const LibraryFile& file : libraries->files()) {
    CAPTURE(file.name);
    CHECK((file.path.empty() == file.version.empty()));
    CHECK((!file.path.empty() || !file.why_missing.empty()));
  }
}

TEST_CASE("cuDNN plans for a card that is not there") {
  const std::vector<int64_t> bytes = Ask({Resnet(ConvolutionPass::kForward, DType::kFloat32),
                                          Resnet(ConvolutionPass::kDataGradient, DType::kFloat32),
                                          Resnet(ConvolutionPass::kWeightGradient, DType::kFloat32),
                                          Resnet(ConvolutionPass::kForward, DType::kBFloat16)},
                                         kA100);
  if (bytes.empty()) return;
  // Copies of tensors with channels last; at least of the input, in every version so far.
  const int64_t input = int64_t{32} * 64 * 56 * 56 * 4;
  CHECK(bytes[0] >= input);
  CHECK(bytes[1] >= input);
  CHECK(bytes[2] >= input);
  CHECK(bytes[3] >= input / 2);
  CHECK(bytes[3] < bytes[1]);

  if (OpenLibraries(PlacesOfEnvironment())->files().back().version != "9.19.0") return;
  const int64_t weight = int64_t{64} * 64 * 3 * 3 * 4;
  CHECK(bytes == std::vector<int64_t>{input + weight + 16, 51'527'696, 54'641'215, 25'763'856});
}

TEST_CASE("tensors in the order NHWC have no copies") {
  Convolution lines = Resnet(ConvolutionPass::kForward, DType::kBFloat16);
  Convolution last = lines;
  last.is_channels_last = true;
  const std::vector<int64_t> bytes = Ask({lines, last}, kA100);
  if (bytes.empty()) return;
  CHECK(bytes[0] > 0);
  CHECK(bytes[1] == 0);
}

TEST_CASE("engines that compile their kernels are chosen, too") {
  const Convolution thin = {.pass = ConvolutionPass::kWeightGradient,
                            .dtype = DType::kBFloat16,
                            .input = {8, 32, 64, 64},
                            .weight = {1, 32, 3, 3},
                            .output = {8, 1, 64, 64},
                            .stride = {1, 1},
                            .padding = {1, 1},
                            .dilation = {1, 1}};
  const std::vector<int64_t> bytes = Ask({thin}, kA100);
  const bool has_driver = std::filesystem::exists(LibraryPlaces().toolkit + "/stubs/libcuda.so");
  if (bytes.empty() || !has_driver) return;
  if (OpenLibraries(PlacesOfEnvironment())->files().back().version != "9.19.0") return;
  CHECK(bytes[0] == 0);  // of those compiled in advance the first asks for 4,051,991
}

TEST_CASE("what a card or cuDNN cannot do is a sentence") {
  const auto libraries = OpenLibraries(PlacesOfEnvironment());
  if (!libraries->files().back().why_missing.empty()) return;
  const PlannedWorkspaces answers =
      libraries->Workspaces({Resnet(ConvolutionPass::kForward, DType::kBFloat16),
                             Resnet(ConvolutionPass::kDataGradient, DType::kInt32),
                             Resnet(ConvolutionPass::kForward, DType::kFloat16)},
                            kT4);
  REQUIRE(answers.found.size() == 1);
  CHECK(answers.found[0].convolution == Resnet(ConvolutionPass::kForward, DType::kFloat16));
  REQUIRE(answers.missing.size() == 2);
  CHECK(answers.missing[0] ==
        "forward of bfloat16[32, 64, 56, 56] by [64, 64, 3, 3]: cuDNN has no plan for this card");
  CHECK(answers.missing[1] ==
        "data gradient of int32[32, 64, 56, 56] by [64, 64, 3, 3]: cuDNN: expected a convolution "
        "of float16, bfloat16, float32 or float64, found int32");
}

TEST_CASE("a transposed convolution is the other's gradient") {
  Convolution down = Resnet(ConvolutionPass::kDataGradient, DType::kFloat32);
  down.output = {32, 64, 28, 28};
  down.stride = {2, 2};
  Convolution up = down;
  std::swap(up.input, up.output);
  up.is_transposed = true;
  up.pass = ConvolutionPass::kForward;
  const std::vector<int64_t> forward = Ask({down, up}, kA100);
  if (forward.empty()) return;
  CHECK(forward[0] > 0);
  CHECK(forward[0] == forward[1]);
  down.pass = ConvolutionPass::kForward;
  up.pass = ConvolutionPass::kDataGradient;
  const std::vector<int64_t> backward = Ask({down, up}, kA100);
  CHECK(backward[0] > 0);
  CHECK(backward[0] != forward[0]);
  CHECK(backward[0] == backward[1]);
}

TEST_CASE("a one-dimensional convolution is one of height 1") {
  const Convolution line = {.pass = ConvolutionPass::kForward,
                            .dtype = DType::kFloat32,
                            .input = {8, 80, 3000},
                            .weight = {512, 80, 3},
                            .output = {8, 512, 3000},
                            .stride = {1},
                            .padding = {1},
                            .dilation = {1}};
  const Convolution plane = {.pass = ConvolutionPass::kForward,
                             .dtype = DType::kFloat32,
                             .input = {8, 80, 1, 3000},
                             .weight = {512, 80, 1, 3},
                             .output = {8, 512, 1, 3000},
                             .stride = {1, 1},
                             .padding = {0, 1},
                             .dilation = {1, 1}};
  const std::vector<int64_t> bytes = Ask({line, plane}, kA100);
  if (bytes.empty()) return;
  CHECK(bytes[0] > 0);
  CHECK(bytes[0] == bytes[1]);
}

}  // namespace
}  // namespace onnxfit::cuda_libraries_test
