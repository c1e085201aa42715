// What NCCL's reductions make of small values.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace onnxfit::absent {

// Element by element of what each rank told; nothing where one of them is not known, or where
// nobody computes with such a type (16-bit and 8-bit floats).  Numbers of types and operations:
// nccl.h 2.28.
std::optional<std::string> Reduced(const std::vector<std::optional<std::string>>& ranks, int type,
                                   int operation);

}  // namespace onnxfit::absent
