// Which calls of a Program an ATen call of a .pt2 is: a row of a table each.  Internal to the
// room pt2/.
#pragma once

#include <string_view>

#include "estimator/pt2/call_writer.h"

namespace onnxfit::pt2 {

// Of the operators of ATen: "torch.ops.aten.conv2d.default".
inline constexpr std::string_view kAtenNamespace = "torch.ops.aten.";

struct CallRow {
  std::string_view target;  // "conv2d.default", of the namespace aten
  std::string_view op;      // a row of the operator table (eager/op_rule.h)
  void (*write)(CallWriter&, const Call&, std::string_view op);
};

// The row of a call, which may be that of its twin out of place ("relu" for "relu_"), or null.
// O(1).
const CallRow* FindCallRow(std::string_view target);

// Whether a call allocates nothing on the device: asserts, sizes.
bool RunsOnHost(std::string_view target);

// "relu_.default" writes over its first argument.
bool WritesInPlace(std::string_view target);

}  // namespace onnxfit::pt2
