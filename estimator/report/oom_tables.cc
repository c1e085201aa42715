// An explained out-of-memory message to be pasted, and for programs: Markdown, comma-separated
// values, JSON.
#include <fmt/format.h>

#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/oom/formats.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/markup.h"
#include "estimator/report/oom.h"

namespace onnxfit {
namespace {

using MarkdownRows = std::vector<std::vector<std::string>>;

struct OomMarkdownPage {
  const TextOptions& options;

  std::string Shown(std::string_view text) const { return Clean(text, options.ascii); }
  std::string Escaped(std::string_view text) const { return MarkdownText(Shown(text)); }
};

// "**CAPACITY**: the card is full …"
std::string FirstLine(const OomExplanation& e, const OomMarkdownPage& page) {
  const std::string verdict = fmt::format("{}:", ToString(e.judgement.verdict));
  const std::string& line = e.summary[0];
  if (!line.starts_with(verdict)) return page.Escaped(line);
  return fmt::format("**{}**:{}", ToString(e.judgement.verdict),
                     page.Escaped(line.substr(verdict.size())));
}

// "rank1: **CAPACITY**: …"
std::string ShortLine(const OomExplanation& e, const OomMarkdownPage& page) {
  const OomMessage& m = e.message;
  std::string who = m.process;
  if (who.empty() && m.gpu) who = fmt::format("GPU {}", *m.gpu);
  return (who.empty() ? "" : page.Escaped(who) + ": ") + FirstLine(e, page);
}

std::string BulletItems(const std::vector<std::string>& texts, const OomMarkdownPage& page) {
  std::vector<std::string> items;
  for (const std::string& text : texts) items.push_back(page.Escaped(text));
  return MarkdownList(items);
}

std::string Card(const OomExplanation& e, const OomMarkdownPage& page) {
  if (e.card.empty()) return "";
  MarkdownRows rows;
  for (const OomPart& part : e.card) {
    rows.push_back(
        {std::string(ToString(part.what)), SizeOf(part), ErrorText(part, page.options.ascii)});
  }
  return MarkdownSection(fmt::format("{}: {}", MemoryName(e), e.card_text),
                         MarkdownTable({"whose", "bytes", "rounding"}, "lrl", rows));
}

std::string Remedies(const OomExplanation& e, const OomMarkdownPage& page) {
  if (e.remedies.empty()) return "";
  MarkdownRows rows;
  for (const OomRemedy& remedy : e.remedies) {
    rows.push_back(
        {page.Escaped(remedy.what), std::string(ToString(remedy.help)), page.Escaped(remedy.why)});
  }
  return MarkdownSection("What helps", MarkdownTable({"change", "helps", "why"}, "lll", rows));
}

std::string Commands(const OomExplanation& e, const OomMarkdownPage& page) {
  std::string lines;
  for (const std::string& command : e.commands) lines += page.Shown(command) + '\n';
  if (lines.empty()) return "";
  const bool is_option = e.judgement.verdict == OomVerdict::kFragmented;
  return MarkdownSection(
      is_option ? "Type one of (bash, PowerShell, Python before import torch)" : "Look with",
      MarkdownBlock(lines, ""));
}

std::string Full(const OomExplanation& e, const OomMarkdownPage& page) {
  std::string text = FirstLine(e, page) + '\n';
  for (size_t i = 1; i < e.summary.size(); ++i) text += '\n' + page.Escaped(e.summary[i]) + '\n';
  for (const std::string& note : e.notes) text += "\nNote: " + page.Escaped(note) + '\n';
  text += Card(e, page);
  if (e.request)
    text += MarkdownSection("What asked", BulletItems(RequestSentences(*e.request), page));
  text += Remedies(e, page) + Commands(e, page);
  return text + MarkdownSection(fmt::format("The message ({})", page.Escaped(WhereText(e))),
                                MarkdownBlock(page.Shown(e.message.text)));
}

std::string Model(const OomReplay& replay, const OomMarkdownPage& page) {
  const ReplaySentences said = SentencesOf(replay);
  std::string text = page.Escaped(said.asked) + "\n\n" + BulletItems(said.candidates, page);
  if (!said.candidates.empty()) text += '\n';
  text += BulletItems(said.on_card, page);
  std::vector<std::string> warnings;
  for (const Warning& warning : replay.warnings) {
    warnings.push_back(fmt::format("**{}** {}", warning.code, page.Escaped(warning.text)));
  }
  return MarkdownSection(fmt::format("The model: {}, batch {}",
                                     MarkdownCode(page.Shown(replay.model)), replay.batch),
                         text) +
         MarkdownSection("Warnings", MarkdownList(warnings));
}

std::string ShortLines(const std::vector<OomExplanation>& processes, size_t first,
                       const OomMarkdownPage& page) {
  std::vector<std::string> items;
  for (size_t i = first; i < processes.size(); ++i) items.push_back(ShortLine(processes[i], page));
  return MarkdownList(items);
}

}  // namespace

std::string ToMarkdown(const std::vector<OomExplanation>& processes,
                       const std::optional<OomReplay>& replay, const TextOptions& options) {
  const OomMarkdownPage page = {options};
  const bool has_one = processes.size() == 1;
  if (options.quiet) {
    return has_one ? FirstLine(processes[0], page) + '\n' : ShortLines(processes, 0, page);
  }
  std::string text = Full(processes[0], page);
  if (replay) text += Model(*replay, page);
  if (!options.verbose)
    return text + MarkdownSection("The other processes", ShortLines(processes, 1, page));
  for (size_t i = 1; i < processes.size(); ++i) text += "\n---\n\n" + Full(processes[i], page);
  return text;
}

// What follows writes comma-separated values.
namespace {

using Fields = std::vector<std::string>;

template <typename Number>
std::string Text(const std::optional<Number>& number) {
  return number ? std::to_string(*number) : "";
}

std::string Known(int64_t bytes) { return bytes > 0 ? std::to_string(bytes) : ""; }

Fields Header() {
  Fields fields = {"log", "process", "line", "framework", "format", "gpu", "verdict"};
  for (size_t i = 0; i < kOomFields; ++i) {
    fields.push_back(std::string(ToString(static_cast<OomField>(i))) + "_bytes");
  }
  for (const char* name :
       {"card_bytes", "short_bytes", "request_low_bytes", "request_high_bytes", "more_messages",
        "model", "batch", "model_fails", "max_batch", "summary"}) {
    fields.emplace_back(name);
  }
  return fields;
}

void AddReplay(const OomReplay* replay, Fields& fields) {
  if (replay == nullptr) {
    fields.resize(fields.size() + 4);
    return;
  }
  fields.push_back(replay->model);
  fields.push_back(std::to_string(replay->batch));
  const char* fails = replay->fails_at ? "yes" : "no";
  fields.emplace_back(replay->card_bytes > 0 ? fails : "");
  fields.push_back(replay->largest ? std::to_string(replay->largest->batch) : "");
}

Fields Record(const std::string& log, const OomExplanation& e, const OomReplay* replay) {
  const OomMessage& m = e.message;
  Fields fields = {log,
                   m.process,
                   std::to_string(m.line),
                   std::string(ProgramOf(*m.format)),
                   std::string(m.format->name),
                   Text(m.gpu),
                   VerdictName(e.judgement.verdict)};
  for (const auto& size : m.sizes) fields.push_back(size ? std::to_string(size->bytes) : "");
  const auto lack = e.facts.Short();
  fields.push_back(Known(e.card_bytes));
  fields.push_back(lack ? Known(lack->rounded()) : "");
  fields.push_back(e.request ? std::to_string(e.request->low_bytes) : "");
  fields.push_back(e.request ? std::to_string(e.request->high_bytes) : "");
  fields.push_back(std::to_string(e.more));
  AddReplay(replay, fields);
  fields.push_back(e.summary[0]);
  return fields;
}

}  // namespace

std::string ToCsv(const std::string& log, const std::vector<OomExplanation>& processes,
                  const std::optional<OomReplay>& replay, bool ascii) {
  std::string text = CsvLine(Header());
  for (size_t i = 0; i < processes.size(); ++i) {
    Fields fields = Record(log, processes[i], i == 0 && replay ? &*replay : nullptr);
    for (std::string& field : fields) field = Clean(field, ascii);
    text += CsvLine(fields);
  }
  return text;
}

// What follows writes JSON.
namespace {

Json RangeJson(int64_t bytes, int64_t error) {
  Json range = {{"bytes", bytes}};
  if (error > 0) range["low"] = std::max<int64_t>(0, bytes - error);
  if (error > 0) range["high"] = bytes + error;
  return range;
}

Json SizesJson(const OomMessage& message) {
  Json sizes = Json::object();
  for (size_t i = 0; i < kOomFields; ++i) {
    const auto& size = message.sizes[i];
    if (!size) continue;
    sizes[std::string(ToString(static_cast<OomField>(i)))] = RangeJson(size->bytes, size->error);
  }
  return sizes;
}

Json TypeJson(const TensorType& type) {
  return {{"shape", Json(type.dims)}, {"dtype", Name(type.dtype)}};
}

Json MessageJson(const OomMessage& message) {
  Json json = {{"format", message.format->name}, {"framework", ProgramOf(*message.format)}};
  PutIfKnown(json, "app", message.app);
  PutIfKnown(json, "versions", message.format->versions);
  PutIfKnown(json, "process", message.process);
  json["line"] = message.line;
  if (message.gpu) json["gpu"] = *message.gpu;
  json["text"] = message.text;
  if (message.cut) json["cut"] = true;
  json["sizes"] = SizesJson(message);
  for (const DoubtedNumber& doubted : message.doubted) {
    json["doubted"].push_back({{"size", ToString(doubted.field)}, {"text", doubted.text}});
  }
  PutIfKnown(json, "told", message.told);
  if (message.length) json["length"] = *message.length;
  PutIfKnown(json, "node", message.node);
  if (message.tensor.dtype != DType::kUndefined) json["tensor"] = TypeJson(message.tensor);
  for (const OtherProcess& other : message.others) {
    json["others"].push_back({{"pid", other.pid}, {"bytes", other.bytes.bytes}});
  }
  return json;
}

Json RequestJson(const OomRequest& request) {
  Json json = {{"low_bytes", request.low_bytes}, {"high_bytes", request.high_bytes}};
  json["notes"] = request.notes;
  PutIfKnown(json, "factors", request.factors);
  json["shapes"] = Json::array();
  for (const TensorType& shape : request.shapes) json["shapes"].push_back(TypeJson(shape));
  return json;
}

Json CardJson(const OomExplanation& e) {
  Json parts = Json::array();
  for (const OomPart& part : e.card) {
    Json row = RangeJson(part.bytes, part.error);
    row["what"] = ToString(part.what);
    parts.push_back(std::move(row));
  }
  return {{"bytes", e.card_bytes}, {"parts", parts}};
}

Json ExplanationJson(const OomExplanation& e) {
  Json json = {{"verdict", VerdictName(e.judgement.verdict)}, {"summary", Json(e.summary)}};
  const bool is_ram =
      e.facts.resource == OomResource::kOfProgram && IsHostMemory(e.message.format->family);
  json["ran_out"] = ToString(is_ram ? OomResource::kRam : e.facts.resource);
  for (const OomVerdict other : e.judgement.may_be) json["may_be"].push_back(VerdictName(other));
  json["notes"] = e.notes;
  json["message"] = MessageJson(e.message);
  json["more_messages"] = e.more;
  const auto lack = e.facts.Short();
  if (lack && lack->bytes > 0) json["short_bytes"] = lack->rounded();
  if (e.card_bytes > 0) json["card"] = CardJson(e);
  if (e.request) json["request"] = RequestJson(*e.request);
  json["remedies"] = Json::array();
  for (const OomRemedy& remedy : e.remedies) {
    json["remedies"].push_back(
        {{"what", remedy.what}, {"helps", ToString(remedy.help)}, {"why", remedy.why}});
  }
  json["commands"] = e.commands;
  return json;
}

Json AskedJson(const Asked& asked) {
  Json json = {{"name", asked.tensor}, {"bytes", asked.bytes}};
  json.update(TypeJson(asked.type));
  json["when"] = InstantJson(asked.when);
  json["times"] = asked.times;
  json["matches_allocated"] = asked.matches;
  return json;
}

Json ReplayJson(const OomReplay& replay) {
  Json json = {{"path", replay.model}, {"batch", replay.batch}};
  json["asked"] = Json::array();
  for (const Asked& asked : replay.candidates) json["asked"].push_back(AskedJson(asked));
  if (replay.card_bytes > 0) json["usable_bytes"] = replay.card_bytes;
  PutIfKnown(json, "card", replay.card_name);
  if (replay.is_another) json["is_another_card"] = true;
  if (!replay.context_of.empty()) {
    json["assumes_context"] = true;
    json["context"] = {{"of", replay.context_of},
                       {"bytes", replay.context.bytes},
                       {"low", replay.context.low},
                       {"high", replay.context.high}};
  }
  if (replay.fails_at) {
    json["fails_at"] = InstantJson(replay.fails_at->when);
    json["fails_at"]["asked_bytes"] = replay.fails_at->bytes;
    json["fails_at"]["tried_bytes"] = replay.fails_at->tried_bytes;
    PutIfKnown(json["fails_at"], "with", replay.reading);
  }
  if (replay.largest) {
    json["max_batch"] = replay.largest->batch;
    if (replay.largest->at_most) json["max_batch_at_most"] = *replay.largest->at_most;
    if (replay.largest->by_file) json["max_batch_by_file"] = *replay.largest->by_file;
  }
  json["warnings"] = WarningsJson(replay.warnings);
  return json;
}

}  // namespace

std::string ToJson(const std::string& log, const std::vector<OomExplanation>& processes,
                   const std::optional<OomReplay>& replay, const JsonOptions& options) {
  Json report = {{"schema", 1}, {"version", options.version}, {"log", log}};
  report["processes"] = Json::array();
  for (const OomExplanation& e : processes) report["processes"].push_back(ExplanationJson(e));
  if (replay) report["model"] = ReplayJson(*replay);
  return Dumped(report) + '\n';
}

}  // namespace onnxfit
