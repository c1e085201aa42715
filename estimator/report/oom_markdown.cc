#include "estimator/report/oom_markdown.h"

#include <fmt/format.h>

#include "estimator/base/bytes.h"
#include "estimator/report/layout.h"
#include "estimator/report/markdown.h"
#include "estimator/report/oom_sentences.h"

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
  return MarkdownSection("The card: " + e.card_text,
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

}  // namespace onnxfit
