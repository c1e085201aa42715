// From a .pt2 to the Program that PyTorch runs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "estimator/base/settings.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"
#include "estimator/program/module_tensors.h"
#include "estimator/program/program.h"
#include "estimator/pt2/exported_program.h"

namespace onnxfit::pt2 {

// What the inputs are, with `exported`: what takes a model's Graph takes it.  Their first
// dimensions are one batch where they were of one size at the export. Throws Error for a model
// without inputs.
onnxfit::Graph InputGraph(ExportedProgram exported);

struct MadeProgram {
  Program program;
  ModuleTensors tensors;
};

// The calls as the file has them, at the sizes that `shapes` binds to the inputs of `file`, which
// InputGraph has made; then the loss.  Nothing is recovered: a dropout runs with the p that it has.
// `sizes_of_data`: what sizes that data decide are at most, by their symbols ("u0").  Throws Error
// where one is missing, where the batch that is asked for is not the one that the file fixes, and
// as BuildProgram does.  O(calls).
MadeProgram MakeProgram(const onnxfit::Graph& file, const Shapes& shapes,
                        const TrainingSettings& settings,
                        const std::map<std::string, int64_t>& sizes_of_data = {});

}  // namespace onnxfit::pt2
