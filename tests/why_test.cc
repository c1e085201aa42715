// The lives of tensors, as --why tells them.
#include "estimator/fit/why.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "estimator/base/error.h"
#include "estimator/fit/estimate.h"
#include "estimator/onnx/loader.h"
#include "estimator/report/estimate.h"
#include "tests/files.h"
#include "tests/paths.h"
#include "tests/trace_helpers.h"

namespace onnxfit::why_test {
namespace {

const TrainingSettings kSgd = {.optimizer = Optimizer::kSgd, .in_place = InPlaceUse::kAlways};

// The report from where the peak is on.
std::string Told(const Graph& graph, const TrainingSettings& settings, const std::string& name) {
  const std::string text =
      ToText(MakeEstimate(graph, {.settings = settings, .why = name}), {.rows = 3});
  return "\n" + text.substr(text.find("The peak"));
}

std::string Told(const char* text, const TrainingSettings& settings, const std::string& name) {
  return Told(ParseGraph(text), settings, name);
}

WhyAnswer Answer(const char* text, const std::string& name) {
  const TrainingSettings settings = {.in_place = InPlaceUse::kAlways};
  return *MakeEstimate(ParseGraph(text), {.settings = settings, .why = name}).why;
}

Graph FileOf(const char* name) {
  return LoadGraph((std::filesystem::path(kSourceDir) / "models" / name).string());
}

// A model whose values are seen in every way.
constexpr char kViews[] = R"(
  net (float[16, 4, 2] x) => (float[16, 3] y)
  < float[4, 2] g = ["location": "none"], float[8, 3] w = ["location": "none"] > {
    scaled = Mul (x, g)
    gate = Sigmoid (scaled)
    act = Mul (scaled, gate)
    rows = Shape <start = 0, end = 1> (act)
    flat = Flatten (act)
    same = Identity (flat)
    y = MatMul (same, w)
  })";

TEST_CASE("an activation is kept by those who saved it") {
  CHECK(Told(kTwoLayers, kSgd, "h") == R"(
The peak is in step 1, backward, at MatMul #2.

h
  is       float32[16, 8], 512 B
           512 bytes in a block of 512, activations
  born     step 1, forward, at MatMul #0
  held by  h: until forward, at Relu #1
           a, written over it by relu at Relu #1: until forward, at MatMul #2
           mm at MatMul #2, for its backward (input 0)
           relu at Relu #1, for its backward (its result)
  dies     step 1, backward, at Relu #1
  at peak  alive: 512 of its 17044480 bytes, 0.0%
)");
}

TEST_CASE("what is written in place shares its storage") {
  CHECK(Told(kTwoLayers, kSgd, "a") == R"(
The peak is in step 1, backward, at MatMul #2.

a
  is       float32[16, 8], 512 B
           512 bytes in a block of 512, activations
  storage  same storage as h: relu at Relu #1 writes over it in place
  born     step 1, forward, at MatMul #0
  held by  h: until forward, at Relu #1
           a, written over it by relu at Relu #1: until forward, at MatMul #2
           mm at MatMul #2, for its backward (input 0)
           relu at Relu #1, for its backward (its result)
  dies     step 1, backward, at Relu #1
  at peak  alive: 512 of its 17044480 bytes, 0.0%
)");
  CHECK(Told(kTwoLayers, {.optimizer = Optimizer::kSgd, .in_place = InPlaceUse::kNever}, "a") == R"(
The peak is in step 1, backward, at MatMul #2.

a
  is       float32[16, 8], 512 B
           512 bytes in a block of 512, activations
  born     step 1, forward, at Relu #1
  held by  a: until forward, at MatMul #2
           mm at MatMul #2, for its backward (input 0)
           relu at Relu #1, for its backward (its result)
  dies     step 1, backward, at Relu #1
  at peak  alive: 512 of its 17044480 bytes, 0.0%
)");
}

TEST_CASE("views, other names and copies") {
  CHECK(Told(kViews, kSgd, "same") == R"(
The peak is in step 1, backward, at MatMul #6.

same
  is       float32[16, 8], 512 B
           512 bytes in a block of 512, activations
  storage  same storage as scaled: a view of it, by view at Flatten #4
  born     step 1, forward, at Mul #0
  held by  scaled: until forward, at Mul #2
           act, written over it by silu at Mul #2: until forward, at Flatten #4
           flat, a view by view at Flatten #4: until forward, at MatMul #6
           mm at MatMul #6, for its backward (input 0)
  dies     step 1, backward, at MatMul #6
  at peak  alive: 512 of its 17044992 bytes, 0.0%
)");
  CHECK(Told(kViews, kSgd, "scaled") == R"(
The peak is in step 1, backward, at MatMul #6.

scaled
  is       float32[16, 4, 2], 512 B
           512 bytes in a block of 512, activations
  born     step 1, forward, at Mul #0
  held by  scaled: until forward, at Mul #2
           act, written over it by silu at Mul #2: until forward, at Flatten #4
           flat, a view by view at Flatten #4: until forward, at MatMul #6
           mm at MatMul #6, for its backward (input 0)
  dies     step 1, backward, at MatMul #6
  at peak  alive: 512 of its 17044992 bytes, 0.0%

scaled
  is       float32[16, 4, 2], 512 B
           512 bytes in a block of 512, activations
  storage  its own: a copy, because Mul #2 writes over the original
  born     step 1, forward, at Mul #2
  held by  silu at Mul #2, for its backward (input 0)
  dies     step 1, backward, at Mul #2
  at peak  alive: 512 of its 17044992 bytes, 0.0%
)");
}

TEST_CASE("parameters, their gradients and their state") {
  CHECK(Told(kTwoLayers, {}, "w1") == R"(
The peak is in step 2, forward, at loss.

w1
  is       float32[4, 8], 128 B
           128 bytes in a block of 512, parameters
  born     setup
  held by  the model: to the end of the run
  dies     never
  at peak  alive: 512 of its 17046528 bytes, 0.0%
)");
  CHECK(Told(kTwoLayers, {}, "w1.grad") == R"(
The peak is in step 2, forward, at loss.

w1.grad
  is       float32[4, 8], 128 B
           128 bytes in a block of 512, gradients
  born     step 2, backward, at MatMul #0
  held by  w1.grad: until step 3, forward
  dies     step 3, forward
  at peak  not born yet, 5 operators after it
)");
  const std::string kept = Told(kTwoLayers, {.loop = {.zero_grad = ZeroGrad::kKeep}}, "w1.grad");
  CHECK(kept.find("  dies     never\n") != std::string::npos);
  CHECK(Told(kTwoLayers, {}, "w1.exp_avg") == R"(
The peak is in step 2, forward, at loss.

w1.exp_avg
  is       float32[4, 8], 128 B
           128 bytes in a block of 512, optimizer state
  born     step 1, optimizer
  held by  the optimizer's state: to the end of the run
  dies     never
  at peak  alive: 512 of its 17046528 bytes, 0.0%
)");
}

TEST_CASE("who lets go last is told, without a name too") {
  struct Row {
    const char* name;
    HeldBy::By by;
  };
  const Row rows[] = {
      {"h", HeldBy::By::kSaved},
      {"w1", HeldBy::By::kModule},
      {"w1.grad", HeldBy::By::kGradient},
      {"w1.exp_avg", HeldBy::By::kOptimizer},
      {"x", HeldBy::By::kLoop},
      {"loss", HeldBy::By::kLoop},
      {"y.grad", HeldBy::By::kEngine},
      {"cuBLAS workspace", HeldBy::By::kLibrary},
      {"optimizer temporary", HeldBy::By::kOperator},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(Answer(kTwoLayers, row.name).tensors[0].held_by.back().by == row.by);
  }
}

TEST_CASE("the gradient of the loss is held by the call of backward") {
  CHECK(Told(kTwoLayers, {}, "loss.grad")
            .find("  held by  the call of backward, until it returns\n") != std::string::npos);
  CHECK(Told(kTwoLayers, {}, "y.grad").find("the call of backward") == std::string::npos);
}

TEST_CASE("no operator runs in an optimizer's step") {
  const std::string told = Told(kTwoLayers, {}, "optimizer temporary");
  CHECK(told.find("  held by  the optimizer's step\n") != std::string::npos);
  CHECK(told.find("operator alone") == std::string::npos);
}

TEST_CASE("a node is its results") {
  CHECK(Answer(kTwoLayers, "MatMul #0").tensors[0].name == "h");
  CHECK(Answer(kTwoLayers, "MatMul #0").asked == "MatMul #0");
}

TEST_CASE("module calls and Python's names hold values") {
  const auto why = [](const char* file, const std::string& name) {
    const Estimate estimate = MakeEstimate(FileOf(file), {.why = name});
    for (const HeldBy& held : estimate.why->tensors[0].held_by) {
      if (held.name == name) return held.as;
    }
    return std::string();
  };
  CHECK(why("resnet18.train.onnx", "/model/maxpool/MaxPool_output_0") ==
        "argument of model.layer1");
  CHECK(why("gpt2.dynamo.onnx", "transpose") == "Python's 'key_states'");
  CHECK(why("gpt2.dynamo.onnx", "linear") == "the model's output");
}

TEST_CASE("what is no tensor says why") {
  struct Row {
    const char* name;
    const char* absent;
  };
  const Row rows[] = {
      {"rows",
       "a number on the host: it follows from shapes and constants, so the device never has it"},
      {"gate", "PyTorch has no such tensor: Sigmoid + Mul are one call, silu, at Mul #2"},
      {"x.grad",
       "no memory of its own: it is the gradient that came in, or a view of it, or nobody wants "
       "it"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const WhyAnswer answer = Answer(kViews, row.name);
    CHECK(answer.tensors.empty());
    CHECK(answer.absent == row.absent);
  }
  const auto absent = [](const TrainingSettings& settings) {
    return MakeEstimate(ParseGraph(kTwoLayers), {.settings = settings, .why = "w1.grad"})
        .why->absent;
  };
  CHECK(absent({.mode = Mode::kEval}) == "no backward runs, so there are no gradients");
  CHECK(absent({.freeze = {"w1"}}) == "its parameter is frozen, so it gets no gradient");
  CHECK(MakeEstimate(FileOf("mobilenet_v2.script.onnx"), {.why = "onnx::Conv_539"}).why->absent ==
        "the exporter made it when it folded batch norm model.features.0.0_batch_norm into "
        "/model/features/features.0/features.0.0/Conv: PyTorch has "
        "model.features.0.0_batch_norm.bias instead");
}

TEST_CASE("every tensor at the peak has a story, and it is alive there") {
  for (const auto& path : TextModels()) {
    CAPTURE(path.filename().string());
    const Graph graph = LoadGraph(path.string());
    for (const LargeTensor& tensor : MakeEstimate(graph, {}).largest) {
      CAPTURE(tensor.name);
      const WhyAnswer answer = *MakeEstimate(graph, {.why = tensor.name}).why;
      REQUIRE(!answer.tensors.empty());
      const TensorStory& story = answer.tensors[0];
      CHECK(story.at_peak);
      CHECK(story.bytes <= story.block_bytes);
      CHECK(!story.held_by.empty());
      CHECK(story.held_by.back().until == story.dies);
    }
  }
}

TEST_CASE("names that nobody has, and too many have") {
  struct Row {
    const char* name;
    const char* error;
  };
  const Row rows[] = {
      {"conv1", ": --why: no tensor and no node is called 'conv1' (try: /model/conv1/Conv)"},
      {"weight",
       ": --why: expected one tensor, found 41 names that end in 'weight': model.bn1.weight, "
       "model.conv1.weight, model.fc.weight, model.layer1.0.bn1.weight, model.layer1.0.bn2.weight "
       "and 36 more"},
      {"bn1.weihgt",
       ": --why: no tensor and no node is called 'bn1.weihgt' (try: model.bn1.weight)"},
      {"zzzzzzzz",
       ": --why: no tensor and no node is called 'zzzzzzzz' (try: a name of the largest tensors)"}};
  const Graph graph = FileOf("resnet18.train.onnx");
  for (const Row& row : rows) {
    CAPTURE(row.name);
    std::string error;
    try {
      MakeEstimate(graph, {.why = row.name});
    } catch (const Error& thrown) {
      error = std::string(thrown.what()).substr(graph.path.size());
    }
    CHECK(error == row.error);
  }
}

}  // namespace
}  // namespace onnxfit::why_test
