// A model without its weights, so that ONNX's parser never sees them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/onnx/loader.h"

namespace onnxfit {

// A tensor that lost its contents; views of the file.
struct CutTensor {
  std::string_view name;
  std::string_view raw_data;  // "" where the elements lie in typed fields
};

struct Shortened {
  std::optional<std::string> copy;  // of all that is left; absent where nothing was cut
  std::vector<CutTensor> cut_tensors = {};
  int64_t cut_texts = 0;  // doc strings and the like, too long to be kept
};

// Cuts the contents of tensors larger than `options` keeps out of `file`, a ModelProto,
// wherever they are: initializers, attributes, sub-graphs, functions.  Lengths of the
// messages around them are written anew.  The bytes of a skipped tensor are not touched.
// Fields that onnx.proto does not have are dropped, as protobuf ignores them.
// `passed`, where given, is told of parts that were looked at, each of some MiB: their
// pages may go.  Throws Error (without a file) for what is not a ModelProto, and for one that would
// not fit in 1 GiB of memory even so.  O(fields).
Shortened ShortenModel(std::string_view file, const LoadOptions& options,
                       const std::function<void(std::string_view)>& passed = {});

}  // namespace onnxfit
