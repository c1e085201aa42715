#include "estimator/pt2/libraries.h"

#include <algorithm>

#include "estimator/program/libraries.h"

namespace onnxfit::pt2 {

bool BuildsLibraryMask(const Call& call) {
  return std::ranges::any_of(
      call.lines, [](const SourceLine& line) { return BuildsMask(line.file, line.text); });
}

bool CastsToWeightFirst(const Call& call) {
  return !call.lines.empty() && CastsToWeight(call.lines.back().file, call.lines.back().text);
}

bool LeavesAutocast(const Call& call) {
  return !call.lines.empty() && RunsOutsideAutocast(call.lines.back().file, call.lines.back().text);
}

}  // namespace onnxfit::pt2
