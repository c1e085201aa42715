// Files that name their weights and do not hold them (torch.onnx's include_initializers=False).
#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

namespace onnxfit {

// Each name that nodes read and nothing makes becomes an initializer without contents, of the
// type that the graph's value_info gives it; a note for -v tells how many.  Throws Error
// (without a file) where a file without any initializer stores no type for several such names:
// no shape follows from a name.  A single one, or one among others, is left to BuildGraph, which
// says it is misspelt.  O(nodes).
void DeclareMissingInitializers(onnx::ModelProto& model, std::vector<std::string>& notes);

}  // namespace onnxfit
