#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "estimator/writer/loops_loss.h"
#include "estimator/writer/program_writer.h"
#include "estimator/writer/smoothed_losses.h"
#include "tests/trace_helpers.h"

namespace onnxfit::smoothed_loss_test {
namespace {

// What comes behind the model's last call, as `phase` has it.
std::string LossOf(const TrainingSettings& settings, const std::string& phase,
                   const std::string& from) {
  const std::string text = TraceText(kTwoLayers, settings);
  const size_t begin = text.find(from, text.find("\n" + phase));
  const size_t end = text.find('\n', begin);
  return begin == std::string::npos ? text : text.substr(begin, end - begin);
}

// [16, 2] logits, 16 labels.  The order of PyTorch's events (recorded, torch 2.11), but for
// the frees at a function's end.
TEST_CASE("labels are smoothed by a sum over the classes") {
  CHECK(LossOf({.optimizer = Optimizer::kSgd, .label_smoothing = true, .steps = 1}, "forward",
               "+loss._log_softmax") ==
        "+loss._log_softmax:128 +loss.nll_loss:4 +loss.nll_loss.total_weight:4 +loss.sum:64 "
        "+loss.neg:64 -loss.sum +loss.eq:16 +loss.logical_not:16 +loss.sum:8 +loss.scratch:128 "
        "-loss.scratch +loss.sum:4 +loss.div:4 -loss.sum -loss.logical_not +loss.mul.Scalar:4 "
        "+loss.mul.Scalar:4 +loss:4 -loss.nll_loss -loss.neg -loss.div -loss.mul.Scalar "
        "-loss.mul.Scalar -y");
}

TEST_CASE("autocast casts what the loss reads, not what is summed") {
  const TrainingSettings settings = {.precision = Precision::kAmpBf16,
                                     .optimizer = Optimizer::kSgd,
                                     .label_smoothing = true,
                                     .steps = 1};
  CHECK(LossOf(settings, "forward", "+loss._log_softmax")
            .starts_with("+loss._log_softmax:64 +loss._log_softmax.cast:128 +loss.nll_loss:4 "
                         "+loss.nll_loss.total_weight:4 +loss.sum:64 +loss.neg:64"));
}

// Two sequences of four tokens, in three classes.
Program OfLabelSmoother(const SmoothedBy& by) {
  const TrainingSettings settings;
  ProgramWriter writer(settings, "net.pt2");
  const NameId logits = writer.NewName("out", {DType::kFloat32, {2, 4, 3}});
  const NameId labels = writer.NewName("given", {DType::kInt64, {2, 4}});
  AppendTrainerSmoothing(writer, {.where = "loss"}, logits, labels, by);
  return writer.TakeProgram();
}

std::string OpsOf(const Program& program, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += std::string(program.calls[i].op) + " ";
  return text;
}

TEST_CASE("the LabelSmoother shifts what a causal model returns") {
  const Program program = OfLabelSmoother({.shifts = true});
  CHECK(OpsOf(program, 5) == "slice contiguous slice contiguous view ");
  CHECK(program.values[Index(program.calls[1].outputs[0])].type.dims == Dims{2, 3, 3});
  CHECK(program.values[Index(program.calls[3].outputs[0])].type.dims == Dims{2, 3});
}

// Two pixels of two images, in three classes, by two heads.
TEST_CASE("a model with an auxiliary head adds that one's loss") {
  const auto ops = [](const std::string& name) {
    TrainingSettings settings;
    settings.loop.library = LoopLibrary::kTrainer;
    ProgramWriter writer(settings, "net.pt2");
    const TensorType type = {DType::kFloat32, {2, 3, 1, 2}};
    const NameId features = writer.NewName("x", type);
    const NameId logits = writer.NewName("logits", type);
    const NameId auxiliary = writer.NewName("auxiliary", type);
    const ModuleId model = writer.program().modules.Enter({"model"});
    const ModuleId head = writer.program().modules.Enter({"model", "model.head"});
    writer.Emit({.where = "head", .module = head}, "relu", {features}, {features});
    writer.Emit({.where = "a", .module = model}, "relu", {features}, {logits});
    writer.Emit({.where = "b", .module = model}, "relu", {features}, {auxiliary});
    AppendLoopsLoss(writer, logits, {.class_name = name, .level = 0});
    const Program program = writer.TakeProgram();
    const auto reads = [&](const AtenCall& call) {
      return std::ranges::find(call.inputs, auxiliary) != call.inputs.end();
    };
    const auto read = std::ranges::count_if(program.calls, reads);
    return std::string(program.calls.back().op) + " " + std::to_string(read);
  };
  CHECK(ops("transformers.models.upernet.modeling_upernet.UperNetForSemanticSegmentation") ==
        "add 1");
  CHECK(ops("transformers.models.segformer.modeling_segformer.SegformerForSemanticSegmentation") !=
        "add 1");
}

TEST_CASE("the name of the labels is bound anew, that of the logits is not") {
  const Program program = OfLabelSmoother({.shifts = true});
  const auto is_held = [&](NameId name) {
    const auto& held = program.calls.back().held;
    return std::ranges::find(held, name, &HeldValue::value) != held.end();
  };
  CHECK(is_held(program.calls[1].outputs[0]));
  CHECK_FALSE(is_held(program.calls[3].outputs[0]));
}

TEST_CASE("what is summed lives until its name is bound to the quotient") {
  const Program program = OfLabelSmoother({});
  std::string held;
  for (const AtenCall& call : program.calls) {
    if (call.op != "div" || call.held.empty()) continue;
    held += program.values[Index(call.held[0].value)].name + " of " +
            program.values[Index(call.outputs[0])].name + " ";
  }
  CHECK(held == "nll_loss of nll_loss smoothed_loss of smoothed_loss ");
}

TEST_CASE("the LabelSmoother counts labels where nobody has") {
  const Program counting = OfLabelSmoother({});
  CHECK(OpsOf(counting, 10) ==
        "view log_softmax neg eq clamp gather sum masked_fill_ masked_fill_ to ");
  constexpr NameId kCounted = 1;
  CHECK(OfLabelSmoother({.count = kCounted}).calls.size() == counting.calls.size() - 3);
}

}  // namespace
}  // namespace onnxfit::smoothed_loss_test
