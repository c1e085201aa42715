// Markdown as GitHub reads it (https://github.github.com/gfm): text that means itself, code,
// tables.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace onnxfit {

// `text` as a line that reads as it is: what would be markup is escaped, line ends are spaces.
std::string MarkdownText(std::string_view text);

// A name as code within a line: `conv1`.  One with a backtick or a pipe, which end code or a
// table's cell, is escaped text.
std::string MarkdownCode(std::string_view name);

// Lines of code, between fences that they cannot close.  Ends with a newline.
std::string MarkdownBlock(std::string_view lines, std::string_view language = "text");

// `rows` below `header`, which has as many cells as `align` has letters: 'l' or 'r'.  Cells are
// Markdown already, but for pipes and line ends; a short row is filled up.
std::string MarkdownTable(const std::vector<std::string>& header, std::string_view align,
                          const std::vector<std::vector<std::string>>& rows);

// A heading and what stands below it; "" where that is nothing.
std::string MarkdownSection(std::string_view title, const std::string& body);

// "- item" a line.  `items` are Markdown already, but for line ends.
std::string MarkdownList(const std::vector<std::string>& items);

}  // namespace onnxfit
