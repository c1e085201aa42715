// The tensors of a module, as its file has them, and the orders in which they come to the device,
// and are copied.
#pragma once

#include <cstddef>
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

// Indices of `names` ("layer1.0.conv1.weight") in the order of model.to("cuda"): children
// before their parent, in the order of `modules` (paths, those of named_modules()), others in that
// in which they are first named; in a module its own tensors as listed.
// O((names + modules) × depth × log names).
// Source: torch/nn/modules/module.py, Module._apply, pytorch v2.6.0.
std::vector<size_t> PlacementOrder(const std::vector<std::string>& names,
                                   const std::vector<std::string>& modules = {});

// The same in the order of copy.deepcopy(model): a module before its children.
// Source: torch/nn/modules/module.py, Module.__init__, which makes its tables in that
// order, pytorch v2.11.0.
std::vector<size_t> CopyOrder(const std::vector<std::string>& names,
                              const std::vector<std::string>& modules = {});

}  // namespace onnxfit
