#include "estimator/program/line_spacing.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "estimator/base/text.h"
#include "estimator/program/identifiers.h"

namespace onnxfit {
namespace {

struct Span {
  size_t begin = 0;
  size_t end = 0;
};

bool IsOneOf(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

// "=", "+=" or "//=" whose "=" is at `equals`; empty of "==", "<=" and their like.
Span OperatorAt(std::string_view line, size_t equals) {
  if (equals + 1 < line.size() && line[equals + 1] == '=') return {};
  size_t begin = equals;
  while (begin > 0 && IsOneOf(line[begin - 1], "+-*/%&|^@")) --begin;
  if (begin == 0 || IsOneOf(line[begin - 1], "=!<>:")) return {};
  return {begin, equals + 1};
}

// Outside of brackets and strings; none where a bracket is closed that is not opened.
std::vector<Span> AssignmentsIn(std::string_view line) {
  std::vector<Span> found;
  int depth = 0;
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (IsOneOf(c, "\"'")) {
      quote = c;
    } else if (IsOneOf(c, "([{")) {
      ++depth;
    } else if (IsOneOf(c, ")]}")) {
      if (--depth < 0) return {};
    } else if (c == '=' && depth == 0) {
      const Span assignment = OperatorAt(line, i);
      if (assignment.end != 0) found.push_back(assignment);
    }
  }
  return found;
}

// Whether it has one blank before and one behind.
bool IsSpaced(std::string_view line, const Span& assignment) {
  const std::string_view before = line.substr(0, assignment.begin);
  const std::string_view behind = line.substr(assignment.end);
  return before.ends_with(' ') && !before.ends_with("  ") && behind.starts_with(' ') &&
         !behind.starts_with("  ");
}

}  // namespace

std::string WithSpacing(std::string_view line) {
  const std::vector<Span> assignments = AssignmentsIn(line);
  const auto is_spaced = [&](const Span& assignment) { return IsSpaced(line, assignment); };
  if (line.ends_with(',') || std::ranges::all_of(assignments, is_spaced)) return "";
  std::string spaced;
  size_t done = 0;
  for (const Span& assignment : assignments) {
    spaced += Trimmed(line.substr(done, assignment.begin - done));
    spaced += ' ';
    spaced += line.substr(assignment.begin, assignment.end - assignment.begin);
    spaced += ' ';
    done = assignment.end;
  }
  spaced += Trimmed(line.substr(done));
  return spaced;
}

}  // namespace onnxfit
