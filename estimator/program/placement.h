// The orders in which a module's tensors come to the device, and are copied.  Internal to
// program/.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace onnxfit {

// Indices of `names` ("layer1.0.conv1.weight") in the order of model.to("cuda"): children
// before their parent, in the order in which they are first named; in a module its own
// tensors as listed.  O(names × depth × log names).
// Source: torch/nn/modules/module.py, Module._apply, pytorch v2.6.0.
std::vector<size_t> PlacementOrder(const std::vector<std::string>& names);

// The same in the order of copy.deepcopy(model): a module before its children.
// Source: torch/nn/modules/module.py, Module.__init__, which makes its tables in that
// order, pytorch v2.11.0.
std::vector<size_t> CopyOrder(const std::vector<std::string>& names);

}  // namespace onnxfit
