// What grew, a row a place.
#pragma once

#include <string>

#include "estimator/fit/diff.h"

namespace onnxfit {

// name,old_name,change,op,count,old_bytes,new_bytes: kinds first (change is "kind"), then what
// changed, in exact bytes.
std::string ToCsv(const Diff& diff);

}  // namespace onnxfit
