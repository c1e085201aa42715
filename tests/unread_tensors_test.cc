#include "estimator/parameters/unread_tensors.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "tests/bound_model.h"
#include "tests/fx_text.h"
#include "tests/trace_helpers.h"

namespace onnxfit::unread_tensors_test {
namespace {

// What is found of `name`, beside tensors of the module, or `warns`, what is said where nothing is;
// a node runs in module "run.1.fc".
std::string Ask(const std::string& name, const char* kind, bool warns) {
  Graph graph = ParseGraph("n (float[4] x) => (float[4] y) { y = Neg (x) }");
  const std::string call = FxText("y", "neg.default", "%x, %p_read");
  Say(graph, 0, call);
  graph.nodes[0].metadata.emplace_back("pkg.torch.onnx.name_scopes",
                                       "['', 'run', 'run.1', 'run.1.fc', 'y']");
  const std::string signature = fmt::format(
      "p_unread: {} target='{}'\np_read: PARAMETER target='layers.7.fc.weight'\n", kind, name);
  graph.metadata.emplace_back("graph_signature", signature);
  const BoundModel model(std::move(graph));
  const TensorType half = {DType::kFloat32, {2, 3}};
  const std::vector<ModuleTensor> known = {
      {"layers.0.fc.weight", kNoValue, half},
      {"layers.1.fc.weight", kNoValue, half},
      {"run.0.fc.weight", kNoValue, half},
      {"mixed.0.fc.weight", kNoValue, half},
      {"mixed.1.fc.weight", kNoValue, {half.dtype, {9}}},
      {"encoder.mlp.fc.weight", kNoValue, {half.dtype, {5, 6}}},
      {"block.0.attention.output.fc.bias", kNoValue, {half.dtype, {5}}},
      {"block.0.output.fc.bias", kNoValue, {half.dtype, {6}}},
      {"rope.inv_freq", kNoValue, {half.dtype, {8}}},
      {"bert.wpe.weight", kNoValue, {half.dtype, {16, 4}}},
      {"bert.norm.weight", kNoValue, {half.dtype, {4}}},
      {"clvp.position_embeds_layer.weight", kNoValue, {half.dtype, {12, 4}}},
      {"siglip.final_layer_norm.weight", kNoValue, {half.dtype, {4}}},
      {"other.norm.weight", kNoValue, {half.dtype, {7}}},
      {"owl.text_projection.weight", kNoValue, half},
      {"owl.vision_model.post_layernorm.weight", kNoValue, {half.dtype, {9}}},
      {"conv.parametrizations.weight.original", kNoValue, {half.dtype, {6, 4, 3, 3}}},
      {"conv.parametrizations.weight.0._v", kNoValue, {half.dtype, {36}}}};
  if (warns) return FindUnsized(model.bound, known).value_or(Warning()).text;
  std::string text;
  for (const LostTensor& lost : SizeUnreadTensors(model.bound, known)) {
    text += fmt::format("{} {}", Name(lost.type.dtype), fmt::join(lost.type.dims, "x"));
  }
  return text;
}

std::string Size(const std::string& name, const char* kind = "PARAMETER") {
  return Ask(name, kind, false);
}

TEST_CASE("parameters without sizes are told") {
  const auto warning = [](const std::string& name) { return Ask(name, "PARAMETER", true); };
  CHECK(warning("tower.patch.weight") ==
        "1 parameter is in modules that no node runs, such as tower.patch.weight: the file has "
        "names, and no sizes, so that what they take is missing here (a .pt2 of torch.export.save "
        "has them)");
  CHECK(warning("layers.0.fc.weight").empty());      // known
  CHECK(warning("encoder.mlp2.fc.weight").empty());  // another name of encoder.mlp
  CHECK(warning("run.1.fc.weight").empty());         // another name of what is read there
}

TEST_CASE("a tensor that no call reads is as large as what is named alike") {
  CHECK(Size("layers.2.fc.weight") == "float32 2x3");  // not layers.7, which is read
  CHECK(Size("mixed.2.fc.weight").empty());            // which have several sizes
  CHECK(Size("run.1.fc.weight").empty());              // another name of what is read there
  CHECK(Size("head.mlp.fc.weight") == "float32 5x6");
  CHECK(Size("head.fc.weight").empty());
  CHECK(Size("block.0.crossattention.output.fc.bias") == "float32 5");  // not block.0.output's
  CHECK(Size("ropes.1.inv_freq", "BUFFER") == "float32 8");
  CHECK(Size("ropes.1.inv_freq").empty());
}

TEST_CASE("or as its library makes it of the width that its module has") {
  CHECK(Size("bert.pooler.dense.weight") == "float32 4x4");
  CHECK(Size("bert.mask_token") == "float32 1x4");
  CHECK(Size("mask_token").empty());  // norms of several widths
  CHECK(Size("bert.bias", "BUFFER") == "bool 16x16");
  CHECK(Size("clvp.layers.1.attn.bias", "BUFFER") == "bool 12x12");
  CHECK(Size("clvp.1.attn.bias", "BUFFER").empty());
  CHECK(Size("siglip.head.weight") == "float32 4x4");
  CHECK(Size("siglip.head.bias") == "float32 4");
  CHECK(Size("bert.head.bias").empty());
  CHECK(Size("owl.visual_projection.weight") == "float32 2x9");  // as many as of words, of images
  CHECK(Size("bert.visual_projection.weight").empty());
  CHECK(Size("bert.projection.conv.weight") == "float32 4x8x4");
  CHECK(Size("layoutlmv3.patch_embed.proj.weight").empty());
  CHECK(Size("bert.layoutlmv3.pos_embed") == "float32 1x197x4");
}

TEST_CASE("integers are as many as their library makes by default") {
  CHECK(Size("net.layoutlmv3.visual_bbox", "BUFFER") == "int64 197x4");
  CHECK(Size("net.summary_idxs", "BUFFER") == "int64 2");
  CHECK(Size("net.summary_idxs").empty());
}

TEST_CASE("a spectral norm's first vector is a row where the second is the rest") {
  CHECK(Size("conv.parametrizations.weight.0._u", "BUFFER") == "float32 6");
  CHECK(Size("other.parametrizations.weight.0._u", "BUFFER").empty());
}

}  // namespace
}  // namespace onnxfit::unread_tensors_test
