#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "cli/asked_of_file.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/snapshots.h"
#include "estimator/base/error.h"
#include "estimator/base/file_bytes.h"
#include "estimator/fit/predict.h"
#include "estimator/oom/explanation.h"
#include "estimator/oom/replay.h"
#include "estimator/report/oom.h"
#include "estimator/snapshot/memory_snapshot.h"
#include "estimator/snapshot/pickle_reader.h"

namespace onnxfit {
namespace {

// What is no text: compressed logs, models, core dumps.  Memory snapshots are none either.
void RefuseBinary(std::string_view first) {
  if (LooksLikePickle(first)) return;
  const bool is_utf16 = first.starts_with("\xFF\xFE") || first.starts_with("\xFE\xFF");
  if (first.starts_with("\x1F\x8B")) {
    throw Error({.text = "a log was expected, found a gzip file",
                 .hint = "zcat FILE | onnxfit explain-oom"});
  }
  if (!is_utf16 && first.find('\0') != std::string_view::npos) {
    throw Error(
        {.text = "a log was expected, found a binary file", .hint = "a model goes to --model"});
  }
}

OomLog ReadLog(std::string_view bytes) {
  const std::string converted = FromUtf16(bytes);
  const OomLog log = ReadOomLog(converted.empty() ? bytes : converted);
  if (!log.processes.empty()) return log;
  throw Error({.text = fmt::format(
                   "an out-of-memory message was expected, found none in {} line{}{}; "
                   "looked for those of {}",
                   log.lines, log.lines == 1 ? "" : "s",
                   log.is_whole ? "" : ", of which the last were not read", OomFrameworks())});
}

std::string ReportOf(const std::string& log, const std::vector<OomExplanation>& processes,
                     const std::optional<OomReplay>& replay, const Options& options,
                     const std::ostream& out) {
  const TextOptions text = WithColor(options, out);
  switch (options.format) {
    case Format::kJson:
      return ToJson(log, processes, replay, {.version = ONNXFIT_VERSION});
    case Format::kCsv:
      return ToCsv(log, processes, replay, text.ascii);
    case Format::kMarkdown:
      return ToMarkdown(processes, replay, text);
    case Format::kText:
      break;
  }
  return ToText(processes, replay, text);
}

// With a model that is said to be in eval, what helps training is out of place.
void DropTraining(std::vector<OomExplanation>& processes) {
  for (OomExplanation& process : processes) {
    std::erase_if(process.remedies, [](const OomRemedy& remedy) { return remedy.is_of_training; });
  }
}

}  // namespace

int RunExplainOom(const Options& options, std::ostream& out, std::string& reading) {
  reading.clear();
  if (options.log == "-" && options.model == "-") {
    throw Error({.where = "--model", .text = "expected a file: standard input is the log"});
  }
  if (const size_t cards = options.request.targets.size(); cards > 1) {
    throw Error({.where = "--gpu",
                 .text = fmt::format("expected one card with explain-oom, found {}", cards)});
  }
  CheckOutput(options, options.log, "the log");
  reading = options.log == "-" ? "<stdin>" : options.log;
  const FileBytes file(options.log, RefuseBinary, {.what = "a log", .terminal = true});
  if (LooksLikePickle(file.bytes())) {
    SnapshotSide side = {.name = reading, .snapshot = ReadMemorySnapshot(file.bytes())};
    return ExplainSnapshot(std::move(side), options, out, reading);
  }
  std::vector<OomExplanation> processes;
  for (const ProcessOom& process : ReadLog(file.bytes()).processes) {
    processes.push_back(ExplainOom(process));
  }
  std::optional<OomReplay> replay;
  if (!options.model.empty()) {
    CheckOutput(options, options.model, "the model");
    if (options.request.settings.mode == Mode::kEval) DropTraining(processes);
    const std::string log_name = std::exchange(reading, options.model);
    const Graph graph = LoadModel(options.model);
    replay = ReplayOom(graph, AskedOf(graph, options.request), processes[0]);
    TellFirst(*replay, processes[0]);
    reading = log_name;
  }
  const std::string report = ReportOf(reading, processes, replay, options, out);
  WriteReport(report, options, out);
  return kExitDone;
}

}  // namespace onnxfit
