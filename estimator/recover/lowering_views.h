// Views that torch.export makes of what PyTorch wrote over.  Internal to the room recover/.
#pragma once

#include <string_view>

#include "estimator/recover/lowering.h"

namespace onnxfit {

// A row's function.  Where a call writes over a view, x of "F.relu_(x.flatten(1))", a graph without
// such writes makes the base anew of its result, and of that the view: two views on the call's own
// line, which shows none.  PyTorch makes neither.
void LowerReshape(Lowering& lowering, const Node& node, std::string_view aten);

}  // namespace onnxfit
