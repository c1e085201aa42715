// Rows of the lowering table for parts of tensors, and places in them.  Internal to the room
// program/.
#pragma once

#include <string_view>

#include "estimator/recover/lowering.h"

namespace onnxfit {

void LowerSplit(Lowering& lowering, const Node& node, std::string_view aten);
void LowerSlice(Lowering& lowering, const Node& node, std::string_view aten);
void LowerSplitToSequence(Lowering& lowering, const Node& node, std::string_view aten);
void LowerSequenceAt(Lowering& lowering, const Node& node, std::string_view aten);
void LowerGather(Lowering& lowering, const Node& node, std::string_view aten);
void LowerTopK(Lowering& lowering, const Node& node, std::string_view aten);
void LowerScatter(Lowering& lowering, const Node& node, std::string_view aten);

}  // namespace onnxfit
