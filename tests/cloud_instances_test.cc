#include "estimator/base/cloud_instances.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "estimator/base/cards.h"
#include "tests/files.h"
#include "tests/run_command.h"

namespace onnxfit::cloud_instances_test {
namespace {

// "t4" for one, "t4 x4", "t4 x?" where machines differ, "" for none.
std::string Rented(std::string_view typed) {
  const auto card = FindRentedCard(typed);
  if (!card) return "";
  const std::string alias(card->alias);
  if (card->cards == 0) return alias + " x?";
  return card->cards == 1 ? alias : alias + " x" + std::to_string(card->cards);
}

}  // namespace

TEST_CASE("a machine or a family of them has a card") {
  struct Case {
    const char* typed;
    const char* rented;
  };
  constexpr Case kCases[] = {
      {"p3.2xlarge", "v100-16gb"},
      {"p3.8xlarge", "v100-16gb x4"},
      {"p3", "v100-16gb x?"},
      {"p3dn", "v100-32gb x8"},
      {"P4D.24XLARGE", "a100-40gb x8"},
      {"p4de.24xlarge", "a100-80gb x8"},
      {"ml.g5.xlarge", "a10g"},
      {"g4dn.xlarge", "t4"},
      {"a2-highgpu", "a100-40gb x?"},
      {"a2-highgpu-1g", "a100-40gb"},
      {"a2_highgpu_1g", "a100-40gb"},
      {"a2", ""},  // 40 or 80 GB
      {"g2", ""},  // of AWS or of Google
      {"a3-megagpu-8g", "h100 x8"},
      {"g2-standard-12", "l4"},
      {"nvidia-tesla-a100", "a100-40gb"},
      {"Standard_NC24ads_A100_v4", "a100-80gb-pcie"},
      {"NC24ads_A100_v4", "a100-80gb-pcie"},
      {"standard_nc6s_v3", "v100-16gb"},
      {"colab", "t4"},
      {"Colab", "t4"},
      {"kaggle", "t4 x2"},
      {"aws", ""},
      {"p3.", ""},
      {"p", ""},
      {"t4", ""},
      {"", ""},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.typed);
    CHECK(Rented(c.typed) == c.rented);
  }
}

TEST_CASE("every machine is one of a known cloud, with a known card, once") {
  std::set<std::string_view> names;
  for (const CloudInstances& row : AllCloudInstances()) {
    CAPTURE(row.names);
    CHECK(FindCloud(row.cloud) != nullptr);
    CHECK(row.cards >= 1);
    const std::span<const Card> cards = Cards();
    CHECK(std::ranges::any_of(cards, [&](const Card& card) { return card.alias == row.alias; }));
    for (const std::string_view name : NamesOf(row)) {
      CHECK(names.insert(name).second);
      REQUIRE(FindCard(name) != nullptr);
      CHECK(FindCard(name)->alias == row.alias);
    }
  }
  for (const Cloud& cloud : Clouds()) CHECK(!CloudInstancesOf(cloud.name).empty());
}

TEST_CASE("a machine is a card's name on the command line") {
  const std::string lenet = (TextModels()[0].parent_path() / "lenet.onnxtxt").string();
  const auto run = [&](const char* gpu) { return RunCommand({lenet, "-g", gpu}); };
  CHECK(run("p3.2xlarge").out.find("FITS on v100-16gb: ") == 0);
  CHECK(run("p3.2xlarge").out.find("OF206") == std::string::npos);
  CHECK(run("p4d.24xlarge").out.find("OF206  p4d.24xlarge has 8 of these cards: the answer is") !=
        std::string::npos);
  CHECK(
      run("gtx970").out.find("OF205  GeForce GTX 970: the last 512.0 MiB of its memory are slow") !=
      std::string::npos);
  CHECK(run("aws").err == "error: --gpu: expected a card, found 'aws' (try: onnxfit gpus aws)\n");
  CHECK(run("g2").err == "error: --gpu: expected a card, found 'g2' (try: onnxfit gpus g2)\n");
}

}  // namespace onnxfit::cloud_instances_test
