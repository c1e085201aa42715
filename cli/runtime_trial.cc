#include "cli/runtime_trial.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>

#include "cli/program_trial.h"
#include "cli/python_models.h"
#include "cli/runtime_play.h"
#include "cli/work_folder.h"
#include "estimator/base/error.h"
#include "estimator/onnx/shapes.h"
#include "estimator/onnx/weight_files.h"

namespace onnxfit {

extern const std::span<const unsigned char> kOnnxSessions;  // onnx_sessions.py

namespace {

// --- What is asked ------------------------------------------------------------------------------

std::vector<RuntimeInput> InputsOf(const Graph& graph, const Shapes& shapes) {
  std::vector<RuntimeInput> inputs;
  for (const ValueId value : graph.inputs) {
    const ValueType& type = shapes.types[static_cast<size_t>(value)];
    const std::string name(graph.values[static_cast<size_t>(value)].name);
    if (type.is_sequence || type.tensor.dtype == DType::kString) {
      throw Error({.where = "input " + name,
                   .text = fmt::format("expected a tensor of numbers for --runtime, found {}",
                                       type.is_sequence ? "a list" : "texts")});
    }
    inputs.push_back({name, type.tensor});
  }
  return inputs;
}

// "batch 8, seq 128": where nothing varies the batch alone.
std::string NameOf(const Sweep& sweep, const EstimateRequest& request, int64_t batch) {
  std::string name = fmt::format("batch {}", batch);
  for (const SweptDim& dim : sweep.dims) {
    name += fmt::format(", {} {}", dim.name, request.binding.dims.at(dim.name));
  }
  return name;
}

// --- Running it ---------------------------------------------------------------------------------

[[noreturn]] void RefuseMissing(const ToldSessions& told) {
  const std::string python = DefaultPython();
  const std::string found =
      told.missing == "onnxruntime" ? "none" : fmt::format("{} without it", told.version);
  throw Error({.where = python,
               .text = fmt::format("expected onnxruntime with its CUDA provider, found {}", found),
               .hint = fmt::format("{} -m pip install \"onnxruntime-gpu[cuda,cudnn]\", which needs "
                                   "no card; ONNXFIT_PYTHON for another Python",
                                   python)});
}

std::optional<ToldSessions> ReadAnswer(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return ReadSessions(std::string{std::istreambuf_iterator<char>(file), {}});
}

// The run below the card, and what its sessions tell.
struct RanSessions {
  ProgramRun run;
  ToldSessions told;
};

RanSessions RunSessions(const AskedSessions& asked, const WorkFolder& folder, const Target& target,
                        std::ostream& err) {
  const std::string script = folder.File("onnx_sessions.py");
  WriteBytes(script, kOnnxSessions);
  WriteBytes(folder.File("asked.json"), ToJson(asked));
  const std::string answer = folder.File("answer.json");
  const ProgramTrial trial = {
      .command = {DefaultPython(), "-B", script, folder.File("asked.json"), answer},
      .cards = {target},
      .is_silent = true};
  try {
    ProgramRun run = RunTrial(trial, err);
    const std::optional<ToldSessions> told = ReadAnswer(answer);
    if (told) return {std::move(run), *told};
  } catch (const Error&) {  // no card was used
    const std::optional<ToldSessions> told = ReadAnswer(answer);
    if (told && !told->missing.empty()) RefuseMissing(*told);
    throw;
  }
  throw Error({.where = DefaultPython(),
               .text = "expected an answer of ONNX Runtime's sessions, found none"});
}

// What ONNX Runtime says of the file, where it is no question of memory.
void CheckSessions(const RanSessions& ran, const std::string& model) {
  const std::string error = FirstError(ran.told.sessions);
  if (error.empty() || ran.run.cards.front().judgement.retries > 0) return;
  throw Error({.file = model,
               .text = fmt::format("expected a session of ONNX Runtime {}, found: {}",
                                   ran.told.version, error)});
}

}  // namespace

RuntimeRun RunOnRuntime(const Options& options, const Graph& graph,
                        const std::vector<EstimateRequest>& requests, const Target& target,
                        std::ostream& err) {
  const WorkFolder folder("a session of ONNX Runtime");
  const std::vector<WeightFile> files = ReadWeightFiles(options.model);
  AskedSessions asked = {.model = CopyWithoutWeights(options.model, files, folder.File("")),
                         .session = options.runtime.session,
                         .provider = options.runtime.provider,
                         .is_bound = options.runtime.is_bound,
                         .log = folder.File("log")};
  RuntimeRun run = {.model = options.model};
  for (const EstimateRequest& request : requests) {
    const Shapes shapes = BindShapes(graph, request.binding);
    if (asked.shapes.empty()) run.batch = shapes.batch;
    asked.shapes.push_back(InputsOf(graph, shapes));
    run.shapes.push_back(NameOf(options.sweep, request, shapes.batch));
  }
  const RanSessions ran = RunSessions(asked, folder, target, err);
  CheckSessions(ran, options.model);
  run.runtime = "ONNX Runtime " + ran.told.version;
  run.context_bytes = ran.told.context_bytes;
  run.sessions = ran.told.sessions;
  run.target = ran.run.cards.front();
  AddPlayed(ran.told, options.runtime, run);
  JudgeSessions(run);
  run.open.push_back(
      fmt::format("inputs are zeros {}: sizes that follow from their values are those of zeros",
                  options.runtime.is_bound ? "on the card, as IOBinding has them"
                                           : "on the host, as session.run() takes them"));
  return run;
}

}  // namespace onnxfit
