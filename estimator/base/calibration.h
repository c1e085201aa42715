// What CUDA and its libraries were seen to take on a card: written by `verify --save`, read by
// later estimates for that card.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/device.h"
#include "estimator/base/tensor_type.h"

namespace onnxfit {

// The three calls that a convolution makes of cuDNN in a training step.
enum class ConvolutionPass : uint8_t { kForward, kDataGradient, kWeightGradient };

// A call of cuDNN, by all that its workspace depends on.  Dims are in the order NCHW (NCDHW).
struct Convolution {
  ConvolutionPass pass = ConvolutionPass::kForward;
  DType dtype = DType::kFloat32;  // of all three tensors
  Dims input;
  Dims weight;
  Dims output;
  std::vector<int64_t> stride;  // one a spatial dimension
  std::vector<int64_t> padding;
  std::vector<int64_t> dilation;
  int64_t groups = 1;
  bool is_transposed = false;     // `input` and `output` are then those of the transposed one
  bool is_channels_last = false;  // all three tensors lie in the order NHWC (NDHWC), else in NCHW

  bool operator==(const Convolution&) const = default;
  bool operator<(const Convolution& other) const;  // member by member
};

struct ConvolutionWorkspace {
  Convolution convolution;
  int64_t bytes = 0;

  bool operator==(const ConvolutionWorkspace&) const = default;
};

// Memory that the card lost while something was loaded or made, in bytes.
struct LoadedBytes {
  std::string what;  // "context", "cublas handle", "kernels of fp32 products"
  int64_t bytes = 0;

  bool operator==(const LoadedBytes&) const = default;
};

// Workspaces that are found out when somebody asks for them.
class WorkspaceSource {
 public:
  virtual ~WorkspaceSource() = default;

  // Nullopt where there is no answer.  The same answer each time; may be called by several
  // threads.
  virtual std::optional<int64_t> Find(const Convolution& convolution) = 0;
};

struct Calibration {
  std::string card;            // CUDA's name: "NVIDIA A100-SXM4-40GB"
  int compute_capability = 0;  // times ten
  int64_t multiprocessors = 0;
  std::string driver = {};               // "580.65.06"
  std::string cuda = {};                 // "13.0", the runtime's
  std::string cublas = {};               // "13.1.0", "" where it was not found
  std::string cudnn = {};                // "9.19.0"
  std::vector<LoadedBytes> loaded = {};  // adds up to what a process takes beside its tensors
  std::vector<ConvolutionWorkspace> convolutions = {};
  std::string file = {};           // that it was read from, "" where it was measured just now
  Basis basis = Basis::kMeasured;  // modelled: no card, only what cuDNN says of one
  bool lacks_driver = false;       // of such: then cuDNN passes over what it would compile
  std::shared_ptr<WorkspaceSource> source = {};  // of what is not among `convolutions`, or null

  bool operator==(const Calibration&) const = default;
};

using SharedCalibration = std::shared_ptr<const Calibration>;

// "driver 580.65.06, CUDA 13.0, cuBLAS 13.1.0, cuDNN 9.19.0", as far as it says them.
std::string VersionsText(const Calibration& calibration);

// Puts `calibration` in the place of the one of the same card, driver and libraries, or beside
// those that are there.  All are then sorted by card, then from the oldest driver and libraries to
// the newest; the convolutions of the new one as they compare, which FindWorkspace relies on.
void PutCalibration(Calibration calibration, std::vector<Calibration>& calibrations);

// Whether both are measured on the same card with the same driver and libraries.
bool HaveSameKey(const Calibration& a, const Calibration& b);

// What was measured on the card called `name`, by that name or by another that means the same row
// of the card table; the last where there are several, null where there is none.
SharedCalibration FindCalibration(std::span<const SharedCalibration> calibrations,
                                  std::string_view name);

// The workspace of that call, nullopt where it is not known.
// REQUIRES: `calibration` went through PutCalibration.  O(log convolutions), or a question to its
// source.
std::optional<int64_t> FindWorkspace(const Calibration& calibration,
                                     const Convolution& convolution);

// `device` with what was measured on it: what its libraries ask for, and, where that was measured,
// what its context takes.
DeviceProfile Calibrated(DeviceProfile device, SharedCalibration calibration);

}  // namespace onnxfit
