// Tied parameters, each name by itself.
#pragma once

#include "estimator/pt2/exported_program.h"

namespace onnxfit::pt2 {

// The program whose calls read a tied parameter by the name that it has in their own module, where
// torch.export writes one of them everywhere.  InputSpec::first_name says what was tied.
// O(calls × names of a parameter).
ExportedProgram WithTiesApart(ExportedProgram exported);

}  // namespace onnxfit::pt2
