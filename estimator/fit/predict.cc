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
#include "estimator/onnx/contrib_operators.h"
#include "estimator/onnx/control_flow.h"
#include "estimator/onnx/loader.h"
#include "estimator/onnx/rebind.h"
#include "estimator/onnx/wrong_size.h"
#include "estimator/pt2/embedded_program.h"
#include "estimator/pt2/exported_program.h"
#include "estimator/pt2/make_program.h"
#include "estimator/recover/build_program.h"
#include "estimator/recover/restored_tensors.h"
#include "estimator/recover/trainable.h"

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

// Nothing is lost, and nothing recovered.
PreparedRun PrepareExported(const Graph& file, const EstimateRequest& request) {
  PreparedRun run;
  run.graph = file;
  run.shapes = BindShapes(run.graph, request.binding);
  pt2::MadeProgram made = pt2::MakeProgram(file, run.shapes, request.settings);
  static_cast<ModuleTensors&>(run.roles) = std::move(made.tensors);
  run.program = std::move(made.program);
  CheckTrainable(run.graph, run.program, request.settings);
  return run;
}

// What does not depend on how the graph is run.
PreparedRun BindRun(const Graph& file, const EstimateRequest& request) {
  PreparedRun run;
  run.graph = InlineControlFlow(file, request.binding, run.warnings);
  run.graph = Rebind(std::move(run.graph), request.binding, run.warnings);
  run.graph = TakeFusedApart(std::move(run.graph), request.binding);
  run.metadata = ReadExporterMetadata(run.graph);
  RestoreTensors(run.graph, run.metadata);
  run.shapes = BindShapes(run.graph, request.binding);
  return run;
}

// A size that does not fit is told by the input that has it.
PreparedRun BoundRun(const Graph& file, const EstimateRequest& request) {
  try {
    return BindRun(file, request);
  } catch (const SizeError& error) {
    throw WrongSize(file, request.binding, error);
  }
}

// What `run`, which is bound, runs by these settings.
PreparedRun Recovered(PreparedRun run, const EstimateRequest& request) {
  const BoundGraph bound(run.graph, run.metadata, run.shapes);
  run.roles = FindRoles(bound, request.settings);
  run.program = BuildProgram(bound, run.roles, request.settings);
  run.program.doubts.insert(run.program.doubts.end(), run.roles.doubts.begin(),
                            run.roles.doubts.end());
  CheckTrainable(run.graph, run.program, request.settings);
  return run;
}

PreparedRun PrepareRecovered(const Graph& file, const EstimateRequest& request) {
  return Recovered(BoundRun(file, request), request);
}

// What the program in the file cannot answer, such as another batch than the one that it fixes,
// its nodes may.
PreparedRun PrepareEmbedded(const Graph& file, const EstimateRequest& request) {
  try {
    return PrepareExported(*file.embedded, request);
  } catch (const Error& error) {
    PreparedRun run = PrepareRecovered(file, request);
    run.warnings.push_back(pt2::UnusedProgram(error));
    return run;
  }
}

}  // namespace

PreparedRun PrepareRun(const Graph& file, const EstimateRequest& request) {
  if (file.exported != nullptr) return PrepareExported(file, request);
  PreparedRun run =
      file.embedded != nullptr ? PrepareEmbedded(file, request) : PrepareRecovered(file, request);
  run.warnings.insert(run.warnings.begin(), file.warnings.begin(), file.warnings.end());
  return run;
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

Prediction PredictLike(const Prediction& like, const Graph& file, const EstimateRequest& request) {
  if (file.exported != nullptr || file.embedded != nullptr) return Predict(file, request);
  PreparedRun run;
  run.graph = like.graph;
  run.metadata = like.metadata;
  run.shapes = like.shapes;
  return RunPrepared(Recovered(std::move(run), request), request);
}

}  // namespace onnxfit
