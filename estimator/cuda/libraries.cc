#include "estimator/cuda/libraries.h"

#include <fmt/format.h>
#include <library_types.h>

#include "estimator/cuda/cudnn_library.h"
#include "estimator/cuda/loaded_bytes.h"
#include "estimator/cuda/shared_library.h"

namespace onnxfit {
namespace {

using Folders = std::vector<std::string>;

// "13.1.0".
std::string PropertyVersion(const SharedLibrary& library, const char* function) {
  int (*property)(libraryPropertyType, int*) = nullptr;
  library.Load(function, property);
  int parts[3] = {};
  property(MAJOR_VERSION, &parts[0]);
  property(MINOR_VERSION, &parts[1]);
  property(PATCH_LEVEL, &parts[2]);
  return fmt::format("{}.{}.{}", parts[0], parts[1], parts[2]);
}

std::string CublasVersion(const SharedLibrary& library) {
  return PropertyVersion(library, "cublasGetProperty");
}

std::string CublasLtVersion(const SharedLibrary& library) {
  return PropertyVersion(library, "cublasLtGetProperty");
}

std::string CudnnVersion(const SharedLibrary& library) {
  size_t (*version)() = nullptr;
  library.Load("cudnnGetVersion", version);
  return CudnnVersionText(static_cast<int>(version()));
}

// The CUDA that cuDNN was built with: 12 or 13.
size_t CudaMajor(const SharedLibrary& cudnn) {
  size_t (*version)() = nullptr;
  cudnn.Load("cudnnGetCudartVersion", version);
  return version() / 1000;
}

LibraryFile FileOf(const char* name, const SharedLibrary& library,
                   std::string (*version)(const SharedLibrary&)) {
  LibraryFile file = {.name = name, .path = library.path(), .why_missing = library.why_missing()};
  if (library.is_open()) file.version = version(library);
  return file;
}

class OpenedLibraries : public Libraries {
 public:
  OpenedLibraries(const Folders& folders, const std::string& toolkit)
      : driver_({"", toolkit + "/stubs"}, {"libcuda.so.1", "libcuda.so"}),
        cublas_lt_(folders, {"libcublasLt.so.13", "libcublasLt.so.12"}),
        cublas_(folders, {"libcublas.so.13", "libcublas.so.12"}) {
    files_.push_back(FileOf("cublasLt", cublas_lt_, CublasLtVersion));
    files_.push_back(FileOf("cublas", cublas_, CublasVersion));
    const SharedLibrary cudnn(folders, {"libcudnn.so.9"});
    files_.push_back(FileOf("cudnn", cudnn, CudnnVersion));
    if (cudnn.is_open()) files_.back().why_missing = StartCudnn(cudnn, folders);
  }

  const std::vector<LibraryFile>& files() const override { return files_; }
  bool has_driver() const override { return driver_.is_open(); }

  std::vector<LoadedBytes> MeasureLoaded() override {
    MemoryMeter meter;
    MeasureContext(meter);
    if (cublas_lt_.is_open()) MeasureCublasLt(cublas_lt_, meter);
    if (cublas_.is_open()) MeasureCublas(cublas_, meter);
    if (cudnn_) cudnn_->Measure(meter);
    return meter.loaded();
  }

  PlannedWorkspaces Workspaces(const std::vector<Convolution>& convolutions) override {
    return Plan(convolutions, nullptr);
  }

  PlannedWorkspaces Workspaces(const std::vector<Convolution>& convolutions,
                               const DescribedCard& card) override {
    return Plan(convolutions, &card);
  }

 private:
  // "", or why it cannot be used.  cuDNN opens these two itself, by name, from the loader's path;
  // it finds those that are open already.
  std::string StartCudnn(const SharedLibrary& cudnn, const Folders& folders) {
    const size_t major = CudaMajor(cudnn);
    const SharedLibrary cublas_lt(folders, {fmt::format("libcublasLt.so.{}", major)});
    if (!cublas_lt.is_open()) return "cuDNN cannot run: " + cublas_lt.why_missing();
    // Compiles the kernels of some plans.
    const SharedLibrary nvrtc(folders, {fmt::format("libnvrtc.so.{}", major)});
    if (!nvrtc.is_open()) return "cuDNN lacks some of its plans: " + nvrtc.why_missing();
    cudnn_ = NewCudnnLibrary(cudnn, driver_.is_open());
    return cudnn_ ? "" : "this onnxfit was built without cuDNN's headers";
  }

  PlannedWorkspaces Plan(const std::vector<Convolution>& convolutions, const DescribedCard* card) {
    if (cudnn_) return cudnn_->Workspaces(convolutions, card);
    return {.missing = {convolutions.size(), files_.back().why_missing}};
  }

  // cuDNN chooses engines whose kernels it compiles only where there is a driver: the toolkit's,
  // which can but be linked with, will do.  Of 6,480 convolutions 127 depend on it, weight
  // gradients of few channels in 16 bits: such an engine asks for none, the next for megabytes.
  SharedLibrary driver_;
  SharedLibrary cublas_lt_;
  SharedLibrary cublas_;
  std::unique_ptr<CudnnLibrary> cudnn_;
  std::vector<LibraryFile> files_;
};

}  // namespace

std::unique_ptr<Libraries> OpenLibraries(const LibraryPlaces& places) {
  return std::make_unique<OpenedLibraries>(LibraryFolders(places), places.toolkit);
}

}  // namespace onnxfit
