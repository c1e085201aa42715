// The one way to a model: ONNX, or PyTorch's own export.
#pragma once

#include <string>
#include <string_view>

#include "estimator/graph/graph.h"

namespace onnxfit {

// Reads `path` as what its first bytes say that it is: a zip archive is a .pt2, all else has to be
// ONNX, with the program that it may hold.  "-" is standard input.  Throws Error as LoadGraph and
// pt2::LoadExportedProgram do.
Graph LoadModel(const std::string& path);

// The same for the bytes of a file that was at `path`, and that messages call `name`.
Graph LoadModelFrom(std::string_view bytes, const std::string& path, const std::string& name);

}  // namespace onnxfit
