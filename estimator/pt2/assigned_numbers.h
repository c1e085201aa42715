// Numbers that are written into tensors.  Internal to the room pt2/.
#pragma once

#include <set>
#include <string_view>

#include "estimator/pt2/exported_program.h"

namespace onnxfit::pt2 {

// "x[:, 0] = 2" of a tensor on a card leaves the number on the host (THPVariable_setitem of
// torch/csrc/autograd/python_variable_indexing.cpp, pytorch v2.11.0), but an export of tensors that
// are elsewhere has tensors for it: scalar_tensor(2), and its views until copy_.  Their names.
// O(calls log calls).
std::set<std::string_view> FindAssignedNumbers(const Graph& graph);

}  // namespace onnxfit::pt2
