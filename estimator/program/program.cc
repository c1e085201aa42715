#include "estimator/program/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/base/warnings.h"
#include "estimator/program/eager_attention.h"
#include "estimator/program/lifetimes.h"
#include "estimator/program/loss.h"
#include "estimator/program/lowering.h"
#include "estimator/program/trainable.h"

namespace onnxfit {
namespace {

// Calls whose results nobody reads are the exporter's leftovers: PyTorch has none.
void DropUnread(Program& program) {
  std::vector<bool> read(program.values.size());
  for (const NameId name : program.outputs) read[Index(name)] = true;
  if (program.loss != kNoName) read[Index(program.loss)] = true;
  std::vector<AtenCall> kept;
  for (size_t i = program.calls.size(); i-- > 0;) {
    AtenCall& call = program.calls[i];
    const bool needed = std::any_of(call.outputs.begin(), call.outputs.end(), [&](NameId name) {
      return name != kNoName && read[Index(name)];
    });
    if (!needed) continue;
    for (const NameId name : call.inputs) {
      if (name != kNoName) read[Index(name)] = true;
    }
    kept.push_back(std::move(call));
  }
  std::reverse(kept.begin(), kept.end());
  program.calls = std::move(kept);
}

void WarnOfUnreached(Program& program, const TrainingSettings& settings) {
  if (settings.mode == Mode::kEval || program.loss == kNoName) return;
  const size_t unreached = UnreachedParameters(program).size();
  if (unreached == 0) return;
  program.warnings.push_back(
      {warning::kNotTrainable,
       fmt::format("{} of {} parameters are not on the way to the loss: they get no gradient and "
                   "no optimizer state (--loss-output names another output)",
                   unreached, program.parameters.size())});
}

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
  const ValueId loss_output = FindLossOutput(graph, shapes, settings);
  Lowering lowering(graph, metadata, shapes, roles, settings);
  lowering.LowerNodes();
  for (const ValueId output : graph.outputs) {
    lowering.program().outputs.push_back(lowering.TensorOf(output));
  }
  if (loss_output != kNoValue) {
    const NameId output = lowering.TensorOf(loss_output);
    const NameId labels = AddLabels(lowering, output, settings.loss, settings.labels);
    if (settings.mode == Mode::kTrain) AppendLoss(lowering, output, labels, settings.loss);
  }
  Program program = lowering.TakeProgram();
  WriteAttentionOut(program, settings);
  DropUnread(program);
  PlaceDeaths(program, settings.mode == Mode::kEval || settings.loop.hold_outputs);
  WarnOfUnreached(program, settings);
  return program;
}

std::string ToString(const Program& program) {
  std::string text = "\n";
  for (const AtenCall& call : program.calls) text += CallText(program, call);
  return text;
}

}  // namespace onnxfit
