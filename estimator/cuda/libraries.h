// What NVIDIA's libraries take of a card, asked of the libraries themselves: cuBLAS, cublasLt and
// cuDNN, opened at run time from where PyTorch has them.  No CUDA in this header.
//
// Attention is not asked for: its workspaces follow closed forms
// (estimator/operators/attention_kernels.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "estimator/base/calibration.h"
#include "estimator/base/device.h"
#include "estimator/cuda/shared_library.h"

namespace onnxfit {

struct LibraryFile {
  std::string name;              // "cublasLt", "cublas" or "cudnn"
  std::string path = {};         // "" where it was not found
  std::string version = {};      // "9.19.0"
  std::string why_missing = {};  // a sentence where it cannot be used
};

// What cuDNN's heuristics read of a card.  They take the clocks into account on Hopper alone,
// where a factor of two changes 3 of 100 workspaces; on Ampere and Ada nothing but the capability
// matters (tried on resnet50, cuDNN 9.19.0).
struct DescribedCard {
  int compute_capability = 0;  // times ten
  int64_t multiprocessors = 0;
  int64_t threads_per_multiprocessor = 0;
  int64_t clock_khz = 1'980'000;         // cudaDevAttrClockRate; here an H100 SXM's
  int64_t memory_clock_khz = 2'619'000;  // cudaDevAttrMemoryClockRate
};

inline DescribedCard Describe(const DeviceProfile& device) {
  return {.compute_capability = device.compute_capability,
          .multiprocessors = device.multiprocessors,
          .threads_per_multiprocessor = device.threads_per_multiprocessor};
}

// The answers for a list of convolutions.
struct PlannedWorkspaces {
  std::vector<ConvolutionWorkspace> found = {};  // in the order of the list
  std::vector<std::string> missing = {};         // a sentence for each that has none
};

class Libraries {
 public:
  virtual ~Libraries() = default;

  // cublasLt, cublas, cudnn, used or not.
  virtual const std::vector<LibraryFile>& files() const = 0;

  // Whether there is a libcuda.so.1, without which cuDNN passes over engines that compile kernels.
  virtual bool has_driver() const = 0;

  // What the current device loses to a context, to the libraries' handles and to the kernels of a
  // first product and a first convolution of each precision; libraries that are missing are left
  // out.  Readings of cudaMemGetInfo, which counts in pages of 2 MiB: nobody else may take or
  // give back memory of the card meanwhile.  Throws Error where CUDA fails.
  virtual std::vector<LoadedBytes> MeasureLoaded() = 0;

  // The workspace of the plan that PyTorch takes with benchmark=False and TF32 allowed, its
  // defaults: heuristics' engines in order, then the fallback list, the first that makes a plan
  // (aten/src/ATen/native/cudnn/Conv_v8.cpp, 2.6 to 2.11).  About 1 ms each.
  // PyTorch goes on to the next where a plan does not get its workspace; these do not know how full
  // the card is.
  //
  // Of the current device; throws Error where there is none:
  virtual PlannedWorkspaces Workspaces(const std::vector<Convolution>& convolutions) = 0;
  // Of a card that need not be there: no GPU is needed.  Without any libcuda.so.1 (the driver's or
  // the toolkit's) engines that compile their kernels are passed over.  Throws Error with a cuDNN
  // before 9.8, for capability 10.0 before 9.19:
  virtual PlannedWorkspaces Workspaces(const std::vector<Convolution>& convolutions,
                                       const DescribedCard& card) = 0;
};

// Libraries that are missing are sentences in files(), not errors.
std::unique_ptr<Libraries> OpenLibraries(const LibraryPlaces& places);

// Workspaces as cuDNN itself chooses them, asked one by one when they are needed:
// of a card that need not be there.  Each convolution is asked for once; may be used by several
// threads.
std::shared_ptr<WorkspaceSource> AskedWorkspaces(std::shared_ptr<Libraries> libraries,
                                                 const DescribedCard& card);

}  // namespace onnxfit
