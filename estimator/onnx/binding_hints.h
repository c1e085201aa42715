// What to type instead of --dim or --shape that names nothing, and how to export where no flag
// would do.  Internal to the room onnx/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/onnx/declared_inputs.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit {

// Another binding, and what to type for it instead of the flag that is wrong.
struct BindingHint {
  std::string flag;
  DimBinding binding;
};

// --dim `name` is nothing here: the dimensions that may be meant, the likeliest first.
std::vector<BindingHint> InsteadOfDim(const DeclaredInputs& declared, const DimBinding& binding,
                                      const std::string& name, int64_t size);

// --shape `name` is nothing here, and there are inputs: one that it may mean, of that shape or of
// its own.
std::vector<BindingHint> InsteadOfShape(const DeclaredInputs& declared, const DimBinding& binding,
                                        const std::string& name, const Dims& dims);

// "--dim N=8", for a shell.
std::string DimFlag(const std::string& name, int64_t size);

// "2x512".
std::string TimesJoined(const Dims& dims);

// "ids is [1, 512], mask is [1, 512]": what of the inputs the file fixes.
std::string FixedText(const DeclaredInputs& declared);

// How to export with a dimension `name` free: of an image its height, else what follows the batch.
std::string ExportHint(const Graph& graph, const DeclaredInputs& declared, const std::string& name);

}  // namespace onnxfit
