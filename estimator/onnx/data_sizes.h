// Sizes that data decide (NonZero, a mask, TopK with a computed k): what --dim calls them, and the
// most that they can be.  Internal to the room onnx/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "estimator/onnx/constants.h"
#include "estimator/onnx/graph.h"

namespace onnxfit {

// How --dim calls dimension `axis` of a value that leaves `open` of its dimensions to data: "mask",
// or "mask.1" beside others.
std::string NameOfSize(std::string_view value, int axis, int open);

// What output `output` is where ONNX's inference does not say it, with -1 for what data decide:
// nullopt where its inputs do not tell.
std::optional<TensorType> OpenTypeOf(const Call& call, size_t output);

// Dimension `axis` of an output where no data decide it, such as one that a Slice leaves as it is;
// nullopt where they may.
std::optional<int64_t> SizeOf(const Call& call, size_t output, int axis);

// The most that dimension `axis` of an output can be, whatever the data are; nullopt where there is
// no limit.
std::optional<int64_t> MostOf(const Call& call, size_t output, int axis);

}  // namespace onnxfit
