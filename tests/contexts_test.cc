#include "estimator/base/contexts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/cards.h"
#include "estimator/base/device.h"

namespace onnxfit::contexts_test {
namespace {

const Card& Get(std::string_view alias) {
  const auto found =
      std::ranges::find_if(Cards(), [&](const Card& card) { return card.alias == alias; });
  REQUIRE_MESSAGE(found != Cards().end(), "no card ", alias);
  return *found;
}

ContextBytes Mib(int64_t bytes, int64_t low, int64_t high, Basis basis) {
  return {bytes * kMiB, low * kMiB, high * kMiB, basis};
}

bool Holds(const ContextBytes& range, int64_t bytes) {
  return range.low <= bytes && bytes <= range.high;
}

// A card of one multiprocessor, whose context nobody has seen, as the rule takes it.
DeviceProfile Device(int compute_capability, int64_t multiprocessors, int64_t threads) {
  return {.compute_capability = compute_capability,
          .multiprocessors = multiprocessors,
          .threads_per_multiprocessor = threads};
}

}  // namespace

TEST_CASE("every report is of a card of the table, with a source that can be looked up") {
  std::set<std::pair<std::string_view, int64_t>> rows;
  for (const ContextReport& report : ContextReports()) {
    CAPTURE(report.alias);
    CHECK(!Get(report.alias).shares_memory);
    CHECK(report.mib > 50);
    CHECK(report.mib < 1000);
    CHECK(report.source.find('/') != std::string_view::npos);
    CHECK(rows.insert({report.alias, report.mib}).second);
  }
}

TEST_CASE("a card's range is what was seen of its chip") {
  CHECK(Get("t4").device.context == Mib(136, 99, 141, Basis::kMeasured));
  CHECK(Get("rtx4090").device.context == Mib(495, 416, 522, Basis::kMeasured));
  CHECK(Get("gtx1080").device.context == Mib(137, 82, 137, Basis::kMeasured));
  const ContextBytes a100 = Mib(503, 409, 525, Basis::kMeasured);
  for (const char* alias : {"a100-40gb", "a100-80gb", "a100-80gb-pcie", "a800-80gb"}) {
    CHECK(Get(alias).device.context == a100);
  }
}

TEST_CASE("processes that ran nothing are the low end, never the middle") {
  CHECK(Get("rtx6000-ada").device.context.low == 426 * kMiB);
  CHECK(Get("rtx6000-ada").device.context.bytes == 507 * kMiB);  // of 429 and an L40's 507
}

TEST_CASE("of a chip with one report the range has that of the rule, too") {
  const Card& card = Get("p100");
  const ContextBytes rule = ContextByRule(card.device);
  CHECK(card.device.context.bytes == 303 * kMiB);
  CHECK(card.device.context.basis == Basis::kMeasured);
  CHECK(card.device.context.low == rule.low);
  CHECK(card.device.context.high == rule.high);
  CHECK(rule.low < 303 * kMiB);
  CHECK(rule.high > 303 * kMiB);
}

TEST_CASE("the rule scales by the threads that a card runs at once, the same kind first") {
  // Hopper: an H100 NVL's 676 MiB of 132 multiprocessors.
  CHECK(ContextByRule(Device(90, 66, 2048)).bytes == 375 * kMiB);
  // No report: the middle of those of cards with half to twice as many threads.
  const ContextBytes volta = ContextByRule(Device(70, 80, 2048));
  CHECK(volta.basis == Basis::kAssumed);
  CHECK(volta.bytes == 388 * kMiB);
  CHECK(Get("v100-32gb").device.context == volta);
}

TEST_CASE("cards beyond all that were seen are taken as the last of these") {
  CHECK(ContextByRule(Device(61, 1, 2048)) == ContextByRule(Device(61, 18, 2048)));
  CHECK(ContextByRule(Device(0, 304, 2048)) == ContextByRule(Device(0, 148, 2048)));
  CHECK(ContextByRule(Device(61, 18, 2048)).bytes < ContextByRule(Device(61, 30, 2048)).bytes);
}

TEST_CASE("the rule's range holds what was seen of every card") {
  for (const Card& card : Cards()) {
    const ContextBytes& context = card.device.context;
    if (context.basis != Basis::kMeasured) continue;
    CAPTURE(card.alias);
    CHECK(Holds(ContextByRule(card.device), context.bytes));
  }
}

TEST_CASE("the sources of a card's range are told once each") {
  CHECK(ContextEvidence(Get("gtx1080")) ==
        "BayraktarLab/cell2location#398, lllyasviel/Fooocus#2661");
  CHECK(ContextEvidence(Get("v100-32gb")).empty());
}

TEST_CASE("boards that share their memory have the runtime's libraries there, too") {
  for (const Card& card : Cards()) {
    if (card.shares_memory) CHECK(card.device.context == SharedRuntime());
  }
}

}  // namespace onnxfit::contexts_test
