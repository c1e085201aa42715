#include "estimator/report/markup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "estimator/report/layout.h"

namespace onnxfit {
namespace {

bool IsWordLetter(std::string_view text, size_t place) {
  return place < text.size() && std::isalnum(static_cast<unsigned char>(text[place])) != 0;
}

// Emphasis, links, code, tags, entities; an underscore within a word is none of these.
bool IsMarkup(std::string_view text, size_t place) {
  if (text[place] == '_') {
    return place == 0 || !IsWordLetter(text, place - 1) || !IsWordLetter(text, place + 1);
  }
  return std::string_view("\\`*[]<>&~").find(text[place]) != std::string_view::npos;
}

// What makes a line a heading, a list or a quote.
bool BeginsBlock(char c) { return std::string_view("#+-=").find(c) != std::string_view::npos; }

std::string OneLine(std::string_view text) {
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::replace(line.begin(), line.end(), '\r', ' ');
  return line;
}

std::string TableCell(std::string_view text) {
  std::string cell;
  for (const char c : OneLine(text)) {
    if (c == '|') cell += '\\';
    cell += c;
  }
  return cell;
}

std::string TableLine(const std::vector<std::string>& cells, size_t columns) {
  std::string line = "|";
  for (size_t i = 0; i < columns; ++i) {
    const std::string cell = i < cells.size() ? TableCell(cells[i]) : "";
    line += cell.empty() ? " |" : ' ' + cell + " |";
  }
  return line + '\n';
}

size_t LongestRun(std::string_view text, char of) {
  size_t longest = 0;
  size_t run = 0;
  for (const char c : text) {
    run = c == of ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  return longest;
}

}  // namespace

std::string MarkdownText(std::string_view text) {
  const std::string line = OneLine(text);
  std::string escaped;
  for (size_t i = 0; i < line.size(); ++i) {
    if (IsMarkup(line, i) || (i == 0 && BeginsBlock(line[i]))) escaped += '\\';
    escaped += line[i];
  }
  return escaped;
}

std::string MarkdownCode(std::string_view name) {
  if (name.empty()) return "";
  if (name.find_first_of("`|") != std::string_view::npos) return MarkdownText(name);
  return '`' + OneLine(name) + '`';
}

std::string MarkdownBlock(std::string_view lines, std::string_view language) {
  const std::string fence(std::max<size_t>(3, LongestRun(lines, '`') + 1), '`');
  const std::string_view end = lines.ends_with('\n') || lines.empty() ? "" : "\n";
  return fence + std::string(language) + '\n' + std::string(lines) + std::string(end) + fence +
         '\n';
}

std::string MarkdownTable(const std::vector<std::string>& header, std::string_view align,
                          const std::vector<std::vector<std::string>>& rows) {
  std::string table = TableLine(header, align.size()) + '|';
  for (const char side : align) table += side == 'r' ? " ---: |" : " --- |";
  table += '\n';
  for (const std::vector<std::string>& row : rows) table += TableLine(row, align.size());
  return table;
}

std::string MarkdownSection(std::string_view title, const std::string& body) {
  return body.empty() ? "" : fmt::format("\n### {}\n\n{}", title, body);
}

std::string MarkdownList(const std::vector<std::string>& items) {
  std::string list;
  for (const std::string& item : items) list += "- " + OneLine(item) + '\n';
  return list;
}

std::string CsvField(std::string_view text) {
  const bool is_plain = text.find_first_of(",\"\r\n") == std::string_view::npos &&
                        !text.starts_with(' ') && !text.ends_with(' ');
  if (is_plain) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string CsvLine(const std::vector<std::string>& fields) {
  std::string line;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) line += ',';
    line += CsvField(fields[i]);
  }
  // An empty line would be no record.
  return (line.empty() && fields.size() == 1 ? "\"\"" : line) + '\n';
}

// What follows escapes text for XML and HTML.
namespace {

struct Escape {
  std::string_view of;
  std::string_view text;
};

// ">" because "]]>" may not stand in text.
constexpr Escape kEscapes[] = {{"&", "&amp;"},
                               {"<", "&lt;"},
                               {">", "&gt;"},
                               {"\"", "&quot;"},
                               {"\xEF\xBF\xBE", "\xEF\xBF\xBD"},
                               {"\xEF\xBF\xBF", "\xEF\xBF\xBD"}};

const Escape* FindEscape(std::string_view text) {
  const auto* found =
      std::find_if(std::begin(kEscapes), std::end(kEscapes),
                   [&](const Escape& escape) { return text.starts_with(escape.of); });
  return found == std::end(kEscapes) ? nullptr : found;
}

std::string EscapedLine(std::string_view line) {
  const std::string clean = Clean(line, false);
  std::string escaped;
  for (size_t i = 0; i < clean.size();) {
    const Escape* escape = FindEscape(std::string_view(clean).substr(i));
    escaped += escape != nullptr ? escape->text : std::string_view(clean).substr(i, 1);
    i += escape != nullptr ? escape->of.size() : 1;
  }
  return escaped;
}

std::string EscapedLines(std::string_view text, char line_end) {
  std::string escaped;
  for (;;) {
    const size_t end = text.find('\n');
    escaped += EscapedLine(text.substr(0, end));
    if (end == std::string_view::npos) return escaped;
    escaped += line_end;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::string XmlText(std::string_view text) { return EscapedLines(text, '\n'); }

std::string XmlAttribute(std::string_view text) { return EscapedLines(text, ' '); }

}  // namespace onnxfit
