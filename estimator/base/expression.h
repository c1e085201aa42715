// Expressions of symbolic sizes: two notations in files, one here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onnxfit {

// `written` in Python's notation.  PyTorch 2.11 writes what sympy's srepr makes,
//   Mul(Integer(128), Symbol('s10', positive=True, integer=True))
// and earlier ones wrote 128*s10, which is what both become.  What is neither stays as it is.
std::string PlainExpression(std::string_view written);

// What `expression` comes to, a comparison to 0 or 1, where symbols have these values.  Nothing
// where one has none, where a function is not known here, and beyond int64_t.
std::optional<int64_t> Evaluate(std::string_view expression,
                                const std::map<std::string_view, int64_t>& symbols);

// The symbols in `expression`, each once, in the order in which they are written.  nullopt for
// what is no expression: a name that holds signs, such as "batch-size?".
std::optional<std::vector<std::string>> SymbolsOf(std::string_view expression);

// What `symbol` is where `expression` comes to `size` and the other symbols have these values.
// Nothing where it cannot be of that size, and for expressions that are no straight line.
std::optional<int64_t> SolveFor(std::string_view symbol, std::string_view expression, int64_t size,
                                std::map<std::string_view, int64_t> symbols = {});

}  // namespace onnxfit
