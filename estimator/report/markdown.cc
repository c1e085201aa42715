#include "estimator/report/markdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

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

}  // namespace onnxfit
