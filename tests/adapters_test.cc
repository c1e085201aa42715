// LoRA: what peft puts beside a model's layers.
#include "estimator/transforms/adapters.h"

#include <doctest/doctest.h>

#include <string>
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

namespace onnxfit::adapters_test {
namespace {

TrainingSettings WithLora(LoraSettings lora) {
  TrainingSettings settings;
  settings.lora = std::move(lora);
  return settings;
}

std::vector<std::string> NamesOf(const Program& program, const std::vector<NameId>& ids) {
  std::vector<std::string> names;
  for (const NameId id : ids) names.push_back(program.values[Index(id)].name);
  return names;
}

int64_t TrainedIn(const Program& program) {
  int64_t trained = 0;
  for (const NameId name : program.parameters) {
    trained += Numel(program.values[Index(name)].type.dims);
  }
  return trained;
}

// One line a call of the module, with what dies behind it.
std::string CallsIn(const Program& program, std::string_view module) {
  std::string text;
  for (const AtenCall& call : program.calls) {
    const std::string& path = program.modules.PathOf(call.module);
    if (!path.starts_with(module)) continue;
    text += std::string(call.op) + " " + path;
    for (const std::string& name : NamesOf(program, call.dies)) text += " -" + name;
    text += "\n";
  }
  return text;
}

// What is trained of kTwoBlocks.
std::vector<std::string> TrainedOf(const std::vector<std::string>& targets) {
  const Program program = Build(kTwoBlocks, WithLora({.rank = 4, .targets = targets})).program;
  return NamesOf(program, program.parameters);
}

// As an export of what peft has adapted.
constexpr char kAdapted[] = R"(
  net (float[256, 64] x) => (float[256, 64] y)
  < float[64, 64] "fc.base_layer.weight" = ["location": "none"],
    float[64, 4] "fc.lora_A.default.weight" = ["location": "none"],
    float[4, 64] "fc.lora_B.default.weight" = ["location": "none"] > {
    ["/fc/base_layer/MatMul"] a = MatMul (x, "fc.base_layer.weight")
    ["/fc/lora_A.default/MatMul"] b = MatMul (x, "fc.lora_A.default.weight")
    ["/fc/lora_B.default/MatMul"] c = MatMul (b, "fc.lora_B.default.weight")
    ["/fc/Add"] y = Add (a, c)
  })";

// An embedding of 50 words of 8, and a head of the same shape.
constexpr char kWords[] = R"(
  net (int64[2, 5] ids) => (float[2, 5, 50] y)
  < float[50, 8] "embed.weight" = ["location": "none"],
    float[8, 8] "fc.weight" = ["location": "none"],
    float[8, 50] "head.weight" = ["location": "none"] > {
    ["/embed/Gather"] e = Gather ("embed.weight", ids)
    ["/fc/MatMul"] h = MatMul (e, "fc.weight")
    ["/head/MatMul"] y = MatMul (h, "head.weight")
  })";

}  // namespace

TEST_CASE("linear layers are those that multiply by a matrix of their own") {
  const std::vector<LinearLayer> layers = FindLinearLayers(Build(kWords, {}).program);
  REQUIRE(layers.size() == 2);
  CHECK(layers[0].path == "fc");
  CHECK(layers[0].in_features == 8);
  CHECK_FALSE(layers[0].is_output);
  CHECK(layers[1].path == "head");
  CHECK(layers[1].out_features == 50);
  CHECK(layers[1].is_output);
}

TEST_CASE("names pick layers wherever they are, globs by their whole path") {
  const std::vector<std::string> both = {
      "h.0.fc.lora_A.default.weight", "h.0.fc.lora_B.default.weight",
      "h.1.fc.lora_A.default.weight", "h.1.fc.lora_B.default.weight"};
  CHECK(TrainedOf({"fc"}) == both);
  CHECK(TrainedOf({"h.*.fc"}) == both);
  CHECK(TrainedOf({"h.1.fc"}) == std::vector<std::string>(both.begin() + 2, both.end()));
  CHECK(TrainedOf({"head"}).size() == 2);
  CHECK(TrainedOf({"all-linear"}).size() == 10);
}

TEST_CASE("all-linear leaves out what has the shape of an embedding") {
  const Program program = Build(kWords, WithLora({.rank = 2, .targets = {"all-linear"}})).program;
  CHECK(NamesOf(program, program.parameters) ==
        std::vector<std::string>{"fc.lora_A.default.weight", "fc.lora_B.default.weight"});
}

TEST_CASE("an adapter has rank times inputs and outputs, which alone are trained") {
  EstimateRequest request = {.settings = WithLora({.rank = 4, .targets = {"fc", "out"}})};
  const Estimate estimate = MakeEstimate(ParseGraph(kTwoBlocks), request);
  constexpr int64_t kAdapters = 4 * 4 * (64 + 64);
  CHECK(estimate.model.parameters == 4 * 64 * 64 + 64 * 2 + kAdapters);
  CHECK(estimate.optimizer_state_bytes == 2 * 4 * kAdapters);
  const std::vector<std::string>& told = estimate.assumptions;
  CHECK(std::ranges::find(told,
                          "adapters of rank 4 are trained beside 4 of 5 linear layers, the first "
                          "h.0.fc: 2048 parameters; all others are frozen") != told.end());
}

// A matrix [rank, in] and one [out, rank] beside each layer; DoRA has a magnitude for each output.
TEST_CASE("what is trained, and its optimizer's states, have closed forms") {
  struct Row {
    const char* model;
    std::vector<std::string> targets;
    int64_t inputs;   // of all picked layers
    int64_t outputs;  // the same
  };
  const Row rows[] = {
      {"gpt2.dynamo.onnx", {}, 12 * 768, 12 * 3 * 768},
      {"gpt2.dynamo.onnx", {"c_fc", "mlp.c_proj"}, 12 * 5 * 768, 12 * 5 * 768},
      {"gpt2.dynamo.onnx", {"attn.c_proj"}, 12 * 768, 12 * 768},
      {"t5_small.script.onnx", {"q", "v"}, 18 * 2 * 512, 18 * 2 * 512},
      {"vgg16.script.onnx", {"all-linear"}, 25088 + 4096 + 4096, 4096 + 4096 + 1000},
      {"resnet50.train.onnx", {"fc"}, 2048, 1000},
  };
  for (const Row& row : rows) {
    const Graph graph = LoadModel(std::string(kSourceDir) + "/models/" + row.model);
    for (const int64_t rank : {1, 8}) {
      for (const bool dora : {false, true}) {
        CAPTURE(row.model);
        CAPTURE(rank);
        CAPTURE(dora);
        EstimateRequest request = {.binding = {.batch = 1}};
        request.settings = WithLora({.rank = rank, .targets = row.targets, .dora = dora});
        const int64_t trained = rank * (row.inputs + row.outputs) + (dora ? row.outputs : 0);
        CHECK(TrainedIn(Build(graph, request.settings, request.binding).program) == trained);
        CHECK(MakeEstimate(graph, request).optimizer_state_bytes == 2 * 4 * trained);
      }
    }
  }
}

// result = result + lora_B(lora_A(dropout(x))) * scaling
TEST_CASE("the adapted layer's calls, and what lives as long as its frame") {
  const Program program =
      Build(kTwoBlocks, WithLora({.rank = 4, .targets = {"h.0.out"}, .dropout = 0.1})).program;
  CHECK(CallsIn(program, "h.0.out") ==
        "matmul h.0.out\n"
        "to h.0.out\n"
        "dropout h.0.out.lora_dropout.default\n"
        "linear h.0.out.lora_A.default -b.to.lora_dropout\n"
        "linear h.0.out.lora_B.default -b.to.lora_dropout.lora_A\n"
        "mul.Scalar h.0.out -b.to.lora_dropout.lora_A.lora_B\n"
        "add h.0.out -b.to.lora_dropout.lora_A.lora_B.mul -c.base_layer\n"
        "type_as h.0.out -c.base_layer.add -b.to -x -b\n");
}

// The base weight lies [in, out], as transformers' Conv1D has it.
TEST_CASE("a layer with magnitudes computes the norm of its weight and the adapter's") {
  const Program program =
      Build(kTwoBlocks, WithLora({.rank = 4, .targets = {"h.0.out"}, .dora = true})).program;
  CHECK(NamesOf(program, program.parameters) ==
        std::vector<std::string>{"h.0.out.lora_A.default.weight", "h.0.out.lora_B.default.weight",
                                 "h.0.out.lora_magnitude_vector.default.weight"});
  std::string ops;
  for (const AtenCall& call : program.calls) {
    const bool is_adapted = program.modules.PathOf(call.module).starts_with("h.0.out");
    if (is_adapted) ops += std::string(call.op) + (call.leaves_autograd ? "*\n" : "\n");
  }
  CHECK(ops ==
        "matmul\n"                                  // the base layer
        "to\n"                                      // x
        "constant\nlinear\nlinear\npermute\nto\n"   // lora_B(lora_A(eye)).T
        "to\n"                                      // weight
        "mul.Scalar*\nadd*\nlinalg_vector_norm*\n"  // |weight + scaling * that|
        "div\nview\n"                               // magnitude / norm
        "linear\nlinear\n"                          // lora_B(lora_A(x))
        "add.Scalar\nmul\nmul\nmul.Scalar\nadd\n"   // of both results
        "add\ntype_as\n");
}

TEST_CASE("what is not counted of Conv1D's magnitudes is said") {
  const std::string gpt2 = std::string(kSourceDir) + "/models/gpt2.dynamo.onnx";
  const auto said = [&](LoraSettings lora) {
    const std::vector<std::string> told =
        Build(LoadModel(gpt2), WithLora(std::move(lora))).program.assumptions;
    return std::ranges::count(
        told, std::string("gradients that peft makes of the transposed weights of 12 adapted "
                          "layers behind a dropout (transformers' Conv1D), and nobody reads, are "
                          "not counted"));
  };
  CHECK(said({.rank = 8, .dropout = 0.1, .dora = true}) == 1);
  CHECK(said({.rank = 8, .dora = true}) == 0);
  CHECK(said({.rank = 8, .dropout = 0.1}) == 0);
}

TEST_CASE("magnitudes beside packed or sharded weights are refused") {
  TrainingSettings settings = WithLora({.rank = 4, .targets = {"fc"}, .dora = true});
  settings.quantize.kind = Quantization::kNf4;
  CHECK_THROWS_WITH_AS(Build(kTwoBlocks, settings),
                       "<text>: --dora: expected layers that are not packed, found --quantize",
                       Error);
  settings.quantize = {};
  settings.ranks.strategy = Strategy::kFsdp;
  CHECK_THROWS_WITH_AS(Train(Build(kTwoBlocks, settings).program, settings),
                       "--strategy: expected no --dora with fsdp", Error);
}

// PyTorch 2.11.0's own statistics of GPT-2 (512 tokens) with adapters of rank 8 and dropout 0.05 by
// peft 0.21.2: AdamW, three steps.
TEST_CASE("peaks are PyTorch's, to the byte") {
  const std::string gpt2 = std::string(kSourceDir) + "/models/gpt2.dynamo.onnx";
  const auto peak_of = [&](int64_t batch, Precision precision) {
    EstimateRequest request = {.binding = {.batch = batch}};
    request.settings = WithLora({.rank = 8, .dropout = 0.05});
    request.settings.precision = precision;
    return MakeEstimate(LoadModel(gpt2), request).peak;
  };
  CHECK(peak_of(4, Precision::kFp32) == Peak{3548386312, 3559017472, 3636461568});
  CHECK(peak_of(8, Precision::kAmpBf16) == Peak{5729520428, 5737254400, 6329204736});
}

// The same with use_dora=True and no dropout.
TEST_CASE("DoRA's peak is PyTorch's, to the byte") {
  EstimateRequest request = {.binding = {.batch = 8}};
  request.settings = WithLora({.rank = 8, .dora = true});
  request.settings.precision = Precision::kAmpBf16;
  const std::string gpt2 = std::string(kSourceDir) + "/models/gpt2.dynamo.onnx";
  CHECK(MakeEstimate(LoadModel(gpt2), request).peak == Peak{6375049004, 6383045120, 7027556352});
}

TEST_CASE("of an export with adapters in it, they alone are trained") {
  const Program program = Build(kAdapted, {}).program;
  CHECK(NamesOf(program, program.frozen) == std::vector<std::string>{"fc.base_layer.weight"});
  CHECK(NamesOf(program, program.parameters) ==
        std::vector<std::string>{"fc.lora_A.default.weight", "fc.lora_B.default.weight"});
  CHECK(Build(kTwoBlocks, {}).program.frozen.empty());
}

TEST_CASE("without names, peft's own for the type of model, else those of most types") {
  const std::string gpt2 = std::string(kSourceDir) + "/models/gpt2.dynamo.onnx";
  const Program program = Build(LoadModel(gpt2), WithLora({.rank = 8})).program;
  const std::vector<std::string> names = NamesOf(program, program.parameters);
  REQUIRE(names.size() == 24);
  CHECK(names[0] == "model.transformer.h.0.attn.c_attn.lora_A.default.weight");
  using Names = std::vector<std::string>;
  CHECK(AdapterTargetsOf("gpt2", {"q_proj", "v_proj"}) == Names{"c_attn"});
  CHECK(AdapterTargetsOf("deberta_v2", {}) == Names{"query_proj", "value_proj"});
  CHECK(AdapterTargetsOf("new", {"k_proj", "q_proj", "v_proj", "fc"}) == Names{"q_proj", "v_proj"});
  CHECK(AdapterTargetsOf("", {"key", "query", "value"}) == Names{"query", "value"});
  CHECK_THROWS_WITH_AS(Build(kTwoBlocks, WithLora({.rank = 8})),
                       "<text>: --lora: expected layers that peft puts adapters beside when it is "
                       "not told (q_proj, v_proj, query, value …), found none (try: --lora "
                       "RANK:NAME with names of layers such as fc, or all-linear)",
                       Error);
  CHECK_THROWS_WITH_AS(
      TrainedOf({"q"}),
      "<text>: --lora: expected names of linear layers (h.0.fc, h.0.out, h.1.fc …), found "
      "'q'",
      Error);
  CHECK(ModelTypeOf("transformers.models.gpt2.modeling_gpt2.GPT2Model") == "gpt2");
  CHECK(ModelTypeOf("torch.nn.modules.linear.Linear").empty());
}

}  // namespace onnxfit::adapters_test
