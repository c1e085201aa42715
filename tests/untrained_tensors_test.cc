#include "estimator/parameters/untrained_tensors.h"

#include <doctest/doctest.h>

#include <string>

#include "estimator/onnx/loader.h"
#include "tests/bound_model.h"

namespace onnxfit::untrained_tensors_test {
namespace {

// "01": which of two parameters are made with requires_grad=False; a node of `module_class` reads
// the first.
std::string Untrained(const std::string& first, const std::string& second,
                      const std::string& module_class = "torch.nn.Embedding") {
  Graph graph = ParseGraph(
      R"(n (float[4] x) => (float[4] y) <float[4] w = {1, 2, 3, 4}> { y = Add (x, w) })");
  const std::string classes = "['net.Net', '" + module_class + "', 'aten.add.Tensor']";
  graph.nodes[0].metadata.emplace_back("pkg.torch.onnx.class_hierarchy", classes);
  const BoundModel model(graph);
  const TensorType type = {DType::kFloat32, {4}};
  const int32_t value = graph.initializers[0].value;
  std::string text;
  for (const bool untrained :
       FindUntrained(model.bound, {{first, value, type}, {second, kNoValue, type}})) {
    text += untrained ? '1' : '0';
  }
  return text;
}

}  // namespace

TEST_CASE("parameters that a library makes untrained are known by those beside them") {
  CHECK(Untrained("m.embed_positions.weight", "m.conv2.weight") == "10");
  CHECK(Untrained("embed_positions.weight", "conv2.weight") == "10");
  CHECK(Untrained("m.embed_positions.weight", "m.value_embedding.value_projection.weight") == "10");
  CHECK(Untrained("m.embed_positions.weight", "n.conv2.weight") == "00");
  CHECK(Untrained("m.my_embed_positions.weight", "m.conv2.weight") == "00");
  CHECK(Untrained("sub_mean.weight", "add_mean.weight") == "11");
  CHECK(Untrained("m.add_mean.bias", "m.sub_mean.weight") == "10");
  CHECK(Untrained("sub_mean.weight", "head.weight") == "00");
}

TEST_CASE("or by the class that reads them") {
  constexpr char kClass[] = "transformers.models.vit_mae.modeling_vit_mae.ViTMAEEmbeddings";
  CHECK(Untrained("m.position_embeddings", "m.cls_token", kClass) == "10");
  CHECK(Untrained("m.position_embeddings", "m.cls_token") == "00");
}

TEST_CASE("beside adapters, the others are") {
  CHECK(Untrained("fc.base_layer.weight", "fc.lora_A.default.weight") == "10");
  CHECK(Untrained("head.modules_to_save.default.weight", "fc.lora_A.default.weight") == "00");
  CHECK(Untrained("fc.weight", "fc.bias") == "00");
}

}  // namespace onnxfit::untrained_tensors_test
