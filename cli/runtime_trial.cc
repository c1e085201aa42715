#include "cli/runtime_trial.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>

#include "cli/program_trial.h"
#include "cli/python_models.h"
#include "cli/runtime_inputs.h"
#include "cli/runtime_play.h"
#include "cli/work_folder.h"
#include "estimator/base/error.h"
#include "estimator/onnx/weight_files.h"

namespace onnxfit {

extern const std::span<const unsigned char> kOnnxSessions;  // onnx_sessions.py

namespace {

// --- Running it ---------------------------------------------------------------------------------

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
    if (told && !told->missing.empty()) {
      const bool is_missing = told->missing == "onnxruntime";
      RefuseWithoutRuntime(is_missing ? "none" : told->version + " without it", "CUDA");
    }
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
  const RuntimeShapes shapes = ShapesOf(options, graph, requests);
  const AskedSessions asked = {.model = CopyWithoutWeights(options.model, files, folder.File("")),
                               .shapes = shapes.inputs,
                               .session = options.runtime.session,
                               .provider = options.runtime.provider,
                               .is_bound = options.runtime.is_bound,
                               .log = folder.File("log")};
  RuntimeRun run = {.model = options.model, .batch = shapes.batch, .shapes = shapes.names};
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
