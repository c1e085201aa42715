// estimate and max-batch with --mode generate, up to where a Python runs.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/fake_python.h"
#include "tests/run_command.h"

namespace onnxfit::generation_command_test {
namespace {

using Args = std::vector<std::string>;

Args Generate(Args more) {
  more.insert(more.begin(), {"./llama", "--mode", "generate"});
  return more;
}

Args MaxBatch(Args more) {
  more = Generate(more);
  more.insert(more.begin(), "max-batch");
  return more;
}

}  // namespace

TEST_CASE("what --mode generate does not go with") {
  struct Row {
    Args args;
    const char* error;
  };
  const Row rows[] = {
      {Generate({}), "--mode generate: expected how long prompts are, found nothing of it"},
      {Generate({"--prompt", "8", "--optimizer", "sgd"}),
       "--optimizer: expected without --mode generate, which runs the model as it is"},
      {Generate({"--prompt", "8", "--lengths", "uniform:8..64"}),
       "--lengths: expected without --mode generate"},
      {Generate({"--prompt", "8", "--runtime", "onnxruntime"}),
       "--runtime: expected torch with --mode generate, found onnxruntime"},
      {Generate({"--prompt", "8", "-p", "amp-bf16"}),
       "--precision: expected fp32, bf16 or fp16 with --mode generate, found amp-bf16"},
      {Generate({"--prompt", "8", "-f", "csv"}),
       "--format: expected text or json beside --mode generate"},
      {{"model.pt2", "--mode", "generate", "--prompt", "8"},
       "expected a model of transformers, found a file of one call"},
      {MaxBatch({"--prompt", "8"}), "--gpu: expected a card, found none"},
      {MaxBatch({"-g", "t4"}), "expected how long prompts are"},
      {MaxBatch({"-g", "t4", "--prompt", "8", "--solve", "rank"}),
       "--solve: expected prompt or new with --mode generate, found rank"},
      {MaxBatch({"-g", "t4", "--prompt", "8", "--solve", "prompt"}),
       "--prompt: expected without --solve prompt"},
      {{"./llama", "--mode", "generat"}, "--mode: expected train, eval or generate"},
      {{"model.pt2", "--mode", "eval", "--prompt", "8"},
       "--prompt: expected beside --mode generate, which is missing"},
      {{"model.pt2", "--beams", "4"}, "--beams: expected beside --mode generate"},
      {{"verify", "model.pt2", "--mode", "generate"}, "--mode: expected train or eval"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.error);
    const CommandResult result = RunCommand(row.args);
    CHECK(result.code == 2);
    CHECK_MESSAGE(result.err.find(row.error) != std::string::npos, result.err);
  }
}

TEST_CASE("what is asked reaches the Python that generates") {
  const FakePython python(R"sh(printf '{"error": "%s"}' "$(tr -d '"\n' < "$3")" > "$4")sh");
  const CommandResult result =
      RunCommand(Generate({"--prompt", "64", "--new", "16", "-b", "4", "--beams", "3", "--cache",
                           "static", "-p", "bf16", "-g", "t4"}));
  CHECK(result.code == 2);
  for (const char* part : {"model: ./llama", "batch: 4", "prompt: 64", "new: 16", "beams: 3",
                           "cache: static", "dtype: bfloat16"}) {
    CAPTURE(part);
    CHECK_MESSAGE(result.err.find(part) != std::string::npos, result.err);
  }
}

TEST_CASE("what keeps a Python from an answer is told") {
  struct Row {
    const char* script;
    const char* error;
  };
  const Row rows[] = {
      {R"(echo '{"missing": "transformers"}' > "$4"; exit 1)",
       "expected the Python package transformers, found none"},
      {R"(echo '{"error": "expected a config.json"}' > "$4"; exit 1)",
       "./llama: expected a config.json"},
      {R"(echo nothing)", "it never used CUDA"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.error);
    const FakePython python(row.script);
    const CommandResult result = RunCommand(Generate({"--prompt", "64", "-g", "t4"}));
    CHECK(result.code == 2);
    CHECK_MESSAGE(result.err.find(row.error) != std::string::npos, result.err);
  }
}

}  // namespace onnxfit::generation_command_test
