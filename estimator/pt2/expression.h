// Expressions of symbolic sizes: two notations in files, one here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace onnxfit::pt2 {

// `written` in Python's notation.  PyTorch 2.11 writes what sympy's srepr makes,
//   Mul(Integer(128), Symbol('s10', positive=True, integer=True))
// and earlier ones wrote 128*s10, which is what both become.  What is neither stays as it is.
std::string PlainExpression(std::string_view written);

// What `expression` comes to, a comparison to 0 or 1, where symbols have these values.  Nothing
// where one has none, where a function is not known here, and beyond int64_t.
std::optional<int64_t> Evaluate(std::string_view expression,
                                const std::map<std::string_view, int64_t>& symbols);

}  // namespace onnxfit::pt2
