// An estimate, to be pasted and to be calculated with: Markdown and comma-separated values.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/report/estimate.h"
#include "estimator/report/estimate_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/markup.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

using MarkdownRows = std::vector<std::vector<std::string>>;

std::string Escaped(const Page& page, std::string_view text) {
  return MarkdownText(page.Shown(text));
}

std::string Code(const Page& page, std::string_view name) { return MarkdownCode(page.Shown(name)); }

std::string HeadlineMarkdown(const Page& page) {
  const Estimate& estimate = page.estimate;
  const std::string total =
      IsTotalOfTargets(estimate)
          ? fmt::format("**{} on the device**: ", FormatBytes(estimate.device_bytes))
          : "";
  return fmt::format("{}{}, {}\n", total, Code(page, estimate.model.path),
                     Escaped(page, SettingsText(estimate)));
}

std::vector<std::string> VerdictItems(const Page& page, const JudgedTarget& judged) {
  std::vector<std::string> items;
  const Judgement& judgement = judged.judgement;
  if (judgement.fails_at) items.push_back(Escaped(page, FailureText(*judgement.fails_at)));
  for (const std::string& reason : judgement.reasons) items.push_back(Escaped(page, reason));
  return items;
}

// What would make it fit, as code that can be typed.
std::vector<std::string> AdviceItems(const Page& page, const JudgedTarget& judged) {
  std::vector<std::string> items;
  for (const Advice& advice : judged.advice) {
    if (advice.effect != Effect::kEnough) continue;
    items.push_back(fmt::format("{}: {}", Code(page, advice.flags), Escaped(page, advice.cost)));
  }
  return items;
}

// The answer to "does it fit?", where a card was named.
std::string VerdictsMarkdown(const Page& page) {
  std::string text;
  for (const JudgedTarget& judged : page.estimate.targets) {
    text += fmt::format("**{}** on {}: {}\n\n", VerdictWord(judged.judgement.verdict),
                        Code(page, judged.target.name), UsedText(judged.judgement, page.glyphs));
    if (page.options.quiet) continue;
    const std::vector<std::string> items = VerdictItems(page, judged);
    if (!items.empty()) text += MarkdownList(items) + '\n';
    const std::vector<std::string> advice = AdviceItems(page, judged);
    if (!advice.empty()) text += "It would fit with\n\n" + MarkdownList(advice) + '\n';
  }
  return text;
}

std::string ChangesLineMarkdown(const Page& page) {
  const std::string text = ChangesText(page.estimate);
  return text.empty() ? "" : fmt::format("\nwith {}\n", Escaped(page, text));
}

std::string BreakdownMarkdown(const Page& page) {
  const std::vector<BreakdownRow> rows = ShownBreakdown(page.estimate);
  if (rows.empty()) return "";
  const std::vector<std::string> shares = SharesOf(rows, page.estimate.device_bytes);
  MarkdownRows cells;
  for (size_t i = 0; i < rows.size(); ++i) {
    cells.push_back({Escaped(page, WithSpaces(rows[i].kind)), FormatBytes(rows[i].bytes), shares[i],
                     std::string(ToString(rows[i].basis)), RangeText(rows[i], page.glyphs.dash)});
  }
  cells.push_back(
      {"**total**", fmt::format("**{}**", FormatBytes(page.estimate.device_bytes)), "100.0%"});
  return MarkdownSection(
      BreakdownTitle(page.estimate),
      MarkdownTable({"kind", "bytes", "share", "basis", "range"}, "lrrll", cells));
}

std::string TotalsMarkdown(const Page& page) {
  const Estimate& estimate = page.estimate;
  std::string text = '\n' + NvidiaSmiText(estimate);
  const std::string trials = TrialsText(estimate);
  if (!trials.empty()) text += ' ' + trials;
  if (estimate.peak_step == 0) return text + '\n';
  text += fmt::format(" The peak is in step {}, {}", estimate.peak_step,
                      Escaped(page, estimate.peak_phase));
  if (!estimate.peak_node.empty()) text += ", at " + Code(page, estimate.peak_node);
  return text + ".\n";
}

std::string StepsMarkdown(const Page& page) {
  if (page.estimate.steps.empty()) return "";
  MarkdownRows rows = StepRows(page.estimate);
  const std::vector<std::string> header = rows[0];
  rows.erase(rows.begin());
  return MarkdownSection("Step by step",
                         MarkdownTable(header, std::string(header.size(), 'r'), rows));
}

std::string ModulesMarkdown(const Page& page) {
  const std::vector<ModuleSum>& modules = page.estimate.modules;
  MarkdownRows cells;
  for (const ModuleSum& sum : LargestModules(modules, page.options.rows)) {
    const double share = 100 * ShareOf(sum.bytes(), modules[0].bytes());
    cells.push_back({FormatBytes(sum.bytes()), fmt::format("{:.1f}%", share), Code(page, sum.path),
                     ModuleText(sum)});
  }
  if (cells.empty()) return "";
  return MarkdownSection("Largest modules at the peak",
                         MarkdownTable({"size", "share", "module", "of which"}, "rrll", cells));
}

// An operator's name as code, what else is said in words.
std::string InstantCell(const Page& page, const std::string& node, std::string_view words) {
  return node.empty() ? std::string(words) : Code(page, node);
}

std::string LargestMarkdown(const Page& page) {
  MarkdownRows cells;
  for (const TensorGroup& group : Groups(page.estimate.largest, page.options.rows)) {
    const LargeTensor& tensor = *group.tensor;
    cells.push_back({SizeText(group, page.glyphs.times), Code(page, ToString(tensor.type)),
                     Code(page, group.name), WithSpaces(ToString(tensor.kind)),
                     InstantCell(page, tensor.born, group.born),
                     InstantCell(page, tensor.dies, group.dies)});
  }
  if (cells.empty()) return "";
  return MarkdownSection(
      "Largest tensors at the peak",
      MarkdownTable({"bytes", "type", "name", "kind", "from", "to"}, "rlllll", cells));
}

std::string BulletsMarkdown(const Page& page, std::string_view title,
                            const std::vector<std::string>& texts) {
  std::vector<std::string> items;
  for (const std::string& text : texts) items.push_back(Escaped(page, text));
  return MarkdownSection(title, MarkdownList(items));
}

std::string WarningItems(const Page& page) {
  std::vector<std::string> items;
  for (const Warning& warning : page.estimate.warnings) {
    items.push_back(
        fmt::format("**{}** {}", Escaped(page, warning.code), Escaped(page, warning.text)));
  }
  return MarkdownSection("Warnings", MarkdownList(items));
}

std::string StepEventsMarkdown(const Page& page) {
  std::vector<std::string> items;
  for (const StepSummary& step : page.estimate.step_events) {
    items.push_back(fmt::format("step {}: {} allocations, {} frees, the largest {}, {}",
                                step.peak.step, step.allocations, step.frees,
                                FormatBytes(step.largest_bytes), Code(page, step.largest)));
  }
  return MarkdownSection("Events", MarkdownList(items));
}

std::string Why(const Page& page) {
  const std::string told = TrimLines(WhyText(page, *page.estimate.why));
  return '\n' + MarkdownBlock(told.substr(std::min(told.find_first_not_of('\n'), told.size())));
}

}  // namespace

std::string ToMarkdown(const Estimate& estimate, const TextOptions& options) {
  TextOptions plain = options;
  plain.color = false;
  const Page page = {estimate, plain, GlyphsOf(options)};
  const std::string verdicts = VerdictsMarkdown(page);
  if (options.quiet && !verdicts.empty()) return verdicts;
  std::string text = verdicts + HeadlineMarkdown(page);
  if (options.quiet) return text;
  text += ChangesLineMarkdown(page);
  if (estimate.why) {
    text += TotalsMarkdown(page) + Why(page);
  } else {
    text += BreakdownMarkdown(page) + TotalsMarkdown(page) + StepsMarkdown(page) +
            ModulesMarkdown(page) + LargestMarkdown(page) +
            BulletsMarkdown(page, "Assumptions", estimate.assumptions);
  }
  text += WarningItems(page);
  if (options.verbose) {
    text += BulletsMarkdown(page, "Details", DetailLines(estimate)) + StepEventsMarkdown(page) +
            BulletsMarkdown(page, "Notes", estimate.notes);
  }
  return text;
}

// What follows writes comma-separated values.
namespace {

using Fields = std::vector<std::string>;

// One run: what was asked, and the answer or the reason that there is none.
struct Run {
  std::string model;
  std::optional<int64_t> batch = {};
  std::map<std::string, int64_t> dims = {};
  const TrainingSettings* settings = nullptr;
  const Estimate* estimate = nullptr;  // null where there is none
  std::string error = {};
};

Run RunOf(const Estimate& estimate) {
  return {.model = estimate.model.path,
          .batch = estimate.batch,
          .dims = estimate.dims,
          .settings = &estimate.settings,
          .estimate = &estimate};
}

Run RunOf(const SweepAnswer& answer, const SweepRow& row) {
  if (row.estimate) return RunOf(*row.estimate);
  const EstimateRequest& request = row.request;
  return {.model = answer.model,
          .batch = request.binding.batch,
          .dims = request.binding.dims,
          .settings = &request.settings,
          .error = row.error};
}

// `like` has the dimensions, kinds and targets of all runs.
Fields Header(const Estimate& like) {
  Fields fields = {"model", "batch"};
  for (const auto& [name, size] : like.dims) fields.push_back("dim_" + name);
  for (const char* name : {"precision", "optimizer", "mode", "exact_bytes", "allocated_bytes",
                           "reserved_bytes", "device_bytes"}) {
    fields.emplace_back(name);
  }
  for (const BreakdownRow& row : like.breakdown) fields.push_back(row.kind + "_bytes");
  for (const JudgedTarget& judged : like.targets) {
    fields.push_back(judged.target.name + "_verdict");
    fields.push_back(judged.target.name + "_used_bytes");
  }
  fields.emplace_back("error");
  return fields;
}

// The figures of `estimate`, or as many empty fields.
void AddFigures(const Estimate& like, const Estimate* estimate, Fields& fields) {
  const size_t count = 4 + like.breakdown.size() + 2 * like.targets.size();
  if (estimate == nullptr) {
    fields.resize(fields.size() + count);
    return;
  }
  const Peak& peak = estimate->peak;
  for (const int64_t bytes :
       {peak.exact_bytes, peak.allocated_bytes, peak.reserved_bytes, estimate->device_bytes}) {
    fields.push_back(std::to_string(bytes));
  }
  for (const BreakdownRow& row : estimate->breakdown) fields.push_back(std::to_string(row.bytes));
  for (const JudgedTarget& judged : estimate->targets) {
    fields.emplace_back(ToString(judged.judgement.verdict));
    fields.push_back(std::to_string(judged.judgement.used_bytes));
  }
}

Fields Record(const Estimate& like, const Run& run) {
  Fields fields = {run.model, run.batch ? std::to_string(*run.batch) : ""};
  for (const auto& [name, size] : run.dims) fields.push_back(std::to_string(size));
  fields.emplace_back(ToString(run.settings->precision));
  fields.emplace_back(ToString(run.settings->optimizer));
  fields.emplace_back(ToString(run.settings->mode));
  AddFigures(like, run.estimate, fields);
  fields.push_back(run.error);
  return fields;
}

std::string Line(Fields fields, const CsvOptions& options) {
  for (std::string& field : fields) field = Clean(field, options.ascii);
  return CsvLine(fields);
}

// Step, phase and node.
void AddInstant(const std::optional<Instant>& instant, Fields& fields) {
  fields.push_back(instant ? std::to_string(instant->step) : "");
  fields.emplace_back(instant ? ToString(instant->phase) : "");
  fields.push_back(instant ? instant->node : "");
}

std::string WhyCsv(const WhyAnswer& why, const CsvOptions& options) {
  std::string text =
      CsvLine({"name", "dtype", "shape", "bytes", "block_bytes", "kind", "storage", "born_step",
               "born_phase", "born_node", "dies_step", "dies_phase", "dies_node", "at_peak"});
  for (size_t i = 0; i < std::min(options.rows, why.tensors.size()); ++i) {
    const TensorStory& story = why.tensors[i];
    Fields fields = {story.name,
                     std::string(Name(story.type.dtype)),
                     fmt::format("{}", fmt::join(story.type.dims, "x")),
                     std::to_string(story.bytes),
                     std::to_string(story.block_bytes),
                     std::string(ToString(story.kind)),
                     story.storage};
    AddInstant(story.born, fields);
    AddInstant(story.dies, fields);
    fields.emplace_back(story.at_peak ? "yes" : "no");
    text += Line(fields, options);
  }
  return text;
}

}  // namespace

std::string ToCsv(const Estimate& estimate, const CsvOptions& options) {
  if (estimate.why) return WhyCsv(*estimate.why, options);
  return Line(Header(estimate), options) + Line(Record(estimate, RunOf(estimate)), options);
}

std::string ToCsv(const SweepAnswer& answer, const CsvOptions& options) {
  const auto answered = std::find_if(answer.rows.begin(), answer.rows.end(),
                                     [](const SweepRow& row) { return row.estimate.has_value(); });
  const Estimate& like = *answered->estimate;
  std::string text = Line(Header(like), options);
  for (const SweepRow& row : answer.rows) text += Line(Record(like, RunOf(answer, row)), options);
  return text;
}

}  // namespace onnxfit
