#include "estimator/pt2/libraries.h"

#include <algorithm>

#include "estimator/libraries/libraries.h"

namespace onnxfit::pt2 {

bool BuildsLibraryMask(const Call& call) {
  return std::ranges::any_of(
      call.lines, [](const SourceLine& line) { return BuildsMask(line.file, line.text); });
}

bool LosesCausality(const Call& call) {
  return !call.lines.empty() && IsNeverCausal(call.lines.back().file, call.lines.back().text);
}

bool CastsToWeightFirst(const Call& call) {
  if (call.lines.empty()) return false;
  const std::string_view type = call.modules.empty() ? "" : call.modules.back().type;
  return CastsToWeight(call.lines.back().file, call.lines.back().text, type);
}

namespace {

// Of the forward around the module of `call`, null where that is not known.
const SourceLine* LineOfCaller(const Call& call) {
  const size_t lines = call.lines.size();
  return lines < 2 || lines != call.modules.size() ? nullptr : &call.lines[lines - 2];
}

}  // namespace

bool CastsArgumentFirst(const Call& call) {
  const SourceLine* line = LineOfCaller(call);
  return line != nullptr && CastsArgument(line->file, line->text);
}

std::string_view MadeContiguousFor(const Call& call, bool trains) {
  const SourceLine* line = LineOfCaller(call);
  return line == nullptr ? "" : ContiguousArgumentOf(line->file, line->text, trains);
}

std::string_view FunctionAround(const Call& call) {
  if (call.lines.empty()) return "";
  return FunctionOf(call.lines.back().file, call.lines.back().text);
}

bool LeavesAutocast(const Call& call) {
  return !call.lines.empty() && RunsOutsideAutocast(call.lines.back().file, call.lines.back().text);
}

bool CastsToAutocastFirst(const Call& call) {
  return std::ranges::any_of(
      call.lines, [](const SourceLine& line) { return CastsToAutocast(line.file, line.text); });
}

}  // namespace onnxfit::pt2
