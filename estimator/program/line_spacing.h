// Lines of Python as most people write them.
#pragma once

#include <string>
#include <string_view>

namespace onnxfit {

// "x = f(y, dim=1)" of "x=f(y, dim=1)", "x += y" of "x+=y": a statement's line with blanks around
// what it assigns by, which all that reads lines counts on; "" where it has them, or assigns
// nothing.  What goes on from a line before, "dim=1)" or "dim=1,", is left alone.  O(length).
std::string WithSpacing(std::string_view line);

}  // namespace onnxfit
