// torch.autocast: which arguments are cast, and which casts are kept.  Source: pytorch
// v2.6.0, aten/src/ATen/autocast_mode.cpp; order of casts from recorded events, torch 2.11.
#pragma once

#include <vector>

#include "estimator/base/settings.h"
#include "estimator/eager/call_table.h"

namespace onnxfit {

class Autocast {
 public:
  // `calls` must outlive it.
  Autocast(CallTable& calls, Precision precision);

  // Casts the arguments of call `index` where its row asks for it, the last one first.
  // Casts that are not cached go into `casts`, with one reference each.
  void CastArguments(int32_t index, bool grad, std::vector<TensorId>& inputs,
                     std::vector<TensorId>& casts);

  // The context exits: cached casts of parameters are let go.
  void Exit();

 private:
  TensorId Cast(NameId name, TensorId tensor, DType to, bool grad);
  TensorId CastOf(NameId name, TensorId tensor, DType to, bool grad, std::vector<TensorId>& casts);

  CallTable& calls_;
  Machine& machine_;
  DType lower_;                  // kUndefined: no autocast
  std::vector<TensorId> cache_;  // by name, of parameters; one reference
  std::vector<NameId> cached_;   // in the order in which they were cast
};

}  // namespace onnxfit
