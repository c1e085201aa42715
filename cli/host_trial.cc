#include "cli/host_trial.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <span>

#include "cli/process.h"
#include "cli/python_models.h"
#include "cli/runtime_inputs.h"
#include "cli/work_folder.h"
#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/onnx/weight_files.h"

namespace onnxfit {

extern const std::span<const unsigned char> kOnnxSessions;  // onnx_sessions.py
extern const std::span<const unsigned char> kHostSessions;  // host_sessions.py, which takes of it

namespace {

ToldHostSessions RunHostSessions(const AskedHostSessions& asked, const WorkFolder& folder) {
  WriteBytes(folder.File("onnx_sessions.py"), kOnnxSessions);
  WriteBytes(folder.File("host_sessions.py"), kHostSessions);
  WriteBytes(folder.File("asked.json"), ToJson(asked));
  const std::string answer = folder.File("answer.json");
  const ProcessResult run = RunProcess(
      {DefaultPython(), "-B", folder.File("host_sessions.py"), folder.File("asked.json"), answer});
  std::ifstream file(answer, std::ios::binary);
  if (run.exit_code != 0 || !file) {
    throw Error(
        {.where = DefaultPython(),
         .text = "expected an answer of ONNX Runtime's sessions, found: " + InALine(run.err)});
  }
  return ReadHostSessions(std::string{std::istreambuf_iterator<char>(file), {}});
}

// What no session ran behind.
void CheckHostSessions(const ToldHostSessions& told, const std::string& model, int64_t ram_bytes) {
  if (!told.missing.empty()) RefuseWithoutRuntime(told.missing, "CPU");
  if (told.machine_bytes > 0 && (ram_bytes == 0 || ram_bytes > told.machine_bytes)) {
    throw Error({.file = model,
                 .text = fmt::format("expected RAM to run it in, found {}, and the system ended it",
                                     FormatBytes(told.machine_bytes)),
                 .hint = "a smaller batch, or a machine with more"});
  }
  for (const HostSession& session : told.sessions) {
    if (session.error.empty() || told.machine_bytes > 0) continue;
    throw Error({.file = model,
                 .text = fmt::format("expected a session of ONNX Runtime {}, found: {}",
                                     told.version, session.error)});
  }
}

Target RamOf(int64_t bytes) {
  return {.name = FormatBytes(bytes) + " of RAM", .device = {}, .total_bytes = bytes};
}

std::vector<std::string> OpenOnHost(const Options& options) {
  std::vector<std::string> open = {
      "inputs are zeros: sizes that follow from their values are those of zeros"};
  if (!options.runtime.session.contains("intra_op_num_threads")) {
    open.emplace_back(
        "it ran with as many threads as this machine has cores, on its kind of processor: "
        "--session intra_op_num_threads=N for another number");
  }
  open.emplace_back("a program that is not Python has less before its session");
  return open;
}

}  // namespace

HostRun RunOnHost(const Options& options, const Graph& graph,
                  const std::vector<EstimateRequest>& requests, bool is_for_search) {
  const WorkFolder folder("a session of ONNX Runtime");
  const std::vector<WeightFile> files = ReadWeightFiles(options.model);
  const RuntimeShapes shapes = ShapesOf(options, graph, requests);
  AskedHostSessions asked = {.model = CopyWithoutWeights(options.model, files, folder.File("")),
                             .shapes = shapes.inputs,
                             .session = options.runtime.session,
                             .is_for_search = is_for_search};
  for (const WeightFile& file : files) asked.weights.push_back(folder.File(file.name));
  const ToldHostSessions told = RunHostSessions(asked, folder);
  CheckHostSessions(told, options.model, options.ram_bytes);
  HostRun run = {.runtime = "ONNX Runtime " + told.version,
                 .model = options.model,
                 .batch = shapes.batch,
                 .shapes = shapes.names,
                 .ram_bytes = options.ram_bytes,
                 .target = {.target = RamOf(options.ram_bytes), .judgement = {}},
                 .open = OpenOnHost(options)};
  if (told.machine_bytes > 0) {
    JudgeEnded(told.machine_bytes, run);
    return run;
  }
  run.sessions = told.sessions;
  run.settings = told.settings;
  JudgeHost(run);
  return run;
}

}  // namespace onnxfit
