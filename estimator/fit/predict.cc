#include "estimator/fit/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <utility>

#include "estimator/base/device.h"
#include "estimator/base/error.h"
#include "estimator/base/file_bytes.h"
#include "estimator/base/framework.h"
#include "estimator/base/index.h"
#include "estimator/base/quote.h"
#include "estimator/base/warnings.h"
#include "estimator/fit/stage_runs.h"
#include "estimator/fit/study.h"
#include "estimator/memory/plan_trials.h"
#include "estimator/onnx/contrib_operators.h"
#include "estimator/onnx/control_flow.h"
#include "estimator/onnx/loader.h"
#include "estimator/onnx/rebind.h"
#include "estimator/onnx/wrong_size.h"
#include "estimator/operators/dispatch.h"
#include "estimator/optimizers/projected_matrices.h"
#include "estimator/parameters/roles.h"
#include "estimator/program/checkpointed_spans.h"
#include "estimator/program/ties.h"
#include "estimator/pt2/call_order.h"
#include "estimator/pt2/embedded_program.h"
#include "estimator/pt2/exported_program.h"
#include "estimator/pt2/make_program.h"
#include "estimator/recover/build_program.h"
#include "estimator/recover/findings.h"
#include "estimator/training/training.h"
#include "estimator/transforms/adapters.h"
#include "estimator/transforms/quantized_layers.h"
#include "estimator/transforms/tensor_parallel.h"
#include "estimator/writer/loss.h"

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

Graph GraphOf(pt2::ExportedProgram exported) {
  pt2::CheckOrder(exported);
  return pt2::InputGraph(std::move(exported));
}

}  // namespace

Graph LoadModel(const std::string& path) {
  if (path == "-") return LoadStandardInput();
  const std::string first = FirstBytes(path);
  const bool is_exported =
      first.empty() ? path.ends_with(".pt2") : pt2::MayBeExportedProgram(first);
  return is_exported ? GraphOf(pt2::LoadExportedProgram(path))
                     : pt2::WithEmbeddedProgram(LoadGraph(path));
}

Graph LoadModelFrom(std::string_view bytes, const std::string& path, const std::string& name) {
  if (!pt2::MayBeExportedProgram(bytes.substr(0, kFirstBytes)))
    return pt2::WithEmbeddedProgram(LoadGraphFrom(bytes, path, name));
  return GraphOf(pt2::LoadExportedProgramFrom(bytes, name));
}

// What follows runs a model that was read.

BoundFile::BoundFile() = default;
BoundFile::~BoundFile() = default;

std::span<const Rewritten> Prediction::rewrites() const {
  const Findings* found = run->file->findings.get();
  return found == nullptr ? std::span<const Rewritten>() : std::span(found->rewrites);
}

namespace {

Warnings CardWarnings(const TrainingSettings& settings) {
  const std::string why = WhyUnsupported(settings.framework, settings.device);
  if (why.empty()) return {};
  return {{warning::kUnsupportedCard, why}};
}

// What --dim says of sizes in the graph, which follow from no input's.
std::map<std::string, int64_t> SizesOfData(const Graph& file, const DimBinding& binding) {
  std::map<std::string, int64_t> sizes = WithoutMissing(file, binding).dims;
  for (const std::string& name : NamedDims(file)) sizes.erase(name);
  return sizes;
}

void SaySizes(const std::map<std::string, int64_t>& sizes, Program& program) {
  for (const auto& [name, size] : sizes) {
    program.assumptions.push_back(
        fmt::format("data decide {}, which is {} at most, and counted so", Quote(name), size));
  }
}

// What does not depend on how the graph is run.
void FindTypes(const DimBinding& binding, BoundFile& model) {
  model.graph = TakeFusedApart(std::move(model.graph), binding);
  model.metadata = ReadExporterMetadata(model.graph);
  RestoreTensors(model.graph, model.metadata);
  model.shapes = BindShapes(model.graph, binding);
  model.findings = std::make_unique<Findings>(model.graph, model.metadata, model.shapes);
}

void BindGraph(const Graph& file, DimBinding binding, BoundFile& model) {
  const Graph inlined = InlineControlFlow(file, binding, model.warnings);
  model.graph = Rebind(inlined, binding, model.warnings);
  std::optional<Graph> traced;
  try {
    FindTypes(binding, model);
    traced = RebindLost(inlined, model.graph, model.shapes, binding, model.warnings);
  } catch (const SizeError&) {
    traced = RebindTraced(inlined, binding, model.warnings);
    if (!traced.has_value()) throw;
  }
  if (!traced.has_value()) return;
  model.graph = *std::move(traced);
  FindTypes(binding, model);
}

void BindExported(const Graph& file, const DimBinding& binding, BoundFile& model) {
  model.graph = file;
  model.shapes = BindShapes(file, binding);
}

// Nothing is lost, and nothing recovered.
void MakeExported(const Graph& file, const TrainingSettings& settings, PreparedRun& run) {
  pt2::MadeProgram made =
      pt2::MakeProgram(file, run.file->shapes, settings, run.file->sizes_of_data);
  static_cast<ModuleTensors&>(run.roles) = std::move(made.tensors);
  run.program = std::move(made.program);
  SaySizes(run.file->sizes_of_data, run.program);
}

void Recover(const TrainingSettings& settings, PreparedRun& run) {
  const Findings& found = *run.file->findings;
  run.roles = FindRoles(found.bound, found.tensors, settings);
  run.program = BuildProgram(found, run.roles, settings);
  SaySizes(run.file->sizes_of_data, run.program);
  run.program.doubts.insert(run.program.doubts.end(), run.roles.doubts.begin(),
                            run.roles.doubts.end());
}

// Of the first class that tells; "" where none does.
std::string_view ModelTypeOf(const BoundFile& file) {
  std::string_view type;
  const auto look = [&](std::string_view class_name) {
    if (type.empty()) type = onnxfit::ModelTypeOf(class_name);
  };
  if (file.graph.exported != nullptr) {
    for (const pt2::Call& call : file.graph.exported->graph.calls) {
      for (const pt2::ModuleFrame& module : call.modules) look(module.type);
    }
  }
  for (const auto& classes : file.metadata.classes) {
    for (const std::string& class_name : classes) look(class_name);
  }
  return type;
}

void AdaptModel(const TrainingSettings& settings, PreparedRun& run) {
  const BoundFile& file = *run.file;
  std::vector<ModuleTensor> made =
      AddAdapters(run.program, settings, ModelTypeOf(file), file.graph.path);
  std::ranges::move(made, std::back_inserter(run.roles.parameters));
}

}  // namespace

// A size that does not fit is told by the input that has it.
std::shared_ptr<const BoundFile> BindModel(const Graph& file, const DimBinding& binding) {
  auto model = std::make_shared<BoundFile>();
  model->sizes_of_data = SizesOfData(file, binding);
  if (file.exported != nullptr) {
    BindExported(file, binding, *model);
    return model;
  }
  try {
    BindGraph(file, binding, *model);
  } catch (const SizeError& error) {
    throw WrongSize(file, binding, error);
  }
  return model;
}

PreparedRun MakeRun(const Graph& file, std::shared_ptr<const BoundFile> model,
                    const TrainingSettings& settings) {
  PreparedRun run;
  run.warnings = model->warnings;
  run.file = std::move(model);
  if (file.exported != nullptr) {
    MakeExported(file, settings, run);
  } else {
    Recover(settings, run);
  }
  if (settings.quantize.kind != Quantization::kNone) {
    QuantizeLayers(run.program, settings, ModelTypeOf(*run.file), run.file->graph.path);
  }
  if (settings.lora.rank > 0) AdaptModel(settings, run);
  if (!IsFullySharded(settings.ranks.strategy)) JoinTies(run.program);
  if (settings.ranks.tensor_parallel > 1) {
    CheckTensorParallel(settings);
    ShareLayers(run.program, settings.ranks, run.file->graph.path);
  }
  if (settings.optimizer == Optimizer::kGaLore && settings.mode == Mode::kTrain) {
    run.program.projected = MatricesToProject(run.program, settings, run.file->graph.path);
  }
  CheckTrainable(run.file->graph, run.program, settings);
  return run;
}

namespace {

// A reentrant checkpoint passes gradients to the parameters in it where an argument asks for some.
// Of others that get none the program has told.  REQUIRES: it has a loss.
Warnings WarnOfUntrained(const Prediction& prediction) {
  const Trace& trace = prediction.trace;
  std::unordered_set<std::string> gradients;  // what they are called
  for (const Event& event : trace.events) {
    const bool has_kind = event.type == Event::Type::kAlloc || event.type == Event::Type::kKind;
    if (has_kind && event.kind == Kind::kGradient)
      gradients.insert(LabelText(trace, trace.buffers[Index(event.id)].label));
  }
  const Program& program = prediction.program;
  const std::vector<NameId> unreached = UnreachedParameters(program);
  const auto untrained = std::ranges::count_if(program.parameters, [&](NameId parameter) {
    return !gradients.contains(program.values[Index(parameter)].name + ".grad") &&
           std::ranges::find(unreached, parameter) == unreached.end();
  });
  if (untrained == 0) return {};
  return {{warning::kNotTrainable,
           fmt::format("{} of {} trained parameters get no gradient: with use_reentrant=True a "
                       "checkpoint trains nothing where no argument of it asks for one "
                       "(use_reentrant=False, or model.enable_input_require_grads())",
                       untrained, program.parameters.size())}};
}

// A file may have lost a cast before it, which the exported model's type made none.
Warnings WarnOfRefused(const Program& program) {
  const AtenCall* call = FindRefused(program);
  if (call == nullptr) return {};
  const TensorType& input = program.values[Index(call->inputs[0])].type;
  return {
      {warning::kRefusedType,
       fmt::format("PyTorch has no {} of {}, and ends there with an error unless the model casts "
                   "before it, at {} (-p fp32 runs)",
                   call->op, Name(input.dtype), call->where)}};
}

}  // namespace

bool HasRepeatedBlocks(const Prediction& prediction) {
  return !CheckpointedSpans(prediction.program, {kAutoCheckpoint}).empty();
}

PreparedRun PrepareRun(const Graph& file, const EstimateRequest& request) {
  return *Study(file).Prepared(request);
}

Prediction Predict(const Graph& file, const EstimateRequest& request) {
  return RunPrepared(Study(file).Prepared(request), request);
}

namespace {

Prediction RunProgram(std::shared_ptr<const PreparedRun> run, const Program& program,
                      const EstimateRequest& request) {
  Prediction p;
  p.run = std::move(run);
  p.program = Dispatch(program, request.settings);
  const bool records = request.details || !request.why.empty();
  p.trace = RunTraining(p.program, request.settings, records ? &p.holders : nullptr);
  p.is_inference = request.settings.mode == Mode::kEval;
  p.alloc_conf = request.alloc_conf.conf;
  if (const auto room = request.settings.trial_room_bytes)
    LimitTrials(*room, p.alloc_conf, p.trace);
  for (const Warnings& warnings :
       {p.run->warnings, CardWarnings(request.settings), p.shapes().warnings, p.roles().warnings,
        p.program.warnings, WarnOfRefused(p.program)}) {
    p.warnings.insert(p.warnings.end(), warnings.begin(), warnings.end());
  }
  const bool trains = !p.is_inference && HasBackward(p.program);
  if (trains && AreReentrant(p.program, request.settings)) {
    const Warnings untrained = WarnOfUntrained(p);
    p.warnings.insert(p.warnings.end(), untrained.begin(), untrained.end());
  }
  return p;
}

}  // namespace

Prediction RunPrepared(std::shared_ptr<const PreparedRun> run, const EstimateRequest& request) {
  if (!AsksForStage(run->program, request)) return RunProgram(run, run->program, request);
  return RunStageOf(run->program, request, [&](const Program& stage, const EstimateRequest& own) {
    return RunProgram(run, stage, own);
  });
}

}  // namespace onnxfit
