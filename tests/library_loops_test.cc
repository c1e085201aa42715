#include <doctest/doctest.h>

#include <string>

#include "estimator/eager/dispatch.h"
#include "estimator/program/libraries.h"
#include "tests/pt2_helpers.h"
#include "tests/trace_helpers.h"

namespace onnxfit::library_loops_test {
namespace {

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

TEST_CASE("Lightning's autocast casts a weight for each call") {
  const std::string text = TraceText(kTwoLayers, By(LoopLibrary::kLightning, Precision::kAmpBf16));
  CHECK_MESSAGE(PhaseOf(text, "forward").find("-w1.cast +w2.cast") != std::string::npos, text);
}

TEST_CASE("losses of models go by the ends of their classes' names") {
  const auto does = [](const char* name) { return LossOfModel(name).does; };
  CHECK(does("transformers.models.llama.modeling_llama.LlamaForCausalLM") ==
        (ModelLoss::kShiftsLabels | ModelLoss::kDivides));
  CHECK(does("m.modeling_vit.ViTForImageClassification") == ModelLoss::kDivides);
  CHECK(does("m.modeling_mobilevit.MobileViTForImageClassification") == 0);
  CHECK(does("m.ConvNextV2ForImageClassification") == ModelLoss::kTakesNoCount);
  CHECK(does("m.MT5ForConditionalGeneration") == ModelLoss::kShiftsInputs);
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
