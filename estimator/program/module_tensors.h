// The tensors of a module, as its file has them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/base/tensor_type.h"

namespace onnxfit {

// One tensor of the module: what `model.named_parameters()` or `named_buffers()` lists.
struct ModuleTensor {
  std::string name;    // the module's own name where the file has it, else the value's
  int32_t value = -1;  // of the file; -1: it says that the tensor exists, not its value
  TensorType type;     // as in the file
};

struct ModuleTensors {
  std::vector<ModuleTensor> parameters;  // tied ones once, in the optimizer's order
  std::vector<ModuleTensor> buffers;

  int64_t ParameterCount() const;  // elements
  int64_t ParameterBytes() const;
  int64_t BufferBytes() const;
};

}  // namespace onnxfit
