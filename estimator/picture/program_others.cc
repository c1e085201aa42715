// The sections of a program's page about what PyTorch does not count: other frameworks, engines
// that serve, and the machine's own memory.
#include <fmt/format.h>

#include "estimator/base/bytes.h"
#include "estimator/picture/html.h"
#include "estimator/picture/page_parts.h"
#include "estimator/picture/program_page_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/program_run_parts.h"

namespace onnxfit {
namespace {

std::string RowOf(std::string_view name, const std::string& cells) {
  return Element("tr", {}, Element("th", {{"scope", "row"}}, HtmlText(name)) + cells) + "\n";
}

std::string BytesOrNone(std::optional<int64_t> bytes) {
  return bytes ? BytesCellOf(*bytes) : HtmlCell("");
}

std::string PoolsTable(const FrameworkCounts& counts, const ProgramRun& run) {
  std::string body;
  for (const FrameworkPool& pool : counts.pools) {
    body += RowOf(PoolName(counts, pool, run), BytesCellOf(pool.used_bytes) +
                                                   BytesOrNone(pool.pool_bytes) +
                                                   BytesOrNone(pool.limit_bytes));
  }
  const bool is_peak = counts.pools[0].is_peak;
  return Element("h3", {}, HtmlText(fmt::format("{} {}", counts.name, counts.version))) +
         HtmlTable({"", is_peak ? "#used at most" : "#used at its end", "#its pool", "#may have"},
                   body);
}

}  // namespace

std::string FrameworksSection(const ProgramRun& run) {
  if (run.frameworks.empty()) return "";
  std::string text = SentenceList(PoolReasons(run));
  for (const FrameworkCounts& counts : run.frameworks) text += PoolsTable(counts, run);
  return Section("frameworks", "What frameworks count themselves", text);
}

std::string EngineSection(const ProgramRun& run) {
  if (!run.engine) return "";
  std::string body;
  for (const EngineShare& share : EngineShares(*run.engine)) {
    body += RowOf(share.what, BytesCellOf(share.bytes));
  }
  const std::string table = body.empty() ? "" : HtmlTable({"", "#bytes"}, body);
  return Section("engine", EngineTitle(*run.engine),
                 table + SentenceList(EngineSentences(*run.engine)));
}

std::string HostSection(const ProgramRun& run) {
  const std::string text = HostText(run.host);
  std::vector<std::string> sentences;
  for (const std::string& sentence : {text, HostReason(run, kUnicodeGlyphs)}) {
    if (!sentence.empty()) sentences.push_back(sentence);
  }
  return sentences.empty() ? "" : Section("host", "RAM of the host", SentenceList(sentences));
}

}  // namespace onnxfit
