#include "estimator/report/layout.h"

#include <algorithm>
#include <cmath>

namespace onnxfit {

const Glyphs kUnicodeGlyphs = {.ellipsis = "…",
                               .arrow = "→",
                               .dash = "–",
                               .times = "×",
                               .eighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"}};
const Glyphs kAsciiGlyphs = {.ellipsis = "...",
                             .arrow = "->",
                             .dash = "-",
                             .times = "x",
                             .eighths = {"", "", "", "", "#", "#", "#", "#", "#"}};

namespace {

constexpr std::string_view kReset = "\033[0m";
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr char32_t kInvalid = 0xFFFFFFFF;

struct Letter {
  char32_t code = kInvalid;
  std::string_view bytes;
};

struct Range {
  char32_t first;
  char32_t last;
};

// Controls, and what reorders or breaks a line (Unicode 15, categories Cc, Zl, Zp and
// the bidirectional marks).
constexpr Range kHarmful[] = {{0x00, 0x1F},     {0x7F, 0x9F},     {0x200E, 0x200F},
                              {0x2028, 0x202E}, {0x2066, 0x2069}, {0xFEFF, 0xFEFF}};

// The blocks of Unicode 15 that EastAsianWidth.txt calls W or F.
constexpr Range kWide[] = {{0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},
                           {0xA960, 0xA97F},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},
                           {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},
                           {0x1F300, 0x1F64F}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};

template <size_t size>
bool In(const Range (&ranges)[size], char32_t code) {
  return std::any_of(std::begin(ranges), std::end(ranges), [code](const Range& range) {
    return range.first <= code && code <= range.last;
  });
}

// How many bytes a letter has that begins with `lead`; 0 where none does.
size_t LengthOf(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 0;
}

// Neither longer than it has to be, nor a surrogate, nor past the last code point.
bool IsScalar(char32_t code, size_t length) {
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  return code >= kLeast[length] && code <= 0x10FFFF && !(code >= 0xD800 && code <= 0xDFFF);
}

// The first letter of `text`, or one byte of it as kInvalid.  REQUIRES: not empty.
Letter FirstLetter(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = LengthOf(lead);
  const Letter invalid = {kInvalid, text.substr(0, 1)};
  if (length == 0 || length > text.size()) return invalid;
  char32_t code = length == 1 ? lead : lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xC0u) != 0x80) return invalid;
    code = code << 6 | (byte & 0x3Fu);
  }
  return IsScalar(code, length) ? Letter{code, text.substr(0, length)} : invalid;
}

size_t ColumnsOf(const Letter& letter) { return In(kWide, letter.code) ? 2 : 1; }

bool Continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) == 0x80; }

// The longest beginning of `text` that fits.
std::string_view Beginning(std::string_view text, size_t columns) {
  size_t end = 0;
  while (end < text.size()) {
    const Letter letter = FirstLetter(text.substr(end));
    if (ColumnsOf(letter) > columns) break;
    columns -= ColumnsOf(letter);
    end += letter.bytes.size();
  }
  return text.substr(0, end);
}

// The longest end of `text` that fits.
std::string_view Ending(std::string_view text, size_t columns) {
  size_t begin = text.size();
  while (begin > 0) {
    size_t lead = begin - 1;
    while (lead > 0 && Continues(text[lead])) --lead;
    const size_t needed = ColumnsOf(FirstLetter(text.substr(lead)));
    if (needed > columns) break;
    columns -= needed;
    begin = lead;
  }
  return text.substr(begin);
}

// Takes the first word off `text`; "" at its end.
std::string_view TakeWord(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(word.size());
  return word;
}

// The words of `text`, those wider than `columns` in pieces.
std::vector<std::string_view> Words(std::string_view text, size_t columns) {
  std::vector<std::string_view> words;
  for (std::string_view word = TakeWord(text); !word.empty(); word = TakeWord(text)) {
    while (Columns(word) > columns) {
      words.push_back(Beginning(word, columns));
      word.remove_prefix(words.back().size());
    }
    words.push_back(word);
  }
  return words;
}

}  // namespace

std::string Clean(std::string_view text, bool ascii) {
  std::string clean;
  while (!text.empty()) {
    const Letter letter = FirstLetter(text);
    text.remove_prefix(letter.bytes.size());
    const bool harmful = In(kHarmful, letter.code) || (ascii && letter.code > 0x7F);
    if (harmful) {
      clean += '?';
    } else {
      clean += letter.code == kInvalid ? kReplacement : letter.bytes;
    }
  }
  return clean;
}

size_t Columns(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) {
    const Letter letter = FirstLetter(text);
    text.remove_prefix(letter.bytes.size());
    columns += ColumnsOf(letter);
  }
  return columns;
}

std::string CutMiddle(std::string_view text, size_t columns, std::string_view ellipsis) {
  if (Columns(text) <= columns) return std::string(text);
  const size_t kept = columns - Columns(ellipsis);
  std::string cut(Beginning(text, kept / 2));
  cut += ellipsis;
  cut += Ending(text, kept - kept / 2);
  return cut;
}

std::string Wrap(std::string_view lead, std::string_view text, size_t columns) {
  const std::string indent(Columns(lead), ' ');
  std::string wrapped;
  std::string line(lead);
  bool begun = false;
  for (const std::string_view word : Words(text, columns - indent.size())) {
    if (begun && Columns(line) + 1 + Columns(word) > columns) {
      wrapped += line + '\n';
      line = indent;
      begun = false;
    }
    line += begun ? " " : "";
    line += word;
    begun = true;
  }
  return wrapped + line + '\n';
}

std::string TrimLines(std::string_view text) {
  std::string trimmed;
  for (const char c : text) {
    if (c == '\n') trimmed.erase(trimmed.find_last_not_of(' ') + 1);
    trimmed += c;
  }
  return trimmed;
}

std::string Bar(double share, size_t columns, const Glyphs& glyphs) {
  const double bounded = std::clamp(share, 0.0, 1.0);
  const auto eighths = static_cast<size_t>(std::lround(bounded * 8 * static_cast<double>(columns)));
  std::string bar;
  for (size_t i = 0; i < eighths / 8; ++i) bar += glyphs.eighths[8];
  bar += glyphs.eighths[eighths % 8];
  if (!bar.empty() || share <= 0) return bar;
  return std::string(glyphs.eighths[1].empty() ? glyphs.eighths[8] : glyphs.eighths[1]);
}

std::string Painted(const Cell& cell) {
  if (cell.paint.empty() || cell.text.empty()) return cell.text;
  return std::string(cell.paint) + cell.text + std::string(kReset);
}

std::string PadLeft(std::string_view text, size_t columns) {
  return std::string(columns - std::min(columns, Columns(text)), ' ') + std::string(text);
}

std::string PadRight(std::string_view text, size_t columns) {
  return std::string(text) + std::string(columns - std::min(columns, Columns(text)), ' ');
}

std::vector<size_t> ColumnWidths(const std::vector<std::vector<Cell>>& rows, size_t columns) {
  std::vector<size_t> widths(columns, 0);
  for (const std::vector<Cell>& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], Columns(row[i].text));
    }
  }
  return widths;
}

std::string Table(const std::vector<std::vector<Cell>>& rows, std::string_view align,
                  std::string_view indent) {
  const std::vector<size_t> widths = ColumnWidths(rows, align.size());
  std::string table;
  for (const std::vector<Cell>& row : rows) {
    std::string line(indent);
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - Columns(row[i].text), ' ');
      line += i == 0 ? "" : "  ";
      line += align[i] == 'r' ? padding + Painted(row[i]) : Painted(row[i]) + padding;
    }
    table += line + '\n';
  }
  return table;
}

std::string WithSpaces(std::string_view kind) {
  std::string text(kind);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

}  // namespace onnxfit
