#include <fmt/format.h>

#include <filesystem>

#include "estimator/base/error.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/program_run.h"
#include "estimator/report/program_run_parts.h"

namespace onnxfit {
namespace {

// --- Reading what PyTorch's side wrote ----------------------------------------------------------

TorchPeaks PeaksOf(const Json& device) {
  return {.device = device.at("index"),
          .requested_bytes = device.at("requested_bytes"),
          .allocated_bytes = device.at("allocated_bytes"),
          .reserved_bytes = device.at("reserved_bytes"),
          .retries = device.at("num_alloc_retries"),
          .ooms = device.at("num_ooms")};
}

constexpr std::pair<ReadKind, std::string_view> kReadKinds[] = {
    {ReadKind::kShown, "shown"}, {ReadKind::kMost, "most"}, {ReadKind::kDecides, "decides"}};

ReadKind ReadKindNamed(const std::string& name) {
  for (const auto& [kind, known] : kReadKinds) {
    if (known == name) return kind;
  }
  return ReadKind::kDecides;
}

// What one line reads in several ways is told once.
void AddRead(const Json& read, std::vector<UnknownRead>& reads) {
  const std::string file = read.at("file");
  const int64_t line = read.at("line");
  const ProgramPlace at = {
      .place = fmt::format("{}:{}", std::filesystem::path(file).filename().string(), line),
      .source = read.at("text")};
  const int64_t count = read.at("count");
  const ReadKind kind = ReadKindNamed(read.value("kind", ""));
  for (UnknownRead& known : reads) {
    if (known.at == at) {
      known.count += count;
      known.kind = std::max(known.kind, kind);
      return;
    }
  }
  reads.push_back({at, count, kind});
}

std::string TextOrNone(const Json& value) { return value.is_string() ? std::string(value) : ""; }

void ReadEnd(const Json& end, ProgramProcess& process) {
  process.exception = TextOrNone(end.at("exception"));
  process.message = TextOrNone(end.at("message"));
  process.is_oom = end.at("out_of_memory");
  process.ended_by = TextOrNone(end.at("by"));
}

ProgramProcess ProcessOf(const Json& json) {
  ProgramProcess process = {.pid = json.at("pid"), .torch = json.at("torch")};
  process.steps = json.at("steps");
  process.cuda = TextOrNone(json.at("cuda"));
  if (json.at("ranks").contains("RANK")) process.rank = json.at("ranks").at("RANK");
  for (const Json& device : json.at("devices")) process.peaks.push_back(PeaksOf(device));
  for (const Json& step : json.at("step_peaks")) {
    process.step_peaks.push_back({.allocated_bytes = step.at(0), .reserved_bytes = step.at(1)});
  }
  for (const Json& read : json.at("unknown_reads")) AddRead(read, process.unknown);
  for (const Json& saved : json.at("saved")) process.saved.push_back(saved.at("path"));
  ReadEnd(json.at("end"), process);
  return process;
}

// --- Writing JSON -------------------------------------------------------------------------------

Json PlaceJson(const ProgramPlace& at) {
  Json json = Json::object();
  PutIfKnown(json, "place", at.place);
  PutIfKnown(json, "source", at.source);
  return json;
}

Json PeaksJson(const TorchPeaks& peaks) {
  return {{"device", peaks.device},
          {"requested_bytes", peaks.requested_bytes},
          {"allocated_bytes", peaks.allocated_bytes},
          {"reserved_bytes", peaks.reserved_bytes},
          {"retries", peaks.retries},
          {"ooms", peaks.ooms}};
}

Json HeldJson(const std::vector<HeldBytes>& lines) {
  Json rows = Json::array();
  for (const HeldBytes& held : lines) {
    Json row = PlaceJson(held.at);
    row["bytes"] = held.bytes;
    row["count"] = held.count;
    if (!held.within.empty()) row["within"] = HeldJson(held.within);
    rows.push_back(row);
  }
  return rows;
}

void PutHeld(const ProgramProcess& process, Json& row) {
  if (process.held.empty()) return;
  row["held_bytes"] = process.held_bytes;
  row["held_is_of_peak"] = process.is_held_all;
  row["held"] = HeldJson(process.held);
}

void PutEnd(const ProgramProcess& process, Json& row) {
  PutIfKnown(row, "exception", process.exception);
  PutIfKnown(row, "message", process.message);
  if (!process.exception.empty()) row["out_of_memory"] = process.is_oom;
  if (!process.full_at.place.empty()) row["full_at"] = PlaceJson(process.full_at);
  if (!process.oom.empty()) row["explained"] = process.oom;
}

Json ProcessJson(const ProgramProcess& process) {
  Json row = {{"pid", process.pid}, {"torch", process.torch}, {"steps", process.steps}};
  PutIfKnown(row, "rank", process.rank);
  PutEnd(process, row);
  for (const TorchPeaks& peaks : process.peaks) row["devices"].push_back(PeaksJson(peaks));
  for (const StepPeaks& step : process.step_peaks) {
    row["step_peaks"].push_back(
        {{"allocated_bytes", step.allocated_bytes}, {"reserved_bytes", step.reserved_bytes}});
  }
  PutHeld(process, row);
  for (const UnknownRead& read : process.unknown) {
    Json place = PlaceJson(read.at);
    place["count"] = read.count;
    place["kind"] = kReadKinds[static_cast<size_t>(read.kind)].second;
    row["unknown_reads"].push_back(place);
  }
  if (!process.saved.empty()) row["not_written"] = process.saved;
  return row;
}

Json TargetsJson(const ProgramRun& run) {
  Json targets = Json::array();
  for (const JudgedTarget& judged : run.cards) {
    targets.push_back(TargetJson(judged));
    if (run.failed) targets.back().erase("verdict");
  }
  return targets;
}

}  // namespace

Json RunJson(const ProgramRun& run) {
  Json json = {{"exit_code", run.exit_code}, {"failed", run.failed}, {"targets", TargetsJson(run)}};
  json["processes"] = Json::array();
  for (const ProgramProcess& process : run.processes) {
    json["processes"].push_back(ProcessJson(process));
  }
  json["unknown_functions"] = run.unknown_functions;
  json["unknown_sizes"] = run.unknown_sizes;
  return json;
}

ProgramProcess ReadProgramProcess(std::string_view json) {
  try {
    return ProcessOf(Json::parse(json));
  } catch (const nlohmann::json::exception& error) {
    throw Error({.text = fmt::format("what PyTorch's side of the run wrote: {}", error.what())});
  }
}

std::string ToJson(const std::vector<ProgramRun>& runs, const JsonOptions& options) {
  Json json = {{"schema", 1},
               {"version", options.version},
               {"basis", "run"},
               {"text", ToText(runs)},
               {"command", runs[0].command}};
  if (runs.size() == 1) {
    json.update(RunJson(runs[0]));
    return Dumped(json) + '\n';
  }
  json["targets"] = Json::array();
  for (const ProgramRun& run : runs) {
    for (const Json& target : TargetsJson(run)) json["targets"].push_back(target);
    json["runs"].push_back(RunJson(run));
  }
  return Dumped(json) + '\n';
}

}  // namespace onnxfit
