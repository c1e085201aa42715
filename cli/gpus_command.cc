#include "cli/gpus_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/exit_codes.h"
#include "cli/output.h"
#include "cli/values.h"
#include "estimator/base/card_filter.h"
#include "estimator/base/error.h"
#include "estimator/report/gpus_json.h"
#include "estimator/report/gpus_tables.h"
#include "estimator/report/gpus_text.h"

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

std::string ReportOf(const std::vector<const Card*>& cards, const Options& options,
                     const std::ostream& out) {
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

}  // namespace

int RunGpus(const Options& options, std::ostream& out) {
  CheckOutput(options, "", "");
  const std::vector<const Card*> cards = FilterCards(options.filters);
  if (cards.empty()) RefuseFilters(options.filters);
  WriteReport(ReportOf(cards, options, out), options, out);
  return kExitDone;
}

}  // namespace onnxfit
