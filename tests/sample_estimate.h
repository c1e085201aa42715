// Estimates made by hand, for the tests of the reports.
#pragma once

#include "estimator/base/bytes.h"
#include "estimator/fit/estimate.h"

namespace onnxfit {

// One step of a small network: every kind of row, a range, groups of equal tensors.
inline Estimate SampleEstimate() {
  Estimate e;
  e.model = {"models/lenet.onnx", 17, 12, 61706, 246824, 0};
  e.batch = 32;
  e.peak = {5 * kMiB, 6 * kMiB, 24 * kMiB};
  e.device_bytes = 24 * kMiB + 515 * kMiB;
  e.peak_step = 2;
  e.peak_phase = "backward";
  e.peak_node = "/conv1/Conv";
  e.optimizer_state_bytes = 2 * 246824;
  e.breakdown = {{"parameters", 246824, Basis::kExact, {}, {}},
                 {"buffers", 0, Basis::kExact, {}, {}},
                 {"gradients", 246824, Basis::kExact, {}, {}},
                 {"optimizer_state", 2 * 246824, Basis::kExact, {}, {}},
                 {"activations", 4 * kMiB, Basis::kModelled, {}, {}},
                 {"rounding", 2 * kMiB - 4 * 246824, Basis::kModelled, {}, {}},
                 {"cached", 18 * kMiB, Basis::kModelled, {}, {}},
                 {"context", 515 * kMiB, Basis::kMeasured, 420 * kMiB, 620 * kMiB}};
  StepFigures step;
  step.after_forward.allocated_bytes = 5 * kMiB;
  step.after_backward.allocated_bytes = 1 * kMiB;
  step.after_step.allocated_bytes = 2 * kMiB;
  step.peak = {4 * kMiB, 5 * kMiB, 22 * kMiB};
  e.steps = {step, step};
  e.steps[1].peak = e.peak;
  const TensorType fc1 = {DType::kFloat32, {120, 400}};
  e.largest = {{"/conv1/Conv",
                {DType::kFloat32, {32, 6, 28, 28}},
                602112,
                Kind::kActivation,
                "/conv1/Conv",
                "/relu"},
               {"fc1.weight", fc1, 192000, Kind::kParameter, "", ""},
               {"fc1.weight", fc1, 192000, Kind::kOptimizerState, "step", ""},
               {"fc1.weight", fc1, 192000, Kind::kOptimizerState, "step", ""},
               {"x", {DType::kFloat32, {32, 1, 28, 28}}, 100352, Kind::kInput, "", "/conv1/Conv"}};
  e.assumptions = {
      "The loss is cross-entropy over the first output of floats: a file does not "
      "say what it was trained with."};
  e.warnings = {{"OF102",
                 "2 operators have no row (Frobnicate, Twist): all that they read and "
                 "make is kept until the backward pass has gone by."}};
  e.notes = {"4 external tensors were not read"};
  return e;
}

}  // namespace onnxfit
