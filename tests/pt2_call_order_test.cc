#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/pt2/call_order.h"
#include "tests/pt2_helpers.h"

namespace onnxfit::pt2_call_order_test {
namespace {

using namespace onnxfit::pt2;  // NOLINT(google-build-using-namespace): its helpers

// y = relu(tanh(x))
ExportedProgram TwoCalls() {
  ExportedBuilder builder;
  builder.Input("x", {8});
  builder.Make("torch.ops.aten.tanh.default", "h", {{"self", Ref("x")}}, {8});
  builder.Make("torch.ops.aten.relu.default", "y", {{"self", Ref("h")}}, {8});
  return builder.Return("y");
}

std::string ErrorOf(const ExportedProgram& exported) {
  try {
    CheckOrder(exported);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST_CASE("calls read what inputs and calls before them make") { CHECK(ErrorOf(TwoCalls()) == ""); }

TEST_CASE("a call before the one that it reads is refused") {
  ExportedProgram exported = TwoCalls();
  std::swap(exported.graph.calls[0], exported.graph.calls[1]);
  CHECK(ErrorOf(exported) ==
        "net.pt2: call 'y': input 'h' should be made by an input or a call before it, found call "
        "'h', which is not (try: copy or export it again, it is damaged)");
}

TEST_CASE("a value that nothing makes is refused, in lists and at the end, too") {
  ExportedProgram exported = TwoCalls();
  exported.graph.calls.erase(exported.graph.calls.begin());
  CHECK(ErrorOf(exported) ==
        "net.pt2: call 'y': input 'h' should be made by an input or a call before it, found none "
        "that makes it (try: copy or export it again, it is damaged)");
  exported.graph.calls[0].arguments = {{"tensors", List({Ref("x"), Ref("h")})}};
  CHECK(ErrorOf(exported).find("input 'h'") != std::string::npos);
  exported.graph.calls.clear();
  CHECK(ErrorOf(exported).starts_with("net.pt2: output 'y' should be made by"));
}

TEST_CASE("a body reads its own inputs, and what is made around it") {
  const auto body = std::make_shared<pt2::Graph>();
  body->inputs = {Ref("inside")};
  body->outputs = {Ref("inside"), Ref("h")};
  ExportedProgram exported = TwoCalls();
  const Argument argument = {.kind = Argument::Kind::kGraph, .text = "body", .graph = body};
  exported.graph.calls[1].arguments.emplace_back("", argument);
  CHECK(ErrorOf(exported) == "");
  body->outputs.push_back(Ref("nowhere"));
  CHECK(ErrorOf(exported).find("output 'nowhere'") != std::string::npos);
}

}  // namespace
}  // namespace onnxfit::pt2_call_order_test
