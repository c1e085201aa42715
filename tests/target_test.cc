#include "estimator/fit/target.h"

#include <doctest/doctest.h>

#include <string>

#include "estimator/base/bytes.h"
#include "estimator/fit/verdict.h"
#include "tests/trace_writer.h"

namespace onnxfit::target_test {
namespace {

const Card* Get(std::string_view alias) {
  const Card* card = FindCard(alias);
  REQUIRE_MESSAGE(card != nullptr, "no card ", alias);
  return card;
}

std::string ErrorOf(const TargetRequest& request) {
  try {
    MakeTarget(request);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// "OF202 OF203"
std::string Codes(const Target& target) {
  std::string codes;
  for (const Warning& warning : target.warnings) {
    if (!codes.empty()) codes += ' ';
    codes += warning.code;
  }
  return codes;
}

}  // namespace

TEST_CASE("a card has its size and its context") {
  const Card* t4 = Get("t4");
  const Target target = MakeTarget({.card = t4});
  CHECK(target.name == "t4");
  CHECK(target.device.name == t4->device.name);
  CHECK(target.total_bytes == t4->total_bytes);
  CHECK(target.usable_bytes() == t4->total_bytes);
  CHECK(target.capacity_bytes() == t4->total_bytes - t4->device.context.bytes);
  CHECK(target.least_capacity_bytes() == t4->total_bytes - t4->device.context.high);
  CHECK(target.shares.empty());
  CHECK(Codes(target).empty());
}

TEST_CASE("a size alone is a card like the one that is assumed") {
  const Target target = MakeTarget({.memory_bytes = 8 * kGiB});
  const ContextBytes& context = DefaultDevice().context;
  CHECK(target.name == "8.00 GiB");
  CHECK(target.device.name == DefaultDevice().name);
  CHECK(target.capacity_bytes() == 8 * kGiB - context.bytes);
  CHECK(target.least_capacity_bytes() == 8 * kGiB - context.high);
  CHECK(target.warnings.empty());
}

TEST_CASE("a card of another size keeps its kernels and context") {
  const Card* unseen = Get("jetson-nano");
  const Target target = MakeTarget({.card = Get("t4"), .memory_bytes = 6 * kGiB});
  CHECK(target.name == "t4 with 6.00 GiB");
  CHECK(target.device.compute_capability == 75);
  CHECK(target.total_bytes == 6 * kGiB);
  CHECK(target.capacity_bytes() == 6 * kGiB - Get("t4")->device.context.bytes);
  CHECK(Codes(MakeTarget({.card = unseen, .memory_bytes = 4 * kGiB})) == "OF203");
}

TEST_CASE("an overhead takes the context's place, at both ends") {
  for (const int64_t bytes : {int64_t{0}, 300 * kMiB}) {
    CAPTURE(bytes);
    const Target target = MakeTarget({.card = Get("t4"), .overhead_bytes = bytes});
    CHECK(target.device.context == ContextBytes{bytes, bytes, bytes, Basis::kAssumed});
    CHECK(target.capacity_bytes() == Get("t4")->total_bytes - bytes);
    CHECK(target.least_capacity_bytes() == target.capacity_bytes());
  }
}

TEST_CASE("what is left free for others comes off first") {
  const Target target = MakeTarget(
      {.memory_bytes = 8 * kGiB, .overhead_bytes = 100 * kMiB, .reserved_for_others = kGiB});
  REQUIRE(target.shares.size() == 1);
  CHECK(target.shares[0].what == "other programs (--reserve)");
  CHECK(target.shares[0].bytes == kGiB);
  CHECK(target.usable_bytes() == 7 * kGiB);
  CHECK(target.capacity_bytes() == 7 * kGiB - 100 * kMiB);
  CHECK(target.least_capacity_bytes() == target.capacity_bytes());
}

TEST_CASE("on a board that shares its memory the system's and the runtime's shares come off") {
  const Card* nano = Get("jetson-nano");
  const Target target = MakeTarget({.card = nano, .reserved_for_others = 10 * kMiB});
  REQUIRE(target.shares.size() == 2);
  CHECK(target.shares[0].what == "operating system and desktop");
  CHECK(target.shares[0].bytes == 900'000'000);
  CHECK(target.shares[0].low == 300'000'000);
  CHECK(target.shares[0].high == 1'500'000'000);
  CHECK(target.shares[0].basis == Basis::kAssumed);
  const ContextBytes& runtime = nano->device.context;
  CHECK(runtime.basis == Basis::kAssumed);
  CHECK(target.usable_bytes() == nano->total_bytes - 900'000'000 - 10 * kMiB);
  CHECK(target.capacity_bytes() == target.usable_bytes() - runtime.bytes);
  CHECK(target.least_capacity_bytes() ==
        nano->total_bytes - 1'500'000'000 - 10 * kMiB - runtime.high);
  CHECK(Codes(target) == "OF203");
  CHECK(target.warnings[0].text ==
        "Jetson Nano 4GB shares its memory with the CPU: the operating system is taken as "
        "858.3 MiB, the runtime (libraries, kernels) as 1.40 GiB; swap holds no GPU memory");
}

TEST_CASE("every shared board says so, and every size that was not seen") {
  int shared = 0;
  int unseen = 0;
  for (const Card& card : Cards()) {
    CAPTURE(card.alias);
    const Target target = MakeTarget({.card = &card});
    std::string expected = card.total_source == TotalSource::kSeen ? "" : "OF202";
    if (card.shares_memory) expected += expected.empty() ? "OF203" : " OF203";
    if (card.slow_bytes > 0) expected += expected.empty() ? "OF205" : " OF205";
    if (card.without_ecc_bytes > 0) expected += expected.empty() ? "OF209" : " OF209";
    CHECK(Codes(target) == expected);
    CHECK(target.shares.size() == (card.shares_memory ? 1 : 0));
    shared += card.shares_memory ? 1 : 0;
    unseen += card.total_source != TotalSource::kSeen ? 1 : 0;
    if (card.total_source == TotalSource::kSeenWindows) {
      CHECK(target.warnings[0].text.find("Windows alone") != std::string::npos);
    }
  }
  CHECK(shared > 5);
  CHECK(unseen > 5);
}

TEST_CASE("a size that leaves nothing is refused: what there is and what is needed") {
  CHECK(ErrorOf({.memory_bytes = 100 * kMiB, .overhead_bytes = 100 * kMiB}) ==
        "100.0 MiB: expected more than the 100.0 MiB that the context takes, found 100.0 MiB (try: "
        "--overhead SIZE)");
  CHECK(ErrorOf({.memory_bytes = 100 * kMiB + 1, .overhead_bytes = 100 * kMiB}).empty());
  CHECK(ErrorOf({.memory_bytes = 100 * kMiB,
                 .overhead_bytes = 60 * kMiB,
                 .reserved_for_others = 50 * kMiB}) ==
        "100.0 MiB: expected more than the 110.0 MiB that the context and others take, found "
        "100.0 MiB (try: a smaller --reserve)");
  CHECK(ErrorOf({.card = Get("t4"), .memory_bytes = 64 * kMiB}).find("t4 with 64.0 MiB: ") == 0);
  CHECK(ErrorOf({.card = Get("t4"), .reserved_for_others = 16 * kGiB}).find("t4: ") == 0);
  CHECK(!ErrorOf({.card = Get("t4"), .overhead_bytes = 16 * kGiB}).empty());
  CHECK(!ErrorOf({.memory_bytes = 0, .overhead_bytes = 0}).empty());
}

// The system and the runtime alone take more than its 2 GB.
TEST_CASE("a card of the table that is too small for anything is an answer") {
  const Target target = MakeTarget({.card = Get("jetson-nano-2gb")});
  CHECK(target.capacity_bytes() < 0);
  TraceWriter writer;
  writer.Enter(0, Phase::kSetup).Alloc("w", 4, Kind::kParameter);
  for (int step = 1; step <= kVerdictSteps; ++step) writer.Enter(step, Phase::kForward);
  const Loop loop = ReadLoop(writer.trace());
  const PlayableRun run = {&writer.trace(), &loop, BytesOf(writer.trace()), {}, 0, true};
  const Judgement judgement = Judge(run, target);
  CHECK(judgement.verdict == Verdict::kOom);
  CHECK(judgement.processes == 0);
  CHECK(judgement.used_bytes > judgement.usable_bytes);
  REQUIRE(judgement.fails_at.has_value());
  CHECK(judgement.fails_at->step == 0);
  CHECK(judgement.fails_at->asked_bytes == 4);
}

}  // namespace onnxfit::target_test
