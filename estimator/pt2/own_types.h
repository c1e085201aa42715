// The types of floats that an exported program has, of 16 bits and more.
#pragma once

#include <vector>

#include "estimator/base/settings.h"
#include "estimator/base/tensor_type.h"
#include "estimator/pt2/exported_program.h"

namespace onnxfit::pt2 {

// Of the parameters, their sizes as the export had them; of a program without any, of the inputs.
std::vector<TensorType> FloatsOf(const ExportedProgram& exported);

// That of most elements of these; kUndefined where there are none.
DType MostCommonType(const ExportedProgram& exported);

// Whether all of these have the type of `precision`, so that a run in it has the types that the
// program says, value by value.  Autocast is no such precision.
bool HasTypesOf(Precision precision, const ExportedProgram& exported);

}  // namespace onnxfit::pt2
