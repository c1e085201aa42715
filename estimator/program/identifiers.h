// Names in Python's text.
#pragma once

#include <string_view>

namespace onnxfit {

// A letter, a digit or an underscore.
bool IsPartOfIdentifier(char c);

bool IsIdentifier(std::string_view text);

// Without the blanks around it.
std::string_view Trimmed(std::string_view text);

}  // namespace onnxfit
