// What holds of every page for people.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "estimator/report/layout.h"

namespace onnxfit {

inline std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

inline bool IsAscii(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// Lines of at most 80 columns, without a space at their end and anything that moves a cursor.
inline void CheckPage(const std::string& text) {
  CHECK(text.ends_with('\n'));
  for (const std::string& line : LinesOf(text)) {
    CAPTURE(line);
    CHECK(Columns(line) <= kReportColumns);
    CHECK(Clean(line, false) == line);
    CHECK_FALSE(line.ends_with(' '));
  }
}

// `text` without its colours.
inline std::string Uncoloured(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033') {
      i = text.find('m', i);
    } else {
      plain += text[i];
    }
  }
  return plain;
}

}  // namespace onnxfit
