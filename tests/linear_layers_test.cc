#include "estimator/transforms/linear_layers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "tests/checkpointed_net.h"
#include "tests/trace_helpers.h"

namespace onnxfit::linear_layers_test {
namespace {

NameId Add(Program& program, const std::string& name, Dims dims) {
  const auto id = static_cast<NameId>(program.values.size());
  program.values.push_back({.name = name, .type = {{DType::kFloat32, std::move(dims)}, {}}});
  return id;
}

void AddParameter(Program& program, const std::string& name, Dims dims) {
  program.parameters.push_back(Add(program, name, std::move(dims)));
  program.placement.push_back(program.parameters.back());
}

// "path out×in, 2 runs" of each.
std::string LayersOf(const Program& program) {
  std::string text;
  for (const LinearLayer& layer : FindLinearLayers(program)) {
    text += layer.path + " " + std::to_string(layer.out_features) + "x" +
            std::to_string(layer.in_features) + " " + std::to_string(layer.runs.size()) + "\n";
  }
  return text;
}

// Modules of one product by a matrix of their own; "head" has nothing around it.
constexpr char kLayers[] = "h.0.fc 64x64 1\nh.0.out 64x64 1\nh.1.fc 64x64 1\nh.1.out 64x64 1\n";

TEST_CASE("layers are modules that multiply by a matrix of their own") {
  const Program program = Build(kTwoBlocks, {}).program;
  CHECK(LayersOf(program) == std::string(kLayers) + "head 2x64 1\n");
}

// A vision tower in a run on text; its tables are nn.Embedding's.
TEST_CASE("matrices that nobody reads are of layers that never run") {
  Program program = Build(kTwoBlocks, {}).program;
  AddParameter(program, "visual.blocks.0.qkv.weight", {192, 64});
  AddParameter(program, "visual.blocks.0.qkv.bias", {192});
  AddParameter(program, "visual.pos_embed.weight", {100, 64});
  AddParameter(program, "visual.relative_attention_bias.weight", {32, 8});
  AddParameter(program, "audio.bias_layer.bias_values.weight", {32, 8});
  AddParameter(program, "visual.point_embed.0.weight", {1, 64});
  AddParameter(program, "visual.kernel.weight", {64, 3, 4, 4});
  CHECK(LayersOf(program) == std::string(kLayers) + "head 2x64 1\nvisual.blocks.0.qkv 192x64 0\n");
  CHECK(program.values[Index(FindLinearLayers(program).back().bias)].name ==
        "visual.blocks.0.qkv.bias");
}

// A predictor's, which a run leaves out: tables have no bias.
TEST_CASE("what has a bias is no table, whatever its name") {
  Program program = Build(kTwoBlocks, {}).program;
  AddParameter(program, "predictor.embeddings.weight", {32, 64});
  AddParameter(program, "predictor.embeddings.bias", {32});
  CHECK(LayersOf(program).ends_with("predictor.embeddings 32x64 0\n"));
}

// "self.rel_pos_bias.weight.t()[positions]", and nn.MultiheadAttention's.
TEST_CASE("matrices that other modules read are of layers that never run") {
  const auto read_by_head = [](const std::string& name) {
    Program program = Build(kTwoBlocks, {}).program;
    AddParameter(program, "pool.in_proj_weight", {192, 64});
    AddParameter(program, name, {8, 64});
    program.calls.back().inputs.push_back(program.parameters.back());
    return program;
  };
  const Program bias = read_by_head("rel_pos_bias.weight");
  CHECK(LayersOf(bias).ends_with("rel_pos_bias 8x64 0\n"));
  CHECK(FindLinearLayers(bias).back().is_read_alone);
  CHECK_FALSE(FindLinearLayers(bias).back().is_of_attention);
  CHECK(FindLinearLayers(read_by_head("pool.out_proj.weight")).back().is_of_attention);
  CHECK(LayersOf(read_by_head("iou_token.weight")).ends_with("head 2x64 1\n"));
  CHECK(LayersOf(read_by_head("pos_embed.weight")).ends_with("head 2x64 1\n"));
}

// A head of two classes beside two types of tokens, and the vocabulary's.
TEST_CASE("the output has the shape of the vocabulary's table") {
  const auto is_output = [](int64_t rows) {
    Program program = Build(kTwoBlocks, {}).program;
    const auto look_up = [&](const std::string& name, int64_t count) {
      AddParameter(program, name, {count, 64});
      const NameId made = Add(program, name + " of x", {256, 64});
      program.calls.push_back({.op = "embedding", .where = name});
      program.calls.back().inputs = {program.parameters.back(), program.inputs[0]};
      program.calls.back().outputs = {made};
    };
    look_up("types", 2);
    if (rows > 0) look_up("words", rows);
    return FindLinearLayers(program).back().is_output;
  };
  CHECK(is_output(0));
  CHECK_FALSE(is_output(100));
}

// "head", which the model has beside its blocks, reads the matrix of a table; "positions" is the
// model's own.
TEST_CASE("a tied layer is the last of its parent's modules") {
  Program program = Build(kTwoBlocks, {}).program;
  AddParameter(program, "embed.weight", {64, 2});
  std::rotate(program.placement.begin(), program.placement.end() - 1, program.placement.end());
  AddParameter(program, "positions", {8, 64});
  for (AtenCall& call : program.calls) {
    if (program.modules.PathOf(call.module) != "head") continue;
    std::erase(program.placement, call.inputs[1]);
    std::erase(program.parameters, call.inputs[1]);
    call.inputs[1] = program.placement.front();
  }
  const LinearLayer head = FindLinearLayers(program).back();
  CHECK(head.path == "head");
  CHECK(program.values[Index(head.behind)].name.starts_with("h"));
}

TEST_CASE("packed matrices have the sizes of what they unpack to") {
  Program program = Build(kTwoBlocks, {}).program;
  AddParameter(program, "idle.weight", {6144, 1});
  program.quantized.push_back(
      {.packed = program.parameters.back(), .full = {DType::kBFloat16, {192, 64}}});
  CHECK(LayersOf(program).ends_with("idle 192x64 0\n"));
}

TEST_CASE("a module that is called again is one layer with more runs") {
  Program program = Build(kTwoBlocks, {}).program;
  const NameId weight = FindLinearLayers(program).front().weight;
  for (AtenCall& call : program.calls) {
    if (program.modules.PathOf(call.module) != "h.1.fc") continue;
    call.module = program.modules.Enter({"h.0@1", "h.0.fc@1"});
    call.inputs[1] = weight;
  }
  const std::string text = LayersOf(program);
  CAPTURE(text);
  CHECK(text.starts_with("h.0.fc 64x64 2\nh.0.out 64x64 1\n"));
}

// Of a layer that has its matrix and its bias from another one, what that keeps.
TEST_CASE("a cast that is made once is seen through by layers that did not make it") {
  Program program = Build(kTwoBlocks, {}).program;
  AtenCall& product = program.calls[2];
  AtenCall cast = program.calls[0];
  cast.op = "to";
  cast.inputs = {product.inputs[1]};
  cast.outputs = {Add(program, "cast", {64, 64})};
  cast.made_once = true;
  cast.dies.clear();
  product.inputs[1] = cast.outputs[0];
  program.calls.insert(program.calls.begin(), cast);
  CHECK(LayersOf(program).starts_with("h.0.fc 64x64 1\nh.0.out 64x64 1\n"));
}

// "x @ self.weight.T", of transformers' FalconLinear.
TEST_CASE("a layer of the model's own may turn its matrix round") {
  Program program = Build(kTwoBlocks, {}).program;
  AtenCall& product = program.calls[0];
  AtenCall turned = product;
  turned.op = "permute";
  turned.inputs = {product.inputs[1]};
  turned.outputs = {Add(program, "turned", {64, 64})};
  turned.dies.clear();
  product.inputs[1] = turned.outputs[0];
  program.calls.insert(program.calls.begin(), turned);
  CHECK(LayersOf(program) == std::string(kLayers) + "head 2x64 1\n");
}

}  // namespace
}  // namespace onnxfit::linear_layers_test
