#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/warnings.h"
#include "estimator/program/recurrent_layers.h"
#include "estimator/pt2/read_program.h"
#include "tests/pt2_helpers.h"

namespace onnxfit::unrolled_layers_test {
namespace {

using namespace onnxfit::pt2;  // NOLINT(google-build-using-namespace): its helpers

constexpr std::string_view kAten = "torch.ops.aten.";
constexpr std::string_view kGru = "torch.nn.modules.rnn.GRU";
constexpr std::string_view kLstm = "torch.nn.modules.rnn.LSTM";

void AddParameters(ExportedBuilder& builder, std::string_view suffix, int64_t gates, int64_t input,
                   std::deque<std::string>& names) {
  for (const auto& [kind, width] :
       {std::pair("weight_ih", input), std::pair("weight_hh", int64_t{8})}) {
    names.push_back(fmt::format("{}_{}", kind, suffix));
    builder.Parameter(names.back(), names.back(), {gates * 8, width});
  }
  for (const std::string_view kind : {"bias_ih", "bias_hh"}) {
    names.push_back(fmt::format("{}_{}", kind, suffix));
    builder.Parameter(names.back(), names.back(), {gates * 8});
  }
}

// One step of a layer [batch, 1, 4] as run_decompositions() leaves it, shortened: zeros, x turned,
// products with all parameters, their sum turned back.
void AddSteps(ExportedBuilder& builder, const std::deque<std::string>& parameters, int states,
              bool drops_out) {
  for (int i = 0; i < states; ++i) {
    builder.MakeFixed("torch.ops.aten.full.default", i == 0 ? "h0" : "c0", {}, {1, 4, 8});
  }
  for (int i = 0; i < states; ++i) {
    builder.MakeFixed("torch.ops.aten.squeeze.dims", i == 0 ? "h" : "c",
                      {{"self", Ref(i == 0 ? "h0" : "c0")}}, {4, 8});
  }
  builder.MakeFixed("torch.ops.aten.permute.default", "turned", {{"self", Ref("x")}}, {1, 4, 4});
  if (drops_out) {
    builder.MakeFixed("torch.ops.aten.native_dropout.default", "kept", {{"self", Ref("turned")}},
                      {1, 4, 4});
  }
  std::vector<Argument> all = {Ref("turned"), Ref("h")};
  for (const std::string& parameter : parameters) all.push_back(Ref(parameter));
  builder.MakeFixed("torch.ops.aten.cat.default", "steps", {{"tensors", List(all)}}, {1, 4, 8});
  builder.Make("torch.ops.aten.permute.default", "y", {{"self", Ref("steps")}}, {1, 8});
}

ExportedProgram Net(std::string_view type, int64_t gates, int states,
                    std::deque<std::string>& names,
                    const std::vector<std::string_view>& suffixes = {"l0"},
                    bool drops_out = false) {
  ExportedBuilder builder;
  for (const std::string_view suffix : suffixes) AddParameters(builder, suffix, gates, 4, names);
  builder.Input("x", {1, 4}).In("r", type);
  AddSteps(builder, names, states, drops_out);
  builder.In("").Make("torch.ops.aten.relu.default", "z", {{"self", Ref("y")}}, {1, 8});
  return builder.Return("z");
}

std::string TextOf(const Argument& argument) {
  if (argument.kind == Argument::Kind::kTensor) return std::string(argument.text);
  if (argument.kind == Argument::Kind::kReal) return fmt::format("{}", argument.real);
  if (argument.kind != Argument::Kind::kList) return fmt::format("{}", argument.number);
  std::string text;
  for (const Argument& item : argument.items) text += (text.empty() ? "" : " ") + TextOf(item);
  return "[" + text + "]";
}

std::string RolledUp(ExportedProgram program) {
  TextPool pool;
  RollUpLayers(program, pool);
  std::string text;
  for (const Call& call : program.graph.calls) {
    for (const Argument& result : call.results) text += TextOf(result) + " ";
    text += "= " + std::string(call.target.substr(kAten.size()));
    for (const auto& [name, argument] : call.arguments) text += " " + TextOf(argument);
    text += '\n';
  }
  return text;
}

TEST_CASE("layers that were taken apart are cuDNN's calls again") {
  std::deque<std::string> names;
  CHECK(RolledUp(Net(kGru, 3, 1, names)) ==
        "h0 = full.default\n"
        "y h0_last = gru.input x h0 [weight_ih_l0 weight_hh_l0 bias_ih_l0 bias_hh_l0] 1 1 0 1 0 1\n"
        "z = relu.default y\n");
  names.clear();
  CHECK(RolledUp(Net(kLstm, 4, 2, names, {"l0", "l0_reverse", "l1", "l1_reverse"}, true)) ==
        "h0 = full.default\n"
        "c0 = full.default\n"
        "y h0_last c0_last = lstm.input x [h0 c0] "
        "[weight_ih_l0 weight_hh_l0 bias_ih_l0 bias_hh_l0 "
        "weight_ih_l0_reverse weight_hh_l0_reverse bias_ih_l0_reverse bias_hh_l0_reverse "
        "weight_ih_l1 weight_hh_l1 bias_ih_l1 bias_hh_l1 "
        "weight_ih_l1_reverse weight_hh_l1_reverse bias_ih_l1_reverse bias_hh_l1_reverse] "
        "1 2 0.5 1 1 1\n"
        "z = relu.default y\n");
}

TEST_CASE("cells in a loop of one's own stay as they are") {
  std::deque<std::string> names;
  const ExportedProgram program = Net("torch.nn.modules.rnn.LSTMCell", 4, 2, names);
  CHECK(RolledUp(program).find("lstm") == std::string::npos);
  CHECK(UnrolledLayers(Made(program).program).empty());
}

TEST_CASE("a layer that cannot be put together again is warned of") {
  std::deque<std::string> names;
  ExportedProgram program = Net(kGru, 3, 1, names);
  program.inputs[0].target = "r.scale";  // of no layer of torch.nn's
  CHECK(RolledUp(program).find("gru") == std::string::npos);
  const PreparedRun run = Made(program);
  const auto& warnings = run.program.warnings;
  const auto told = std::ranges::find(warnings, warning::kLostAnswers, &Warning::code);
  REQUIRE(told != warnings.end());
  CHECK(told->text.starts_with("r is taken apart step by step"));
}

}  // namespace
}  // namespace onnxfit::unrolled_layers_test
