// What NCCL's reductions make of small values.
#pragma once

#include <optional>
#include <vector>

#include "estimator/absent/contents.h"

namespace onnxfit::absent {

// Element by element of what each rank told, a guess where one of them told a guess; nothing where
// one of them told nothing, or where nobody computes with such a type (16-bit and 8-bit floats).
// Numbers of types and operations: nccl.h 2.28.
std::optional<Value> Reduced(const std::vector<std::optional<Value>>& ranks, int type,
                             int operation);

}  // namespace onnxfit::absent
