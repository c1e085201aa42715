// Variables of the environment that look like ours.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace onnxfit {

// "ONNXFIT_BATCH_SIZE is not read (did you mean ONNXFIT_BATCH?)" of a variable that no flag has,
// but nearly; "" of all others: ours may have other readers, such as a build.
std::string WarnedOf(std::string_view name);

// The same of all of the environment, in the order of their names.
std::vector<std::string> StrangeVariables();

}  // namespace onnxfit
