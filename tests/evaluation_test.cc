#include "estimator/training/evaluation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>

#include "estimator/base/error.h"
#include "estimator/fit/estimate.h"
#include "tests/trace_helpers.h"

namespace onnxfit::evaluation_test {
namespace {

// A parameter of 32 bytes; the loss of N classes takes 16 N bytes, its labels 8 N.
constexpr char kNet[] = R"(
  net (float[N, 4] x) => (float[N, 2] y)
  < float[4, 2] w = ["location": "none"] > { y = MatMul (x, w) })";

std::string Evaluated(TrainingSettings settings, int64_t batch = 16) {
  settings.optimizer = Optimizer::kSgd;
  settings.steps = 1;
  const PreparedRun run = Build(kNet, settings, {.batch = batch});
  const std::string text = ToString(Train(run.program, settings));
  const size_t begin = text.find("\nevaluation");
  return begin == std::string::npos ? "" : text.substr(begin + 1);
}

// How often `word` stands in `text`.
int64_t CountOf(const std::string& text, const std::string& word) {
  int64_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

// Of those that are called so, "y:64", how many there are at once at most.
int64_t MostOf(const std::string& text, const std::string& made) {
  const std::string name = made.substr(0, made.find(':'));
  int64_t now = 0;
  int64_t most = 0;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word == "+" + made) most = std::max(most, ++now);
    if (word == "-" + name) --now;
  }
  return most;
}

TEST_CASE("a step without evaluation has none") { CHECK(Evaluated({}).empty()); }

constexpr char kLoss[] =
    " +log_probabilities:64 +loss:4 +loss.total_weight:4 -loss.total_weight -log_probabilities";

TEST_CASE("evaluation takes no parameters, and batches of its own size, as the loop does") {
  const std::string loss = kLoss + std::string(" -loss");
  const std::string next = " +x:128 +labels:64 -x -labels +y:64 -y" + loss;
  CHECK(Evaluated({.evaluation = {.batch = 8}}) ==
        "evaluation +x:128 +labels:64 +y:64" + loss + next + next + " -y -x -labels\n");
}

TEST_CASE("predictions are kept until so many move to the host together") {
  const auto peak = [](int64_t keep) {
    return MostOf(Evaluated({.evaluation = {.batch = 8, .keep = keep}}), "y:64");
  };
  CHECK(peak(0) == 2);
  CHECK(peak(1) == 2);
  CHECK(peak(2) == 2);
  CHECK(peak(3) == 3);
  CHECK(peak(5) == 5);
  CHECK(peak(40) == 40);
}

TEST_CASE("of many batches a few are run") {
  const std::string text = Evaluated({.evaluation = {.batch = 8, .keep = 40}});
  CHECK(CountOf(text, "+x:128") == 6);
  CHECK(CountOf(text, "+y:64") == 40);
}

// What the Trainer has of each sample.
std::string OfTrainer(int64_t keep) {
  return Evaluated(
      {.loop = {.library = LoopLibrary::kTrainer}, .evaluation = {.batch = 8, .keep = keep}});
}

TEST_CASE("the Trainer repeats each loss, and adds them up") {
  const std::string text = OfTrainer(0);
  const std::string first = text.substr(0, text.find(" +x", text.find("+losses")));
  CHECK_MESSAGE(first.ends_with(kLoss + std::string(" +loss.mean:4 -loss -number of labels -y "
                                                    "+losses:32 -loss.mean")),
                text);
  CHECK_MESSAGE(text.ends_with(" -y -losses +losses:32 -loss.mean +losses:96 -losses -losses "
                               "-losses -x -labels\n"),
                text);
}

TEST_CASE("with metrics the Trainer adds up predictions and labels") {
  const std::string text = OfTrainer(3);
  CHECK_MESSAGE(text.find(" +size:16 -size +predictions:128 -y +labels of predictions:128 "
                          "-labels +x:128") != std::string::npos,
                text);
  CHECK_MESSAGE(text.ends_with(" +size:16 -size +predictions:192 -predictions "
                               "+labels of predictions:192 -labels of predictions -losses -losses "
                               "-predictions -y -labels of predictions -x -labels\n"),
                text);
}

// The weights of attention stay in a name of the module: calls that none of them die of.
TEST_CASE("what modules keep of training goes with evaluation, and the other way round") {
  TrainingSettings settings = {.optimizer = Optimizer::kSgd, .evaluation = {.batch = 8}};
  settings.steps = 2;
  PreparedRun run = Build(kNet, settings, {.batch = 16});
  const auto keep = [](const Program& program) {
    Program kept = program;
    for (AtenCall& call : kept.calls) std::erase(call.dies, kept.calls[0].outputs[0]);
    kept.outputs.clear();
    return kept;
  };
  run.program.evaluation = std::make_shared<const Program>(keep(*run.program.evaluation));
  const std::string text = ToString(Train(keep(run.program), settings));
  const size_t first = text.find("\nevaluation");
  const size_t second = text.find("\nforward", first);
  CHECK(text.substr(first, text.find("+x:128 +labels:64 -x", first) - first).ends_with("-y "));
  CHECK(text.substr(second, text.find("+log_probabilities", second) - second)
            .ends_with("-y +y:128 "));
}

TEST_CASE("what evaluation is not known of is refused") {
  const auto error = [](const TrainingSettings& settings) -> std::string {
    try {
      CheckEvaluation(settings);
    } catch (const Error& found) {
      return found.what();
    }
    return "";
  };
  CHECK(error({}).empty());
  CHECK(error({.ranks = {.strategy = Strategy::kDdp}}).empty());
  CHECK(error({.ranks = {.strategy = Strategy::kZero3}}) ==
        "--eval-batch: expected no --strategy zero3");
  CHECK(error({.ranks = {.strategy = Strategy::kZero2}}) ==
        "--eval-batch: expected no --strategy zero2");
  CHECK(error({.compile = Compiling::kInductor}) == "--eval-batch: expected no --compile");
  CHECK(error({.loop = {.library = LoopLibrary::kLightning}}) ==
        "--eval-batch: expected no --loop lightning");
}

TEST_CASE("whose memory an ONNX file's inference is told, is said") {
  const auto says = [](Mode mode) {
    const Estimate estimate =
        MakeEstimate(ParseGraph(kNet), {.binding = {.batch = 2}, .settings = {.mode = mode}});
    return std::ranges::count(
               estimate.assumptions,
               "the model runs in PyTorch, whose memory this is: ONNX Runtime's is another") == 1;
  };
  CHECK(says(Mode::kEval));
  CHECK(!says(Mode::kTrain));
}

}  // namespace
}  // namespace onnxfit::evaluation_test
