#include "estimator/fit/worlds.h"

#include <doctest/doctest.h>

#include <string>

#include "estimator/base/error.h"
#include "estimator/fit/max_batch.h"
#include "tests/advice_helpers.h"
#include "tests/paths.h"
#include "tests/run_command.h"

namespace onnxfit::worlds_test {
namespace {

std::string ModelPath() { return std::string(kSourceDir) + "/models/gpt2.dynamo.onnx"; }

std::vector<WorldOutcome> WorldsOf(const std::string& typed, const Target& card) {
  const Graph file = FileOf("gpt2.dynamo.onnx");
  return JudgeWorlds(Study(file), RequestFor(typed), card);
}

TEST_CASE("ranks are doubled until each fits, and no more") {
  const Target card = Memory(2 * kGiB);
  const auto worlds = WorldsOf("-b 1 --strategy fsdp --overhead 0", card);
  REQUIRE(worlds.size() >= 2);
  const Graph file = FileOf("gpt2.dynamo.onnx");
  for (size_t i = 0; i < worlds.size(); ++i) {
    CHECK(worlds[i].world == int64_t{1} << i);
    CHECK((worlds[i].judgement.verdict == Verdict::kFits) == (i + 1 == worlds.size()));
    const EstimateRequest typed =
        RequestFor("-b 1 --strategy fsdp --overhead 0 --world " + std::to_string(worlds[i].world));
    const Judgement judgement = Judged(file, typed, card).judgement;
    CHECK(judgement.verdict == worlds[i].judgement.verdict);
    CHECK(judgement.used_bytes == worlds[i].judgement.used_bytes);
  }
  CHECK(WorldToTake(worlds) == worlds.back().world);
}

TEST_CASE("moments alone are shared: sometimes no number is enough") {
  const auto worlds = WorldsOf("-b 1 --strategy zero-redundancy", Memory(1 * kGiB));
  CHECK(worlds.size() == 11);
  CHECK(worlds.back().world == kMostWorld);
  CHECK(WorldToTake(worlds) == kMostWorld);
  CHECK(worlds.back().judgement.used_bytes < worlds.front().judgement.used_bytes);
}

TEST_CASE("what runs is taken where nothing fits") {
  std::vector<WorldOutcome> worlds = {{1, {.verdict = Verdict::kOom}},
                                      {2, {.verdict = Verdict::kTight}},
                                      {4, {.verdict = Verdict::kTight}}};
  CHECK(WorldToTake(worlds) == 2);
  worlds.push_back({8, {.verdict = Verdict::kFits}});
  CHECK(WorldToTake(worlds) == 8);
}

TEST_CASE("--world auto answers with the fewest, as text and as JSON") {
  const std::vector<std::string> args = {"estimate", ModelPath(),  "-b", "1",          "--memory",
                                         "2GiB",     "--overhead", "0",  "--strategy", "fsdp"};
  std::vector<std::string> found = args;
  found.insert(found.end(), {"--world", "auto"});
  const CommandResult text = RunCommand(found);
  CHECK(text.code == 0);
  CHECK(text.out.starts_with("FITS"));
  CHECK(text.out.find("\nOver how many ranks, and what each has\n  1  OOM ") != std::string::npos);
  CHECK(text.out.find("with strategy fsdp, world 8\n") != std::string::npos);
  found.insert(found.end(), {"-f", "json"});
  const std::string json = RunCommand(found).out;
  CHECK(json.find("\"world\": 8,\n") != std::string::npos);
  CHECK(json.find("\"worlds\": [") != std::string::npos);
  // The rest is that of the number itself.
  std::vector<std::string> typed = args;
  typed.insert(typed.end(), {"--world", "8"});
  const std::string said = RunCommand(typed).out;
  CHECK(text.out.find(said.substr(said.find("\nWhere the bytes go"))) != std::string::npos);
}

TEST_CASE("--world auto is for one estimate and one card") {
  const std::string model = ModelPath();
  const auto error = [](std::vector<std::string> args) {
    args.insert(args.end(), {"--strategy", "fsdp", "--world", "auto"});
    const CommandResult result = RunCommand(args);
    CHECK(result.code == 2);
    return result.err;
  };
  CHECK(error({"max-batch", model, "--gpu", "t4"}) ==
        "error: --world: auto: expected with an estimate of a MODEL file, whose batch each rank "
        "takes (try: onnxfit estimate MODEL.onnx -b N --strategy fsdp --world auto)\n");
  CHECK(error({model}) ==
        "error: --world: auto: expected one kind of card (try: --gpu a100-80gb)\n");
  CHECK(error({model, "--gpu", "t4", "--gpu", "l4"}) ==
        "error: --world: auto: expected one kind of card (try: --gpu a100-80gb)\n");
  CHECK(error({model, "--gpu", "t4", "-b", "1,2"}) ==
        "error: --world: auto: expected one run, found a list\n");
  const CommandResult single =
      RunCommand({model, "--gpu", "t4", "--strategy", "single", "--world", "auto"});
  CHECK(single.err ==
        "error: " + model +
            ": --world: expected a strategy by which ranks share the run, found single (try: "
            "--strategy fsdp)\n");
}

TEST_CASE("the largest batch of ranks is each one's, and their sum is said") {
  const auto of = [](const char* strategy, const char* world) {
    return RunCommand({"max-batch", ModelPath(), "--memory", "8GiB", "--overhead", "0",
                       "--strategy", strategy, "--world", world});
  };
  for (const char* strategy : {"ddp", "zero-redundancy", "fsdp"}) {
    CAPTURE(strategy);
    const CommandResult text = of(strategy, "4");
    CHECK(text.code == 0);
    const int64_t batch = std::stoll(text.out.substr(std::string("batch ").size()));
    const std::string said =
        "  - on each of 4 cards: " + std::to_string(4 * batch) + " samples a step together\n";
    CHECK(text.out.find(said) != std::string::npos);
    const CommandResult json = RunCommand({"max-batch", ModelPath(), "--memory", "8GiB",
                                           "--strategy", strategy, "--world", "4", "-f", "json"});
    CHECK(json.out.find("\"strategy\": \"" + std::string(strategy)) != std::string::npos);
  }
  const std::string shared =
      RunCommand({"max-batch", std::string(kSourceDir) + "/models/t5_small.script.onnx", "--memory",
                  "8GiB", "--strategy", "fsdp", "--world", "4", "--tensor-parallel", "2"})
          .out;
  CHECK(shared.find("  - on each of 8 cards: ") != std::string::npos);
  const Graph file = FileOf("gpt2.dynamo.onnx");
  const Target card = Memory(8 * kGiB);
  const auto largest = [&](const std::string& typed) {
    return FindMaxBatches(file, RequestFor(typed), {&card, 1})[0].batch;
  };
  // Each shares more than the one before.
  CHECK(largest("--strategy ddp --world 8") <= largest("--strategy zero-redundancy --world 8"));
  CHECK(largest("--strategy zero-redundancy --world 8") <= largest("--strategy fsdp --world 8"));
  CHECK(largest("--strategy fsdp --world 2") <= largest("--strategy fsdp --world 8"));
  CHECK(largest("") < largest("--strategy fsdp --world 8"));
}

TEST_CASE("what another rank has more than the first is said") {
  const std::string model = std::string(kSourceDir) + "/models/resnet18.train.onnx";
  const auto json = [&](const char* strategy) {
    return RunCommand({model, "--strategy", strategy, "--world", "2", "-f", "json"}).out;
  };
  CHECK(json("zero-redundancy")
            .find("another rank has the states of 40 more elements than the first") !=
        std::string::npos);
  CHECK(json("zero-redundancy").find("none has more") == std::string::npos);
  CHECK(json("zero2").find("another may keep") != std::string::npos);
  CHECK(json("zero3").find("the first of 2 ranks, and none has more") != std::string::npos);
  CHECK(json("zero3").find("\"prefetch_bucket\": 50000000") != std::string::npos);
  CHECK(json("fsdp").find("the first of 2 ranks, and none has more") != std::string::npos);
  CHECK(RunCommand({model, "--strategy", "fsdp", "--world", "1"})
            .out.find("the figures are those of the only rank; ") != std::string::npos);
}

TEST_CASE("each rank has a card, also of those that share layers") {
  CHECK(CountRanks({}) == 1);
  CHECK(CountRanks({.tensor_parallel = 4}) == 4);
  CHECK(CountRanks({.strategy = Strategy::kFsdp, .world = 8, .tensor_parallel = 2}) == 16);
  CHECK(CountRanks({.strategy = Strategy::kPipeline, .world = 4}) == 4);
}

}  // namespace
}  // namespace onnxfit::worlds_test
