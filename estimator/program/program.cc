#include "estimator/program/program.h"

#include <fmt/format.h>

#include <vector>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

std::string NameText(const Program& program, NameId name) {
  return name == kNoName ? "none" : "%" + program.values[Index(name)].name;
}

std::string NamesText(const Program& program, const std::vector<NameId>& names) {
  std::vector<std::string> texts;
  for (const NameId name : names) texts.push_back(NameText(program, name));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string CallText(const Program& program, const AtenCall& call) {
  std::string text = fmt::format("{} = {}({}", NamesText(program, call.outputs), call.op,
                                 NamesText(program, call.inputs));
  if (!call.ints.empty()) text += fmt::format("; {}", fmt::join(call.ints, ", "));
  return text + ")  # " + call.where + "\n";
}

}  // namespace

std::string ToString(const Program& program) {
  std::string text = "\n";
  for (const AtenCall& call : program.calls) text += CallText(program, call);
  return text;
}

}  // namespace onnxfit
