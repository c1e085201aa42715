#include "estimator/fit/predict.h"

#include <fstream>
#include <utility>

#include "estimator/base/device.h"
#include "estimator/base/error.h"
#include "estimator/base/file_bytes.h"
#include "estimator/base/framework.h"
#include "estimator/base/warnings.h"
#include "estimator/eager/dispatch.h"
#include "estimator/eager/training.h"
#include "estimator/fit/study.h"
#include "estimator/onnx/contrib_operators.h"
#include "estimator/onnx/control_flow.h"
#include "estimator/onnx/loader.h"
#include "estimator/onnx/rebind.h"
#include "estimator/onnx/wrong_size.h"
#include "estimator/pt2/embedded_program.h"
#include "estimator/pt2/exported_program.h"
#include "estimator/pt2/make_program.h"
#include "estimator/recover/build_program.h"
#include "estimator/recover/roles.h"

namespace onnxfit {
namespace {

constexpr size_t kFirstBytes = 4;

// Of a file that can be read twice; "" of others.
std::string FirstBytes(const std::string& path) {
  std::string first(kFirstBytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(first.data(), kFirstBytes);
  first.resize(static_cast<size_t>(file.gcount()));
  return first;
}

// A pipe is read once.
Graph LoadStandardInput() {
  const auto check = [](std::string_view first) {
    if (!pt2::MayBeExportedProgram(first)) RefuseOtherFormats(first);
  };
  const FileBytes input("-", check);
  return LoadModelFrom(input.bytes(), "-", "<stdin>");
}

}  // namespace

Graph LoadModel(const std::string& path) {
  if (path == "-") return LoadStandardInput();
  const std::string first = FirstBytes(path);
  const bool is_exported =
      first.empty() ? path.ends_with(".pt2") : pt2::MayBeExportedProgram(first);
  return is_exported ? pt2::InputGraph(pt2::LoadExportedProgram(path))
                     : pt2::WithEmbeddedProgram(LoadGraph(path));
}

Graph LoadModelFrom(std::string_view bytes, const std::string& path, const std::string& name) {
  if (!pt2::MayBeExportedProgram(bytes.substr(0, kFirstBytes)))
    return pt2::WithEmbeddedProgram(LoadGraphFrom(bytes, path, name));
  return pt2::InputGraph(pt2::LoadExportedProgramFrom(bytes, name));
}

// What follows runs a model that was read.
namespace {

Warnings CardWarnings(const TrainingSettings& settings) {
  const std::string why = WhyUnsupported(settings.framework, settings.device);
  if (why.empty()) return {};
  return {{warning::kUnsupportedCard, why}};
}

// What does not depend on how the graph is run.
BoundFile BindGraph(const Graph& file, const DimBinding& binding) {
  BoundFile model;
  model.graph = InlineControlFlow(file, binding, model.warnings);
  model.graph = Rebind(std::move(model.graph), binding, model.warnings);
  model.graph = TakeFusedApart(std::move(model.graph), binding);
  model.metadata = ReadExporterMetadata(model.graph);
  RestoreTensors(model.graph, model.metadata);
  model.shapes = BindShapes(model.graph, binding);
  return model;
}

BoundFile BindExported(const Graph& file, const DimBinding& binding) {
  BoundFile model;
  model.graph = file;
  model.shapes = BindShapes(file, binding);
  return model;
}

// Nothing is lost, and nothing recovered.
void MakeExported(const Graph& file, const TrainingSettings& settings, PreparedRun& run) {
  pt2::MadeProgram made = pt2::MakeProgram(file, run.shapes, settings);
  static_cast<ModuleTensors&>(run.roles) = std::move(made.tensors);
  run.program = std::move(made.program);
}

void Recover(const TrainingSettings& settings, PreparedRun& run) {
  const BoundGraph bound(run.graph, run.metadata, run.shapes);
  run.roles = FindRoles(bound, settings);
  run.program = BuildProgram(bound, run.roles, settings);
  run.program.doubts.insert(run.program.doubts.end(), run.roles.doubts.begin(),
                            run.roles.doubts.end());
}

}  // namespace

// A size that does not fit is told by the input that has it.
BoundFile BindModel(const Graph& file, const DimBinding& binding) {
  if (file.exported != nullptr) return BindExported(file, binding);
  try {
    return BindGraph(file, binding);
  } catch (const SizeError& error) {
    throw WrongSize(file, binding, error);
  }
}

PreparedRun MakeRun(const Graph& file, BoundFile model, const TrainingSettings& settings) {
  PreparedRun run;
  static_cast<BoundFile&>(run) = std::move(model);
  if (file.exported != nullptr) {
    MakeExported(file, settings, run);
  } else {
    Recover(settings, run);
  }
  CheckTrainable(run.graph, run.program, settings);
  return run;
}

PreparedRun PrepareRun(const Graph& file, const EstimateRequest& request) {
  return *Study(file).Prepared(request);
}

Prediction Predict(const Graph& file, const EstimateRequest& request) {
  return RunPrepared(PrepareRun(file, request), request);
}

Prediction RunPrepared(PreparedRun run, const EstimateRequest& request) {
  Prediction p;
  p.graph = std::move(run.graph);
  p.metadata = std::move(run.metadata);
  p.shapes = std::move(run.shapes);
  p.roles = std::move(run.roles);
  p.program = Dispatch(std::move(run.program), request.settings);
  const bool records = request.details || !request.why.empty();
  p.trace = RunTraining(p.program, request.settings, records ? &p.holders : nullptr);
  p.is_inference = request.settings.mode == Mode::kEval;
  p.alloc_conf = request.alloc_conf.conf;
  for (const Warnings& warnings : {run.warnings, CardWarnings(request.settings), p.shapes.warnings,
                                   p.roles.warnings, p.program.warnings}) {
    p.warnings.insert(p.warnings.end(), warnings.begin(), warnings.end());
  }
  return p;
}

}  // namespace onnxfit
