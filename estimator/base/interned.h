// Names that many things have in common, each kept once.
#pragma once

#include <string_view>

namespace onnxfit {

// The same text, which lives as long as the process.  For names of operators, modules and classes,
// of which there are thousands; never for what grows with a run.  O(length); any thread.
std::string_view Interned(std::string_view text);

}  // namespace onnxfit
