// The answer to "how much memory does a training step need, and why".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "estimator/base/device.h"
#include "estimator/base/error.h"
#include "estimator/base/settings.h"
#include "estimator/base/tensor_type.h"
#include "estimator/fit/module_sums.h"
#include "estimator/fit/places.h"
#include "estimator/fit/study.h"
#include "estimator/fit/target.h"
#include "estimator/fit/verdict.h"
#include "estimator/fit/why.h"
#include "estimator/memory/allocator_conf.h"
#include "estimator/memory/curve.h"
#include "estimator/memory/timeline.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"
#include "estimator/workspaces/cudnn_workspaces.h"

namespace onnxfit {

struct ModelSummary {
  std::string path;
  int64_t opset = 0;
  int64_t nodes = 0;
  int64_t parameters = 0;  // elements, tied ones once
  int64_t parameter_bytes = 0;
  int64_t buffer_bytes = 0;
  std::string digest = {};  // of all of the file but large weights
};

struct BreakdownRow {
  std::string kind;  // the JSON's word: "parameters", …, "rounding", "cached", "context"
  int64_t bytes = 0;
  Basis basis = Basis::kExact;
  std::optional<int64_t> low = {};  // a range, where the number has one
  std::optional<int64_t> high = {};
};

struct LargeTensor {  // alive at the peak
  std::string name;
  TensorType type;
  int64_t bytes = 0;
  Kind kind = Kind::kTemporary;
  std::string born;  // operator, "" between operators
  std::string dies;  // operator, "" where it stays, or goes between operators
  Phase born_in = Phase::kSetup;
  std::optional<Phase> dies_in = {};  // nullopt where it stays
  bool dies_later = false;            // in a later step than the peak's
};

// PYTORCH_ALLOC_CONF, as given and as understood.
struct AllocConf {
  std::string text = {};  // "" where none was given
  AllocatorConf conf = {};
  std::vector<std::string> idle_options = {};  // those given that change no byte on the card
};

// Between which bytes the answer lies, by what the file has lost.
struct DeviceRange {
  struct End {
    int64_t device_bytes = 0;
    std::string flags = {};  // that say so: "--dropout 0"; "" for the answer itself
  };
  End low;
  End high;
};

// What one step asks of the allocator.
struct StepSummary {
  int64_t allocations = 0;
  int64_t frees = 0;
  std::string largest = {};  // the name of its largest allocation
  int64_t largest_bytes = 0;
  int64_t peak_allocated_bytes = 0;
  Instant peak;
};

// A curve, and the operators at its points, "" between them.
struct NamedCurve {
  Curve curve;
  std::vector<std::string> nodes;
};

// What torch.backends.cudnn.benchmark does to the peak.
struct PlanTrials {
  TriedCalls calls;
  int64_t allocated_bytes = 0;  // of the peak's, as far as it is known
  int64_t reserved_bytes = 0;
};

// So many ranks, and what each of them has on a card.
struct WorldOutcome {
  int64_t world = 1;
  Judgement judgement;
};

struct Estimate {
  ModelSummary model;
  TrainingSettings settings;
  std::string alloc_conf = {};  // as given, "" where none was
  int64_t batch = 1;
  std::map<std::string, int64_t> dims;

  Peak peak;
  int64_t device_bytes = 0;               // peak.reserved_bytes + context
  std::optional<DeviceRange> range = {};  // where the file leaves open what decides
  int32_t peak_step = 0;
  std::string peak_phase;
  std::string peak_node;

  int64_t optimizer_state_bytes = 0;
  std::vector<BreakdownRow> breakdown;  // adds up to device_bytes
  std::vector<StepFigures> steps;
  std::vector<LargeTensor> largest;  // alive at the peak, largest first, all of them
  std::vector<Place> places;         // what each node and parameter has there
  std::vector<std::string> assumptions;
  Warnings warnings;
  std::vector<std::string> notes;  // what loading and recovery did, for -v

  std::optional<PlanTrials> trials;  // where plans are tried; no part of what targets are said

  std::vector<JudgedTarget> targets;  // in the order of the request's
  std::vector<WorldOutcome> worlds;   // where it was asked how many ranks are enough: those tried

  std::optional<WhyAnswer> why;          // where a tensor was asked for
  std::vector<StepSummary> step_events;  // where details were: steps[0] is step 1
  std::optional<NamedCurve> curve;       // where it was asked for: of the peak's step
  std::vector<ModuleSum> modules;        // where they were: the model first
};

// What is asked, beside the file.
struct EstimateRequest {
  DimBinding binding = {};
  TrainingSettings settings = {};
  AllocConf alloc_conf = {};
  std::optional<int64_t> overhead_bytes = std::nullopt;  // context, instead of the card's
  std::vector<Target> targets = {};                      // cards to be judged
  bool wants_range = true;                               // what the file leaves open, both ways
  std::string why = {};                                  // a tensor whose life is to be told
  bool details = false;                                  // what only -v shows
  size_t curve_points = 0;                               // of a step's curve, at most; 0: none
  bool modules = false;                                  // what each module takes
  bool zero_grad_is_given = false;                       // or it is the version's own default
  std::vector<std::string> assumptions = {};             // of who asks (--note)
  std::vector<std::string> notes = {};                   // of the flags, for -v
  Warnings warnings = {};                                // of the flags
};

// What CUDA takes for the process.
int64_t ContextBytesOf(const EstimateRequest& request);

// The whole pipeline on a loaded file.  Throws Error for bad input and for sizes that
// 64 bits do not hold.
Estimate MakeEstimate(const Study& study, const EstimateRequest& request);

}  // namespace onnxfit
