#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "estimator/base/bytes.h"
#include "estimator/picture/html.h"
#include "estimator/picture/page_parts.h"
#include "estimator/report/estimate_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

std::string MostText(const Estimate& estimate) {
  const std::vector<BreakdownRow> rows = ShownBreakdown(estimate);
  if (rows.empty()) return "";
  return fmt::format("Largest part: {}, {}, {} of {}.", KindWords(rows[0].kind),
                     FormatBytes(rows[0].bytes), SharesOf(rows, estimate.device_bytes)[0],
                     FormatBytes(estimate.device_bytes));
}

std::string PeakText(const Estimate& estimate) {
  if (estimate.peak_step == 0) return "";
  return fmt::format("The peak is in step {}, {}{}.", estimate.peak_step, estimate.peak_phase,
                     estimate.peak_node.empty() ? "" : ", at " + estimate.peak_node);
}

// Of the first card that the run does not fit.
std::string FirstThing(const Estimate& estimate) {
  for (const JudgedTarget& judged : estimate.targets) {
    for (const Advice& advice : judged.advice) {
      if (advice.effect != Effect::kEnough) continue;
      return fmt::format("To make it fit {}, first: {}{} ({}).", judged.target.name, advice.change,
                         advice.flags.empty() ? "" : ", " + advice.flags, advice.cost);
    }
  }
  return "";
}

std::string LargestModule(const Estimate& estimate) {
  const std::vector<ModuleSum> largest = LargestModules(estimate.modules, 1);
  if (largest.empty()) return "";
  const int64_t all = estimate.modules[0].bytes();
  std::string text =
      fmt::format("Largest module: {}, {}, {} of the tensors.", largest[0].path,
                  FormatBytes(largest[0].bytes()), PercentText(largest[0].bytes(), all));
  const int64_t outside = OwnOf(estimate.modules, 0).bytes();
  if (outside * 5 < all) return text;
  return text + fmt::format(" The loss and what else is outside of modules have {}.",
                            FormatBytes(outside));
}

// Of the batches that the page has, for cards that not all of them fit.
std::string BatchText(const PageContent& content, const Target& target, size_t place) {
  if (!content.batches) return "";
  int64_t largest = 0;
  bool fit_all = true;
  for (const SweepRow& row : content.batches->rows) {
    if (!row.estimate) continue;
    const bool fits = row.estimate->targets[place].judgement.verdict == Verdict::kFits;
    fit_all &= fits;
    if (fits) largest = std::max(largest, row.estimate->batch);
  }
  if (fit_all) return "";
  if (largest == 0) return fmt::format("None of the batches below fits {}.", target.name);
  return fmt::format("Of the batches below, {} is the largest that fits {} (max-batch finds all).",
                     largest, target.name);
}

std::string NoVerdict(const Estimate& estimate) {
  return estimate.targets.empty() ? "No card was named: --gpu NAME says whether it fits." : "";
}

}  // namespace

std::string VerdictCard(const JudgedTarget& judged, std::string_view was) {
  const Judgement& judgement = judged.judgement;
  const double share = std::min(100.0, 100 * judgement.share());
  std::string inner = Element("p", {},
                              Element("strong", {}, VerdictWord(judgement.verdict)) +
                                  HtmlText(fmt::format(" on {}: {}", judged.target.name,
                                                       UsedText(judgement, kUnicodeGlyphs)))) +
                      Element("div", {{"class", "meter"}, {"aria-hidden", "true"}},
                              Element("i", {{"style", fmt::format("width:{:.1f}%", share)}}, ""));
  if (!judged.target.unusable.empty()) {
    inner += Element("p", {}, HtmlText(judged.target.unusable));
  }
  if (judgement.fails_at) {
    inner += Element("p", {}, HtmlText(FailureText(*judgement.fails_at)));
  }
  if (!was.empty()) inner += Element("p", {}, HtmlText(fmt::format("Before: {}.", was)));
  for (const std::string& reason : judgement.reasons) inner += Element("p", {}, HtmlText(reason));
  return Element("div", {{"class", fmt::format("verdict {}", ToString(judgement.verdict))}},
                 inner) +
         "\n";
}

std::string KindClass(std::string_view kind) { return "k-" + std::string(kind); }

std::string KindWords(std::string_view kind) { return HtmlText(WithSpaces(kind)); }

std::string PercentText(int64_t bytes, int64_t total) {
  return fmt::format("{:.1f}%", 100 * ShareOf(bytes, total));
}

std::string HeadOfPage(const PageContent& content) {
  const Estimate& estimate = content.estimate;
  std::string_view name = estimate.model.path;
  name.remove_prefix(name.rfind('/') + 1);
  std::string text = Element("h1", {}, HtmlText(name)) +
                     Element("p", {{"class", "run"}}, HtmlText(SettingsText(estimate)));
  for (const JudgedTarget& judged : estimate.targets) text += VerdictCard(judged);
  std::vector<std::string> sentences = {MostText(estimate), PeakText(estimate),
                                        LargestModule(estimate), FirstThing(estimate)};
  for (size_t i = 0; i < estimate.targets.size(); ++i) {
    sentences.push_back(BatchText(content, estimate.targets[i].target, i));
  }
  sentences.push_back(NoVerdict(estimate));
  std::string told;
  for (const std::string& sentence : sentences) {
    if (!sentence.empty()) told += Element("li", {}, HtmlText(sentence));
  }
  return Element("header", {}, text + Element("ul", {{"class", "told"}}, told)) + "\n";
}

}  // namespace onnxfit
