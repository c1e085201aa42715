// A training loop, carried out on a card: the allocations of a trace, by the same caching
// allocator that predicts them, every block written, the card's memory read all along.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "estimator/memory/allocator.h"
#include "estimator/memory/gpu.h"
#include "estimator/memory/loop.h"
#include "estimator/memory/timeline.h"
#include "estimator/memory/trace.h"

namespace onnxfit {

// One phase of a step, as it was carried out.
struct PhaseFigures {
  int32_t step = 0;  // from 1, 0 for setup
  Phase phase = Phase::kSetup;
  AllocatorStats stats = {};  // at its end
  Peak peak = {};             // within it
  // What the card has lost since the replay began: at the end of the phase, and the most of it
  // (read whenever the allocator got memory).  Of this process alone where the driver tells.
  int64_t device_bytes = 0;
  int64_t peak_device_bytes = 0;
  int64_t others_bytes = 0;  // by how much other processes have grown meanwhile

  bool operator==(const PhaseFigures&) const = default;
};

// The allocation for which there was no room.
struct GpuFailure {
  int32_t step = 0;
  size_t event = 0;  // index into Trace::events; that of the last traced step in later ones
  int64_t asked_bytes = 0;
  int64_t free_bytes = 0;  // of the card then; cached memory had gone back
  AllocatorStats stats = {};

  bool operator==(const GpuFailure&) const = default;
};

struct GpuReplay {
  MemoryReading before;
  MemoryReading after;               // all given back
  std::vector<PhaseFigures> phases;  // until a failure, or until somebody stopped it
  std::optional<GpuFailure> failure = {};
  bool was_stopped = false;
  int64_t retries = 0;  // how often cached memory went back to the card first
  int64_t blocks = 0;   // that were written,
  int64_t written_bytes = 0;
  int64_t wrong_bytes = 0;  // and did not hold what was written until they were freed
  double seconds = 0;       // that all took, on a clock
};

// How a replay is followed and stopped.  Either may be empty.
struct ReplayWatch {
  std::function<void(int32_t step, Phase phase)> begins;  // a phase
  std::function<bool()> is_stopped;                       // asked before each call: be quick
};

// Carries out setup and `steps` steps of the loop of `trace`, whose buffers ask for `bytes`, and
// gives all memory back.  Throws what `gpu` throws.
// REQUIRES: steps <= loop.traced_steps(), or loop.repeats().  O(calls × log) a step.
GpuReplay ReplayOnGpu(const Trace& trace, const Loop& loop, std::span<const int64_t> bytes,
                      int steps, Gpu& gpu, const AllocatorConf& conf = {},
                      const ReplayWatch& watch = {});

}  // namespace onnxfit
