#include "estimator/picture/page.h"

#include <fmt/format.h>

#include "estimator/picture/html.h"
#include "estimator/picture/page_parts.h"
#include "estimator/report/estimate.h"
#include "estimator/report/json_parts.h"

namespace onnxfit {
namespace {

// JSON that stands in an element of script: nothing in it may end that.
std::string ForScript(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

Json BatchesJson(const SweepAnswer& answer) {
  Json rows = Json::array();
  for (const SweepRow& row : answer.rows) {
    if (!row.estimate) continue;
    Json object = {{"batch", row.estimate->batch},
                   {"allocated_bytes", row.estimate->peak.allocated_bytes},
                   {"reserved_bytes", row.estimate->peak.reserved_bytes},
                   {"device_bytes", row.estimate->device_bytes}};
    for (const JudgedTarget& judged : row.estimate->targets) {
      object["targets"].push_back(TargetJson(judged));
    }
    rows.push_back(std::move(object));
  }
  return rows;
}

Json DataOf(const PageContent& content) {
  Json data = EstimateJson(content.estimate, {.version = content.version, .rows = kPageTensors});
  if (content.batches) data["batches"] = BatchesJson(*content.batches);
  return data;
}

std::string TitleOf(const Estimate& estimate) {
  return fmt::format("{}: memory of {} step", estimate.model.path,
                     estimate.settings.mode == Mode::kTrain ? "a training" : "an inference");
}

std::string Main(const PageContent& content) {
  const Estimate& estimate = content.estimate;
  return HeadOfPage(content) +
         Element("main", {},
                 "\n" + CurveSection(estimate) + AdviceSection(estimate) + PeakSection(estimate) +
                     BatchSection(content) + PlacesSection(estimate) + TrustSection(estimate));
}

}  // namespace

std::string ToHtml(const PageContent& content) {
  return WholePage({.title = TitleOf(content.estimate),
                    .body = Main(content),
                    .footer = fmt::format("onnxfit {}, {}", content.version,
                                          content.estimate.settings.framework.name),
                    .data = DataOf(content).dump(-1, ' ', false, Json::error_handler_t::replace)});
}

std::string WholePage(const PageParts& parts) {
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n" +
         Element("title", {}, HtmlText(parts.title)) + "\n" + Element("style", {}, PageStyle()) +
         "\n</head>\n<body>\n" + parts.body + "\n" + Element("footer", {}, HtmlText(parts.footer)) +
         "\n" + "<script type=\"application/json\" id=\"data\">" + ForScript(parts.data) +
         "</script>\n" + Element("script", {}, PageScript()) + "\n</body>\n</html>\n";
}

}  // namespace onnxfit
