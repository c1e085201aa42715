// A run as files that other tools open: PyTorch's own memory_viz, Perfetto, flame graphs, anything
// that shows SVG.
#pragma once

#include <string>

#include "estimator/fit/estimate.h"
#include "estimator/fit/predict.h"

namespace onnxfit {

// A snapshot as torch.cuda.memory._dump_snapshot writes it (a pickle of protocol 2), of all steps:
// https://docs.pytorch.org/memory_viz shows it.  Frames are statements of the model's source, their
// files its modules; times count operators.  As there, events have the bytes that
// were asked for, blocks those that were handed out.
// The format: torch/cuda/_memory_viz.py and c10/cuda/CUDACachingAllocator.h (TraceEntry), 2.11.
std::string ToMemorySnapshot(const Prediction& prediction);

// A trace for ui.perfetto.dev and its trace processor: counters of what is allocated and reserved
// in bytes, a slice for each phase, and one for each tensor on lanes by kind.  An event of the
// allocator is a microsecond.  The format: "Trace Event Format" of Chrome, which Perfetto reads.
std::string ToPerfetto(const Prediction& prediction);

// What each module has at the peak, as folded stacks: "model;layer1;conv1;weights 36864", a line
// each with its bytes, for speedscope, flamegraph.pl, inferno.  What they add up to is exact_bytes
// at the peak.  REQUIRES: estimate.modules.
std::string ToFoldedStacks(const Estimate& estimate);

// Memory over the step of the peak as one SVG image with its words.  REQUIRES: estimate.curve.
std::string ToSvg(const Estimate& estimate);

}  // namespace onnxfit
