// torch.autograd.Functions whose backward was watched: what their node keeps, and what runs in
// backward.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/pt2/exported_program.h"
#include "tests/pt2_helpers.h"
#include "tests/trace_helpers.h"

namespace onnxfit::own_functions_test {
namespace {

using namespace onnxfit::pt2;  // NOLINT(google-build-using-namespace): its helpers

const WatchedCall kInForward = {.is_in_function = true};
const WatchedCall kInBackward = {.leaves_autograd = true, .is_in_backward = true};

// y = fc(x), then z = f(y), whose forward is z = sin(y): of a network [n, 8] → [n, 8].
class FunctionBuilder {
 public:
  FunctionBuilder() {
    builder_.Parameter("p_w", "fc.weight", {8, 8}).Input("x", {8});
    Call("torch.ops.aten.linear.default", "y", {{"input", Ref("x")}, {"weight", Ref("p_w")}}, {});
  }

  FunctionBuilder& Call(std::string_view target, std::string_view name, Arguments arguments,
                        const WatchedCall& watched) {
    builder_.Make(target, name, std::move(arguments), {8});
    return Watch(watched);
  }
  FunctionBuilder& Unary(std::string_view target, std::string_view name, std::string_view of,
                         const WatchedCall& watched) {
    return Call(target, name, {{"self", Ref(of)}}, watched);
  }

  // One that makes `results`, as large as y.
  FunctionBuilder& Part(std::string_view target, Arguments arguments,
                        const std::vector<std::string_view>& results = {}) {
    pt2::Call part = {.target = target, .name = target, .arguments = std::move(arguments)};
    for (const std::string_view name : results) {
      builder_.program().graph.tensors[name] = builder_.program().graph.tensors.at("y");
      part.results.push_back(Ref(name));
    }
    builder_.program().graph.calls.push_back(std::move(part));
    return Watch(kInBackward);
  }

  // The end of f's forward, and what backward is given.
  FunctionBuilder& Node(std::vector<Argument> saved, std::vector<Argument> kept,
                        const std::vector<std::string_view>& arrived) {
    Part("onnxfit.function", {{"arguments", List({Ref("y"), {}})},
                              {"results", List({Ref("z")})},
                              {"saved", List(std::move(saved))},
                              {"kept", List(std::move(kept))}});
    Watch({.dies = {"y"}});
    return Part("onnxfit.function_arrival", {}, arrived);
  }
  FunctionBuilder& Return(std::string_view gradient) {
    return Part("onnxfit.function_return", {{"gradients", List({Ref(gradient), {}})}});
  }

  FunctionBuilder& Watch(const WatchedCall& watched) {
    builder_.program().graph.calls.back().watched = std::make_shared<const WatchedCall>(watched);
    return *this;
  }

  Program Finished(const TrainingSettings& settings = {}) {
    ExportedProgram program = builder_.Return("z");
    program.watching = Watching{.precision = "fp32"};
    return Made(program, settings).program;
  }
  // The second of two steps, of a batch of two: each tensor but the weights is 64 bytes.
  std::string Played(TrainingSettings settings = {}) {
    settings.mode = Mode::kTrain, settings.steps = 2, settings.loss = Loss::kMse;
    const std::string text = ToString(Train(Finished(settings), settings));
    return text.substr(text.rfind("\nforward"));
  }

 private:
  ExportedBuilder builder_;
};

FunctionBuilder Sine() {
  return FunctionBuilder().Unary("torch.ops.aten.sin.default", "z", "y", kInForward);
}

// What is summed up for the loss is that of every such network.
std::string Backward(const std::string& played) {
  return played.substr(played.find("\nbackward"),
                       played.find("\noptimizer") - played.find("\nbackward"));
}

TEST_CASE("a function keeps what it saves, and its backward runs as it did") {
  FunctionBuilder sine = Sine();
  sine.Node({Ref("y")}, {}, {"g", "y2"});
  sine.Unary("torch.ops.aten.cos.default", "c", "y2", kInBackward);
  sine.Call("torch.ops.aten.mul.Tensor", "d", {{"self", Ref("g")}, {"other", Ref("c")}},
            {.dies = {"c"}, .leaves_autograd = true, .is_in_backward = true});
  const std::string played = sine.Return("d").Played();
  CHECK(played.find("+y:128 +z:128 +loss:128") != played.npos);
  CHECK(Backward(played) ==
        "\nbackward  +loss.grad:4 +z.grad:128 -z +c:128 +d:128 -c -z.grad -y +fc.weight.grad:256 "
        "-d -loss.grad");
}

TEST_CASE("what a function does not save dies in its forward") {
  FunctionBuilder sine = Sine();
  sine.Node({}, {}, {"g"}).Return("g");
  CHECK(sine.Played().find("+y:128 +z:128 -y +loss:128") != std::string::npos);
}

TEST_CASE("what its context keeps lives on until the node dies") {
  FunctionBuilder sine = Sine();
  sine.Node({}, {Ref("y")}, {"g", "y2"}).Return("g");
  // The loss of the step before holds it until it is bound anew.
  CHECK(sine.Played().find("-loss.scratch -y -loss") != std::string::npos);
}

TEST_CASE("a leaf inside of a backward gets its gradient") {
  FunctionBuilder sine = Sine();
  sine.Node({Ref("y")}, {}, {"g", "y2"});
  sine.Part("onnxfit.function_leaf", {{"leaves", List({Ref("y2")})}});
  sine.Unary("torch.ops.aten.sin.default", "again", "y2", {.is_in_backward = true});
  sine.Part("onnxfit.function_nested",
            {{"leaves", List({Ref("y2")})},
             {"roots", List({Ref("again")})},
             {"gradients", List({Ref("g")})},
             {"keeps_graph", Bool(false)}},
            {"d"});
  sine.Watch({.dies = {"again"}, .is_in_backward = true}).Return("d");
  CHECK(Backward(sine.Played()) ==
        "\nbackward  +loss.grad:4 +z.grad:128 -z +again:128 +again.scratch:128 +y2.grad:128 "
        "-again.scratch -again -z.grad -y +fc.weight.grad:256 -y2.grad -loss.grad");
}

TEST_CASE("without gradients, and in compiled code, no function is a node") {
  FunctionBuilder sine = Sine();
  sine.Node({Ref("y")}, {}, {"g", "y2"}).Return("g");
  const auto parts = [&](const TrainingSettings& settings) {
    FunctionBuilder copy = sine;
    return copy.Finished(settings).calls.size();
  };
  const size_t plain = parts({.mode = Mode::kEval});
  CHECK(plain == 2);
  CHECK(parts({.mode = Mode::kTrain, .loss = Loss::kNone}) == plain + 3);
}

TEST_CASE("parts that do not go together are refused") {
  FunctionBuilder open = Sine();
  open.Node({Ref("y")}, {}, {"g", "y2"});
  CHECK_THROWS_AS(open.Finished(), Error);
  FunctionBuilder short_of = Sine();
  short_of.Node({Ref("y")}, {}, {"g"}).Return("g");
  CHECK_THROWS_AS(short_of.Finished(), Error);
  FunctionBuilder alone = Sine();
  alone.Return("y");
  CHECK_THROWS_WITH_AS(
      alone.Finished(),
      "watched step: expected a function's backward that is known, found "
      "'onnxfit.function_return' (try: the package and the command of one version)",
      Error);
}

}  // namespace
}  // namespace onnxfit::own_functions_test
