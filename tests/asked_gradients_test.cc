// h.requires_grad_(True) in a forward, as enable_input_require_grads of transformers does by a
// hook: what follows h keeps what backward reads, although no parameter before it learns.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "estimator/base/index.h"
#include "tests/pt2_helpers.h"
#include "tests/trace_helpers.h"

namespace onnxfit::asked_gradients_test {
namespace {

using namespace onnxfit::pt2;  // NOLINT(google-build-using-namespace): its helpers

// A frozen table, exp, and a head that learns.
Program Net(const TrainingSettings& settings, bool asks) {
  ExportedBuilder builder;
  builder.Parameter("p_e", "e.weight", {50, 8}).Parameter("p_h", "h.weight", {4, 8});
  builder.Input("x", {}, DType::kInt64);
  builder.Make("torch.ops.aten.embedding.default", "h",
               {{"weight", Ref("p_e")}, {"indices", Ref("x")}}, {8});
  builder.Make("torch.ops.aten.exp.default", "y", {{"self", Ref("h")}}, {8});
  builder.Make("torch.ops.aten.linear.default", "z", {{"input", Ref("y")}, {"weight", Ref("p_h")}},
               {4});
  builder.program().graph.tensors["p_e"].requires_grad = false;
  builder.program().graph.calls[0].asks_for_gradients = asks;
  return PrepareRun(InputGraph(builder.Return("z")),
                    {.binding = {.batch = 32}, .settings = settings})
      .program;
}

// What the backward pass of the last step allocates, by label.
std::string Backward(bool asks, const TrainingSettings& settings) {
  const Trace trace = Train(Net(settings, asks), settings);
  std::string text;
  bool inside = false;
  for (const Event& event : trace.events) {
    if (event.type == Event::Type::kPhase)
      inside = event.id == 1 && event.phase == Phase::kBackward;
    if (!inside || event.type != Event::Type::kAlloc) continue;
    const Buffer& buffer = trace.buffers[Index(event.id)];
    text += fmt::format("{}:{} ", trace.labels[Index(buffer.label)], buffer.bytes);
  }
  return text;
}

TEST_CASE("what asks for a gradient gets one, from what follows it") {
  const TrainingSettings settings = {.optimizer = Optimizer::kSgd, .loss = Loss::kMse, .steps = 2};
  const std::string plain = Backward(false, settings);
  const std::string asked = Backward(true, settings);
  CHECK(plain.find("y.grad") == std::string::npos);
  CHECK(asked.find("y.grad:1024") != std::string::npos);
  CHECK(asked.find("h.grad:1024") != std::string::npos);
}

TEST_CASE("under autocast, and where a call is taken apart, its last part asks") {
  for (const Precision precision : {Precision::kBf16, Precision::kAmpBf16}) {
    TrainingSettings settings = {.optimizer = Optimizer::kSgd, .loss = Loss::kMse, .steps = 2};
    settings.precision = precision;
    CHECK(Backward(true, settings).find("h.grad") != std::string::npos);
  }
}

TEST_CASE("nothing is kept in inference") {
  const TrainingSettings settings = {.mode = Mode::kEval, .loss = Loss::kNone, .steps = 2};
  CHECK(Net(settings, true).calls.size() == Net(settings, false).calls.size());
}

}  // namespace
}  // namespace onnxfit::asked_gradients_test
