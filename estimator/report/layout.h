// How text reports are laid out: columns, cuts, wraps, tables and bars.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/report/formats.h"

namespace onnxfit {

inline constexpr size_t kReportColumns = 80;  // no line is wider

// The marks of a report.
struct Glyphs {
  std::string_view ellipsis;
  std::string_view arrow;
  std::string_view dash;  // between the ends of a range
  std::string_view times;
  // What fills 0/8, 1/8 … 8/8 of a bar's column; "" leaves it out.
  std::array<std::string_view, 9> eighths;
};

extern const Glyphs kUnicodeGlyphs;
extern const Glyphs kAsciiGlyphs;

// The marks that `options` ask for.
inline const Glyphs& GlyphsOf(const TextOptions& options) {
  return options.ascii ? kAsciiGlyphs : kUnicodeGlyphs;
}

// `text` as valid UTF-8 without anything that moves a cursor: bad bytes become U+FFFD,
// control and direction characters "?".  With `ascii`, all that is not ASCII is "?".
std::string Clean(std::string_view text, bool ascii);

// Columns on a terminal: 2 for East Asian wide letters, 1 for all others, so never
// fewer than code points.
size_t Columns(std::string_view text);

// `text` in at most `columns`, cut in its middle where it is longer.
// REQUIRES: `text` as Clean leaves it; columns >= Columns(ellipsis).
std::string CutMiddle(std::string_view text, size_t columns, std::string_view ellipsis);

// The words of `text` in lines of at most `columns`, each with its newline; the first
// begins with `lead`, the others with as many spaces.  Longer words are broken.
// REQUIRES: columns >= Columns(lead) + 2.
std::string Wrap(std::string_view lead, std::string_view text, size_t columns = kReportColumns);

// `text` without the spaces before its newlines.
std::string TrimLines(std::string_view text);

// `share` (0 to 1) of `columns`; a share above 0 leaves at least one mark.
std::string Bar(double share, size_t columns, const Glyphs& glyphs);

// `text` with spaces before or after it, up to `columns`.
std::string PadLeft(std::string_view text, size_t columns);
std::string PadRight(std::string_view text, size_t columns);

struct Cell {
  std::string text;
  std::string_view paint = {};  // an escape sequence that begins a colour, "" for none
};

inline constexpr std::string_view kCyan = "\033[36m";
inline constexpr std::string_view kYellow = "\033[33m";
inline constexpr std::string_view kGreen = "\033[32m";
inline constexpr std::string_view kRed = "\033[31m";

// `cell` with its colour.
std::string Painted(const Cell& cell);

// The widest cell of each of the first `columns` columns.
std::vector<size_t> ColumnWidths(const std::vector<std::vector<Cell>>& rows, size_t columns);

inline constexpr std::string_view kIndent = "  ";  // of what stands below a heading

// Rows under one another, `indent` before them and two spaces between columns; `align`
// has 'l' or 'r' for each column.
std::string Table(const std::vector<std::vector<Cell>>& rows, std::string_view align,
                  std::string_view indent);

// "optimizer state" of "optimizer_state".
std::string WithSpaces(std::string_view kind);

}  // namespace onnxfit
