#include "estimator/report/generation_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/program_run_parts.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

using Rows = std::vector<std::vector<Cell>>;

constexpr int kBytesColumns = 12;  // of "1023.9 MiB", with room before it

// --- What a run has -----------------------------------------------------------------------------

const ProgramProcess* ProcessOf(const ProgramRun& run) {
  return run.processes.empty() ? nullptr : &run.processes[LargestProcess(run)];
}

// A phase on the card, if it was reached.
std::optional<PhaseOnCard> PhaseOf(const GenerationRun& run, PhaseKind kind) {
  const ProgramProcess* process = ProcessOf(run.run);
  if (process == nullptr) return std::nullopt;
  for (const ProgramPhase& phase : process->phases) {
    if (phase.kind == kind && !phase.cards.empty()) return phase.cards.front();
  }
  return std::nullopt;
}

// What was allocated when the prompt began.
std::optional<int64_t> ModelBytes(const GenerationRun& run) {
  const std::optional<PhaseOnCard> start = PhaseOf(run, PhaseKind::kStart);
  return start ? std::optional(start->left_allocated_bytes) : std::nullopt;
}

std::optional<int64_t> AllocatedIn(const GenerationRun& run, PhaseKind kind) {
  const std::optional<PhaseOnCard> phase = PhaseOf(run, kind);
  return phase ? std::optional(phase->allocated_bytes) : std::nullopt;
}

int64_t CacheBytes(const GenerationRun& run) {
  int64_t bytes = 0;
  for (const CacheKind& kind : run.told.cache) bytes += kind.bytes + kind.host_bytes;
  return bytes;
}

const JudgedTarget& CardOf(const GenerationRun& run) { return run.run.cards.front(); }

// --- Text ---------------------------------------------------------------------------------------

std::string Several(int64_t count, std::string_view one, std::string_view several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

// "LlamaForCausalLM in bfloat16: 8 prompts of 1024 tokens, 256 new ones each, 3 beams".
std::string AskedText(const GenerationRun& run) {
  const AskedGeneration& asked = run.asked;
  const std::string model =
      run.told.name.empty() ? asked.model : run.told.name + " in " + run.told.dtype;
  std::string text = fmt::format(
      "{}: {} of {}, {} new{}", model, Several(asked.batch, "prompt", "prompts"),
      Several(asked.prompt, "token", "tokens"), asked.new_tokens, asked.batch == 1 ? "" : " each");
  if (run.told.sequences > 1) text += fmt::format(", {} texts of each", run.told.sequences);
  if (run.told.beams > 1) text += fmt::format(", {} beams", run.told.beams);
  const std::string& cache = run.told.cache_implementation;
  if (!cache.empty()) text += fmt::format(", cache {}", cache);
  return text;
}

std::string TitleOf(const GenerationRun& run) {
  const ProgramProcess* process = ProcessOf(run.run);
  const std::string torch = process == nullptr ? "" : ", PyTorch " + process->torch;
  return run.told.library + torch;
}

void AddPhase(const GenerationRun& run, PhaseKind kind, std::string_view name, Rows& rows) {
  const std::optional<PhaseOnCard> phase = PhaseOf(run, kind);
  if (!phase) return;
  rows.push_back({{fmt::format("  {}", name)},
                  {FormatBytes(phase->allocated_bytes)},
                  {FormatBytes(phase->reserved_bytes)}});
}

// Of a card that was full before the second phase began.
void AddMost(const GenerationRun& run, Rows& rows) {
  const ProgramProcess* process = ProcessOf(run.run);
  if (process == nullptr || process->peaks.empty() || PhaseOf(run, PhaseKind::kStart)) return;
  const TorchPeaks& most = process->peaks.front();
  rows.push_back({{"  until it was full"},
                  {FormatBytes(most.allocated_bytes)},
                  {FormatBytes(most.reserved_bytes)}});
}

std::string PhasesTable(const GenerationRun& run) {
  Rows rows = {{{TitleOf(run)}, {"allocated"}, {"reserved"}}};
  if (const std::optional<PhaseOnCard> start = PhaseOf(run, PhaseKind::kStart)) {
    rows.push_back({{"  the model, and its prompts"},
                    {FormatBytes(start->left_allocated_bytes)},
                    {FormatBytes(start->left_reserved_bytes)}});
  }
  AddPhase(run, PhaseKind::kPrefill, "prefill, at most", rows);
  AddPhase(run, PhaseKind::kDecoding, "decoding, at most", rows);
  AddMost(run, rows);
  return "\n" + Wrap("", AskedText(run)) + Table(rows, "lrr", "");
}

// Each call brought a token.
bool IsOneByOne(const GenerationRun& run) { return run.told.calls == run.asked.new_tokens; }

// ", 64.0 KiB more a token": nothing of one that is as large as it will be, and where calls are not
// tokens.
std::string GrowthOf(const CacheKind& kind, const GenerationRun& run) {
  if (!IsOneByOne(run) || run.told.calls < 2) return "";
  const int64_t more = kind.bytes + kind.host_bytes - kind.first_bytes;
  const int64_t each = more / (run.told.calls - 1);
  if (each <= kind.layers) return ", none of which grows";  // a counter a layer is no growth
  return fmt::format(", {} more a token", FormatBytes(each));
}

std::string CacheText(const GenerationRun& run) {
  if (run.told.cache.empty()) return "";
  std::string text = fmt::format("\nIts cache at the end, {}\n", FormatBytes(CacheBytes(run)));
  for (const CacheKind& kind : run.told.cache) {
    const std::string host =
        kind.host_bytes == 0 ? "" : fmt::format(", {} on the host", FormatBytes(kind.host_bytes));
    text += Wrap(fmt::format("{:>{}}  ", FormatBytes(kind.bytes + kind.host_bytes), kBytesColumns),
                 fmt::format("{} of {}{}{}", Several(kind.layers, "layer", "layers"), kind.name,
                             GrowthOf(kind, run), host));
  }
  return text;
}

// Of a run that went to its end.
std::string CallsText(const GenerationRun& run) {
  return fmt::format(
      "the model was called {} for {} tokens, as its generation_config.json or its contents have "
      "it: prefill is its first call, and the cache one of those that it had",
      run.told.calls == 1 ? "once" : fmt::format("{} times", run.told.calls), run.asked.new_tokens);
}

std::vector<std::string> OpenOf(const GenerationRun& run) {
  std::vector<std::string> open = {
      "prompts are of one length, and no text ends before its last token: batches that are padded "
      "take what their longest takes"};
  const bool is_whole = CardOf(run).judgement.verdict != Verdict::kOom;
  if (is_whole && !IsOneByOne(run)) open.push_back(CallsText(run));
  if (run.told.cache_implementation.find("static") != std::string::npos) {
    open.emplace_back("its forward is not compiled, which generate() does with a static cache");
  }
  for (const std::string& sentence : run.told.open) open.push_back(sentence);
  for (const std::string& sentence : OpenSentences(run.run)) open.push_back(sentence);
  return open;
}

// Of all runs, each sentence once.
std::string OpenText(const std::vector<GenerationRun>& runs) {
  std::vector<std::string> open;
  for (const GenerationRun& run : runs) {
    for (std::string& sentence : OpenOf(run)) {
      if (std::ranges::find(open, sentence) == open.end()) open.push_back(std::move(sentence));
    }
  }
  std::string text = "\nWhat stays open\n";
  for (const std::string& sentence : open) text += Wrap("  - ", sentence);
  return text;
}

std::string TextBelow(const GenerationRun& run, const TextOptions& options) {
  std::string text = RunReasons(run.run, options);
  text += PhasesTable(run) + CacheText(run);
  if (options.verbose) text += RunDetails(run.run, options);
  return text + OpenText({run});
}

std::string BytesOrDash(const std::optional<int64_t>& bytes) {
  return bytes ? FormatBytes(*bytes) : "-";
}

std::string TableOfRuns(const std::vector<GenerationRun>& runs) {
  Rows rows = {{{"card"},
                {"batch"},
                {"prompt"},
                {"new"},
                {"prefill"},
                {"decoding"},
                {"cache"},
                {"of card"},
                {""}}};
  for (const GenerationRun& run : runs) {
    const JudgedTarget& card = CardOf(run);
    rows.push_back({{card.target.name},
                    {std::to_string(run.asked.batch)},
                    {std::to_string(run.asked.prompt)},
                    {std::to_string(run.asked.new_tokens)},
                    {BytesOrDash(AllocatedIn(run, PhaseKind::kPrefill))},
                    {BytesOrDash(AllocatedIn(run, PhaseKind::kDecoding))},
                    {FormatBytes(CacheBytes(run))},
                    {FormatBytes(card.judgement.used_bytes)},
                    {VerdictWord(card.judgement.verdict)}});
  }
  return Table(rows, "lrrrrrrrl", "");
}

// "batch 12", "prompts of 4096 tokens", "4096 new tokens".
std::string SolvedText(const GenerationSearch& search, int64_t size) {
  if (search.solved == "batch") return fmt::format("batch {}", size);
  if (search.solved == "new") return Several(size, "new token", "new tokens");
  return "prompts of " + Several(size, "token", "tokens");
}

// What was tried, and how far it goes.
std::string SearchText(const GenerationSearch& search) {
  TriedBatches found = search.found;
  if (search.solved != "batch") found.per_sample_bytes = 0;  // which is told of samples
  if (!search.is_end) return TriedBullets(found, CardOf(search.largest));
  found.is_limited = false;
  return TriedBullets(found, CardOf(search.largest)) +
         Wrap("  - ", "its table of positions ends there");
}

std::string HeldText(const GenerationSearch& search) {
  const AskedGeneration& asked = search.largest.asked;
  std::string text;
  const auto add = [&](std::string_view name, int64_t size) {
    if (search.solved == name) return;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, size);
  };
  add("batch", asked.batch);
  add("prompt", asked.prompt);
  add("new", asked.new_tokens);
  return text;
}

std::string HeadlineOf(const GenerationSearch& search, const TextOptions& options) {
  const JudgedTarget& card = CardOf(search.largest);
  const Verdict verdict = card.judgement.verdict;
  const std::string word =
      Painted({VerdictWord(verdict), options.color ? VerdictPaint(verdict) : ""});
  const std::string used = UsedText(card.judgement, GlyphsOf(options));
  const std::string name = Clean(card.target.name, options.ascii);
  const int64_t told = search.found.told();
  if (search.found.batch == 0) {
    return fmt::format("none on {} ({}): {} is {}, {}\n", name, HeldText(search),
                       SolvedText(search, told), word, used);
  }
  const bool is_tight = verdict == Verdict::kTight && search.found.fits_batch > 0;
  return fmt::format("{} on {} ({}): {}, {}{}\n", SolvedText(search, told), name, HeldText(search),
                     word, used, is_tight ? fmt::format("; {} FITS", search.found.fits_batch) : "");
}

// --- JSON ---------------------------------------------------------------------------------------

void PutBytes(std::string_view name, const std::optional<int64_t>& bytes, Json& json) {
  if (bytes) json[std::string(name)] = *bytes;
}

Json JsonOfCache(const GenerationRun& run) {
  Json rows = Json::array();
  for (const CacheKind& kind : run.told.cache) {
    rows.push_back({{"kind", kind.name},
                    {"layers", kind.layers},
                    {"bytes", kind.bytes},
                    {"host_bytes", kind.host_bytes},
                    {"first_bytes", kind.first_bytes}});
  }
  return rows;
}

Json JsonOfRun(const GenerationRun& run) {
  Json json = {
      {"batch", run.asked.batch}, {"prompt", run.asked.prompt},      {"new", run.asked.new_tokens},
      {"beams", run.told.beams},  {"sequences", run.told.sequences}, {"dtype", run.told.dtype},
      {"calls", run.told.calls},  {"cache", JsonOfCache(run)},       {"run", RunJson(run.run)}};
  PutIfKnown(json, "cache_implementation", run.told.cache_implementation);
  PutBytes("model_bytes", ModelBytes(run), json);
  PutBytes("prefill_bytes", AllocatedIn(run, PhaseKind::kPrefill), json);
  PutBytes("decoding_bytes", AllocatedIn(run, PhaseKind::kDecoding), json);
  json["open"] = OpenOf(run);
  return json;
}

Json Opened(const GenerationRun& run, const std::string& text, const JsonOptions& options) {
  return {{"schema", 1},
          {"version", options.version},
          {"basis", "run"},
          {"text", text},
          {"library", run.told.library},
          {"model", run.asked.model},
          {"targets", Json::array()}};
}

CacheKind ReadCacheKind(const Json& row) {
  return {.name = row.at("kind"),
          .layers = row.at("layers"),
          .bytes = row.at("bytes"),
          .host_bytes = row.at("host_bytes"),
          .first_bytes = row.at("first_bytes")};
}

}  // namespace

std::string ToJson(const AskedGeneration& asked) {
  return Dumped({{"model", asked.model},
                 {"batch", asked.batch},
                 {"prompt", asked.prompt},
                 {"new", asked.new_tokens},
                 {"beams", asked.beams},
                 {"cache", asked.cache},
                 {"dtype", asked.dtype}});
}

ToldGeneration ReadGeneration(std::string_view json) {
  try {
    const Json read = Json::parse(json);
    ToldGeneration told = {.missing = read.value("missing", ""),
                           .error = read.value("error", ""),
                           .library = read.value("library", ""),
                           .name = read.value("name", ""),
                           .dtype = read.value("dtype", ""),
                           .beams = read.value("beams", int64_t{1}),
                           .sequences = read.value("sequences", int64_t{1}),
                           .cache_implementation = read.value("cache_implementation", ""),
                           .calls = read.value("calls", int64_t{0}),
                           .most_prompt = read.value("most_prompt", int64_t{0}),
                           .most_new = read.value("most_new", int64_t{0}),
                           .open = read.value("open", std::vector<std::string>())};
    if (read.contains("cache")) {
      for (const Json& row : read["cache"]) told.cache.push_back(ReadCacheKind(row));
    }
    return told;
  } catch (const Json::exception& error) {
    throw Error({.text = fmt::format("expected what a generation tells, found: {}", error.what())});
  }
}

std::string ToText(const std::vector<GenerationRun>& runs, const TextOptions& options) {
  std::string text;
  if (runs.size() == 1) {
    text = HeadlinesOf(runs[0].run, options);
    return options.quiet ? text : TrimLines(text + TextBelow(runs[0], options));
  }
  text = TableOfRuns(runs);
  return TrimLines(options.quiet ? text : text + OpenText(runs));
}

std::string ToText(const std::vector<GenerationSearch>& searches, const TextOptions& options) {
  std::string text;
  for (const GenerationSearch& search : searches) text += HeadlineOf(search, options);
  if (options.quiet) return text;
  for (const GenerationSearch& search : searches) {
    if (searches.size() > 1) {
      text += fmt::format("\nOn {}, {}\n", CardOf(search.largest).target.name, HeldText(search));
    }
    text += SearchText(search);
  }
  if (searches.size() == 1) text += TextBelow(searches[0].largest, options);
  return TrimLines(text);
}

std::string ToJson(const std::vector<GenerationRun>& runs, const JsonOptions& options) {
  Json json = Opened(runs[0], ToText(runs), options);
  for (const GenerationRun& run : runs) {
    json["targets"].push_back(TargetJson(CardOf(run)));
    json["runs"].push_back(JsonOfRun(run));
  }
  return Dumped(json) + '\n';
}

std::string ToJson(const std::vector<GenerationSearch>& searches, const JsonOptions& options) {
  Json json = Opened(searches[0].largest, ToText(searches), options);
  for (const GenerationSearch& search : searches) {
    Json& target = json["targets"].emplace_back(
        Json{{"gpu", CardOf(search.largest).target.name}, {"solved", search.solved}});
    PutSearch(search.found, target);
    target["run"] = JsonOfRun(search.largest);
  }
  return Dumped(json) + '\n';
}

}  // namespace onnxfit
