// Whole steps that were watched: what they do between their calls, played by the machine.
#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/pt2/exported_program.h"
#include "tests/pt2_helpers.h"
#include "tests/trace_helpers.h"

namespace onnxfit::watched_step_test {
namespace {

using namespace onnxfit::pt2;  // NOLINT(google-build-using-namespace): its helpers

// A step of a network of one layer, fc, and what it does: y = fc(x), loss = y.sum().
class StepBuilder {
 public:
  StepBuilder() {
    Act("begin");
    builder_.Parameter("p_w", "fc.weight", {8, 8}).Input("x", {8});
  }

  StepBuilder& Forward(std::string_view result, std::string_view loss) {
    builder_.In("fc").Make("torch.ops.aten.linear.default", result,
                           {{"input", Ref("x")}, {"weight", Ref("p_w")}}, {8});
    builder_.In("").MakeFixed("torch.ops.aten.sum.default", loss, {{"self", Ref(result)}}, {});
    return Watch({.dies = {result}});
  }

  StepBuilder& Backward(std::string_view loss, bool keeps_graph = false) {
    Act("backward", {{"roots", List({Ref(loss)})},
                     {"gradients", List({{}})},
                     {"keeps_graph", Bool(keeps_graph)}});
    return *this;
  }

  // What the last call lets go of.
  StepBuilder& Watch(const WatchedCall& watched) {
    last().watched = std::make_shared<const WatchedCall>(watched);
    return *this;
  }

  StepBuilder& Act(std::string_view kind, Arguments arguments = {}) {
    const std::string_view target = Keep("onnxfit." + std::string(kind));
    const std::string_view name = Keep(std::string(kind) + std::to_string(++acts_));
    builder_.program().graph.calls.push_back(
        {.target = target, .name = name, .arguments = std::move(arguments)});
    return Watch({});
  }

  // The last call makes `name`, a scalar or what `sizes` say.
  StepBuilder& Makes(std::string_view name, const std::vector<int64_t>& sizes = {}) {
    Tensor tensor = {.dtype = DType::kFloat32};
    for (const int64_t size : sizes) tensor.sizes.push_back({.number = size});
    builder_.program().graph.tensors[name] = tensor;
    last().results = {Ref(name)};
    return *this;
  }

  StepBuilder& Calls(std::string_view target, std::string_view name, Arguments arguments) {
    builder_.MakeFixed(target, name, std::move(arguments), {8, 8});
    return Watch({});
  }

  // Its second step by an optimizer, as text.
  std::string Played(std::string_view optimizer = "sgd") {
    const std::string text =
        ToString(Train(MadeWith(optimizer), {.mode = Mode::kTrain, .steps = 2}));
    return text.substr(text.rfind("\nforward   +x"));
  }

  Program MadeWith(std::string_view optimizer) {
    ExportedProgram program = builder_.program();
    program.watching = Watching{.precision = "own",
                                .is_whole_step = true,
                                .optimizers = {{{.optimizer = optimizer, .parameters = {"p_w"}}}}};
    return Made(program, {.mode = Mode::kTrain, .loss = Loss::kNone}).program;
  }

 private:
  Call& last() { return builder_.program().graph.calls.back(); }
  std::string_view Keep(std::string text) {
    texts_.push_back(std::make_shared<const std::string>(std::move(text)));
    return *texts_.back();
  }

  ExportedBuilder builder_;
  std::vector<std::shared_ptr<const std::string>> texts_;
  int acts_ = 0;
};

Arguments Optimizer(int64_t number) { return {{"optimizer", Number(number)}}; }

TEST_CASE("a step goes backward and steps where its code does") {
  StepBuilder step;
  step.Watch({.drops = {"p_w"}});
  step.Forward("y", "loss").Backward("loss").Act("step", Optimizer(0)).Watch({.dies = {"loss"}});
  CHECK(step.Played() == R"(
forward   +x:128 -x -fc.weight.grad +y:128 +loss:4 -y
backward  +loss.grad:4 +fc.weight.grad:256 +y.scratch:128 -y.scratch -loss.grad
optimizer -loss
)");
  CHECK(step.Played("adamw") == R"(
forward   +x:128 -x -fc.weight.grad +y:128 +loss:4 -y
backward  +loss.grad:4 +fc.weight.grad:256 +y.scratch:128 -y.scratch -loss.grad
optimizer +optimizer temporary:256 -optimizer temporary -loss
)");
}

TEST_CASE("gradients add up where nothing drops them in between") {
  StepBuilder step;
  step.Forward("y", "loss").Backward("loss").Watch({.dies = {"loss"}});
  step.Forward("z", "last").Backward("last").Watch({.dies = {"last"}, .drops = {"p_w"}});
  CHECK(step.Played() == R"(
forward   +x:128 -x +y:128 +loss:4 -y
backward  +loss.grad:4 +fc.weight.grad:256 +y.scratch:128 -y.scratch -loss.grad -loss
forward   +z:128 +last:4 -z
backward  +loss.grad:4 +fc.weight.grad:256 +z.scratch:128 -z.scratch -fc.weight.grad -loss.grad )"
                         "-last -fc.weight.grad\n");
}

TEST_CASE("a graph that is kept goes backward twice") {
  StepBuilder step;
  step.Forward("y", "loss").Backward("loss", /*keeps_graph=*/true).Backward("loss");
  step.Watch({.dies = {"loss"}, .drops = {"p_w"}});
  CHECK(step.Played() == R"(
forward   +x:128 -x +y:128 +loss:4 -y
backward  +loss.grad:4 +fc.weight.grad:256 +y.scratch:128 -y.scratch -loss.grad )"
                         "+loss.grad:4 +fc.weight.grad:256 +y.scratch:128 -y.scratch "
                         "-fc.weight.grad -loss.grad -loss -fc.weight.grad\n");
}

TEST_CASE("a norm is of the gradients that are there") {
  StepBuilder step;
  step.Forward("y", "loss").Backward("loss").Watch({.dies = {"loss"}});
  step.Act("norm", {{"parameters", List({Text("p_w")})}}).Makes("norm");
  step.Act("clip", {{"roots", List({Ref("norm")})}}).Watch({.dies = {"norm"}, .drops = {"p_w"}});
  const std::string played = step.Played();
  CHECK(played.find("-loss.grad -loss +clip_grad_norm:4 +clip_grad_norm:4 -clip_grad_norm "
                    "+clip_grad_norm:4 +clip_grad_norm:4 -clip_grad_norm -clip_grad_norm "
                    "+clip_grad_norm:4") != played.npos);
  CHECK(played.ends_with("-clip_grad_norm -clip_grad_norm -clip_grad_norm -fc.weight.grad\n"));
}

TEST_CASE("calls read gradients by their names") {
  StepBuilder step;
  step.Forward("y", "loss").Backward("loss").Makes("w.grad", {8, 8}).Watch({.dies = {"loss"}});
  step.Calls("torch.ops.aten.abs.default", "size", {{"self", Ref("w.grad")}});
  step.Watch({.dies = {"size", "w.grad"}, .drops = {"p_w"}});
  CHECK(step.Played().ends_with("-loss.grad -loss +size:256 -size -fc.weight.grad\n"));
}

TEST_CASE("what asks for no gradient for a while gets none") {
  StepBuilder step;
  step.Act("ask_none", {{"parameters", List({Text("p_w")})}});
  step.Forward("y", "loss").Act("ask_gradients", {{"parameters", List({Text("p_w")})}});
  step.Watch({.dies = {"loss"}});
  step.Forward("z", "last").Backward("last").Watch({.dies = {"last"}, .drops = {"p_w"}});
  CHECK(step.Played() == R"(
forward   +x:128 -x +y:128 +loss:4 -y -loss +z:128 +last:4 -z
backward  +loss.grad:4 +fc.weight.grad:256 +z.scratch:128 -z.scratch -loss.grad -last )"
                         "-fc.weight.grad\n");
}

TEST_CASE("data of a parameter may be another tensor's") {
  StepBuilder step;
  step.Calls("torch.ops.aten.abs.default", "size", {{"self", Ref("p_w")}});
  step.Act("set_data", {{"roots", List({Ref("p_w"), Ref("size")})}}).Watch({.dies = {"size"}});
  CHECK(step.Played() == "\nforward   +x:128 -x +size:256 -size\n");
}

TEST_CASE("actions and optimizers that are not known are refused") {
  StepBuilder unknown;
  unknown.Forward("y", "loss").Act("leap");
  CHECK_THROWS_WITH_AS(unknown.MadeWith("sgd"),
                       "watched step: expected an action that is known, found 'leap' (try: the "
                       "package and the command of one version)",
                       Error);
  StepBuilder step;
  step.Forward("y", "loss").Backward("loss").Act("step", Optimizer(1));
  CHECK_THROWS_AS(step.MadeWith("sgd"), Error);
  CHECK_THROWS_AS(step.MadeWith("grow"), Error);
}

}  // namespace
}  // namespace onnxfit::watched_step_test
