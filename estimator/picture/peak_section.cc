#include <fmt/format.h>

#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/picture/html.h"
#include "estimator/picture/page_parts.h"
#include "estimator/report/estimate_parts.h"
#include "estimator/report/layout.h"

namespace onnxfit {
namespace {

std::string CellOf(std::string_view text, std::string_view kind = "") {
  return kind.empty() ? Element("td", {}, text) : Element("td", {{"class", kind}}, text);
}

std::string HeaderRow(std::initializer_list<std::string_view> names) {
  std::string cells;
  for (const std::string_view name : names) {
    const bool is_number = name == "size" || name == "share";
    cells += is_number ? Element("th", {{"scope", "col"}, {"class", "number"}}, name)
                       : Element("th", {{"scope", "col"}}, name);
  }
  return Element("thead", {}, Element("tr", {}, cells));
}

std::string BreakdownTable(const Estimate& estimate) {
  const std::vector<BreakdownRow> rows = ShownBreakdown(estimate);
  const std::vector<std::string> shares = SharesOf(rows, estimate.device_bytes);
  std::string body;
  for (size_t i = 0; i < rows.size(); ++i) {
    const double share = rows[0].bytes == 0 ? 0 : 100 * ShareOf(rows[i].bytes, rows[0].bytes);
    const std::string bar = Element("i",
                                    {{"class", "bar " + KindClass(rows[i].kind)},
                                     {"style", fmt::format("width:{:.1f}%", share)}},
                                    "");
    body += Element("tr", {},
                    Element("th", {{"scope", "row"}}, KindWords(rows[i].kind)) +
                        CellOf(FormatBytes(rows[i].bytes), "number") + CellOf(shares[i], "number") +
                        CellOf(bar, "bars") + CellOf(ToString(rows[i].basis)) +
                        CellOf(RangeText(rows[i], "–"))) +
            "\n";
  }
  body += Element("tr", {{"class", "total"}},
                  Element("th", {{"scope", "row"}}, "total") +
                      CellOf(FormatBytes(estimate.device_bytes), "number") +
                      CellOf("100.0%", "number") + CellOf("") + CellOf("") + CellOf(""));
  return Element("div", {{"class", "wide"}},
                 Element("table", {},
                         Element("caption", {}, HtmlText(BreakdownTitle(estimate))) +
                             HeaderRow({"kind", "size", "share", "", "basis", "range"}) +
                             Element("tbody", {}, body)));
}

// From when until when: operators, else phases.
std::string LifeOf(const TensorGroup& group) {
  const LargeTensor& tensor = *group.tensor;
  return fmt::format("{} → {}", tensor.born.empty() ? HtmlText(group.born) : HtmlCode(group.born),
                     tensor.dies.empty() ? HtmlText(group.dies) : HtmlCode(group.dies));
}

std::string TensorsTable(const Estimate& estimate) {
  std::string body;
  for (const TensorGroup& group : Groups(estimate.largest, kPageTensors)) {
    const LargeTensor& tensor = *group.tensor;
    body +=
        Element(
            "tr", {},
            CellOf(HtmlText(SizeText(group, "×")), "number") + CellOf(HtmlCode(group.name)) +
                CellOf(HtmlText(ToString(tensor.type)), "type") +
                CellOf(Element("i", {{"class", "dot " + KindClass(ToString(tensor.kind))}}, "") +
                           KindWords(ToString(tensor.kind)),
                       "kind") +
                CellOf(LifeOf(group))) +
        "\n";
  }
  return Element("div", {{"class", "wide"}},
                 Element("table", {},
                         Element("caption", {}, "Largest tensors at the peak") +
                             HeaderRow({"size", "tensor", "type", "kept as", "from → until"}) +
                             Element("tbody", {}, body)));
}

}  // namespace

std::string PeakSection(const Estimate& estimate) {
  return Section("peak", "What lives at the peak",
                 BreakdownTable(estimate) + ModuleMap(estimate) + TensorsTable(estimate));
}

}  // namespace onnxfit
