// What cuDNN asks for to run a convolution: as far as it was measured, else by a closed form, in a
// trace; what it may ask for beyond.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/calibration.h"
#include "estimator/base/settings.h"
#include "estimator/operators/cudnn_convolutions.h"
#include "estimator/program/program.h"

namespace onnxfit {

inline constexpr std::string_view kCudnnWorkspace = "cuDNN workspace";  // as a trace calls it

// On the run's card as measured there.  Else, of a card that was named, as measured on one like it,
// or as the version nearest to the framework's plans for such cards, at that batch or another; as
// cuDNN answered where none comes with the command, or none of a version as near as its own that
// was measured in that very call.  Else by the form, 0 where there is none.
int64_t WorkspaceBytes(const Convolution& convolution, const TrainingSettings& settings);

// That of a call; 0 where the file does not say all of it (ConvolutionOf).
// REQUIRES, as below: `program` as Dispatch leaves it.
int64_t WorkspaceBytes(const Program& program, const AtenCall& call, ConvolutionPass pass,
                       const TrainingSettings& settings);

// Whose workspaces come with the command for that card: "an H200 (cuDNN 9.19.0)", "cuDNN 9.1.0 on
// such a card"; "" where none do.
std::string ShippedPlansText(const TrainingSettings& settings);

// With torch.backends.cudnn.benchmark: the same of the plan that is kept, and the most that plans
// are tried with in the first call, 0 where nobody measured it.  A call that was not measured so is
// taken to keep the plan that it has without: 82 % of those that were do, to 600 bytes.
struct BenchmarkedBytes {
  int64_t kept = 0;
  int64_t tried = 0;
};
BenchmarkedBytes BenchmarkedBytesOf(const Convolution& convolution,
                                    const TrainingSettings& settings);

// How many calls of a program plans are tried for, and of how many it is known how much that takes.
// Equal ones count once.
struct TriedCalls {
  int64_t known = 0;
  int64_t all = 0;
};
TriedCalls CountTried(const Program& program, const TrainingSettings& settings);

// What a program asks cuDNN for.
struct AskedConvolution {
  std::optional<Convolution> convolution = {};  // nullopt where the file does not say all of it
  int64_t copied_bytes = 0;                     // of its input, weight and output

  bool operator==(const AskedConvolution&) const = default;
};

// Each pass by itself; equal ones once, those that cannot be told each time.  O(calls).
std::vector<AskedConvolution> AskedConvolutions(const Program& program);

// An upper guess at what the largest workspace of one call that is not known for the card takes
// beyond WorkspaceBytes: with copies of input, weight and output in the layout of cuDNN's kernels
// (what heuristics choose is not published).  0 where no call asks cuDNN, or all are known.
// Throws Error where that needs more than 63 bits.
int64_t MostCudnnWorkspaceBytes(std::span<const AskedConvolution> asked,
                                const TrainingSettings& settings);
int64_t MostCudnnWorkspaceBytes(const Program& program, const TrainingSettings& settings);

// Whose workspaces a program's convolutions have, each pass by itself; equal ones count once, those
// that cannot be told each time.
struct MeasuredConvolutions {
  int64_t measured = 0;  // on the card, or as cuDNN answered
  int64_t shipped = 0;   // of the others, as comes with the command for a card like it
  int64_t scaled = 0;    // of the others, so from another batch
  int64_t all = 0;
};
MeasuredConvolutions CountMeasured(const Program& program, const TrainingSettings& settings);

}  // namespace onnxfit
