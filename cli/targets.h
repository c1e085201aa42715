// From flags to the cards that an answer is for, and what is known of them.
#pragma once

#include <functional>
#include <vector>

#include "cli/options.h"
#include "estimator/base/device.h"

namespace onnxfit {

// The first card that a search found: no other takes its place, as PyTorch would not take it
// either.  Throws NoGpuError where there is none, or where it cannot be used.
DetectedGpu UsableGpu(const GpuSearch& search);

// How the card at hand is found: FindGpus, or a test's own.
using GpuFinder = std::function<GpuSearch()>;

// Fills request.targets, and the device that the run's kernels are for: the first target's, in
// explain-oom without any the one that was measured; with what was measured on them.  Calls `find`
// once, where --gpu auto asks for the card at hand, and takes the first that it finds.  Throws
// Error as MakeTarget and CalibrationsFor do, NoGpuError where that card cannot be used.
void SetTargets(Options& options, const GpuFinder& find);

// The card of a run for which nobody names one.
Target AssumedCard();

// The exit code of cli.md for what was found of the targets.
int ExitCodeOf(const std::vector<Judgement>& judgements, const Options& options);
int ExitCodeOf(const std::vector<JudgedTarget>& targets, const Options& options);

// --cudnn: gives every card of the run a cuDNN that is asked for the workspaces of convolutions.
// Nothing without --cudnn.  Cards that cuDNN does not know get a warning.  Throws Error where there
// is no cuDNN that can be asked.
void AskCudnn(Options& options);

// The same for one card, which it has to know.
void AskCudnn(const Options& options, DeviceProfile& device);

}  // namespace onnxfit
