#include <algorithm>
#include <iterator>

#include "estimator/libraries/libraries.h"
#include "estimator/libraries/rows.h"

namespace onnxfit {
namespace {

// gradient_checkpointing_enable() puts checkpoints around GradientCheckpointingLayers alone.  Those
// of models in which other modules repeat, too, or stand around them in lists of their own.
struct CheckpointedForward {
  std::string_view file;  // part of its path
  std::string_view line;  // of the layer's own forward
  SeenIn seen;
};

constexpr CheckpointedForward kCheckpointedForwards[] = {
    {"models/segformer/",
     "hidden_states = self.layernorm_before(hidden_states)",
     {kTransformers, "models/segformer/modeling_segformer.py",
      "class SegformerLayer(GradientCheckpointingLayer)"}},
    {"models/mobilevit/",
     "patches = self.transformer(patches)",
     {kTransformers, "models/mobilevit/modeling_mobilevit.py",
      "class MobileViTLayer(GradientCheckpointingLayer)"}},
    {"models/mobilevitv2/",
     "patches = self.transformer(patches)",
     {kTransformers, "models/mobilevitv2/modeling_mobilevitv2.py",
      "class MobileViTV2Layer(GradientCheckpointingLayer)"}},
    {"models/swiftformer/",
     "input = block(input)",
     {kTransformers, "models/swiftformer/modeling_swiftformer.py",
      "class SwiftFormerStage(GradientCheckpointingLayer)"}},
    {"models/canine/",
     "self_attention_outputs = self.attention(",
     {kTransformers, "models/canine/modeling_canine.py",
      "class CanineLayer(GradientCheckpointingLayer)"}},
    {"models/conditional_detr/",
     "hidden_states = self.self_attn_layer_norm(hidden_states)",
     {kTransformers, "models/conditional_detr/modeling_conditional_detr.py",
      "class ConditionalDetrEncoderLayer(GradientCheckpointingLayer)"}},
    {"models/data2vec/modeling_data2vec_audio.py",
     "hidden_states = hidden_states.transpose(-2, -1)",
     {kTransformers, "models/data2vec/modeling_data2vec_audio.py",
      "class Data2VecAudioConvLayer(GradientCheckpointingLayer)"}},
    {"models/data2vec/modeling_data2vec_audio.py",
     "hidden_states = hidden_states + self.feed_forward(hidden_states)",
     {kTransformers, "models/data2vec/modeling_data2vec_audio.py",
      "class Data2VecAudioEncoderLayer(GradientCheckpointingLayer)"}},
    // Also the backbone of Depth Anything, whose neck has lists of its own.
    {"models/dinov2/",
     "hidden_states_norm = self.norm1(hidden_states)",
     {kTransformers, "models/dinov2/modeling_dinov2.py",
      "class Dinov2Layer(GradientCheckpointingLayer)"}},
    {"models/tipsv2/",
     "hidden_states_norm = self.norm1(hidden_states)",
     {kTransformers, "models/tipsv2/modeling_tipsv2.py",
      "class Tipsv2VisionLayer(GradientCheckpointingLayer)"}},
    {"models/qwen3_vl/",
     "self.norm1(hidden_states)",
     {kTransformers, "models/qwen3_vl/modeling_qwen3_vl.py",
      "class Qwen3VLVisionBlock(GradientCheckpointingLayer)"}},
    {"models/qwen3_vl/",
     "hidden_states = self.post_attention_layernorm(hidden_states)",
     {kTransformers, "models/qwen3_vl/modeling_qwen3_vl.py",
      "class Qwen3VLTextDecoderLayer(GradientCheckpointingLayer)"}},
    {"models/phi4_multimodal/",
     "hidden_states = self.layer_norm1(hidden_states)",
     {kTransformers, "models/phi4_multimodal/modeling_phi4_multimodal.py",
      "class Phi4MultimodalVisionEncoderLayer(GradientCheckpointingLayer)"}},
    {"models/phi4_multimodal/",
     "hidden_states = residual + self.resid_attn_dropout(hidden_states)",
     {kTransformers, "models/phi4_multimodal/modeling_phi4_multimodal.py",
      "class Phi4MultimodalDecoderLayer(GradientCheckpointingLayer)"}},
};

// What get_input_embeddings() returns, whose result model.enable_input_require_grads() asks
// gradients for.
constexpr SeenIn kFirstOfModel = {kTransformers, "modeling_utils.py",
                                  "def enable_input_require_grads(self):"};
constexpr NameFact kInputEmbeddings[] = {
    {"embed_tokens", kFirstOfModel},
    {"word_embeddings",
     {kTransformers, "models/bert/modeling_bert.py", "return self.embeddings.word_embeddings"}},
    {"word_embedding",
     {kTransformers, "models/xlnet/modeling_xlnet.py", "return self.word_embedding"}},
    {"patch_embeddings",
     {kTransformers, "models/beit/modeling_beit.py", "_input_embed_layer = \"patch_embeddings\""}},
    {"patch_embedding",
     {kTransformers, "models/clip/modeling_clip.py", "_input_embed_layer = \"patch_embedding\""}},
    {"patch_embed", {kTransformers, "models/sam2/modeling_sam2.py", "self.patch_embed"}},
    {"token_embedding",
     {kTransformers, "models/clip/modeling_clip.py", "_input_embed_layer = \"token_embedding\""}},
    {"shared", {kTransformers, "models/t5/modeling_t5.py", "return self.shared"}},
    {"embeddings",
     {kTransformers, "models/flaubert/modeling_flaubert.py", "return self.embeddings"}},
    {"wte", {kTransformers, "models/gpt2/modeling_gpt2.py", "return self.wte"}},
    {"w", {kTransformers, "models/ctrl/modeling_ctrl.py", "return self.w"}},
    {"tokens_embed",
     {kTransformers, "models/openai/modeling_openai.py", "return self.tokens_embed"}},
    {"embed_in",
     {kTransformers, "models/gpt_neox_japanese/modeling_gpt_neox_japanese.py",
      "return self.embed_in"}},
    {"tok_embeddings",
     {kTransformers, "models/modernbert_decoder/modeling_modernbert_decoder.py",
      "return self.embeddings.tok_embeddings"}},
    {"input_embedding",
     {kTransformers, "models/cpmant/modeling_cpmant.py", "return self.input_embedding"}},
    {"conv1", {kTransformers, "models/whisper/modeling_whisper.py", "return self.conv1"}},
};

}  // namespace

bool IsInputEmbedding(std::string_view module) {
  return std::ranges::find(kInputEmbeddings, module, &NameFact::name) != std::end(kInputEmbeddings);
}

bool IsCheckpointedForward(std::string_view file, std::string_view line) {
  return std::ranges::any_of(kCheckpointedForwards, [&](const CheckpointedForward& row) {
    return file.find(row.file) != file.npos && line.find(row.line) != line.npos;
  });
}

}  // namespace onnxfit
