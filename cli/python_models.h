// Models that are Python: a function in a module, or a library's model by name, which `python -m
// onnxfit export` (python/onnxfit/_export.py) writes as a file.
#pragma once

#include <string>

#include "estimator/compare/check.h"
#include "estimator/onnx/graph.h"

namespace onnxfit {

// Whether `text`, which a config in `folder` has for a model, is one of these: "net:build",
// "torchvision:resnet50".  What names a file, or ends as one, is a file.
bool NamesPython(const std::string& text, const std::string& folder);

// The Python that is run where no config names another: ONNXFIT_PYTHON, else python3.
std::string DefaultPython();

// The model, of which messages and reports say `path`.  Takes the seconds that Python takes.
// Throws Error where no Python runs, where it lacks the package or PyTorch, and what it says of the
// module and of the function.
Graph ExportPython(const PythonExport& python, const std::string& path);

// A model of either kind.  Throws Error.
Graph LoadSource(const ModelSource& source);

}  // namespace onnxfit
