// Calls that are written in the place of others.  Internal to the room program/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/program/program.h"

namespace onnxfit {

// A value more of `program`.
NameId AddValue(Program& program, std::string name, const TensorType& type);

// `at` with another operator and operands: of the same place, module and statement.
AtenCall CallAt(const AtenCall& at, std::string_view op, std::vector<NameId> inputs,
                std::vector<NameId> outputs, std::vector<int64_t> ints = {});

}  // namespace onnxfit
