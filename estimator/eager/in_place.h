// Which calls write over their input.
#pragma once

#include <vector>

#include "estimator/base/settings.h"
#include "estimator/program/program.h"

namespace onnxfit {

// By call: whether it writes over its input in training when nothing is frozen.  Files do
// not say what works in place, so it is taken to wherever it is legal; but a model's code
// does not change when a part of it is frozen, nor in inference, where what keeps nothing
// would make more of it legal.  O(calls).
// REQUIRES: `program` as Dispatch leaves it.
std::vector<bool> FindInPlaceCalls(const Program& program, const TrainingSettings& settings);

// Whether calls may work in place of which neither the file nor a library nor a flag says whether
// they do.  O(calls).
bool LeavesInPlaceOpen(const Program& program, const TrainingSettings& settings);

// Whether the file or a library says of one that it does.  O(calls).
bool WritesInPlace(const Program& program);

}  // namespace onnxfit
