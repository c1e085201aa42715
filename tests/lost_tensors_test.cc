#include <doctest/doctest.h>

#include <set>
#include <string>
#include <string_view>

#include "estimator/parameters/roles.h"
#include "tests/bound_model.h"
#include "tests/trace_helpers.h"

namespace onnxfit::lost_tensors_test {
namespace {

std::string Found(const std::set<std::string_view>& names) {
  std::string text;
  for (const UnreadTensor& tensor : FindUnreadTensors(names)) {
    text += tensor.name + " of " + std::string(tensor.module) + " as " + std::string(tensor.like) +
            "\n";
  }
  return text;
}

TEST_CASE("the norm of CLIP's pooled output, weight first") {
  CHECK(Found({"v.pre_layrnorm.weight", "v.pre_layrnorm.bias", "head.weight"}) ==
        "v.post_layernorm.weight of v as v.pre_layrnorm.weight\n"
        "v.post_layernorm.bias of v as v.pre_layrnorm.bias\n");
}

TEST_CASE("the token of what is masked, in DINOv2's embeddings") {
  CHECK(Found({"d.embeddings.cls_token", "d.encoder.layer.0.layer_scale1.lambda1"}) ==
        "d.embeddings.mask_token of d.embeddings as d.embeddings.cls_token\n");
  CHECK(Found({"d.embeddings.cls_token", "d.encoder.layer.0.norm1.weight"}) == "");
}

TEST_CASE("layers of a list, told by their numbers and by a tensor elsewhere in the model") {
  const std::string_view query = "b.text_model.encoder.layer.1.attention.self.query.bias";
  const std::string_view qkv = "b.vision_model.encoder.layers.0.self_attn.qkv.weight";
  CHECK(Found({query, qkv}) ==
        "b.text_model.encoder.layer.1.crossattention.self.query.bias of b as "
        "b.text_model.encoder.layer.1.attention.self.query.bias\n");
  CHECK(Found({query}) == "");
  CHECK(Found({"b.qformer.encoder.layer.1.attention.self.query.bias", qkv}) == "");
}

TEST_CASE("a matrix of another one's rows, a number, what no one reads of a first layer") {
  std::string text;
  for (const UnreadTensor& tensor :
       FindUnreadTensors({"m.owlvit.text_projection.weight", "m.class_head.logit_shift.weight",
                          "m.owlvit.vision_model.post_layernorm.weight"})) {
    text += tensor.name + " like " + std::string(tensor.like) + " rows " +
            std::string(tensor.rows_of) + "\n";
  }
  CHECK(text ==
        "m.owlvit.visual_projection.weight like m.owlvit.vision_model.post_layernorm.weight rows "
        "m.owlvit.text_projection.weight\n"
        "m.owlvit.logit_scale like  rows \n");
  CHECK(Found({"n.fusion_stage.layers.0.residual_layer2.convolution1.bias"}) ==
        "n.fusion_stage.layers.0.residual_layer1.convolution1.bias of "
        "n.fusion_stage.layers.0.residual_layer2.convolution1 as "
        "n.fusion_stage.layers.0.residual_layer2.convolution1.bias\n");
}

TEST_CASE("the other one of two, of which a forward reads one") {
  CHECK(Found({"m.embeddings.type_token_instance"}) ==
        "m.embeddings.type_token_semantic of m.embeddings as m.embeddings.type_token_instance\n");
  CHECK(Found({"b.0.depthwise_convolution.lab.scale"}) ==
        "b.0.depthwise_convolution.act.lab.scale of b.0.depthwise_convolution.lab as "
        "b.0.depthwise_convolution.lab.scale\n");
  CHECK(Found({"m.logit_scale_a"}) == "m.logit_scale_t of m as \n");
}

TEST_CASE("what the file has is not lost") {
  CHECK(Found({"v.pre_layrnorm.weight", "v.pre_layrnorm.bias", "v.post_layernorm.weight",
               "v.post_layernorm.bias"}) == "");
  CHECK(Found({"v.norm.weight", "v.norm.bias"}) == "");
}

TEST_CASE("a clone of a buffer is as large as it") {
  Graph graph = ParseGraph("n (float[4] x) => (float[4] y) { y = Neg (x) }");
  graph.metadata.emplace_back("graph_signature",
                              "o: BUFFER target='m.full_original_inv_freq' persistent=False\n");
  const BoundModel model(std::move(graph));
  const LostTensors lost =
      FindLostTensors(model.bound, {}, {{"m.full_inv_freq", kNoValue, {DType::kFloat32, {8}}}});
  REQUIRE(lost.tensors.size() == 1);
  CHECK(lost.tensors[0].name == "m.full_original_inv_freq");
  CHECK(lost.tensors[0].type.dims == Dims{8});
}

TEST_CASE("a module that runs an operator tells of whom its tensors are") {
  const auto found = [](const std::string& ran) {
    const std::set<std::string> operators = {"m.bert." + ran};
    std::string text;
    for (const UnreadTensor& tensor :
         FindUnreadTensors({"m.bert.encoder.layer.0.attention.self.query.bias",
                            "m.bert.encoder.layer.0.attention.output.dense.bias"},
                           operators)) {
      text += tensor.name + " ";
    }
    return text;
  };
  CHECK(found("encoder.layer.0.attention.query/MatMul") == "m.bert.pooler.bias ");
  CHECK(found("encoder.layer.0.attention.self.query/MatMul").empty());
}

TEST_CASE("sizes that are a library's defaults stand behind another one's rows") {
  std::string text;
  for (const UnreadTensor& tensor : FindUnreadTensors(
           {"m.mask_decoder.iou_token.weight", "m.mask_decoder.mask_tokens.weight"})) {
    text += tensor.name + " rows " + std::string(tensor.rows_of);
    for (const int64_t size : tensor.sizes) text += " " + std::to_string(size);
    text += "\n";
  }
  CHECK(text.find("m.mask_decoder.iou_prediction_head.proj_out.weight rows "
                  "m.mask_decoder.mask_tokens.weight 256\n") != std::string::npos);
  CHECK(text.find("iou_prediction_head.layers.0.weight rows  256 256\n") != std::string::npos);
  CHECK(text.find("proj_in.weight") == std::string::npos);  // as wide as a tensor that is not there
}

}  // namespace
}  // namespace onnxfit::lost_tensors_test
