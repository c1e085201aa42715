// The training loop, run on the machine.
#pragma once

#include "estimator/base/settings.h"
#include "estimator/eager/holders.h"
#include "estimator/memory/trace.h"
#include "estimator/program/program.h"

namespace onnxfit {

// What settings.steps steps of this loop ask of memory:
//   for step in range(steps):
//       x, y = a new batch on the device         # the old one lives until rebound
//       optimizer.zero_grad()                     # set_to_none
//       loss = loss_function(model(x), y)         # nothing else keeps the logits
//       loss.backward()
//       optimizer.step()
// or, in eval, with no_grad(): x = a new batch; y = model(x), the old y alive until then.
// At the end of the trace what a process still holds is live: parameters, buffers, the
// last batch, gradients, optimizer state, the loss, workspaces.
// Throws Error where a size needs more than 63 bits.
// O(steps × calls × log calls).
// Who holds what goes into `holders`, if it is not null.
Trace RunTraining(const Program& program, const TrainingSettings& settings,
                  Holders* holders = nullptr);

}  // namespace onnxfit
