// Names from a file, fit to be printed: they may hold anything and be of any length.
#pragma once

#include <string>
#include <string_view>

namespace onnxfit {

// "'conv1'"; of long names the first 40 bytes and "…", control characters as "?".
std::string Quote(std::string_view name);

// `word` as a shell takes it for one: "'a + b'", "seq" as it is.
std::string ShellWord(std::string_view word);

}  // namespace onnxfit
