// The loss as the loop takes it whose library settings.loop.library names: that of
// training/training.h behind the model, or the model's own.  Internal to the room writer/.
#pragma once

#include "estimator/writer/program_writer.h"

namespace onnxfit {

// Appends labels and, in training, the loss of `output`, unless that is kNoName; and what the
// library does to outputs.  A loss in the forward of `model` is computed while that forward's names
// hold what they hold.
// Sources: accelerate 1.15.0 (accelerator.py, utils/operations.py), transformers 5.17.0
// (trainer.py, loss/loss_utils.py), and recorded events.
void AppendLoopsLoss(ProgramWriter& writer, NameId output, const LibraryModel& model);

}  // namespace onnxfit
