#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "estimator/base/error.h"
#include "estimator/libraries/libraries.h"
#include "estimator/operators/dispatch.h"
#include "tests/pt2_helpers.h"
#include "tests/trace_helpers.h"

namespace onnxfit::library_loops_test {
namespace {

// Two images of 4 by 4, in two classes; four tokens of a batch of two.
constexpr char kImages[] = R"(
  net (float[2, 3, 4, 4] x) => (float[2, 2] y)
  < float[2, 3, 4, 4] w = ["location": "none"] > {
    c = Conv (x, w)
    y = Flatten (c)
  })";
constexpr char kTokens[] = R"(
  net (float[2, 4, 8] x) => (float[2, 4, 3] y)
  < float[8, 3] w = ["location": "none"] > { y = MatMul (x, w) })";

std::string PhaseOf(const std::string& text, const std::string& name) {
  const size_t begin = text.find("\n" + name);
  return text.substr(begin + 1, text.find('\n', begin + 1) - begin - 1);
}

TrainingSettings By(LoopLibrary library, Precision precision = Precision::kFp32) {
  return {.precision = precision,
          .optimizer = Optimizer::kSgd,
          .loop = {.library = library},
          .steps = 1};
}

TEST_CASE("accelerate goes backward from a quotient, beside the loss") {
  const std::string text = TraceText(kTwoLayers, By(LoopLibrary::kAccelerate));
  CHECK_MESSAGE(PhaseOf(text, "backward")
                    .starts_with("backward  +loss / 1:4 +loss.grad:4 +loss.grad:4 "
                                 "+log_probabilities.grad:128"),
                text);
  CHECK_MESSAGE(PhaseOf(text, "backward").ends_with("-loss.grad -loss / 1"), text);
}

TEST_CASE("accelerate casts outputs once autocast has ended, and takes the loss of those") {
  const std::string text = TraceText(kTwoLayers, By(LoopLibrary::kAccelerate, Precision::kAmpBf16));
  CHECK_MESSAGE(PhaseOf(text, "forward")
                    .ends_with("+y:64 -w1.cast +y.float:128 -y +log_probabilities:128 +loss:4 "
                               "+loss.total_weight:4 -y.float"),
                text);
}

TEST_CASE("the Trainer counts labels, tests the loss and drops gradients behind the step") {
  TrainingSettings settings = By(LoopLibrary::kTrainer);
  settings.clip_grad = true;
  const std::string text = TraceText(kTwoLayers, settings);
  CHECK_MESSAGE(PhaseOf(text, "setup").ends_with("+sum of losses:4"), text);
  CHECK_MESSAGE(PhaseOf(text, "forward")
                    .starts_with("forward   +x:256 +labels:128 +number of labels:16 "
                                 "+number of labels:8 +number of labels:128 -number of labels "
                                 "-number of labels +number of labels:8 -number of labels +h:512"),
                text);
  CHECK_MESSAGE(
      PhaseOf(text, "backward").ends_with("+isnan:1 -isnan +isinf:4 +isinf:1 -isinf -isinf"), text);
  CHECK_MESSAGE(PhaseOf(text, "optimizer").find("-w1.grad -w2.grad") != std::string::npos, text);
}

TEST_CASE("the norm of the gradients is held until the next one is computed") {
  TrainingSettings settings = By(LoopLibrary::kTrainer);
  settings.clip_grad = true;
  settings.steps = 2;
  const std::string text = TraceText(kTwoLayers, settings);
  const std::string second = text.substr(text.rfind("\noptimizer"));
  CHECK_MESSAGE(second.starts_with("\noptimizer -clip_grad_norm +clip_grad_norm"), text);
}

TEST_CASE("the Trainer steps fused AdamW") {
  TrainingSettings settings = By(LoopLibrary::kTrainer);
  settings.optimizer = Optimizer::kAdamW;
  CHECK(TraceText(kTwoLayers, settings).find("+w1.step:4") != std::string::npos);
}

TEST_CASE("all micro-batches of the Trainer's step are there first") {
  TrainingSettings settings = By(LoopLibrary::kTrainer);
  settings.loop.accumulate = 2;
  const std::string text = TraceText(kTwoLayers, settings);
  CHECK_MESSAGE(
      text.find("+x:256 +labels:128 +x:256 +labels:128 +number of labels:16") != std::string::npos,
      text);
}

TEST_CASE("Lightning reports a copy of the loss, whose mean is the loss") {
  const std::string text = TraceText(kTwoLayers, By(LoopLibrary::kLightning));
  CHECK_MESSAGE(PhaseOf(text, "forward")
                    .ends_with("+loss / micro-batches:4 +copy of the loss:4 "
                               "-loss"),
                text);
  CHECK_MESSAGE(PhaseOf(text, "optimizer").ends_with("-loss / micro-batches"), text);
}

TEST_CASE("Lightning lets the batch go before it takes the next") {
  TrainingSettings settings = By(LoopLibrary::kLightning);
  settings.steps = 2;
  const std::string text = TraceText(kTwoLayers, settings);
  const std::string second = text.substr(text.rfind("\nforward"));
  CHECK_MESSAGE(second.starts_with("\nforward   -copy of the loss -x -labels +x:256 +labels:128"),
                text);
}

TEST_CASE("Lightning lets the loss of a micro-batch go before the next one's") {
  TrainingSettings settings = By(LoopLibrary::kLightning);
  settings.loop.accumulate = 2;
  const std::string text = TraceText(kTwoLayers, settings);
  const std::string second = text.substr(text.rfind("\nforward"));
  CHECK_MESSAGE(second.find("-loss / micro-batches") == second.rfind("-loss / micro-batches"),
                text);
}

TEST_CASE("Lightning's autocast casts a weight for each call") {
  TrainingSettings settings = By(LoopLibrary::kLightning, Precision::kAmpBf16);
  settings.in_place = InPlaceUse::kAlways;
  const std::string text = TraceText(kTwoLayers, settings);
  CHECK_MESSAGE(PhaseOf(text, "forward").find("-w1.cast +w2.cast") != std::string::npos, text);
}

// By ultralytics 8.4.190's own BaseTrainer (benchmarks/ways).
TEST_CASE("ultralytics sums its loss up, averages it, and holds each other batch longer") {
  TrainingSettings settings = By(LoopLibrary::kUltralytics);
  settings.steps = 3;
  const std::string text = TraceText(kTwoLayers, settings);
  CHECK_MESSAGE(PhaseOf(text, "forward").ends_with("-y +loss.sum():4"), text);
  const std::string second = text.substr(text.find("\nforward", text.find("\noptimizer")));
  CHECK_MESSAGE(second.starts_with("\nforward   +x:256 +labels:128"), second);
  CHECK_MESSAGE(PhaseOf(second, "forward").find("+tloss * i:4") != std::string::npos, second);
  const std::string third = text.substr(text.rfind("\nforward"));
  CHECK_MESSAGE(third.starts_with("\nforward   -x -labels -x -labels +x:256 +labels:128"), third);
}

TEST_CASE("ultralytics adds up losses of micro-batches, and asks cuBLAS for large workspaces") {
  TrainingSettings settings = By(LoopLibrary::kUltralytics);
  settings.loop.accumulate = 2;
  const std::string text = TraceText(kTwoLayers, settings);
  CHECK_MESSAGE(text.find("micro-batches") == std::string::npos, text);
  CHECK_MESSAGE(text.find("+cuBLAS workspace:33554432") != std::string::npos, text);
}

TEST_CASE("ultralytics' losses are known of models that tell classes") {
  CHECK_THROWS_WITH_AS(TraceText(kTokens, By(LoopLibrary::kUltralytics)),
                       doctest::Contains("found an output of 3 dimensions"), Error);
}

// Two layers and 16 images; timm's command line sets the defaults that are set here.
TrainingSettings ByTimm() {
  TrainingSettings settings = By(LoopLibrary::kTimm);
  settings.label_smoothing = true;
  settings.loop.hold_outputs = true;
  settings.loop.prefetch = 1;
  return settings;
}

TEST_CASE("timm smooths labels by statements of Python's") {
  const std::string text = TraceText(kTwoLayers, ByTimm());
  CHECK_MESSAGE(
      text.find("+logprobs:128 +picked:64 +nll_loss:64 -picked +mean:64 +smooth_loss:64 -mean "
                "+0.9 * nll_loss:64 +0.1 * smooth_loss:64 +losses:64 -0.9 * nll_loss "
                "-0.1 * smooth_loss +loss:4") != std::string::npos,
      text);
}

TEST_CASE("timm's logits are of two dimensions") {
  CHECK_THROWS_WITH_AS(TraceText(kTokens, ByTimm()), doctest::Contains("found 3 dimensions"),
                       Error);
}

TEST_CASE("timm holds the outputs until the next loss is there, and drops gradients") {
  TrainingSettings settings = ByTimm();
  settings.steps = 2;
  const std::string text = TraceText(kTwoLayers, settings);
  const std::string second = text.substr(text.rfind("\nforward"));
  CHECK_MESSAGE(
      PhaseOf(second, "forward").ends_with("+loss:4 -nll_loss -smooth_loss -losses -loss -y"),
      second);
  CHECK_MESSAGE(PhaseOf(text, "optimizer").ends_with("-w1.grad -w2.grad"), text);
}

TEST_CASE("timm divides the loss of micro-batches in place") {
  TrainingSettings settings = ByTimm();
  settings.loop.accumulate = 2;
  const std::string text = TraceText(kTwoLayers, settings);
  CHECK_MESSAGE(text.find("loss / micro-batches") == std::string::npos, text);
}

TrainingSettings ByTimmMixing(int64_t prefetch) {
  TrainingSettings settings = ByTimm();
  settings.loop.prefetch = prefetch;
  settings.label_smoothing = false;
  settings.mixup = true;
  settings.steps = 1;
  return settings;
}

TEST_CASE("images that are loaded ahead are mixed on the host, and so are their targets") {
  const TrainingSettings settings = ByTimmMixing(1);
  const std::string text = TraceText(kTwoLayers, settings);
  CHECK_MESSAGE(text.find("mixup") == std::string::npos, text);
  CHECK_MESSAGE(text.find("+x:256 +labels:128 ") != std::string::npos, text);
  CHECK_MESSAGE(text.find("+-target:128 +log_softmax:128 +products:128") != std::string::npos,
                text);
}

TEST_CASE("timm's Mixup makes targets of labels on the device, by copies") {
  const TrainingSettings settings = ByTimmMixing(0);
  const std::string text = TraceText(kTwoLayers, settings);
  CHECK_MESSAGE(text.find("+mixup:256 -mixup +mixup:128 +mixup:128 +mixup:128 +mixup:128 "
                          "+labels:128 -mixup -mixup -mixup -mixup +") != std::string::npos,
                text);
  CHECK_MESSAGE(text.find("+-target:128 +log_softmax:128 +products:128") != std::string::npos,
                text);
}

TEST_CASE("timm's images come as bytes, on a stream of their own") {
  const Trace trace = Train(Build(kImages, ByTimm()).program, ByTimm());
  std::string text;
  for (const Buffer& buffer : trace.buffers) {
    const std::string& label = trace.labels[static_cast<size_t>(buffer.label)];
    if (label != "x" && label != "labels" && !label.starts_with("loader")) continue;
    text += fmt::format("{}:{}@{} ", label, buffer.bytes, buffer.stream);
  }
  CHECK(
      text.starts_with("loader.mean:12@0 loader.std:12@0 loader.mean:12@0 loader.std:12@0 "
                       "x:96@3 labels:16@3 x:384@3 x:96@3 labels:16@3 x:384@3 "));
}

TEST_CASE("timm steps what does not decay first") {
  constexpr char kBias[] = R"(
    net (float[16, 4] x) => (float[16, 2] y)
    < float[4, 2] w = ["location": "none"], float[2] b = ["location": "none"] > {
      h = MatMul (x, w)
      y = Add (h, b)
    })";
  TrainingSettings settings = ByTimm();
  settings.optimizer = Optimizer::kSgdMomentum;
  settings.optimizer_args = kWeightDecay;
  const std::string text = TraceText(kBias, settings);
  CHECK_MESSAGE(PhaseOf(text, "optimizer")
                    .starts_with("optimizer +b.momentum_buffer:8 +optimizer temporary:32 "
                                 "+w.momentum_buffer:32"),
                text);
}

TEST_CASE("timm lets vectors, biases and some embeddings not decay") {
  CHECK(IsUndecayedByTimm("blocks.pos_embed"));
  CHECK(IsUndecayedByTimm("pos_embed"));
  CHECK_FALSE(IsUndecayedByTimm("my_pos_embed"));
}

TEST_CASE("the Trainer's LabelSmoother takes logits that the model has returned") {
  TrainingSettings settings = By(LoopLibrary::kTrainer);
  settings.label_smoothing = true;
  const std::string text = TraceText(kTwoLayers, settings);
  CHECK_MESSAGE(text.find("+log_softmax:128 +log_probs:128 +padding_mask:16 +labels:128 "
                          "+nll_loss:64 +smoothed_loss:64") != std::string::npos,
                text);
}

TEST_CASE("losses of models go by the ends of their classes' names") {
  const auto does = [](const char* name) { return LossOfModel(name).does; };
  CHECK(does("transformers.models.llama.modeling_llama.LlamaForCausalLM") ==
        (ModelLoss::kShiftsLabels | ModelLoss::kDivides | ModelLoss::kIsCausalLm));
  CHECK(does("m.modeling_vit.ViTForImageClassification") == ModelLoss::kDivides);
  CHECK(does("m.modeling_mobilevit.MobileViTForImageClassification") == 0);
  CHECK(does("m.ConvNextV2ForImageClassification") == ModelLoss::kTakesNoCount);
  CHECK(does("m.MT5ForConditionalGeneration") == ModelLoss::kShiftsInputs);
  CHECK(does("m.UperNetForSemanticSegmentation") == ModelLoss::kAddsAuxiliary);
  CHECK(does("") == 0);
}

TEST_CASE("biases and norms do not decay") {
  CHECK(IsUndecayed("h.0.attn.c_attn.bias"));
  CHECK(IsUndecayed("layers.0.input_layernorm.weight"));
  CHECK(IsUndecayed("model.norm.weight"));
  CHECK(IsUndecayed("layers.0.self_attn.q_norm.weight"));
  CHECK(IsUndecayed("encoder.LayerNorm.weight"));
  CHECK_FALSE(IsUndecayed("layers.0.normalizer.weight"));
}

}  // namespace
}  // namespace onnxfit::library_loops_test
