#include "estimator/fit/predict.h"

#include <utility>

#include "estimator/base/device.h"
#include "estimator/base/framework.h"
#include "estimator/base/warnings.h"
#include "estimator/eager/dispatch.h"
#include "estimator/eager/training.h"
#include "estimator/graph/control_flow.h"
#include "estimator/program/restored_tensors.h"
#include "estimator/program/trainable.h"

namespace onnxfit {

namespace {

Warnings CardWarnings(const TrainingSettings& settings) {
  const std::string why = WhyUnsupported(settings.framework, settings.device);
  if (why.empty()) return {};
  return {{warning::kUnsupportedCard, why}};
}

}  // namespace

Prediction Predict(const Graph& file, const EstimateRequest& request) {
  Prediction p;
  const auto add = [&](const Warnings& warnings) {
    p.warnings.insert(p.warnings.end(), warnings.begin(), warnings.end());
  };
  p.graph = InlineControlFlow(file, request.binding, p.warnings);
  p.metadata = ReadExporterMetadata(p.graph);
  RestoreTensors(p.graph, p.metadata);
  p.shapes = BindShapes(p.graph, request.binding);
  p.roles = FindRoles(p.graph, p.metadata, p.shapes, request.settings);
  Program program = BuildProgram(p.graph, p.metadata, p.shapes, p.roles, request.settings);
  CheckTrainable(p.graph, program, request.settings);
  p.program = Dispatch(std::move(program), request.settings);
  const bool records = request.details || !request.why.empty();
  p.trace = RunTraining(p.program, request.settings, records ? &p.holders : nullptr);
  p.is_inference = request.settings.mode == Mode::kEval;
  p.alloc_conf = request.alloc_conf.conf;
  add(CardWarnings(request.settings));
  add(p.shapes.warnings);
  add(p.roles.warnings);
  add(p.program.warnings);
  return p;
}

}  // namespace onnxfit
