// The sections that are tables and lists: advice, places, what was assumed.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/picture/html.h"
#include "estimator/picture/page_parts.h"

namespace onnxfit {
namespace {

constexpr size_t kMostPlaces = 2000;

std::string EffectOf(const Advice& advice) {
  if (advice.effect == Effect::kEnough) return "enough";
  return advice.effect == Effect::kSome ? "not enough alone" : "nothing";
}

std::string AdviceRow(const Advice& advice) {
  const std::string saved = advice.saved_bytes > 0 ? FormatBytes(advice.saved_bytes) : "";
  std::string why = HtmlText(advice.cost);
  if (!advice.why.empty()) why += (why.empty() ? "" : ". ") + HtmlText(advice.why);
  return Element("tr", {{"class", std::string(ToString(advice.effect))}},
                 Element("th", {{"scope", "row"}}, HtmlText(advice.change)) +
                     Element("td", {},
                             advice.flags.empty()
                                 ? ""
                                 : Element("code", {{"class", "flags"}}, HtmlText(advice.flags))) +
                     Element("td", {}, EffectOf(advice)) +
                     Element("td", {{"class", "number"}}, saved) + Element("td", {}, why)) +
         "\n";
}

std::string AdviceTable(const JudgedTarget& judged) {
  std::string body;
  for (const Advice& advice : judged.advice) body += AdviceRow(advice);
  const std::string header = Element("thead", {},
                                     "<tr><th scope=\"col\">change</th>"
                                     "<th scope=\"col\">flags</th><th scope=\"col\">is it enough"
                                     "</th><th scope=\"col\">saves</th>"
                                     "<th scope=\"col\">at what price</th></tr>");
  return Element("div", {{"class", "wide"}},
                 Element("table", {},
                         Element("caption", {}, "On " + HtmlText(judged.target.name)) + header +
                             Element("tbody", {}, body)));
}

std::string List(std::string_view title, const std::vector<std::string>& items) {
  if (items.empty()) return "";
  std::string text;
  for (const std::string& item : items) text += Element("li", {}, HtmlText(item)) + "\n";
  return Element("h3", {}, HtmlText(title)) + Element("ul", {}, text);
}

}  // namespace

std::string AdviceSection(const Estimate& estimate) {
  std::string tables;
  for (const JudgedTarget& judged : estimate.targets) {
    if (!judged.advice.empty()) tables += AdviceTable(judged);
  }
  return tables.empty() ? "" : Section("advice", "What would make it fit", tables);
}

std::string SearchField() {
  return "<p class=\"search\" hidden><label>Show those whose name has "
         "<input type=\"search\" id=\"search\"></label> <output id=\"found\"></output></p>";
}

std::string ScrolledTable(std::string_view label, std::string_view table) {
  return Element(
      "div", {{"class", "wide tall"}, {"tabindex", "0"}, {"role", "region"}, {"aria-label", label}},
      table);
}

std::string PlacesSection(const Estimate& estimate) {
  std::vector<Place> places = estimate.places;
  std::erase_if(places, [](const Place& place) { return place.bytes == 0; });
  std::ranges::stable_sort(places, std::ranges::greater(), &Place::bytes);
  const size_t count = std::min(places.size(), kMostPlaces);
  std::string body;
  for (size_t i = 0; i < count; ++i) {
    body += Element("tr", {},
                    fmt::format("<td class=\"number\" data-bytes=\"{}\">{}</td>", places[i].bytes,
                                FormatBytes(places[i].bytes)) +
                        Element("td", {}, HtmlText(places[i].op)) +
                        Element("td", {}, HtmlCode(places[i].name))) +
            "\n";
  }
  const std::string left_out =
      count < places.size()
          ? Element("p", {}, fmt::format("{} smaller ones are left out.", places.size() - count))
          : "";
  const std::string table =
      Element("table", {{"id", "places"}},
              "<thead><tr><th scope=\"col\" aria-sort=\"descending\">at the peak</th>"
              "<th scope=\"col\">what</th><th scope=\"col\">name</th></tr></thead>" +
                  Element("tbody", {}, body));
  return Section("nodes",
                 count < places.size()
                     ? fmt::format("The {} largest of nodes, parameters and inputs", count)
                     : fmt::format("All {} nodes, parameters and inputs at the peak", count),
                 SearchField() + ScrolledTable("nodes, parameters and inputs", table) + left_out);
}

std::string TrustSection(const Estimate& estimate) {
  std::vector<std::string> warnings;
  for (const Warning& warning : estimate.warnings) {
    warnings.push_back(warning.code + ": " + warning.text);
  }
  const std::string bases =
      "<p><b>exact</b> follows from the file; <b>modelled</b> from PyTorch's rules, played "
      "allocation by allocation; <b>measured</b> was seen on a card; <b>assumed</b> is a "
      "guess.</p>";
  return Section("trust", "How sure this is",
                 bases + List("Warnings", warnings) + List("Assumptions", estimate.assumptions));
}

}  // namespace onnxfit
