// What a run asks of memory, in order: the one value between those who know PyTorch
// (eager/) and those who know allocators.  No address, no time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/tensor_type.h"

namespace onnxfit {

using BufferId = int32_t;  // index into Trace::buffers; each allocation has its own
using StreamId = int32_t;  // of CUDA; what was freed on one is not handed out on another
inline constexpr StreamId kMainStream = 0;  // of the loop and of backward

// What holds a buffer at an instant.
enum class Kind : uint8_t {
  kParameter,
  kBuffer,
  kGradient,  // of a parameter
  kOptimizerState,
  kInput,       // batch and labels
  kActivation,  // saved for backward, or bound to a name
  kTemporary,   // only the running operator or the engine
  kWorkspace,   // a library's: cuBLAS, cublasLt
};
inline constexpr int kKinds = 8;

enum class Phase : uint8_t { kSetup, kForward, kBackward, kOptimizer, kEvaluation };
inline constexpr int kPhases = 5;

std::string_view ToString(Kind kind);    // "parameters", "optimizer_state": the JSON's words
std::string_view ToString(Phase phase);  // "setup", "forward", "evaluation"

struct Buffer {
  int64_t bytes = 0;  // as requested, before any rounding
  int32_t label = 0;  // index into Trace::labels: what it is called
  DType dtype = DType::kUndefined;
  Dims dims = {};
  StreamId stream = kMainStream;  // that it is allocated on
  bool may_fail = false;          // its owner goes on without where it does not fit
  // Nobody needs it: its owner asks for less where so much is not free, and for nothing at last.
  bool is_trial = false;
};

struct Event {
  enum class Type : uint8_t {
    kAlloc,  // id: BufferId; kind: what it is born as
    kFree,   // id: BufferId
    kKind,   // id: BufferId; kind: what holds it from now on
    kPhase,  // id: step, from 1 (0 for setup); phase
    kAt,     // id: label of the operator that runs from now on
  };
  Type type = Type::kAlloc;
  Kind kind = Kind::kTemporary;
  Phase phase = Phase::kSetup;
  int32_t id = 0;
};

struct Trace {
  std::vector<Event> events;
  std::vector<Buffer> buffers;
  std::vector<std::string> labels;
  // Before which events torch.cuda.empty_cache() runs: their indices, in order.
  std::vector<int64_t> cache_emptied_at = {};

  bool EmptiesCacheAt(size_t event) const {
    return std::ranges::binary_search(cache_emptied_at, static_cast<int64_t>(event));
  }
};

// The label at `label`, "" where that is negative: none.
std::string LabelText(const Trace& trace, int32_t label);

// Readable events, one line a phase, beginning and ending with a newline:
//   setup     +w1:128 +x:256
//   forward   +h:512 -x
// A buffer is written by its label.  Steps are separated where there are several.
std::string ToString(const Trace& trace);

}  // namespace onnxfit
