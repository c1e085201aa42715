// The training loop, run on the machine.
#pragma once

#include "estimator/base/settings.h"
#include "estimator/eager/convolved_log.h"
#include "estimator/eager/holders.h"
#include "estimator/memory/trace.h"
#include "estimator/program/program.h"

namespace onnxfit {

// What settings.steps steps of this loop ask of memory:
//   for step in range(steps):
//       x, y = a new batch on the device          # the old one lives until rebound
//       optimizer.zero_grad()                      # set_to_none
//       loss = loss_function(model(x), y)          # nothing else keeps the logits
//       loss.backward()
//       optimizer.step()
// or, in eval, with no_grad(): x = a new batch; out = model(x), the old out alive until then.
// settings.loop changes it to:
//   ahead = [prefetch batches on the device]       # copied on the loop's own stream
//   x, y = a batch on the device                   # same_batch: no other ever comes, and the
//                                                  # names of a step go when it ends
//   for step in range(steps):
//       for i in range(accumulate):
//           del x, y                               # drop_batch
//           ahead.append(a new batch on the device); x, y = ahead.pop(0)
//           if i == 0: optimizer.zero_grad()       # before-forward, or keep: in place
//           out = model(x)                         # hold_outputs; else no name keeps it
//           loss = loss_function(out, y) / accumulate
//           if i == 0: optimizer.zero_grad()       # before-backward
//           loss.backward()                        # gradients add up in place
//       optimizer.step()
//       optimizer.zero_grad()                      # after-step
// A loop that is a library's (settings.loop.library) is that with what libraries/loops.cc
// says of it: transformers' Trainer, for one, takes the step's batches first and counts their
// labels, has the model compute the loss, goes backward from loss / 1, adds the loss up on the
// device and drops the gradients behind the step. With optimizer_in_backward neither zero_grad()
// nor step() is in the loop: a hook of each parameter steps it and drops its gradient as soon as
// backward has made that. With ranks the model is wrapped before the loop, and a hook of each
// parameter's gradient copies it into a bucket (data_parallel.h). Division and names that the
// settings do not ask for are not there.  Figures "after forward" and "after backward" are those of
// a step's last micro-batch. At the end of the trace what a process still holds is live:
// parameters, buffers, the last batches, gradients, optimizer state, the loss, held outputs,
// workspaces. Throws Error where a size needs more than 63 bits. O(steps × calls × log calls). Who
// holds what goes into `holders`, if it is not null.
Trace RunTraining(const Program& program, const TrainingSettings& settings,
                  Holders* holders = nullptr);

// The same with `log` filled, where nothing moves buffers behind the run: it stays empty for what
// is compiled, in CUDA graphs, or tries cuDNN's plans.
Trace RunTraining(const Program& program, const TrainingSettings& settings, ConvolvedLog& log);

}  // namespace onnxfit
