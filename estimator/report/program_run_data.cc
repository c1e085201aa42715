#include <fmt/format.h>

#include <algorithm>
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

ProgramPlace PlaceOfRow(const Json& row) {
  const std::string file = row.at("file");
  if (file.empty()) return {};
  const int64_t line = row.at("line");
  return {.place = fmt::format("{}:{}", std::filesystem::path(file).filename().string(), line),
          .source = row.at("text")};
}

// What one line reads in several ways is told once.
void AddRead(const Json& read, std::vector<UnknownRead>& reads) {
  const ProgramPlace at = PlaceOfRow(read);
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

std::vector<RefusedRequest> RefusedOf(const Json& rows) {
  std::vector<RefusedRequest> refused;
  for (const Json& row : rows) {
    refused.push_back({PlaceOfRow(row), row.at("bytes"), row.at("step")});
  }
  return refused;
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
  if (json.contains("phases")) process.phases = ReadPhases(json.at("phases"));
  process.calls = json.at("calls");
  process.step_device = json.at("step_device");
  process.refused = RefusedOf(json.at("refused"));
  for (const Json& read : json.at("unknown_reads")) AddRead(read, process.unknown);
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
  row["held_device"] = process.held_device;
  row["held_is_of_peak"] = process.is_held_all;
  row["held"] = HeldJson(process.held);
}

Json CurveJson(const RunCurve& drawn) {
  const RecordedCurve& curve = drawn.curve;
  Json json = {{"device", drawn.device},
               {"events", curve.events},
               {"is_cut", curve.is_cut},
               {"peak", curve.peak},
               {"turns", curve.turns},
               {"asked_by", drawn.asked_by},
               {"requested", curve.requested_bytes},
               {"reserved", curve.reserved_bytes}};
  if (curve.full) json["full"] = *curve.full;
  for (size_t i = 0; i < curve.layers.size(); ++i) {
    Json line = PlaceJson(drawn.lines[i]);
    line["name"] = LayerName(drawn, i);
    line["requested"] = curve.layers[i].bytes;
    json["lines"].push_back(line);
  }
  return json;
}

void PutEnd(const ProgramProcess& process, Json& row) {
  PutIfKnown(row, "exception", process.exception);
  PutIfKnown(row, "message", process.message);
  if (!process.exception.empty()) row["out_of_memory"] = process.is_oom;
  if (!process.full_at.place.empty()) row["full_at"] = PlaceJson(process.full_at);
  if (!process.oom.empty()) row["explained"] = process.oom;
  PutIfKnown(row, "ended_by", process.ended_by);
  for (const RefusedRequest& request : process.refused) {
    Json refused = PlaceJson(request.at);
    refused["bytes"] = request.bytes;
    refused["step"] = request.step;
    row["refused"].push_back(refused);
  }
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
  if (!process.phases.empty()) row["phases"] = PhasesJson(process.phases);
  PutHeld(process, row);
  if (process.curve) row["curve"] = CurveJson(*process.curve);
  for (const UnknownRead& read : process.unknown) {
    Json place = PlaceJson(read.at);
    place["count"] = read.count;
    place["kind"] = kReadKinds[static_cast<size_t>(read.kind)].second;
    row["unknown_reads"].push_back(place);
  }
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

// In the words of an estimate: the most of any process and card.
Json RunPeakJson(const ProgramRun& run) {
  TorchPeaks most;
  for (const ProgramProcess& process : run.processes) {
    for (const TorchPeaks& peaks : process.peaks) {
      most.requested_bytes = std::max(most.requested_bytes, peaks.requested_bytes);
      most.allocated_bytes = std::max(most.allocated_bytes, peaks.allocated_bytes);
      most.reserved_bytes = std::max(most.reserved_bytes, peaks.reserved_bytes);
    }
  }
  int64_t device = 0;
  for (const JudgedTarget& judged : run.cards) {
    device = std::max(device, judged.judgement.used_bytes);
  }
  Json json = {{"device_bytes", device}};
  if (run.processes.empty()) return json;
  json["exact_bytes"] = most.requested_bytes;
  json["allocated_bytes"] = most.allocated_bytes;
  json["reserved_bytes"] = most.reserved_bytes;
  return json;
}

}  // namespace

Json RunJson(const ProgramRun& run) {
  Json json = {{"exit_code", run.exit_code},
               {"failed", run.failed},
               {"peak", RunPeakJson(run)},
               {"targets", TargetsJson(run)}};
  json["processes"] = Json::array();
  for (const ProgramProcess& process : run.processes) {
    json["processes"].push_back(ProcessJson(process));
  }
  if (!run.frameworks.empty()) json["frameworks"] = PoolsJson(run);
  json["not_written"] = run.saved;
  json["unknown_functions"] = run.unknown_functions;
  json["unknown_sizes"] = run.unknown_sizes;
  if (!run.asked.empty()) {
    json["asked_bytes"] = run.asked_bytes;
    json["asked"] = HeldJson(run.asked);
  }
  json["host"] = HostJson(run.host);
  if (run.waited_at != 0) json["waited_at"] = run.waited_at;
  if (run.unwatched > 0) json["unwatched_processes"] = run.unwatched;
  if (!run.failures.empty()) json["failures"] = run.failures;
  if (run.engine) json["engine"] = EngineJson(*run.engine);
  return json;
}

ProgramProcess ReadProgramProcess(std::string_view json) {
  try {
    return ProcessOf(Json::parse(json));
  } catch (const nlohmann::json::exception& error) {
    throw Error({.text = fmt::format("what PyTorch's side of the run wrote: {}", error.what())});
  }
}

std::string LayerName(const RunCurve& curve, size_t layer) {
  const std::string& place = curve.lines[layer].place;
  switch (curve.curve.layers[layer].what) {
    case LineLayer::What::kLine:
      return curve.curve.layers[layer].is_rest ? place + ", the rest" : place;
    case LineLayer::What::kBackward:
      return "backward";
    case LineLayer::What::kEarly:
      return "before the record";
    case LineLayer::What::kOthers:
      return "other lines";
  }
  return place;
}

Json RunsJson(const std::vector<ProgramRun>& runs, const JsonOptions& options) {
  Json json = {{"schema", 1},
               {"version", options.version},
               {"basis", "run"},
               {"text", ToText(runs)},
               {"command", runs[0].command}};
  if (runs.size() == 1) {
    json.update(RunJson(runs[0]));
    return json;
  }
  json["targets"] = Json::array();
  for (const ProgramRun& run : runs) {
    for (const Json& target : TargetsJson(run)) json["targets"].push_back(target);
    json["runs"].push_back(RunJson(run));
  }
  return json;
}

std::string ToJson(const std::vector<ProgramRun>& runs, const JsonOptions& options) {
  return Dumped(RunsJson(runs, options)) + '\n';
}

}  // namespace onnxfit
