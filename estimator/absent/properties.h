// cudaDeviceProp: a structure whose members lie elsewhere in each CUDA.
#pragma once

#include "estimator/absent/card.h"

namespace onnxfit::absent {

// Fills the structure as CUDA of that version lays it out (12080 for 12.8; 11.0 to 13.x).
void WriteProperties(void* properties, const AbsentCard& card, int version);

}  // namespace onnxfit::absent
