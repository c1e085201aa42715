#include "estimator/program/passed_names.h"

#include <map>
#include <string>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"

namespace onnxfit {
namespace {

// Whether the line of `call` passes what `bound` binds to one name.
bool PassesOn(const Program& program, const Statement& call, const Statement& bound) {
  const bool binds_one = bound.source != kNoStatement && bound.targets.size() == 1;
  if (!binds_one || program.calls[Index(bound.last)].outputs.empty()) return false;
  const SourceStatement& line = program.source.At(call.source);
  return line.Mentions(bound.targets[0]) ||
         (line.is_open && IsPassedToLayers(program.source.At(bound.source).text));
}

// Of a call in `line`, which the file shows to its end: "x = layer(x, mask)".
bool HasNoKeyword(const SourceStatement& line) {
  const size_t call = line.text.find('(');
  return !line.is_open && call != std::string::npos &&
         line.text.find('=', call) == std::string::npos;
}

}  // namespace

Passed PassedNames(const Program& program, const ModuleCall& caller, int64_t first) {
  const std::vector<Statement>& statements = caller.statements;
  size_t call = 0;
  while (call < statements.size() && statements[call].last < first) ++call;
  if (call == statements.size() || statements[call].source == kNoStatement) return {};
  std::map<std::string, NameId> passed;  // by the name that holds it
  for (size_t i = 0; i < call; ++i) {
    for (const std::string& target : statements[i].targets) passed.erase(target);
    if (!PassesOn(program, statements[call], statements[i])) continue;
    passed[statements[i].targets[0]] = program.calls[Index(statements[i].last)].outputs[0];
  }
  Passed found;
  found.by_position = HasNoKeyword(program.source.At(statements[call].source));
  for (const auto& [target, name] : passed) {
    if (name != kNoName) found.names.push_back(name);
  }
  return found;
}

}  // namespace onnxfit
