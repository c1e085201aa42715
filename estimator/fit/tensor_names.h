// What a name means that somebody types: values, tensors of the run, nodes; or why it is no tensor
// of the device.  Internal to the room fit/.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/fit/predict.h"

namespace onnxfit {

inline constexpr std::string_view kGradSuffix = ".grad";

struct NamedTensor {
  std::string name;
  ValueId value = kNoValue;       // of the file; kNoValue: only the run knows it
  std::vector<NameId> names;      // of the program
  std::vector<BufferId> buffers;  // allocated under this name, or a parameter's gradient
};

// The tensors that `asked` names exactly; else the results of the node that it names; else
// those of the one tensor or node whose name ends in "/asked" or ".asked".  "NAME.grad" of
// a tensor whose gradient has no memory is known, and has no buffer.
// Throws Error where there is none, with the nearest name, and where there are several.
// O(names × letters).
std::vector<NamedTensor> FindTensors(const Prediction& prediction, std::string_view asked);

// Why a name stands for no tensor of the device: one sentence, without its full stop: folded into
// another call, a number on the host, a gradient that needs no memory of its own …  REQUIRES: no
// buffer of the run is `tensor`.
std::string WhyAbsent(const Prediction& prediction, const NamedTensor& tensor);

}  // namespace onnxfit
