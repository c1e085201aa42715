// Names of sizes: which --dim and --shape take beyond the inputs and their free dimensions, and
// which nobody chose.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "estimator/onnx/graph.h"

namespace onnx {
class GraphProto;
}

namespace onnxfit {

// Whether --dim `name` may be a size in the graph that data decide: of a value, one of its
// dimensions, or a dimension that the file names; and --shape `name` such a value.  Values in
// bodies of If and Loop are among them, by the names that they have once these are written out.
// O(values).
bool MayNameSize(const Graph& graph, std::string_view name);

// Whether `name` may be a size of a value that `body`, of an If or a Loop, makes.  O(values).
bool MayNameSizeIn(const onnx::GraphProto& body, std::string_view name);

// Whether nobody chose the dimension's name: "", or one that an exporter made up: "s72"
// (torch.export 2.11), "x_dynamic_axes_1" (TorchScript, whose dynamic_axes had no name), "unk__7"
// (tf2onnx 1.16), "DynamicDimension.0" (paddle2onnx 2.1). O(name).
bool IsMadeUp(std::string_view dimension);

// What a dimension of this name is where others are that many: under its name, or computed as its
// name says, "past + 1".  O(name).
std::optional<int64_t> SizeUnder(const std::string& dimension,
                                 const std::map<std::string, int64_t>& sizes);

// Under this key of a Graph's metadata are the names of such sizes of a .pt2.
inline constexpr std::string_view kSizeOfData = "onnxfit.size_of_data";

}  // namespace onnxfit
