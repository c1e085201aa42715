// RAM of the machine that a program runs on: told, and whether it suffices.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "estimator/base/bytes.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/program_run.h"
#include "estimator/report/program_run_parts.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

constexpr int64_t kToldRam = 64 * kMiB;  // less is on every machine
constexpr int64_t kPartLeft = 20;        // a twentieth is left for what nobody sees

// "t4 has room: 6.36 GiB of 14.6 GiB, 43.6% (6.33–6.39 GiB)"
std::string CardsText(const ProgramRun& run, const Glyphs& glyphs) {
  std::vector<std::string> cards;
  for (const JudgedTarget& judged : run.cards) {
    cards.push_back(
        fmt::format("{} has room: {}", judged.target.name, UsedText(judged.judgement, glyphs)));
  }
  return fmt::format("{}", fmt::join(cards, "; "));
}

}  // namespace

Verdict HostVerdict(const HostPeak& host) {
  if (host.limit_bytes == 0) return Verdict::kFits;
  if (host.least_bytes() > host.limit_bytes) return Verdict::kOom;
  const int64_t left = host.limit_bytes - host.most_bytes();
  return left < host.limit_bytes / kPartLeft ? Verdict::kTight : Verdict::kFits;
}

std::string HostText(const HostPeak& host) {
  if (host.bytes < kToldRam && host.limit_bytes == 0) return "";
  std::string text = fmt::format("RAM of the host, at most {}", FormatBytes(host.bytes));
  if (host.limit_bytes > 0) text += fmt::format(" of {}", FormatBytes(host.limit_bytes));
  text +=
      fmt::format(" in {}", Counted(static_cast<size_t>(host.processes), "process", "processes"));
  if (host.pinned_bytes > 0) text += fmt::format("; {} pinned", FormatBytes(host.pinned_bytes));
  return text;
}

std::string HostReason(const ProgramRun& run, const Glyphs& glyphs) {
  const HostPeak& host = run.host;
  if (host.verdict == Verdict::kOom) {
    return fmt::format("RAM of the host has no room for it, {} asked of {}; {}",
                       FormatBytes(host.least_bytes()), FormatBytes(host.limit_bytes),
                       CardsText(run, glyphs));
  }
  if (host.verdict != Verdict::kTight) return "";
  const std::string pinned = host.most_bytes() > host.bytes ? ", pinned memory beside it" : "";
  return fmt::format(
      "RAM of the host: up to {} of {}{}, which leaves less than 5% for the driver, CUDA's "
      "libraries and what else runs there",
      FormatBytes(host.most_bytes()), FormatBytes(host.limit_bytes), pinned);
}

std::string ManagedText(const HostPeak& host) {
  if (host.managed_bytes == 0) return "";
  return fmt::format(
      "{} of managed memory (cudaMallocManaged), counted neither on a card nor in RAM: it lies on "
      "the card where it has room beside all else, in RAM where not",
      FormatBytes(host.managed_bytes));
}

Json HostJson(const HostPeak& host) {
  Json json = {{"pinned_bytes", host.pinned_bytes}, {"managed_bytes", host.managed_bytes}};
  if (host.processes > 0) {
    json["bytes"] = host.bytes;
    json["processes"] = host.processes;
  }
  if (host.limit_bytes == 0) return json;
  json["limit_bytes"] = host.limit_bytes;
  json["least_bytes"] = host.least_bytes();
  json["most_bytes"] = host.most_bytes();
  json["verdict"] = ToString(host.verdict);
  return json;
}

}  // namespace onnxfit
