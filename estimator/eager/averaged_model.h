// An exponential moving average of the parameters, kept beside the model:
//   ema = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))
// made after the optimizer and before the first step, and
//   ema.update_parameters(model)
// after each.  It is a deep copy of the module: buffers too.
// Sources: torch/optim/swa_utils.py, torch/nn/parameter.py and torch/_tensor.py
// (__deepcopy__), pytorch v2.11.0, and recorded events.
#pragma once

#include "estimator/eager/call_table.h"

namespace onnxfit {

class AveragedModel {
 public:
  explicit AveragedModel(CallTable& calls) : calls_(calls), machine_(calls.machine()) {}

  // The constructor.  What it makes stays until the end, as buffers.
  void Construct();

  // update_parameters: works in place; from the second time on the count of updates is
  // brought to the device.
  void Update();

 private:
  CallTable& calls_;
  Machine& machine_;
  bool updated_ = false;
};

}  // namespace onnxfit
