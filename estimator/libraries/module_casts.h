// Casts of forwards that are known by the children of their modules, of files without lines.
#pragma once

#include <set>
#include <span>
#include <string_view>

#include "estimator/libraries/libraries.h"

namespace onnxfit {

// A call of a forward that reads casts to fp32 of what it is given, or whose result is cast back to
// the type of what the forward's first such call has read; it runs outside of autocast.
struct ModuleCast {
  std::string_view children[3];
  std::string_view op_type;  // ONNX's
  bool is_result;
  SeenIn seen;
};
std::span<const ModuleCast> ModuleCasts();

// Whether a module with these children has the row's.
bool HasChildrenOf(const ModuleCast& row, const std::set<std::string_view>& children);

}  // namespace onnxfit
