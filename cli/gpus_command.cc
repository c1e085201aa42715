#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/values.h"
#include "estimator/base/card_names.h"
#include "estimator/base/cloud_instances.h"
#include "estimator/base/error.h"
#include "estimator/base/slices.h"
#include "estimator/cuda/find_gpus.h"
#include "estimator/fit/target.h"
#include "estimator/report/gpus.h"

namespace onnxfit {
namespace {

// " (did you mean 'a' or 'b'?)" of the cards that come near.
std::string MeantCards(const std::string& filter) {
  if (IsAboutSize(filter)) return "";
  std::vector<std::string> names;
  for (const std::string_view alias : SuggestCards(filter)) names.push_back(Quoted(alias));
  const std::vector<std::string_view> views(names.begin(), names.end());
  return names.empty() ? "" : fmt::format(" (did you mean {}?)", OneOf(views));
}

// Of the first filter that nothing matches, or of all where each alone has a match.
[[noreturn]] void RefuseFilters(const std::vector<std::string>& filters) {
  for (const std::string& filter : filters) {
    if (!FilterCards({&filter, 1}).empty()) continue;
    const std::string meant = MeantCards(filter);
    throw Error({.text = fmt::format("no card matches {}{}", Quoted(filter), meant),
                 .hint = meant.empty() ? "onnxfit gpus" : ""});
  }
  std::vector<std::string> all;
  for (const std::string& filter : filters) all.push_back(Quoted(filter));
  throw Error({.text = fmt::format("no card matches {} at once", fmt::join(all, " and ")),
               .hint = "onnxfit gpus"});
}

// Of cards of the table, or of this machine.
template <typename Cards>
std::string CardsReport(const Cards& cards, const Options& options, const std::ostream& out) {
  switch (options.format) {
    case Format::kText:
      return ToText(cards, WithColor(options, out));
    case Format::kJson:
      return ToJson(cards);
    case Format::kMarkdown:
      return ToMarkdown(cards);
    case Format::kCsv:
      return ToCsv(cards);
  }
  return "";
}

// A card that cannot be used is shown, too.
int RunDetect(const Options& options, std::ostream& out) {
  if (!options.filters.empty()) {
    throw Error({.where = "--detect",
                 .text = fmt::format("expected no filter, found {}", Quoted(options.filters[0]))});
  }
  GpuSearch search = FindGpus();
  if (search.gpus.empty()) throw NoGpuError(search.why_none);
  std::vector<CardAtHand> cards;
  for (DetectedGpu& gpu : search.gpus) cards.push_back(LookUp(std::move(gpu)));
  WriteReport(CardsReport(cards, options, out), options, out);
  const auto is_usable = [](const CardAtHand& card) { return card.target.has_value(); };
  return std::any_of(cards.begin(), cards.end(), is_usable) ? kExitDone : kExitNoGpu;
}

// The machines that the filters name, by cloud or by name.
std::vector<const CloudInstances*> MachinesOf(const std::vector<std::string>& filters) {
  std::vector<const CloudInstances*> machines;
  for (const std::string& filter : filters) {
    for (const CloudInstances* row : CloudInstancesOf(filter)) machines.push_back(row);
  }
  return machines;
}

}  // namespace

int RunGpus(const Options& options, std::ostream& out) {
  CheckOutput(options, "", "");
  if (options.detect) return RunDetect(options, out);
  std::vector<const Card*> cards = FilterCards(options.filters);
  if (cards.empty()) RefuseFilters(options.filters);
  if (cards.size() == 1) {  // of many it would be a flood
    for (const Card* slice : SlicesOf(cards[0]->alias)) cards.push_back(slice);
  }
  std::string report = CardsReport(cards, options, out);
  if (options.format == Format::kText) {
    report += ToText(MachinesOf(options.filters), WithColor(options, out));
  }
  WriteReport(report, options, out);
  return kExitDone;
}

}  // namespace onnxfit
