// Text within other languages: Markdown as GitHub reads it (https://github.github.com/gfm),
// comma-separated values (RFC 4180), XML 1.0 and HTML.
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

// As RFC 4180 quotes it: in quotes where it holds a comma, a quote, a line's end, or a space at
// either end, its own quotes doubled.
std::string CsvField(std::string_view text);

// One record, with a newline ("\n": what a shell's tools expect) at its end.
std::string CsvLine(const std::vector<std::string>& fields);

// `text` between tags: markup is escaped, lines stay.  What XML 1.0 forbids is U+FFFD (bad UTF-8,
// U+FFFE and U+FFFF) or "?" (control characters), as in Clean.
std::string XmlText(std::string_view text);

// The same between double quotes; line ends are spaces.
std::string XmlAttribute(std::string_view text);

}  // namespace onnxfit
