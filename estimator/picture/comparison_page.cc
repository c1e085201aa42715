#include "estimator/picture/comparison_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/picture/html.h"
#include "estimator/picture/page.h"
#include "estimator/picture/page_parts.h"
#include "estimator/report/diff.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

std::string_view FileName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string_view ClassOf(int64_t increase) {
  return increase > 0 ? "number more" : increase < 0 ? "number less" : "number";
}

std::string ChangeCell(int64_t increase) {
  return Element("td", {{"class", ClassOf(increase)}, {"data-bytes", std::to_string(increase)}},
                 increase == 0 ? "same" : SignedBytes(increase));
}

std::string BytesCell(int64_t bytes) {
  return Element("td", {{"class", "number"}}, bytes == 0 ? "" : FormatBytes(bytes));
}

// --- What is said first -------------------------------------------------------------------------

std::string MostText(const Comparison& comparison) {
  const MostChanged most = MostChangedOf(comparison);
  if (most.where.empty()) return "";
  return fmt::format("Most {}: {}.", most.where, SignedBytes(most.increase));
}

std::vector<std::string> Told(const Diff& diff) {
  std::vector<std::string> told = {Sentence(ChangeText(diff.comparison)), MostText(diff.comparison),
                                   Sentence(MovedText(diff.comparison)), Sentence(TakenText(diff))};
  for (const ChangedSetting& setting : diff.comparison.settings) {
    told.push_back(Sentence(SettingText(setting)));
  }
  std::erase(told, "");
  return told;
}

std::string Head(const ComparisonContent& content) {
  const Comparison& comparison = content.diff.comparison;
  std::string text = Element("h1", {},
                             HtmlText(FileName(comparison.before.model)) + " → " +
                                 HtmlText(FileName(comparison.after.model)));
  if (content.after) {
    text += Element("p", {{"class", "run"}}, HtmlText(SettingsText(*content.after)));
  }
  for (size_t i = 0; i < content.diff.after.size(); ++i) {
    text +=
        VerdictCard(content.diff.after[i], VerdictWord(content.diff.before[i].judgement.verdict));
  }
  std::string items;
  for (const std::string& sentence : Told(content.diff)) {
    items += Element("li", {}, HtmlText(sentence));
  }
  return Element("header", {}, text + Element("ul", {{"class", "told"}}, items)) + "\n";
}

// --- What follows it ----------------------------------------------------------------------------

std::string KindRow(std::string_view name, int64_t before, int64_t after, bool is_total) {
  const std::string cells = Element("th", {{"scope", "row"}}, name) + BytesCell(before) +
                            BytesCell(after) + ChangeCell(after - before);
  return (is_total ? Element("tr", {{"class", "total"}}, cells) : Element("tr", {}, cells)) + "\n";
}

std::string KindSection(const Comparison& comparison) {
  std::string body;
  for (const ChangedKind& kind : comparison.kinds) {
    if (kind.old_bytes == 0 && kind.new_bytes == 0) continue;
    body += KindRow(KindWords(kind.kind), kind.old_bytes, kind.new_bytes, false);
  }
  body +=
      KindRow("on the device", comparison.before.device_bytes, comparison.after.device_bytes, true);
  constexpr std::string_view kHeader =
      "<thead><tr><th scope=\"col\">kind</th><th scope=\"col\" class=\"number\">before</th>"
      "<th scope=\"col\" class=\"number\">after</th><th scope=\"col\" class=\"number\">change</th>"
      "</tr></thead>";
  return Section("kinds", "By kind, at the peak",
                 Element("div", {{"class", "wide"}},
                         Element("table", {}, std::string(kHeader) + Element("tbody", {}, body))));
}

std::string PlaceRow(const ChangedPlaces& places) {
  return Element("tr", {},
                 ChangeCell(places.increase()) + Element("td", {}, ToString(places.change)) +
                     BytesCell(places.old_bytes) + BytesCell(places.new_bytes) +
                     Element("td", {}, HtmlText(places.op)) +
                     Element("td", {}, HtmlCode(NameOf(places)))) +
         "\n";
}

// What has changed, in the order of the comparison; to be sorted and searched by the page's script.
std::string ChangesTable(const Comparison& comparison) {
  const std::vector<ChangedPlaces>& places = comparison.places;
  std::string body;
  for (size_t i = 0; i < std::min(places.size(), kPageChanges); ++i) body += PlaceRow(places[i]);
  const std::string header =
      Element(
          "th",
          {{"scope", "col"}, {"aria-sort", comparison.increase() < 0 ? "ascending" : "descending"}},
          "change") +
      "<th scope=\"col\">how</th><th scope=\"col\">before</th>"
      "<th scope=\"col\">after</th><th scope=\"col\">what</th>"
      "<th scope=\"col\">name</th>";
  return Element("table", {{"id", "places"}},
                 Element("thead", {}, Element("tr", {}, header)) + Element("tbody", {}, body));
}

std::string ChangesSection(const Comparison& comparison) {
  if (!comparison.has_places) {
    return Section("nodes", "By node", "<p>One side is a report that does not have its nodes.</p>");
  }
  if (comparison.places.empty()) {
    return Section("nodes", "By node", "<p>All nodes, parameters and inputs are as before.</p>");
  }
  const std::string left_out = comparison.places.size() > kPageChanges
                                   ? Element("p", {},
                                             fmt::format("{} smaller ones are left out.",
                                                         comparison.places.size() - kPageChanges))
                                   : "";
  return Section(
      "nodes", "Nodes, parameters and inputs that changed",
      SearchField() + ScrolledTable("what changed", ChangesTable(comparison)) + left_out);
}

std::string Curves(const ComparisonContent& content) {
  const auto has_curve = [](const std::optional<Estimate>& estimate) {
    return estimate && estimate->curve && !estimate->curve->curve.points.empty();
  };
  if (!has_curve(content.after)) return "";
  return CurveSection(*content.after, has_curve(content.before) ? &*content.before : nullptr);
}

// --- The same for programs ----------------------------------------------------------------------

Json DataOf(const ComparisonContent& content) {
  const JsonOptions options = {.version = content.version, .rows = kPageTensors};
  Json data = DiffJson(content.diff, options);
  if (content.before) data["before"] = EstimateJson(*content.before, options);
  if (!content.after) return data;
  data["after"] = EstimateJson(*content.after, options);
  if (data["after"].contains("curve")) data["curve"] = data["after"]["curve"];
  return data;
}

}  // namespace

std::string ToHtml(const ComparisonContent& content) {
  const Comparison& comparison = content.diff.comparison;
  const std::string main = Curves(content) + KindSection(comparison) + ChangesSection(comparison) +
                           (content.after ? TrustSection(*content.after) : "");
  return WholePage({.title = fmt::format("{}: what grew", FileName(comparison.after.model)),
                    .body = Head(content) + Element("main", {}, "\n" + main),
                    .footer = fmt::format("onnxfit {}", content.version),
                    .data = DataOf(content).dump(-1, ' ', false, Json::error_handler_t::replace)});
}

}  // namespace onnxfit
