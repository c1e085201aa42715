// Frozen layers that bitsandbytes packs.
#include "estimator/transforms/quantized_layers.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/predict.h"
#include "estimator/libraries/libraries.h"
#include "estimator/transforms/linear_layers.h"
#include "tests/checkpointed_net.h"
#include "tests/paths.h"
#include "tests/trace_helpers.h"

namespace onnxfit::quantized_layers_test {
namespace {

TrainingSettings WithQuantized(std::vector<std::string> targets = {}, int64_t rank = 0) {
  TrainingSettings settings;
  settings.quantize = {.kind = Quantization::kNf4, .targets = std::move(targets)};
  if (rank > 0) settings.lora = {.rank = rank, .targets = {"all-linear"}};
  return settings;
}

TrainingSettings In8Bits(std::vector<std::string> targets, int64_t rank = 0) {
  TrainingSettings settings = WithQuantized(std::move(targets), rank);
  settings.quantize.kind = Quantization::kInt8;
  return settings;
}

int CountOf(std::string_view text, std::string_view word) {
  int count = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if (end == text.size() || text[end] == ' ' || text[end] == '\n') ++count;
  }
  return count;
}

constexpr char kWithBias[] = R"(
  net (float[256, 64] x) => (float[256, 2] y)
  < float[64, 64] "fc.weight" = ["location": "none"], float[64] "fc.bias" = ["location": "none"],
    float[64, 2] "head.weight" = ["location": "none"] > {
    ["/fc/Gemm"] h = Gemm <transB = 1> (x, "fc.weight", "fc.bias")
    ["/head/MatMul"] y = MatMul (h, "head.weight")
  })";

constexpr char kTwice[] = R"(
  net (float[256, 64] x) => (float[256, 2] y)
  < float[64, 64] "fc.weight" = ["location": "none"], float[64] "fc.bias" = ["location": "none"],
    float[64, 2] "head.weight" = ["location": "none"] > {
    ["/fc/Gemm"] h = Gemm <transB = 1> (x, "fc.weight", "fc.bias")
    ["/act/Sigmoid"] s = Sigmoid (h)
    ["/fc_1/Gemm"] k = Gemm <transB = 1> (s, "fc.weight", "fc.bias")
    ["/head/MatMul"] y = MatMul (k, "head.weight")
  })";

constexpr char kOneLayer[] = R"(
  net (float[256, 64] x) => (float[256, 2] y)
  < float[64, 2] "fc.weight" = ["location": "none"] > {
    ["/fc/MatMul"] y = MatMul (x, "fc.weight")
  })";

constexpr char kFourDims[] = R"(
  net (float[2, 3, 4, 8] x) => (float[2, 3, 4, 8] y)
  < float[8, 8] "fc.weight" = ["location": "none"] > {
    ["/fc/MatMul"] y = MatMul (x, "fc.weight")
  })";

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
  Program program = Build(kTwoBlocks, {}).program;
  for (const auto& [name, dims] :
       {std::pair("pool.in_proj_weight", Dims{192, 64}),
        std::pair("pool.out_proj.weight", Dims{64, 64}), std::pair("last.weight", Dims{64, 64})}) {
    program.values.push_back({name, {{DType::kFloat32, dims}, {}}});
    program.parameters.push_back(static_cast<NameId>(program.values.size() - 1));
    program.placement.push_back(program.parameters.back());
  }
  QuantizeLayers(program, WithQuantized(), {}, "file");
  CHECK(program.quantized.size() == 5);  // attention's out_proj does, too
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

// Of four dimensions that lie in another order, 2 * 3 * 4 * 8 values of 16 bits.
TEST_CASE("a gradient that is no batch of matrices is copied for the product") {
  const auto copies = [](const std::string& order, const std::string& dims) {
    TrainingSettings settings = WithQuantized({"fc"});
    settings.optimizer = Optimizer::kNone;
    settings.steps = 1;
    const std::string text = TraceText("net (float[2, 3, 4, 8] x) => (float[" + dims + R"(] y)
        < float[8, 8] "pre.weight" = ["location": "none"],
          float[8, 8] "fc.weight" = ["location": "none"] > {
          ["/pre/MatMul"] h = MatMul (x, "pre.weight")
          ["/fc/MatMul"] p = MatMul (h, "fc.weight")
          t = Transpose <perm = [)" + order +
                                           R"(]> (p)
          y = Exp (t)
        })",
                                       settings);
    return CountOf(text, "+/fc/MatMul.scratch:384");
  };
  CHECK(copies("0, 3, 1, 2", "2, 8, 3, 4") == 1);
  CHECK(copies("0, 1, 2, 3", "2, 3, 4, 8") == 0);
}

// prepare_model_for_kbit_training casts it to fp32, as all that is not packed; what runs first
// casts it to the type of the product, which the layer keeps.
TEST_CASE("the bias of a packed layer is cast when it first runs") {
  for (const Quantization kind : {Quantization::kNf4, Quantization::kInt8}) {
    TrainingSettings settings = WithQuantized({"fc"}, 4);
    settings.quantize.kind = kind;
    settings.precision = Precision::kAmpBf16;
    const std::string text = TraceText(kWithBias, settings);
    CAPTURE(text);
    CHECK(CountOf(text, "+fc.bias:128") == 1);             // of a checkpoint in 16 bits
    CHECK(CountOf(text, "+fc.bias:256") == 1);             // in fp32
    const int casts = kind == Quantization::kNf4 ? 1 : 0;  // x is in fp32 here
    CHECK(CountOf(text, "+fc.bias.data:128") == casts);
    CHECK(CountOf(text, "-fc.bias") == 1 + casts);
    CHECK((text.find("+fc.bias.data:128 -fc.bias ") != text.npos) == (casts == 1));
  }
}

// torch.export tells runs apart: "fc", then "fc@1", which adds the bias that the first has cast.
TEST_CASE("a packed layer that runs again is one layer still") {
  for (const Quantization kind : {Quantization::kNf4, Quantization::kInt8}) {
    Program program = Build(kTwice, {}).program;
    for (AtenCall& call : program.calls) {
      const bool is_second = program.modules.PathOf(call.module) == "fc_1";
      if (is_second) call.module = program.modules.Enter({"fc@1"});
    }
    TrainingSettings settings = WithQuantized({"fc"});
    settings.quantize.kind = kind;
    std::erase_if(program.parameters, [&](NameId name) {
      if (program.values[Index(name)].name != "fc.bias") return false;
      program.frozen.push_back(name);
      return true;
    });
    QuantizeLayers(program, settings, "", "net");
    CHECK(CallsOf(program, "fc@1").front() == (kind == Quantization::kNf4 ? "to" : "view"));
    const std::vector<LinearLayer> layers = FindLinearLayers(program);
    REQUIRE(layers.size() == 2);
    CHECK(layers[0].path == "fc");
    CHECK(layers[0].runs.size() == 2);
    CHECK(program.values[Index(layers[0].runs.at(1).input)].name == "s");
  }
}

TEST_CASE("adapters beside weights of 4 bits come in 16 bits, beside 8 bits in 32") {
  TrainingSettings settings = WithQuantized({"fc"}, 4);
  CHECK(CountOf(TraceText(kWithBias, settings), "+fc.lora_A.default.weight:512") == 1);
  settings.quantize.kind = Quantization::kInt8;
  CHECK(CountOf(TraceText(kWithBias, settings), "+fc.lora_A.default.weight:512") == 0);
}

// A module's own parameters come to the device behind those of its children, and are cast before.
TEST_CASE("what is not packed is cast in the order of the model's parameters") {
  constexpr char kOwn[] = R"(
  net (float[256, 64] x) => (float[256, 64] y)
  < float[64, 64] "fc.weight" = ["location": "none"], float[64] "fc.bias" = ["location": "none"],
    float[32, 64] "scale" = ["location": "none"], float[64, 32] "head.weight" = ["location": "none"] > {
    ["/fc/Gemm"] h = Gemm <transB = 1> (x, "fc.weight", "fc.bias")
    ["/head/MatMul"] s = MatMul (h, "head.weight")
    ["/MatMul"] y = MatMul (s, "scale")
  })";
  const std::string text = TraceText(kOwn, WithQuantized({"fc"}, 4));
  CHECK(text.find("+fc.bias:128 ") < text.find("+scale:4096 "));
  CHECK_MESSAGE(text.find("+scale:8192 -scale +fc.bias:256 -fc.bias") != text.npos, text);
}

// Between the model and its adapters: both ways of playing a trace do it.
TEST_CASE("the cache is emptied when a packed model is prepared") {
  const Trace packed = Train(Build(kTwoBlocks, WithQuantized({}, 4)).program, WithQuantized({}, 4));
  CHECK(packed.cache_emptied_at.size() == 1);
  CHECK(Replay(packed).peak.reserved_bytes == RunOnCard(packed, kGiB).peak_reserved_bytes);
  CHECK(
      Train(Build(kTwoBlocks, WithQuantized()).program, WithQuantized()).cache_emptied_at.empty());
  Trace trace = {.events = {{.type = Event::Type::kAlloc, .id = 0},
                            {.type = Event::Type::kFree, .id = 0},
                            {.type = Event::Type::kAlloc, .id = 1}},
                 .buffers = {{.bytes = 30 * kMiB}, {.bytes = 40 * kMiB}},
                 .labels = {"a"}};
  CHECK(Replay(trace).peak.reserved_bytes == 70 * kMiB);
  trace.cache_emptied_at = {2};
  CHECK(Replay(trace).peak.reserved_bytes == 40 * kMiB);
  CHECK(RunOnCard(trace, kGiB).peak_reserved_bytes == 40 * kMiB);
}

// A row for each output: as many bytes as values, a scale of fp32 for each row.
TEST_CASE("a weight in 8 bits has a scale for each row") {
  const Program program = Build(kTwoBlocks, In8Bits({"head"})).program;
  REQUIRE(program.quantized.size() == 1);
  const QuantizedWeight& weight = program.quantized[0];
  CHECK(weight.full == TensorType{DType::kFloat16, {2, 64}});
  CHECK(program.values[Index(weight.packed)].type.dims == Dims{2, 64});
  CHECK(BytesOf(program, weight.packed) == 2 * 64);
  CHECK(BytesOf(program, weight.scales.scales) == 2 * 4);
  CHECK(program.values[Index(weight.scales.scales)].name == "head.SCB");
}

TEST_CASE("a layer in 8 bits quantizes what it is given; an adapter beside it adds to its result") {
  using Calls = std::vector<std::string>;
  const Calls layer = {"view", "to", "int8_row_stats", "int8_vectorwise_quant", "linear_8bit"};
  CHECK(CallsOf(Build(kTwoBlocks, In8Bits({"h.0.fc"})).program, "h.0.fc") == layer);
  Calls adapted = layer;
  adapted.insert(adapted.end(), {"to", "mul.Scalar", "type_as", "add"});
  CHECK(CallsOf(Build(kTwoBlocks, In8Bits({"h.0.fc"}, 4)).program, "h.0.fc") == adapted);
}

// MatMul8bitLt keeps its input in an attribute: until the loss is bound anew, and not until
// backward has run, as torch.nn.functional.linear does.
TEST_CASE("what a layer in 8 bits was given lives as long as the graph") {
  const auto kept = [](TrainingSettings settings) {
    settings.optimizer = Optimizer::kSgd;
    settings.freeze = {"h.*.out*", "head*"};
    const Trace trace = Train(Build(kTwoBlocks, settings).program, settings);
    return Replay(trace).steps[1].after_backward.requested_bytes;
  };
  constexpr int64_t kWeight = 64 * 64;
  constexpr int64_t kPacked = kWeight + 64 * 4;
  constexpr int64_t kInput = 256 * 64 * 4;
  const int64_t more = kept(In8Bits({"h.1.out"})) - kept({});
  CHECK(more == kPacked - 4 * kWeight + kInput);
}

// 256 rows of 64: x in fp16, a scale for each row, what is in 8 bits, |x|, what reaches 6, whether
// any does, the 0 for its columns; products in 32 bits, then in fp16.
TEST_CASE("what a layer in 8 bits makes on the way") {
  TrainingSettings settings = In8Bits({"fc"});
  settings.mode = Mode::kEval;
  settings.loss = Loss::kNone;
  settings.steps = 1;
  CHECK(TraceText(kOneLayer, settings) == R"(
setup     +fc.weight:256 +fc.SCB:8 +fc.weight:128 -fc.weight
forward   +x:65536 +y.half:32768 +y.SCA:1024 +y.CA:16384 +/fc/MatMul.scratch:32768 +/fc/MatMul.scratch:16384 -/fc/MatMul.scratch +/fc/MatMul.scratch:1 -/fc/MatMul.scratch +/fc/MatMul.scratch:1 -/fc/MatMul.scratch -/fc/MatMul.scratch -y.half +/fc/MatMul.scratch:2048 +/fc/MatMul.scratch:1024 +y:2048 -/fc/MatMul.scratch -/fc/MatMul.scratch -y.CA -y.SCA
)");
}

TEST_CASE("layers in 8 bits take inputs of two or three dimensions") {
  CHECK_THROWS_WITH_AS(Build(kFourDims, In8Bits({"fc"})),
                       "<text>: --quantize: expected inputs of two or three dimensions, as "
                       "bitsandbytes takes in 8 bits, found 4 of 'fc' (try: --quantize nf4)",
                       Error);
}

// PyTorch 2.11.0's own statistics of GPT-2 (512 tokens), batch 4, loaded in bf16 by
// bitsandbytes 0.50.2 and prepared by peft 0.21.2: rank 8, dropout 0.05; AdamW, three steps.
TEST_CASE("QLoRA's peak is PyTorch's, to the byte") {
  const Graph graph = LoadModel(std::string(kSourceDir) + "/models/gpt2.dynamo.onnx");
  EstimateRequest request = {.binding = {.batch = 4}};
  request.settings.quantize.kind = Quantization::kNf4;
  request.settings.lora = {.rank = 8, .dropout = 0.05};
  CHECK(MakeEstimate(graph, request).peak.exact_bytes == 3252350408);
}

// The same in 8 bits, batch 8 under autocast in bf16.
TEST_CASE("the peak of adapters beside layers in 8 bits is PyTorch's, to the byte") {
  const Graph graph = LoadModel(std::string(kSourceDir) + "/models/gpt2.dynamo.onnx");
  EstimateRequest request = {.binding = {.batch = 8}};
  request.settings.precision = Precision::kAmpBf16;
  request.settings.quantize.kind = Quantization::kInt8;
  request.settings.lora = {.rank = 8, .dropout = 0.05};
  CHECK(MakeEstimate(graph, request).peak.exact_bytes == 7060218668);
}

}  // namespace onnxfit::quantized_layers_test
