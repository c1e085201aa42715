// Where a card was full.  Internal to the room fit/.
#pragma once

#include "estimator/fit/verify.h"
#include "estimator/memory/allocator_conf.h"
#include "estimator/memory/gpu_replay.h"
#include "estimator/memory/trace.h"

namespace onnxfit {

// In the words of a trace.  Whether it was foreseen is left open.
ProofFailure FailureOf(const Trace& trace, const GpuFailure& failure, const AllocatorConf& conf);

}  // namespace onnxfit
