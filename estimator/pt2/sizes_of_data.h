// Sizes in a .pt2 that follow from no input's: "u0", of what nonzero finds.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/onnx/graph.h"
#include "estimator/pt2/call_writer.h"
#include "estimator/pt2/exported_program.h"

namespace onnxfit::pt2 {

// The tensors that forward takes, in its order.  O(inputs × log tensors).
std::vector<std::pair<std::string_view, const Tensor*>> InputsOf(const ExportedProgram& exported);

// Their symbols, in their order.  O(sizes × log symbols).
std::set<std::string_view> SizesOfData(const ExportedProgram& exported);

// Adds them to `symbols`: what `sizes` say (--dim), else what they were at the export.  Throws
// Error where neither is known, or where the export does not allow what is said.
void BindSizesOfData(const onnxfit::Graph& file, const std::map<std::string, int64_t>& sizes,
                     SymbolValues& symbols);

}  // namespace onnxfit::pt2
