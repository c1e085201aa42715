// Frozen layers that bitsandbytes packs.
#include "estimator/program/quantized_layers.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/predict.h"
#include "estimator/program/libraries.h"
#include "tests/checkpointed_net.h"
#include "tests/trace_helpers.h"

namespace onnxfit::quantized_layers_test {
namespace {

TrainingSettings WithQuantized(std::vector<std::string> targets = {}, int64_t rank = 0) {
  TrainingSettings settings;
  settings.quantize = {.kind = Quantization::kNf4, .targets = std::move(targets)};
  if (rank > 0) settings.lora = {.rank = rank, .targets = {"all-linear"}};
  return settings;
}

int64_t BytesOf(const Program& program, NameId name) {
  return onnxfit::BytesOf(program.values[Index(name)].type);
}

std::vector<std::string> CallsOf(const Program& program, std::string_view path) {
  std::vector<std::string> calls;
  for (const AtenCall& call : program.calls) {
    if (program.modules.PathOf(call.module) == path) calls.emplace_back(call.op);
  }
  return calls;
}

}  // namespace

// N values: N/2 bytes, N/64 scales of 8 bits, N/64/256 of 32 bits, two codes, a mean.
TEST_CASE("a packed weight and what stays beside it") {
  const Program program = Build(kTwoBlocks, WithQuantized({"h.0.fc"})).program;
  REQUIRE(program.quantized.size() == 1);
  const QuantizedWeight& weight = program.quantized[0];
  constexpr int64_t kValues = 64 * 64;
  CHECK(BytesOf(program, weight.packed) == kValues / 2);
  CHECK(BytesOf(program, weight.scales.scales) == kValues / 64);
  CHECK(BytesOf(program, weight.scales.scales_of_scales) == 4);  // one block of 64 scales
  CHECK(BytesOf(program, weight.scales.offset) == 4);
  CHECK(BytesOf(program, weight.scales.code) == 16 * 4);
  CHECK(BytesOf(program, weight.scales.code_of_scales) == 256 * 4);
  CHECK(program.frozen == std::vector<NameId>{weight.packed});
  CHECK(program.parameters.size() == 4);  // the others are trained still
}

TEST_CASE("without names, the last layer stays as it is") {
  CHECK(Build(kTwoBlocks, WithQuantized()).program.quantized.size() == 4);
  CHECK_THROWS_WITH_AS(Build(kTwoBlocks, WithQuantized({"q"})),
                       "<text>: --quantize: expected names of linear layers (h.0.fc, h.0.out, "
                       "h.1.fc …), found 'q'",
                       Error);
  CHECK(IsKeptIn32Bits("t5", "encoder.block.0.layer.1.DenseReluDense.wo"));
  CHECK_FALSE(IsKeptIn32Bits("t5", "encoder.block.0.layer.1.DenseReluDense.wi"));
}

TEST_CASE("a packed layer casts what it is given, and back; an adapter beside it clones first") {
  using Calls = std::vector<std::string>;
  const Program packed = Build(kTwoBlocks, WithQuantized({"h.0.fc"})).program;
  CHECK(CallsOf(packed, "h.0.fc") == Calls{"to", "linear_4bit", "type_as"});
  const Program adapted = Build(kTwoBlocks, WithQuantized({"h.0.fc"}, 4)).program;
  CHECK(CallsOf(adapted, "h.0.fc") ==
        Calls{"to", "linear_4bit", "type_as", "clone", "to", "mul.Scalar", "type_as", "add"});
}

// The product is in bf16, and backward needs none of its operands but the packed weight.
TEST_CASE("what a packed layer keeps until backward") {
  const auto kept = [](TrainingSettings settings) {
    settings.optimizer = Optimizer::kSgd;
    settings.freeze = {"h.*"};
    const Trace trace = Train(Build(kTwoBlocks, settings).program, settings);
    return Replay(trace).steps[1].after_forward.requested_bytes;
  };
  TrainingSettings plain;
  constexpr int64_t kWeight = 64 * 64;
  constexpr int64_t kBeside = 64 + 4 + 4 + 64 + 1024;
  constexpr int64_t kSharedCode = 1024;  // of scales, which is kept once
  const int64_t saved = kept(plain) - kept(WithQuantized({"h.0.fc"}));
  CHECK(saved == 4 * kWeight - (kWeight / 2 + kBeside) - kSharedCode);
}

// PyTorch 2.11.0's own statistics of GPT-2 (512 tokens), batch 4, loaded in bf16 by
// bitsandbytes 0.50.2 and prepared by peft 0.21.2: rank 8, dropout 0.05; AdamW, three steps.
TEST_CASE("QLoRA's peak is PyTorch's, to the byte") {
  const Graph graph = LoadModel(std::string(ONNXFIT_SOURCE_DIR) + "/models/gpt2.dynamo.onnx");
  EstimateRequest request = {.binding = {.batch = 4}};
  request.settings.quantize.kind = Quantization::kNf4;
  request.settings.lora = {.rank = 8, .dropout = 0.05};
  CHECK(MakeEstimate(graph, request).peak.exact_bytes == 3252350408);
}

}  // namespace onnxfit::quantized_layers_test
