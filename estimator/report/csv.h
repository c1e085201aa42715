// Tables for programs: comma-separated values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace onnxfit {

// As RFC 4180 quotes it: in quotes where it holds a comma, a quote, a line's end, or a space at
// either end, its own quotes doubled.
std::string CsvField(std::string_view text);

// One record, with a newline ("\n": what a shell's tools expect) at its end.
std::string CsvLine(const std::vector<std::string>& fields);

}  // namespace onnxfit
