// What frameworks other than PyTorch count of their memory: read, judged and told.
#include <fmt/format.h>

#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/program_run.h"
#include "estimator/report/program_run_parts.h"

namespace onnxfit {
namespace {

std::optional<int64_t> NumberOrNone(const Json& value) {
  return value.is_number() ? std::optional<int64_t>(value) : std::nullopt;
}

FrameworkPool PoolOf(const Json& row) {
  return {.device = row.at("index"),
          .used_bytes = row.at("used_bytes"),
          .pool_bytes = NumberOrNone(row.at("pool_bytes")),
          .limit_bytes = NumberOrNone(row.at("limit_bytes")),
          .is_peak = row.at("is_peak")};
}

Json PoolJson(const FrameworkPool& pool) {
  Json json = {{"device", pool.device}, {"used_bytes", pool.used_bytes}, {"is_peak", pool.is_peak}};
  if (pool.pool_bytes) json["pool_bytes"] = *pool.pool_bytes;
  if (pool.limit_bytes) json["limit_bytes"] = *pool.limit_bytes;
  return json;
}

}  // namespace

std::string PoolName(const FrameworkCounts& counts, const FrameworkPool& pool,
                     const ProgramRun& run) {
  std::string name = "the run";
  if (run.frameworks.size() > 1) name = fmt::format("process {}", counts.pid);
  return counts.pools.size() > 1 ? fmt::format("{}, cuda:{}", name, pool.device) : name;
}

namespace {

std::string TableOf(const FrameworkCounts& counts, const ProgramRun& run) {
  const bool is_peak = counts.pools[0].is_peak;
  std::vector<std::vector<Cell>> rows = {{{fmt::format("{} {}", counts.name, counts.version)},
                                          {is_peak ? "used at most" : "used at its end"},
                                          {"its pool"}}};
  for (const FrameworkPool& pool : counts.pools) {
    rows.push_back({{"  " + PoolName(counts, pool, run)},
                    {FormatBytes(pool.used_bytes)},
                    {pool.pool_bytes ? FormatBytes(*pool.pool_bytes) : ""}});
  }
  return '\n' + Table(rows, "lrr", "");
}

std::string InAdvanceText(const FrameworkCounts& counts) {
  const FrameworkPool most = std::ranges::max(counts.pools, {}, &FrameworkPool::used_bytes);
  const std::string taken = most.pool_bytes ? FormatBytes(*most.pool_bytes) : "most of the card";
  return fmt::format(
      "{} takes {} in advance, whatever it needs: it used {} of that at most; {} has "
      "it take what it needs",
      counts.name, taken, FormatBytes(most.used_bytes), counts.in_advance);
}

bool RanOut(const FrameworkCounts& counts) { return counts.is_oom || !counts.failed.empty(); }

// Its first line; the others are the allocator's.
std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string RanOutText(const FrameworkCounts& counts) {
  const std::string how = counts.is_oom ? FirstLine(counts.exception)
                                        : fmt::format("a result that it never read is an error: {}",
                                                      FirstLine(counts.failed));
  return fmt::format("{} ran out of memory: {}", counts.name, how);
}

std::string LimitText(const FrameworkCounts& counts) {
  const auto most = std::ranges::max_element(counts.pools, {}, &FrameworkPool::used_bytes);
  if (!most->limit_bytes || counts.more.empty()) return "";
  return fmt::format("its pool may have {} of the card: {} lets it have more",
                     FormatBytes(*most->limit_bytes), counts.more);
}

}  // namespace

FrameworkCounts ReadFrameworkCounts(std::string_view json) {
  try {
    const Json read = Json::parse(json);
    FrameworkCounts counts = {.pid = read.at("pid"),
                              .name = read.at("framework"),
                              .version = read.at("version"),
                              .in_advance = read.at("in_advance"),
                              .more = read.at("more"),
                              .exception = read.at("exception"),
                              .is_oom = read.at("out_of_memory"),
                              .open = read.at("open"),
                              .failed = read.at("failed")};
    for (const Json& row : read.at("devices")) counts.pools.push_back(PoolOf(row));
    if (counts.pools.empty()) throw Error({.text = "a framework's counts: expected a card's"});
    return counts;
  } catch (const nlohmann::json::exception& error) {
    throw Error(
        {.text = fmt::format("what a framework's side of the run wrote: {}", error.what())});
  }
}

bool RanOutOfPool(const ProgramRun& run) {
  return std::ranges::any_of(run.frameworks, [&](const FrameworkCounts& counts) {
    return (counts.is_oom && run.exit_code != 0) || !counts.failed.empty();
  });
}

std::string PoolsTable(const ProgramRun& run) {
  std::string text;
  for (const FrameworkCounts& counts : run.frameworks) text += TableOf(counts, run);
  return text;
}

std::vector<std::string> PoolReasons(const ProgramRun& run) {
  std::vector<std::string> reasons;
  for (const FrameworkCounts& counts : run.frameworks) {
    if (RanOut(counts)) {
      reasons.push_back(RanOutText(counts));
      reasons.push_back(LimitText(counts));
    } else if (!counts.in_advance.empty()) {
      reasons.push_back(InAdvanceText(counts));
    }
  }
  std::erase(reasons, "");
  return reasons;
}

std::vector<std::string> PoolSentences(const ProgramRun& run) {
  std::vector<std::string> sentences;
  for (const FrameworkCounts& counts : run.frameworks) {
    for (const std::string& open : counts.open) {
      const std::string sentence = fmt::format("{}: {}", counts.name, open);
      if (std::ranges::find(sentences, sentence) == sentences.end()) sentences.push_back(sentence);
    }
  }
  return sentences;
}

Json PoolsJson(const ProgramRun& run) {
  Json rows = Json::array();
  for (const FrameworkCounts& counts : run.frameworks) {
    Json row = {{"pid", counts.pid}, {"name", counts.name}, {"version", counts.version}};
    PutIfKnown(row, "in_advance", counts.in_advance);
    PutIfKnown(row, "exception", counts.exception);
    if (!counts.exception.empty()) row["out_of_memory"] = counts.is_oom;
    PutIfKnown(row, "failed", counts.failed);
    if (!counts.open.empty()) row["open"] = counts.open;
    for (const FrameworkPool& pool : counts.pools) row["devices"].push_back(PoolJson(pool));
    rows.push_back(row);
  }
  return rows;
}

}  // namespace onnxfit
