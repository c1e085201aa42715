#include "estimator/program/passed_names.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "estimator/program/identifiers.h"

namespace onnxfit {
namespace {

// Whether `bound` binds a tensor to one name.
bool BindsOne(const Program& program, const Statement& bound) {
  return bound.source != kNoStatement && bound.targets.size() == 1 &&
         !program.calls[Index(bound.last)].outputs.empty();
}

// "self.layers[i]" of "self.layers[i](torch.cat((a, b)), c)" for c, "torch.cat" for a and b: what
// is given the name at `at` of `line`; "" of a name outside of all calls.
std::string_view TakerOf(std::string_view line, size_t at) {
  const auto is_of_callee = [&](char c) {
    return IsPartOfIdentifier(c) || std::strchr(".[]", c) != nullptr;
  };
  int depth = 0;
  for (size_t i = at; i-- > 0;) {
    if (line[i] == ')') ++depth;
    if (line[i] != '(' || depth-- > 0) continue;
    depth = 0;
    size_t begin = i;
    while (begin > 0 && is_of_callee(line[begin - 1])) --begin;
    if (begin < i) return line.substr(begin, i - begin);
  }
  return "";
}

// Whether all that reads `name` in `line` are functions of PyTorch's, whose results are passed.
bool IsReadByFunctions(std::string_view line, std::string_view name) {
  constexpr std::string_view kOfTorch[] = {"torch.", "F.", "nn.functional."};
  const size_t value = line.find('=');
  for (size_t at = FindWord(line, name, value); at != line.npos;
       at = FindWord(line, name, at + 1)) {
    if (line.substr(at + name.size()).starts_with('.')) continue;
    const std::string_view taker = TakerOf(line, at);
    const auto is_of = [&](std::string_view module) { return taker.starts_with(module); };
    if (std::ranges::none_of(kOfTorch, is_of)) return false;
  }
  return value != line.npos;
}

bool IsPassedDown(const SourceStatement& line) { return IsPassedToLayers(line.text, line.file); }

// Whether the line of `call` passes what `bound` binds.
bool PassesOn(const Program& program, const Statement& call, const Statement& bound) {
  if (!BindsOne(program, bound)) return false;
  const SourceStatement& line = program.source.At(call.source);
  const std::string& name = bound.targets[0];
  return line.is_open ? line.Mentions(name) || IsPassedDown(program.source.At(bound.source))
                      : line.MayPassOn(name) && !IsReadByFunctions(line.text, name);
}

// Of a call in `line`, which the file shows to its end: "x = layer(x, mask)".
bool HasNoKeyword(const SourceStatement& line) {
  const size_t call = line.text.find('(');
  return !line.is_open && call != std::string::npos &&
         line.text.find('=', call) == std::string::npos;
}

// Which statement makes call `first`, as far as its line is known; else none.
size_t StatementOf(const std::vector<Statement>& statements, int64_t first) {
  size_t call = 0;
  while (call < statements.size() && statements[call].last < first) ++call;
  const bool is_known = call < statements.size() && statements[call].source != kNoStatement;
  return is_known ? call : statements.size();
}

}  // namespace

Passed PassedNames(const Program& program, const ModuleCall& caller, int64_t first) {
  const std::vector<Statement>& statements = caller.statements;
  const size_t call = StatementOf(statements, first);
  if (call == statements.size()) return {};
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

std::vector<NameId> PassedDown(const Program& program, const ModuleCall& outer, int64_t first) {
  const std::vector<Statement>& statements = outer.statements;
  const size_t call = StatementOf(statements, first);
  if (call == statements.size() || !program.source.At(statements[call].source).is_open) return {};
  std::vector<NameId> names;
  for (size_t i = 0; i < call; ++i) {
    if (!BindsOne(program, statements[i])) continue;
    if (!IsPassedDown(program.source.At(statements[i].source))) continue;
    const NameId name = program.calls[Index(statements[i].last)].outputs[0];
    if (name != kNoName) names.push_back(name);
  }
  return names;
}

}  // namespace onnxfit
