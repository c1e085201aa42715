#include "estimator/pt2/libraries.h"

#include <algorithm>
#include <map>
#include <optional>

#include "estimator/libraries/libraries.h"

namespace onnxfit::pt2 {

namespace {

bool IsOfMask(const SourceLine& line) { return BuildsMask(line.file, line.text); }

}  // namespace

bool BuildsLibraryMask(const Call& call) {
  return call.watched == nullptr && std::ranges::any_of(call.lines, IsOfMask);
}

StatementPlace MaskStatementOf(const Call& call) {
  const auto line = std::ranges::find_if(call.lines, IsOfMask);
  return {line->file, line->line};
}

std::set<StatementPlace> FindMasksOfTensors(const ExportedProgram& exported) {
  std::map<std::string_view, std::optional<StatementPlace>> makers;  // of each tensor: its mask's
  for (const InputSpec& input : exported.inputs) {
    if (input.kind != InputSpec::Kind::kConstant) makers[input.name] = std::nullopt;
  }
  std::set<StatementPlace> found;
  for (const Call& call : exported.graph.calls) {
    std::optional<StatementPlace> place;
    if (BuildsLibraryMask(call)) place = MaskStatementOf(call);
    for (const std::string_view operand : OperandsOf(call)) {
      const auto maker = makers.find(operand);
      if (place && maker != makers.end() && maker->second != place) found.insert(*place);
    }
    std::set<std::string_view> results;
    for (const Argument& result : call.results) AddNames(result, results);
    for (const std::string_view result : results) makers[result] = place;
  }
  return found;
}

bool LosesCausality(const Call& call) {
  return call.watched == nullptr && !call.lines.empty() &&
         IsNeverCausal(call.lines.back().file, call.lines.back().text);
}

bool CastsToWeightFirst(const Call& call) {
  if (call.watched != nullptr || call.lines.empty()) return false;
  const std::string_view type = call.modules.empty() ? "" : call.modules.back().type;
  return CastsToWeight(call.lines.back().file, call.lines.back().text, type);
}

namespace {

// Of the forward around the module of `call`, null where that is not known.
const SourceLine* LineOfCaller(const Call& call) {
  const size_t lines = call.lines.size();
  const bool is_known = call.watched == nullptr && lines >= 2 && lines == call.modules.size();
  return !is_known ? nullptr : &call.lines[lines - 2];
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
  return call.watched == nullptr && !call.lines.empty() &&
         RunsOutsideAutocast(call.lines.back().file, call.lines.back().text);
}

bool CastsToAutocastFirst(const Call& call) {
  return call.watched == nullptr && std::ranges::any_of(call.lines, [](const SourceLine& line) {
           return CastsToAutocast(line.file, line.text);
         });
}

}  // namespace onnxfit::pt2
