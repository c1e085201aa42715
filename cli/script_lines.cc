#include "cli/script_lines.h"

#include <cstddef>
#include <fstream>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

std::vector<std::string> LinesOfFile(const std::string& file) {
  std::vector<std::string> lines;
  std::ifstream source(file);
  for (std::string line; std::getline(source, line);) lines.push_back(line);
  return lines;
}

}  // namespace

std::string ScriptLines::LineOf(const std::string& file, int64_t line) {
  const auto [at, is_new] = files_.try_emplace(file);
  if (is_new) at->second = LinesOfFile(file);
  const std::vector<std::string>& lines = at->second;
  if (line < 1 || Index(line) > lines.size()) return "";
  const std::string& text = lines[Index(line - 1)];
  const size_t first = text.find_first_not_of(" \t");
  const size_t last = text.find_last_not_of(" \t\r");
  return first == text.npos ? "" : text.substr(first, last + 1 - first);
}

}  // namespace onnxfit
