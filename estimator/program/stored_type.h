// What a file's own types say of how its model runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/base/tensor_type.h"

namespace onnxfit {

// "the file stores its parameters in float16; they are counted in fp32 (…)", where most elements
// of `parameters`, in the file's types, have 16 bits and the settings have 32.
std::optional<std::string> TellStoredType(const std::vector<TensorType>& parameters,
                                          Precision precision);

// "parameters have the file's types: 302.0 MiB bfloat16, 8.9 MiB float32", where that is not what
// the precision's name says.
std::optional<std::string> TellKeptTypes(const std::vector<TensorType>& parameters,
                                         Precision precision);

// "the file has 302.0 MiB bfloat16, 8.9 MiB float32 of parameters, all counted in fp32 (…)", where
// some are of another type than that of the precision.
std::optional<std::string> TellCastTypes(const std::vector<TensorType>& parameters,
                                         Precision precision);

}  // namespace onnxfit
