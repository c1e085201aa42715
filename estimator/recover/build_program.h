// From a graph to the program that PyTorch runs.
#pragma once

#include "estimator/base/settings.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"
#include "estimator/program/program.h"
#include "estimator/recover/exporter_metadata.h"
#include "estimator/recover/roles.h"

namespace onnxfit {

// Lowers each node to the calls that PyTorch would run.  Host arithmetic is dropped.
// Throws Error where settings.loss_output names no output or a glob of settings.freeze no
// parameter.  O(nodes).
Program BuildProgram(const Graph& graph, const ExporterMetadata& metadata, const Shapes& shapes,
                     const Roles& roles, const TrainingSettings& settings);

}  // namespace onnxfit
