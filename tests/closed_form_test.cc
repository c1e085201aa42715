#include "estimator/fit/closed_form.h"

#include <doctest/doctest.h>

#include "estimator/base/bytes.h"
#include "estimator/onnx/loader.h"
#include "tests/paths.h"
#include "tests/run_command.h"

namespace onnxfit::closed_form_test {
namespace {

constexpr int64_t kGpt3Parameters = 175'000'000'000;
constexpr TransformerNumbers kGpt3 = {
    .parameters = kGpt3Parameters, .layers = 96, .hidden = 12288, .heads = 96, .sequence = 2048};

int64_t BytesOfKind(const ClosedForm& form, std::string_view kind) {
  for (const BreakdownRow& row : form.breakdown) {
    if (row.kind == kind) return row.bytes;
  }
  return 0;
}

EstimateRequest With(Precision precision, Optimizer optimizer = Optimizer::kAdamW) {
  EstimateRequest request;
  request.settings.precision = precision;
  request.settings.optimizer = optimizer;
  return request;
}

CommandResult Run(const std::vector<std::string>& args) { return RunCommand(args); }

std::vector<std::string> Gpt3(const std::vector<std::string>& more) {
  std::vector<std::string> args = {"--params", "175e9", "--layers", "96", "--hidden", "12288"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

bool Says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("parameters, gradients and states are products of the tables") {
  struct Case {
    Precision precision;
    Optimizer optimizer;
    int64_t each;
    int64_t states;
  };
  constexpr Case kCases[] = {
      {Precision::kFp32, Optimizer::kAdamW, 4, 8},
      {Precision::kFp32, Optimizer::kSgd, 4, 0},
      {Precision::kFp32, Optimizer::kSgdMomentum, 4, 4},
      {Precision::kBf16, Optimizer::kAdamW, 2, 4},
      {Precision::kAmpBf16, Optimizer::kAdamW, 4, 8},
      {Precision::kFp32, Optimizer::kNone, 4, 0},
      {Precision::kFp64, Optimizer::kAdam, 8, 16},
  };
  for (const Case& c : kCases) {
    CAPTURE(ToString(c.precision));
    CAPTURE(ToString(c.optimizer));
    const ClosedForm form = MakeClosedForm(kGpt3, With(c.precision, c.optimizer));
    CHECK(BytesOfKind(form, "parameters") == kGpt3Parameters * c.each);
    CHECK(BytesOfKind(form, "gradients") == kGpt3Parameters * c.each);
    CHECK(BytesOfKind(form, "optimizer_state") == kGpt3Parameters * c.states);
  }
}

TEST_CASE("activations are those of the paper: s b h (34 + 5 a s / h) a layer in 16 bits") {
  // Its table 2 gives the models; the ratio 5 a s / h of GPT-3 is 80.
  EstimateRequest request = With(Precision::kFp16);
  request.binding.batch = 8;
  const ClosedForm form = MakeClosedForm(kGpt3, request);
  CHECK(BytesOfKind(form, "activations") == int64_t{96} * 2048 * 8 * 12288 * (34 + 80));
  for (const BreakdownRow& row : form.breakdown) {
    if (row.kind != "activations") continue;
    CHECK(row.low == int64_t{96} * 2048 * 8 * 12288 * 34);  // FlashAttention keeps no scores
    CHECK(row.high == row.bytes);
    CHECK(row.basis == Basis::kAssumed);
  }
  request.settings.attention = AttentionUse::kEager;
  for (const BreakdownRow& row : MakeClosedForm(kGpt3, request).breakdown) CHECK(!row.low);
}

// The same paper, section 4.3, s b h of one mask byte and two elements, and s b v of logits in
// fp32.
TEST_CASE("logits are those of the paper") {
  EstimateRequest request = With(Precision::kBf16);
  request.binding.batch = 2;
  CHECK(BytesOfKind(MakeClosedForm(kGpt3, request), "logits") ==
        int64_t{2048} * 2 * (12288 * 5 + 50257 * 4));
  request.settings.precision = Precision::kFp32;
  CHECK(BytesOfKind(MakeClosedForm(kGpt3, request), "logits") ==
        int64_t{2048} * 2 * (12288 * 9 + 50257 * 4));
}

// Brown et al. 2020, table 2.1: of the models that have them, width and heads.
TEST_CASE("heads that nobody gives are GPT-3's") {
  struct Row {
    int64_t hidden;
    int64_t heads;
  };
  for (const Row& row : {Row{768, 12}, {1024, 16}, {1536, 24}, {4096, 32}, {12288, 96}}) {
    CAPTURE(row.hidden);
    TransformerNumbers numbers = {.layers = 12, .hidden = row.hidden};
    numbers.parameters = LikelyParameters(numbers);
    CHECK(MakeClosedForm(numbers, {}).numbers.heads == row.heads);
  }
}

TEST_CASE("three times more or fewer parameters than layers have are doubted") {
  const int64_t likely = LikelyParameters(kGpt3);
  const auto warns = [&](int64_t parameters) {
    TransformerNumbers numbers = kGpt3;
    numbers.parameters = parameters;
    return !MakeClosedForm(numbers, {}).warnings.empty();
  };
  CHECK(warns(likely * 31 / 10));
  CHECK(!warns(likely * 29 / 10));
  CHECK(!warns(likely * 10 / 29));
  CHECK(warns(likely * 10 / 31));
}

TEST_CASE("all rows add up, and twice the batch takes twice the activations") {
  EstimateRequest request = With(Precision::kAmpBf16);
  const ClosedForm one = MakeClosedForm(kGpt3, request);
  int64_t sum = 0;
  for (const BreakdownRow& row : one.breakdown) sum += row.bytes;
  CHECK(sum == one.total_bytes);
  CHECK(one.products.size() == one.breakdown.size());
  CHECK(BytesOfKind(one, "weight_copies") == kGpt3Parameters * 2);
  request.binding.batch = 2;
  const ClosedForm two = MakeClosedForm(kGpt3, request);
  CHECK(BytesOfKind(two, "activations") == 2 * BytesOfKind(one, "activations"));
  CHECK(BytesOfKind(two, "parameters") == BytesOfKind(one, "parameters"));
}

TEST_CASE("the form is near the replay of the same network") {
  // GPT-2 small, exported with 12 layers of width 768 and 12 heads; in fp32, attention in one
  // kernel.
  const Graph graph = LoadGraph(std::string(kSourceDir) + "/models/gpt2.dynamo.onnx");
  EstimateRequest request;
  request.binding.batch = 4;
  request.settings.loss = Loss::kNone;
  request.settings.optimizer = Optimizer::kAdamW;
  const Estimate replay = MakeEstimate(graph, request);
  const ClosedForm form = MakeClosedForm({.parameters = replay.model.parameters,
                                          .layers = 12,
                                          .hidden = 768,
                                          .sequence = 512,
                                          .vocabulary = 50257},
                                         request);
  CHECK(form.numbers.heads == 12);
  CHECK(BytesOfKind(form, "parameters") == replay.model.parameter_bytes);
  const int64_t states = replay.optimizer_state_bytes - BytesOfKind(form, "optimizer_state");
  CHECK(states >= 0);
  CHECK(states < 4096);  // counters of steps
  CHECK(form.warnings.empty());
}

TEST_CASE("cards are counted by what one has beside its context") {
  const ClosedForm form = MakeClosedForm(kGpt3, With(Precision::kFp32));
  REQUIRE(form.cards.size() == 2);
  CHECK(form.cards[0].target.name == "a100-80gb");
  CHECK(form.cards[1].target.name == "h100");
  const int64_t room = form.cards[0].target.capacity_bytes();
  CHECK(form.cards[0].cards * room >= form.total_bytes);
  CHECK((form.cards[0].cards - 1) * room < form.total_bytes);
}

TEST_CASE("GPT-3 by its numbers, from the command line") {
  const CommandResult result = Run(Gpt3({}));
  CHECK(result.code == 0);
  CHECK(result.err == "");
  CHECK(result.out.find(
            "175.0 billion parameters, batch 1, fp32, adamw: 3.01 TiB by a closed "
            "form\na formula, not a replay: at least 40 \xC3\x97 a100-80gb or 40 \xC3\x97 h100 "
            "would hold it\n") == 0);
  CHECK(Says(result.out, "96 layers, hidden 12288, 96 heads, 2048 tokens a sample"));
  CHECK(Says(result.out, "Korthikanti"));
  CHECK(Says(result.out, "  optimizer state: 175000000000 x 8 bytes (adamw)\n"));
  const CommandResult quiet = Run(Gpt3({"-q"}));
  CHECK(quiet.out == result.out.substr(0, result.out.find('\n') + 1));
  for (const char c : Run(Gpt3({"--ascii"})).out) CHECK(static_cast<unsigned char>(c) < 128);
  const std::string json = Run(Gpt3({"-f", "json"})).out;
  CHECK(Says(json, "\"closed_form\": true"));
  CHECK(Says(json, "\"basis\": \"modelled\""));
  CHECK(Says(json, "\"basis\": \"assumed\""));
  CHECK(Says(json, "\"product\": \"175000000000 x 4 bytes (float32)\""));
}

TEST_CASE("a card that is asked for decides the exit code") {
  const std::vector<std::string> small = {"--params", "124M", "--layers", "12",
                                          "--hidden", "768",  "--seq",    "512"};
  const auto on = [&](const char* gpu) {
    std::vector<std::string> args = small;
    args.insert(args.end(), {"-g", gpu});
    return Run(args);
  };
  CHECK(on("a100-80gb").code == 0);
  CHECK(Says(on("a100-80gb").out, ": at least 1 \xC3\x97 a100-80gb would hold it\n"));
  CHECK(on("gtx1050").code == 1);
  CHECK(Run(Gpt3({"-g", "t4", "--exit-zero"})).code == 0);
  CHECK(Run(Gpt3({"--memory", "80GiB"})).code == 1);
}

TEST_CASE("numbers that contradict each other are said") {
  CHECK(Says(Run({"--params", "175e6", "--layers", "96", "--hidden", "12288"}).out, "OF111"));
  CHECK(!Says(Run(Gpt3({})).out, "OF111"));
}

TEST_CASE("missing or bad numbers are errors with what to try") {
  struct Case {
    std::vector<std::string> args;
    const char* error;
  };
  const Case cases[] = {
      {{"--params", "175e9"},
       "--layers: expected beside --params, found none: activations follow from it (try: --params "
       "175e9 --layers 96 --hidden 12288)"},
      {{"--params", "7B", "--layers", "32"}, "--hidden: expected beside --params, found none"},
      {{"--layers", "96", "--hidden", "12288"},
       "--params: expected beside --layers and --hidden, found none (try: --params 174563733504, "},
      {{"--params", "x", "--layers", "1", "--hidden", "1"},
       "--params: expected a number such as 175e9, 7B or 350M, found 'x'"},
      {{"--params", "-5", "--layers", "1", "--hidden", "1"}, "--params: expected a number such as"},
      {{"--params", "0", "--layers", "1", "--hidden", "1"}, "--params: expected a number such as"},
      {{"--params", "nan", "--layers", "1", "--hidden", "1"}, "--params: expected a number such"},
      {{"--params", "1e99", "--layers", "1", "--hidden", "1"}, "--params: expected a number such"},
      {{"--params", "7Q", "--layers", "1", "--hidden", "1"}, "--params: expected a number such as"},
      {{"--params", "7e9", "--layers", "0", "--hidden", "1"}, "--layers: expected a whole number "},
      {{"--params", "7e9", "--layers", "3", "--hidden", "a"}, "--hidden: expected a whole number "},
      {Gpt3({"--heads", "7"}),
       "--heads: expected a divisor of --hidden 12288, found 7 (try: --heads 96)"},
      {Gpt3({"net.onnx"}),
       "--params: expected a MODEL file or the numbers of one, found both, 'net.onnx'"},
      {Gpt3({"-b", "1,2"}), "--params: expected one batch, precision and optimizer, found a list"},
      {Gpt3({"-f", "csv"}), "--format: expected text or json with --params (try: --format json)"},
      {Gpt3({"-o", "muon"}),
       "--optimizer: expected one that steps all parameters with --params, found 'muon'"},
      {Gpt3({"--mode", "eval"}), "--mode: expected train with --params: "},
      {Gpt3({"--dim", "seq=4"}), "--dim: expected a MODEL file, found --params (try: --seq N)"},
      {Gpt3({"--freeze", "a"}), "--freeze: expected a MODEL file, whose layers have names"},
      {Gpt3({"--cudnn-benchmark"}), "--cudnn-benchmark: expected a MODEL file, whose layers have"},
      {Gpt3({"--lora", "8"}), "--lora: expected a MODEL file, whose layers have names"},
      {Gpt3({"--loop", "trainer"}), "--loop: expected a MODEL file, whose layers have names"},
      {Gpt3({"--quantize", "nf4"}), "--quantize: expected a MODEL file, whose layers have names"},
      {Gpt3({"--compile", "inductor"}),
       "--compile: expected a MODEL file, whose layers have names"},
      {Gpt3({"--checkpoint", "auto"}), "--checkpoint: expected a MODEL file, whose layers have"},
      {Gpt3({"--strategy", "zero3", "--zero-offload"}),
       "--zero-offload: expected a MODEL file, found --params: the formula has all on the cards"},
      {Gpt3({"--strategy", "fsdp", "--fsdp-offload"}), "--fsdp-offload: expected a MODEL file"},
      {Gpt3({"--why", "a"}), "--why: expected a MODEL file, found --params"},
      {Gpt3({"--tree"}), "--tree: expected a MODEL file, found --params"},
      {{"max-batch", "--params", "7e9"}, "expected a model file, found none"},
      {{"--params", "1e15", "--layers", "9999999", "--hidden", "9999999", "--seq", "9999999"},
       "sizes above 2^63 bytes cannot be counted"},
  };
  for (const Case& c : cases) {
    const CommandResult result = Run(c.args);
    CAPTURE(c.error);
    CHECK(result.code == 2);
    CHECK(result.out == "");
    CHECK(result.err.find("error: " + std::string(c.error)) == 0);
  }
}

}  // namespace onnxfit::closed_form_test
