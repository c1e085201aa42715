#include "estimator/program/program.h"

#include <fmt/format.h>

#include <vector>

#include "estimator/base/index.h"
#include "estimator/program/loss.h"
#include "estimator/program/lowering.h"

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

Program BuildProgram(const Graph& graph, const ExporterMetadata& metadata, const Shapes& shapes,
                     const Roles& roles, const TrainingSettings& settings) {
  std::vector<NamedOutput> outputs;
  for (const ValueId output : graph.outputs) {
    outputs.push_back({graph.values[Index(output)].name, shapes.types[Index(output)].tensor.dtype});
  }
  const auto loss_output = FindLossOutput(graph.path, outputs, settings.loss_output);
  Lowering lowering(graph, metadata, shapes, roles, settings);
  lowering.LowerNodes();
  for (const ValueId output : graph.outputs) {
    lowering.program().outputs.push_back(lowering.TensorOf(output));
  }
  FinishProgram(lowering, loss_output ? lowering.TensorOf(graph.outputs[*loss_output]) : kNoName,
                [](const AtenCall&) { return true; });
  return lowering.TakeProgram();
}

std::string ToString(const Program& program) {
  std::string text = "\n";
  for (const AtenCall& call : program.calls) text += CallText(program, call);
  return text;
}

}  // namespace onnxfit
