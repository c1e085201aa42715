#include <algorithm>
#include <iterator>

#include "estimator/libraries/libraries.h"
#include "estimator/libraries/rows.h"

namespace onnxfit {
namespace {

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

}  // namespace onnxfit
