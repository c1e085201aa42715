#include <fmt/format.h>

#include <vector>

#include "estimator/base/index.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/markup.h"
#include "estimator/report/run_story.h"

namespace onnxfit {
namespace {

std::string_view MomentName(RecordedMoment::What what) {
  constexpr std::string_view kNames[] = {"oom", "peak", "taken"};
  return kNames[static_cast<size_t>(what)];
}

void AddGroups(std::string_view list, const std::vector<LineGroup>& groups,
               const StoryAnswer& answer, bool ascii, std::string& text) {
  for (const LineGroup& group : groups) {
    text += CsvLine({std::string(list), Clean(AskerText(answer.story, group), ascii),
                     fmt::format("{}", group.count), fmt::format("{}", group.bytes),
                     fmt::format("{}", group.growing_bytes), fmt::format("{}", group.growing_turns),
                     ""});
  }
}

// --- JSON ---------------------------------------------------------------------------------------

Json FrameJson(const SnapshotFrame& frame) {
  return {{"file", frame.file}, {"line", frame.line}, {"function", frame.function}};
}

Json FramesJson(const MemorySnapshot& snapshot, StackId stack) {
  Json frames = Json::array();
  for (const FrameId frame : snapshot.stacks[Index(stack)].frames) {
    frames.push_back(FrameJson(snapshot.frames[Index(frame)]));
  }
  return frames;
}

Json GroupJson(const RunStory& story, const LineGroup& group) {
  Json json = {{"bytes", group.bytes}, {"count", group.count}};
  json["sizes"] = Json::array();
  for (const SizeCount& size : group.sizes) {
    json["sizes"].push_back({{"bytes", size.bytes}, {"count", size.count}});
  }
  if (group.growing_turns > 0) {
    json["growing_bytes"] = group.growing_bytes;
    json["growing_turns"] = group.growing_turns;
  }
  if (story.snapshot.stacks[Index(group.stack)].is_backward) json["backward"] = true;
  if (group.is_early && story.run.events > 0) json["before_history"] = true;
  json["frames"] = FramesJson(story.snapshot, group.stack);
  return json;
}

Json GroupsJson(const RunStory& story, const std::vector<LineGroup>& groups) {
  Json json = Json::array();
  for (const LineGroup& group : groups) json.push_back(GroupJson(story, group));
  return json;
}

Json StoryJson(const StoryAnswer& answer) {
  const RunStory& story = answer.story;
  const RecordedMoment& moment = story.run.moment;
  Json json = {{"path", answer.path},
               {"device", story.snapshot.device},
               {"devices", story.snapshot.devices},
               {"events", story.run.events}};
  if (story.run.events > 0) json["peak_bytes"] = story.run.peak.requested_bytes;
  if (story.turns.count() > 0) {
    json["loop"] = FrameJson(story.snapshot.frames[Index(story.turns.loop)]);
    json["loop"]["turns"] = story.turns.count();
  }
  json["moment"] = MomentName(moment.what);
  if (story.run.events > 0) json["event"] = moment.event;
  if (story.turns.count() > 0) json["turn"] = story.turns.TurnAt(moment.event - 1);
  json["requested_bytes"] = moment.requested_bytes;
  json["reserved_bytes"] = moment.reserved_bytes;
  if (moment.what == RecordedMoment::What::kOom) {
    json["asked_bytes"] = moment.asked_bytes;
    json["asked_by"] = FramesJson(story.snapshot, moment.asked_by);
  }
  return json;
}

Json LeftoversJson(const StoryAnswer& answer, const Leftovers& left) {
  Json json = {{"path", answer.model},
               {"predicted_bytes", left.predicted_bytes},
               {"predicted_peak_bytes", left.predicted_peak_bytes},
               {"step", left.moment.step},
               {"phase", ToString(left.moment.phase)}};
  PutIfKnown(json, "node", left.moment.node);
  json["kept_bytes"] = left.kept_bytes;
  json["kept"] = GroupsJson(answer.story, left.kept);
  json["missing_bytes"] = left.missing_bytes;
  json["missing"] = Json::array();
  for (const MissingGroup& group : left.missing) {
    json["missing"].push_back({{"name", group.name},
                               {"kind", ToString(group.kind)},
                               {"bytes", group.bytes},
                               {"count", group.count}});
  }
  json["warnings"] = WarningsJson(answer.warnings);
  return json;
}

}  // namespace

std::string ToCsv(const StoryAnswer& answer, bool ascii) {
  std::string text =
      CsvLine({"list", "where", "count", "bytes", "growing_bytes", "growing_turns", "kind"});
  AddGroups("growth", answer.story.growth, answer, ascii, text);
  AddGroups("live", answer.story.live, answer, ascii, text);
  if (!answer.leftovers) return text;
  AddGroups("kept", answer.leftovers->kept, answer, ascii, text);
  for (const MissingGroup& group : answer.leftovers->missing) {
    text += CsvLine({"missing", Clean(group.name, ascii), fmt::format("{}", group.count),
                     fmt::format("{}", group.total_bytes()), "", "",
                     std::string(ToString(group.kind))});
  }
  return text;
}

std::string ToJson(const StoryAnswer& answer, const JsonOptions& options) {
  Json report = {{"schema", 1}, {"version", options.version}, {"snapshot", StoryJson(answer)}};
  report["growth_bytes"] = answer.story.growth_bytes;
  if (answer.story.growth_line >= 0) {
    report["growth_line"] =
        FrameJson(answer.story.snapshot.frames[Index(answer.story.growth_line)]);
    report["growth_line"]["bytes"] = answer.story.growth_line_bytes;
  }
  report["growth"] = GroupsJson(answer.story, answer.story.growth);
  report["live"] = GroupsJson(answer.story, answer.story.live);
  if (answer.leftovers) report["model"] = LeftoversJson(answer, *answer.leftovers);
  if (!answer.allowed.empty()) report["kept_too_much"] = answer.kept_too_much;
  report["notes"] = StoryNotes(answer);
  return Dumped(report) + '\n';
}

}  // namespace onnxfit
