#include "estimator/recover/build_program.h"

#include "estimator/base/index.h"
#include "estimator/program/loss.h"
#include "estimator/recover/lowering.h"

namespace onnxfit {

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

}  // namespace onnxfit
