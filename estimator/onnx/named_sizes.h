// Which names --dim and --shape take beyond the inputs and their free dimensions.
#pragma once

#include <string_view>

#include "estimator/onnx/graph.h"

namespace onnxfit {

// Whether --dim `name` may be a size in the graph that data decide: of a value, one of its
// dimensions, or a dimension that the file names; and --shape `name` such a value.  O(values).
bool MayNameSize(const Graph& graph, std::string_view name);

// Under this key of a Graph's metadata are the names of such sizes of a .pt2.
inline constexpr std::string_view kSizeOfData = "onnxfit.size_of_data";

}  // namespace onnxfit
