// The loss of the training loop as calls.  Internal to the room program/.
#pragma once

#include <string_view>

#include "estimator/graph/shapes.h"
#include "estimator/program/program_writer.h"

namespace onnxfit {

// Which graph output the loss takes: settings.loss_output, else the first of floats.
// Throws Error where settings.loss_output names no output; kNoValue where none is left.
ValueId FindLossOutput(const Graph& graph, const Shapes& shapes, const TrainingSettings& settings);

// The labels that the loss takes with `output`, as one more input of the program: a batch
// has them in eval too; or the input that is called `given`, if that is not "".  kNoName where
// the loss takes none.  Throws Error where no input has that name.
NameId AddLabels(ProgramWriter& writer, NameId output, Loss loss, std::string_view given);

// Appends the loss of `output` to the program.  Cross entropy takes [N, C] as it is,
// [N, S, V] as [N·S, V], [N, C, H, W …] with the classes in dimension 1.
void AppendLoss(ProgramWriter& writer, NameId output, NameId labels, Loss loss);

}  // namespace onnxfit
