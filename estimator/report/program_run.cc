#include "estimator/report/program_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

// --- Reading what PyTorch's side wrote ---------------------------------------------------

TorchPeaks PeaksOf(const Json& device) {
  return {.device = device.at("index"),
          .requested_bytes = device.at("requested_bytes"),
          .allocated_bytes = device.at("allocated_bytes"),
          .reserved_bytes = device.at("reserved_bytes"),
          .retries = device.at("num_alloc_retries"),
          .ooms = device.at("num_ooms")};
}

UnknownRead ReadOf(const Json& read) {
  const std::string file = read.at("file");
  const int64_t line = read.at("line");
  return {.place = fmt::format("{}:{}", std::filesystem::path(file).filename().string(), line),
          .source = read.at("text"),
          .count = read.at("count")};
}

ProgramProcess ProcessOf(const Json& json) {
  ProgramProcess process = {
      .pid = json.at("pid"), .torch = json.at("torch"), .steps = json.at("steps")};
  if (json.at("ranks").contains("RANK")) process.rank = json.at("ranks").at("RANK");
  for (const Json& device : json.at("devices")) process.peaks.push_back(PeaksOf(device));
  for (const Json& read : json.at("unknown_reads")) process.unknown.push_back(ReadOf(read));
  for (const Json& saved : json.at("saved")) process.saved.push_back(saved.at("path"));
  const Json& end = json.at("end");
  if (end.at("out_of_memory")) process.oom_message = end.at("message");
  return process;
}

// --- Text --------------------------------------------------------------------------------

std::string PeaksText(const ProgramProcess& process, const TorchPeaks& peaks) {
  const std::string rank = process.rank.empty() ? "" : fmt::format(", rank {}", process.rank);
  std::string text =
      fmt::format("PyTorch {}{}: {} allocated at most ({} requested), {} reserved", process.torch,
                  rank, FormatBytes(peaks.allocated_bytes), FormatBytes(peaks.requested_bytes),
                  FormatBytes(peaks.reserved_bytes));
  if (process.steps > 0)
    text += fmt::format(", {} step{}", process.steps, process.steps == 1 ? "" : "s");
  if (peaks.retries > 0) text += fmt::format(", {} retries on a full card", peaks.retries);
  return text;
}

std::string ReadsText(const ProgramProcess& process) {
  constexpr size_t kMostShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(process.unknown.size(), kMostShown); ++i) {
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", process.unknown[i].source,
                        process.unknown[i].place);
  }
  const size_t more = process.unknown.size() - std::min(process.unknown.size(), kMostShown);
  return more == 0 ? text : fmt::format("{} and {} more", text, more);
}

// What stays open, a sentence each.
std::vector<std::string> Notes(const ProgramRun& run) {
  std::vector<std::string> notes;
  for (const ProgramProcess& process : run.processes) {
    if (!process.oom_message.empty()) notes.push_back(process.oom_message);
    if (!process.unknown.empty()) {
      notes.push_back("nobody knows what these read, since kernels did not run: " +
                      ReadsText(process));
    }
    if (!process.saved.empty()) {
      notes.push_back(fmt::format(
          "{} file{} not written over, since weights are zeros here: {}", process.saved.size(),
          process.saved.size() == 1 ? " was" : "s were", process.saved.front()));
    }
  }
  if (!run.unknown_functions.empty()) {
    notes.push_back(fmt::format("not there, and answered as not supported: {}",
                                fmt::join(run.unknown_functions, ", ")));
  }
  if (!run.unknown_sizes.empty()) {
    notes.push_back(fmt::format("scratch that nobody knows, taken as none: {}",
                                fmt::join(run.unknown_sizes, ", ")));
  }
  return notes;
}

}  // namespace

ProgramProcess ReadProgramProcess(std::string_view json) {
  try {
    return ProcessOf(Json::parse(json));
  } catch (const nlohmann::json::exception& error) {
    throw Error({.text = fmt::format("what PyTorch's side of the run wrote: {}", error.what())});
  }
}

std::string ToText(const ProgramRun& run, const TextOptions& options) {
  std::string text;
  for (const JudgedTarget& judged : run.cards) text += VerdictLine(judged, options);
  if (options.quiet) return text;
  for (const JudgedTarget& judged : run.cards) text += VerdictDetails(judged, options);
  for (const ProgramProcess& process : run.processes) {
    for (const TorchPeaks& peaks : process.peaks) {
      if (peaks.reserved_bytes > 0)
        text += Wrap("  ", Clean(PeaksText(process, peaks), options.ascii));
    }
  }
  for (const std::string& note : Notes(run)) text += Wrap("  ", Clean(note, options.ascii));
  if (run.exit_code != 0) text += fmt::format("  the program ended with {}\n", run.exit_code);
  return text;
}

std::string ToJson(const ProgramRun& run, const JsonOptions& options) {
  Json json = {{"schema", 1},
               {"onnxfit", options.version},
               {"command", run.command},
               {"exit_code", run.exit_code}};
  for (const JudgedTarget& judged : run.cards) json["targets"].push_back(TargetJson(judged));
  for (const ProgramProcess& process : run.processes) {
    Json row = {{"pid", process.pid}, {"torch", process.torch}, {"steps", process.steps}};
    PutIfKnown(row, "rank", process.rank);
    PutIfKnown(row, "out_of_memory", process.oom_message);
    for (const TorchPeaks& peaks : process.peaks) {
      row["devices"].push_back({{"device", peaks.device},
                                {"requested_bytes", peaks.requested_bytes},
                                {"allocated_bytes", peaks.allocated_bytes},
                                {"reserved_bytes", peaks.reserved_bytes},
                                {"retries", peaks.retries},
                                {"ooms", peaks.ooms}});
    }
    for (const UnknownRead& read : process.unknown) {
      row["unknown_reads"].push_back(
          {{"place", read.place}, {"source", read.source}, {"count", read.count}});
    }
    if (!process.saved.empty()) row["not_written"] = process.saved;
    json["processes"].push_back(row);
  }
  json["unknown_functions"] = run.unknown_functions;
  json["unknown_sizes"] = run.unknown_sizes;
  return Dumped(json);
}

}  // namespace onnxfit
