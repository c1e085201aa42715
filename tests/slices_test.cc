#include "estimator/base/slices.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/card_names.h"
#include "estimator/fit/target.h"
#include "tests/paths.h"
#include "tests/run_command.h"

namespace onnxfit::slices_test {
namespace {

const std::string kModel = std::string(kSourceDir) + "/models/resnet18.train.onnx";

const Card& Get(std::string_view typed) {
  const Card* card = FindCard(typed);
  REQUIRE_MESSAGE(card != nullptr, "no card ", typed);
  return *card;
}

std::string Found(std::string_view typed) {
  const Card* card = FindCard(typed);
  return card == nullptr ? "" : std::string(card->alias);
}

std::string Joined(const std::vector<std::string_view>& aliases) {
  std::string text;
  for (const std::string_view alias : aliases) {
    text += text.empty() ? "" : " ";
    text += alias;
  }
  return text;
}

std::string Matching(const std::vector<std::string>& filters) {
  std::vector<std::string_view> aliases;
  for (const Card* card : FilterCards(filters)) aliases.push_back(card->alias);
  return Joined(aliases);
}

bool Holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("every slice is a smaller part of a card of the table") {
  std::set<std::string_view> aliases;
  CHECK(Slices().size() > 40);
  for (const Card& slice : Slices()) {
    CAPTURE(slice.alias);
    const Card& whole = Get(slice.slice_of);
    CHECK(aliases.insert(slice.alias).second);
    CHECK(slice.alias.starts_with(whole.alias));
    CHECK(whole.slice_of.empty());
    CHECK(slice.total_bytes <= slice.sold_bytes);
    CHECK(slice.total_bytes > slice.sold_bytes * 83 / 100);  // an early GB200's 20 of 24 GiB
    // Two listings of one H100, by different drivers, differ by 70 MiB.
    const bool is_seen = whole.total_source == TotalSource::kSeen;
    if (is_seen) CHECK(slice.total_bytes <= whole.total_bytes + 128 * kMiB);
    CHECK(slice.total_bytes % (kGiB / 16) == 0);
    CHECK(slice.device.multiprocessors <= whole.device.multiprocessors);
    CHECK(slice.device.compute_capability == whole.device.compute_capability);
    CHECK(slice.device.context.basis == Basis::kAssumed);
    CHECK(slice.device.context.low <= slice.device.context.bytes);
    CHECK(slice.device.context.high >= whole.device.context.high);
    CHECK(Found(slice.alias) == slice.alias);
    CHECK(Found(slice.device.name) == slice.alias);
  }
}

TEST_CASE("a slice has what nvidia-smi lists of it") {
  const Card& smallest = Get("a100-40gb:1g.5gb");
  CHECK(smallest.device.name == "A100-SXM4-40GB MIG 1g.5gb");
  CHECK(smallest.total_bytes == 19 * kGiB / 4);  // "a total capacity of 4.75 GiB"
  CHECK(smallest.total_source == TotalSource::kSeen);
  CHECK(smallest.device.multiprocessors == 14);
  CHECK(smallest.device.threads_per_multiprocessor == 2048);
  CHECK(Get("h200:3g.71gb").device.multiprocessors == 60);
  CHECK(Get("h200:3g.71gb").total_bytes == 139 * kGiB / 2);
  CHECK(Get("rtxpro6000:2g.48gb").device.threads_per_multiprocessor == 1536);
  CHECK(Get("h100:1g.10gb").total_bytes == 39 * kGiB / 4);
  CHECK(Get("a100-80gb:1g.10gb").total_bytes == 19 * kGiB / 2);  // an A100's is another
  CHECK(Get("a100-80gb:1g.10gb").total_source == TotalSource::kNvidiaSmi);
}

TEST_CASE("kernels are as large on a slice, what each thread has is not") {
  // Of an A100 503 MiB, 89 more than a process has that ran nothing; 14 of 108 multiprocessors.
  const ContextBytes& context = Get("a100-40gb:1g.5gb").device.context;
  CHECK(context.bytes == (414 * 14 / 108 + 89) * kMiB);
  CHECK(context.low == 409 * 14 / 108 * kMiB);
  CHECK(context.high == 525 * kMiB);
  // Of an RTX PRO 6000 nobody has both.
  const ContextBytes& whole = Get("rtxpro6000").device.context;
  CHECK(Get("rtxpro6000:2g.48gb").device.context.bytes == whole.bytes / kMiB * 94 / 188 * kMiB);
}

TEST_CASE("a slice is found by what people and CUDA call it") {
  struct Case {
    const char* typed;
    const char* alias;
  };
  constexpr Case kCases[] = {
      {"a100-40gb:1g.5gb", "a100-40gb:1g.5gb"},
      {"A100-40GB:1G.5GB", "a100-40gb:1g.5gb"},
      {"NVIDIA A100-SXM4-40GB MIG 1g.5gb", "a100-40gb:1g.5gb"},
      {"NVIDIA A100 80GB PCIe MIG 2g.20gb", "a100-80gb-pcie:2g.20gb"},
      {"NVIDIA H100 80GB HBM3 MIG 2g.20gb", "h100:2g.20gb"},
      {"NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 2g.48gb", "rtxpro6000:2g.48gb"},
      {"a100 1g.5gb", "a100-40gb:1g.5gb"},  // of one A100 alone
      {"a100/mig-1g.5gb", "a100-40gb:1g.5gb"},
      {"mig-1g.5gb", "a100-40gb:1g.5gb"},
      {"1g.5gb+me", "a100-40gb:1g.5gb"},
      {"2g.35gb", "h200:2g.35gb"},
      {"h100:1g.10gb", "h100:1g.10gb"},
      {"h100:1g.10gb+me", "h100:1g.10gb"},
      {"b200:1g.23gb", "b200:1g.23gb"},
      {"a30:1g.6gb", "a30:1g.6gb"},
      {"1g.10gb", ""},       // of an A100, either size, or of an H100
      {"a100:1g.10gb", ""},  // of either size
      {"a100-40gb:3g.40gb", ""},
      {"t4:1g.5gb", ""},   // a T4 has no slices
      {"1c.2g.10gb", ""},  // a part of a slice, which shares its memory
      {"a100-40gb:1g", ""},
      {"a100-40gb:1g.5gbx", ""},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.typed);
    CHECK(Found(c.typed) == c.alias);
  }
}

TEST_CASE("a slice that a card does not have lists those that it has") {
  CHECK(Joined(SuggestCards("a30:1g.5gb")) == "a30:1g.6gb a30:2g.12gb a30:4g.24gb");
  CHECK(Joined(SuggestCards("a100:1g.10gb")) ==
        "a100-40gb:1g.10gb a100-80gb:1g.10gb a100-80gb-pcie:1g.10gb");
  CHECK(Joined(SuggestCards("t4:1g.6gb")) == "a30:1g.6gb");
  CHECK(Joined(SuggestCards("9g.99gb")) == "");
  const CommandResult result = RunCommand({kModel, "--gpu", "a30:1g.5gb"});
  CHECK(result.code == 2);
  CHECK(
      result.err ==
      "error: --gpu: expected a card, found 'a30:1g.5gb' (did you mean a30:1g.6gb, a30:2g.12gb or "
      "a30:4g.24gb?) (try: onnxfit gpus mig)\n");
}

TEST_CASE("the cards' list has slices where they are asked for") {
  CHECK(Matching({"mig", "a30"}) == "a30:1g.6gb a30:2g.12gb a30:4g.24gb");
  CHECK(Matching({"1g.10gb"}) ==
        "a100-40gb:1g.10gb a100-80gb:1g.10gb a100-80gb-pcie:1g.10gb h100:1g.10gb");
  CHECK(Matching({"h100 1g.10gb"}) == "h100:1g.10gb");
  CHECK(Matching({"MIG", "16GiB"}) == "h200:1g.18gb");
  CHECK(Matching({"a30"}) == "a30");
  for (const Card* card : FilterCards({})) CHECK(card->slice_of.empty());
  const std::string one = RunCommand({"gpus", "a30"}).out;
  CHECK(Holds(one, "1 of " + std::to_string(Cards().size()) + " cards and its 3 slices\n"));
  CHECK(Holds(one, "a30:2g.12gb  A30 MIG 2g.12gb  ~11.7 GiB  8.0   28  ~"));
  CHECK(Holds(RunCommand({"gpus", "mig"}).out, std::to_string(Slices().size()) + " slices\n"));
  CHECK(!Holds(RunCommand({"gpus", "a100"}).out, "1g."));
  CHECK(Holds(RunCommand({"gpus", "1g.6gb", "-f", "json"}).out, "\"slice_of\": \"a30\""));
}

TEST_CASE("a slice is a target with the kernels of its multiprocessors") {
  const Target target = MakeTarget({.card = &Get("a100-80gb:3g.40gb")});
  CHECK(target.name == "a100-80gb:3g.40gb");
  CHECK(target.device.multiprocessors == 42);
  REQUIRE(target.warnings.size() == 1);
  CHECK(target.warnings[0].text ==
        "A100-SXM4-80GB MIG 3g.40gb: what CUDA shows of it was not seen: taken as what nvidia-smi "
        "lists");
  CHECK(MakeTarget({.card = &Get("h100:1g.10gb")}).warnings.empty());
}

TEST_CASE("all cards are whole cards") {
  const std::string all = RunCommand({"max-batch", kModel, "--all-gpus", "-f", "csv"}).out;
  CHECK(Holds(all, "a100-40gb"));
  CHECK(!Holds(all, "1g."));
}

TEST_CASE("who asks about a slice is told of larger ones of its card first") {
  const std::string text =
      RunCommand({kModel, "-b", "256", "--gpu", "a100-40gb:1g.5gb", "--optimizer", "adamw"}).out;
  CHECK(Holds(text, "--gpu a100-40gb:1g.10gb"));
}

}  // namespace onnxfit::slices_test
