#include <algorithm>
#include <iterator>
#include <string>

#include "estimator/base/text.h"
#include "estimator/libraries/libraries.h"
#include "estimator/libraries/rows.h"

namespace onnxfit {
namespace {

// Llama and its kin: Mistral, Mixtral, Qwen2, Qwen3, OLMo2, Granite, StableLM.
constexpr NameFact kOwnHeads[] = {
    {"mlp.gate_proj",
     {kTransformers, "models/llama/configuration_llama.py", "tie_word_embeddings: bool = False"}},
};

constexpr NameFact kFloatBuffers[] = {
    {"pe", {}},  // PyTorch's tutorial on transformers
    {"final_logits_bias", {kTransformers, "models/bart/modeling_bart.py", "\"final_logits_bias\""}},
    {"inv_freq", {kTransformers, "models/llama/modeling_llama.py", "self.inv_freq = nn.Buffer("}},
    {"mask", {}},
    {"masked_bias", {}},  // GPT-2's before transformers 4.30, and nanoGPT's
    // Code that computes rotations, positions and masks once.
    {"freqs_cis", {}},
    {"cos_cached", {}},
    {"sin_cached", {}},
    {"cos_cache", {}},
    {"sin_cache", {}},
    {"position_ids", {}},
    {"causal_mask", {}},
    {"attn_mask", {}},
};

constexpr SeenIn kMeanShift = {kEdsr, "src/model/common.py", "p.requires_grad = False"};
constexpr UntrainedParameter kUntrainedParameters[] = {
    // WhisperEncoder's sinusoids, and those of its kin.
    {"embed_positions.weight",
     "conv2.weight",
     "",
     {kTransformers, "models/whisper/modeling_whisper.py",
      "self.embed_positions.requires_grad_(False)"}},
    // Sinusoids of what embeds values: Informer's and Autoformer's, too.
    {"embed_positions.weight",
     "value_embedding.value_projection.weight",
     "",
     {kTransformers, "models/time_series_transformer/modeling_time_series_transformer.py",
      "super().__init__(num_positions, embedding_dim, _freeze=True)"}},
    // A buffer of sinusoids.
    {"position_embedding",
     "cls_emb",
     "",
     {kTransformers, "models/videoprism/modeling_videoprism.py",
      "self.position_embedding = nn.Buffer("}},
    // Masked autoencoders'.
    {"position_embeddings",
     "",
     "ViTMAEEmbeddings",
     {kTransformers, "models/vit_mae/modeling_vit_mae.py",
      "torch.zeros(1, num_patches + 1, config.hidden_size), requires_grad=False"}},
    {"decoder_pos_embed",
     "mask_token",
     "",
     {kTransformers, "models/vit_mae/modeling_vit_mae.py",
      "self.decoder_pos_embed = nn.Parameter("}},
    // MeanShift around super-resolution's bodies: EDSR's, RCAN's, and those built on them.
    {"sub_mean.weight", "add_mean.weight", "", kMeanShift},
    {"sub_mean.bias", "add_mean.weight", "", kMeanShift},
    {"add_mean.weight", "sub_mean.weight", "", kMeanShift},
    {"add_mean.bias", "sub_mean.weight", "", kMeanShift},
};

// PeAudioEncoderEmbedder's codec.
constexpr SeenIn kCodec = {kTransformers, "models/pe_audio/modeling_pe_audio.py",
                           "with torch.no_grad(), torch.backends.cudnn.flags(enabled=False):"};
constexpr UntrackedChild kUntrackedChildren[] = {
    {"dac_encoder", "bottleneck", kCodec},
    {"bottleneck", "dac_encoder", kCodec},
};

// FalconLinear, in FalconDecoderLayer; GPT-NeoX's and BLOOM's layers of these names have biases.
constexpr SeenIn kFalconLinear = {kTransformers, "models/falcon/modeling_falcon.py",
                                  "hidden_states = input @ self.weight.T"};
constexpr NameFact kTransposing[] = {
    {"h.*.self_attention.query_key_value", kFalconLinear},
    {"h.*.self_attention.dense", kFalconLinear},
    {"h.*.mlp.dense_h_to_4h", kFalconLinear},
    {"h.*.mlp.dense_4h_to_h", kFalconLinear},
};

constexpr PositionBuffer kPositionBuffers[] = {
    {"position_embedding",
     "position_ids",
     {kTransformers, "models/clip/modeling_clip.py",
      "self.position_ids = nn.Buffer(torch.arange("}},
    {"position_embeddings",
     "position_ids",
     {kTransformers, "models/bert/modeling_bert.py",
      "self.position_ids = nn.Buffer(torch.arange("}},
    {"position_embeddings",
     "token_type_ids",
     {kTransformers, "models/bert/modeling_bert.py",
      "self.token_type_ids = nn.Buffer(torch.zeros("}},
};

constexpr std::string_view kBertFile = "models/bert/modeling_bert.py";
constexpr std::string_view kSiglip = "models/siglip/modeling_siglip.py";
constexpr std::string_view kXlnet = "models/xlnet/modeling_xlnet.py";
constexpr std::string_view kFuyu = "models/fuyu/modeling_fuyu.py";
constexpr std::string_view kLayout = "models/layoutlmv3/modeling_layoutlmv3.py";
constexpr std::string_view kActivationFile = "nn/modules/activation.py";
constexpr std::string_view kFlava = "models/flava/modeling_flava.py";
constexpr std::string_view kOwlv2 = "models/owlv2/modeling_owlv2.py";
constexpr std::string_view kCanine = "models/canine/modeling_canine.py";
constexpr UnreadTensorRow kUnreadTensors[] = {
    // Poolers, whose result the model returns and its head does not read.
    {"pooler.dense.weight",
     {1, 1},
     "",
     {kTransformers, kBertFile, "self.dense = nn.Linear(config.hidden_size, config.hidden_size)"}},
    {"pooler.dense.bias",
     {1},
     "",
     {kTransformers, kBertFile, "self.dense = nn.Linear(config.hidden_size, config.hidden_size)"}},
    {"pooler.weight",
     {1, 1},
     "",
     {kTransformers, "models/big_bird/modeling_big_bird.py",
      "self.pooler = nn.Linear(config.hidden_size, config.hidden_size)"}},
    {"pooler.bias",
     {1},
     "",
     {kTransformers, "models/big_bird/modeling_big_bird.py",
      "self.pooler = nn.Linear(config.hidden_size, config.hidden_size)"}},
    // SiglipMultiheadAttentionPoolingHead, likewise.
    {"probe",
     {-1, -1, 1},
     "",
     {kTransformers, kSiglip, "self.probe = nn.Parameter(torch.randn(1, 1, config.hidden_size))"}},
    {"layernorm.weight", {1}, "", {kTransformers, kSiglip, "self.layernorm = nn.LayerNorm("}},
    {"layernorm.bias", {1}, "", {kTransformers, kSiglip, "self.layernorm = nn.LayerNorm("}},
    {"attention.in_proj_weight",
     {3, 1},
     "",
     {kTorch, kActivationFile, "torch.empty((3 * embed_dim, embed_dim)"}},
    {"attention.in_proj_bias",
     {3},
     "",
     {kTorch, kActivationFile, "torch.empty(3 * embed_dim, **factory_kwargs)"}},
    {"attention.out_proj.weight", {1, 1}, "", {kTorch, kActivationFile, "self.out_proj ="}},
    {"attention.out_proj.bias", {1}, "", {kTorch, kActivationFile, "self.out_proj ="}},
    // SiglipTextModel's, as wide as it is unless it is told otherwise.
    {"head.weight",
     {1},
     "final_layer_norm.weight",
     {kTransformers, kSiglip, "self.head = nn.Linear(embed_dim, config.projection_size)"}},
    {"head.bias",
     {},
     "final_layer_norm.weight",
     {kTransformers, kSiglip, "self.head = nn.Linear(embed_dim, config.projection_size)"}},
    // SiglipVisionModel's last norm, whose model reads the states of a layer.
    {"post_layernorm.weight", {1}, "", {kTransformers, kSiglip, "self.post_layernorm ="}},
    {"post_layernorm.bias", {1}, "", {kTransformers, kSiglip, "self.post_layernorm ="}},
    // FlavaModel's projections for a contrastive loss, as wide as the multimodal model unless they
    // are told otherwise, and OwlViTModel's, which its detector does not read.
    {"image_projection.weight",
     {},
     "image_to_mm_projection.weight",
     {kTransformers, kFlava, "self.image_projection = nn.Linear("}},
    {"image_projection.bias",
     {},
     "image_to_mm_projection.bias",
     {kTransformers, kFlava, "self.image_projection = nn.Linear("}},
    {"text_projection.weight",
     {},
     "text_to_mm_projection.weight",
     {kTransformers, kFlava, "self.text_projection = nn.Linear("}},
    {"text_projection.bias",
     {},
     "text_to_mm_projection.bias",
     {kTransformers, kFlava, "self.text_projection = nn.Linear("}},
    {"visual_projection.weight",
     {},
     "vision_model.post_layernorm.weight",
     {kTransformers, "models/owlvit/modeling_owlvit.py",
      "self.visual_projection = nn.Linear(self.vision_embed_dim, self.projection_dim"},
     "text_projection.weight"},
    {"logit_scale", {}, "", {kTransformers, kFlava, "self.logit_scale = nn.Parameter("}},
    // A second head of boxes, of one number each.
    {"objectness_head.dense0.weight",
     {},
     "box_head.dense0.weight",
     {kTransformers, kOwlv2, "self.objectness_head = Owlv2BoxPredictionHead("}},
    {"objectness_head.dense0.bias",
     {},
     "box_head.dense0.bias",
     {kTransformers, kOwlv2, "self.objectness_head = Owlv2BoxPredictionHead("}},
    {"objectness_head.dense1.weight",
     {},
     "box_head.dense1.weight",
     {kTransformers, kOwlv2, "self.objectness_head = Owlv2BoxPredictionHead("}},
    {"objectness_head.dense1.bias",
     {},
     "box_head.dense1.bias",
     {kTransformers, kOwlv2, "self.objectness_head = Owlv2BoxPredictionHead("}},
    {"objectness_head.dense2.weight",
     {-1},
     "box_head.dense1.bias",
     {kTransformers, kOwlv2, "self.objectness_head = Owlv2BoxPredictionHead("}},
    {"objectness_head.dense2.bias",
     {-1},
     "",
     {kTransformers, kOwlv2, "self.objectness_head = Owlv2BoxPredictionHead("}},
    // CANINE's way back from molecules to characters, in windows of 4 unless it is told otherwise.
    {"projection.conv.weight",
     {1, 2, -4},
     "",
     {kTransformers, kCanine, "kernel_size=config.upsampling_kernel_size"}},
    {"projection.conv.bias",
     {},
     "chars_to_molecules.LayerNorm.bias",
     {kTransformers, kCanine, "out_channels=config.hidden_size"}},
    {"projection.LayerNorm.weight",
     {},
     "chars_to_molecules.LayerNorm.weight",
     {kTransformers, kCanine, "self.LayerNorm = nn.LayerNorm("}},
    {"projection.LayerNorm.bias",
     {},
     "chars_to_molecules.LayerNorm.bias",
     {kTransformers, kCanine, "self.LayerNorm = nn.LayerNorm("}},
    // Tokens in place of what is masked in pretraining.
    {"mask_token",
     {-1, 1},
     "",
     {kTransformers, "models/dinov2/modeling_dinov2.py",
      "self.mask_token = nn.Parameter(torch.zeros(1, config.hidden_size))"}},
    {"mask_emb",
     {-1, -1, 1},
     "",
     {kTransformers, kXlnet, "self.mask_emb = nn.Parameter(torch.FloatTensor(1, 1,"}},
    // Segments, of which there is one.
    {"r_s_bias",
     {},
     "r_r_bias",
     {kTransformers, kXlnet, "self.r_s_bias = nn.Parameter(torch.FloatTensor(self.n_head,"}},
    {"seg_embed",
     {-2},
     "r_r_bias",
     {kTransformers, kXlnet, "self.seg_embed = nn.Parameter(torch.FloatTensor(2, self.n_head,"}},
    // Attention of sampled blocks, of which a short sequence has none.
    {"self.key.weight",
     {},
     "self.query.weight",
     {kTransformers, "models/mra/modeling_mra.py", "self.key = nn.Linear("}},
    {"self.key.bias",
     {},
     "self.query.bias",
     {kTransformers, "models/mra/modeling_mra.py", "self.key = nn.Linear("}},
    {"self.value.weight",
     {},
     "self.query.weight",
     {kTransformers, "models/mra/modeling_mra.py", "self.value = nn.Linear("}},
    {"self.value.bias",
     {},
     "self.query.bias",
     {kTransformers, "models/mra/modeling_mra.py", "self.value = nn.Linear("}},
    // What makes embeddings of images, of which there are none: of 30 x 30 x 3 numbers a patch, and
    // of images of 224 x 224 in patches of 16 x 16.
    {"vision_embed_tokens.weight",
     {-2700},
     "language_model.final_layernorm.weight",
     {kTransformers, kFuyu, "self.vision_embed_tokens = nn.Linear("}},
    {"vision_embed_tokens.bias",
     {},
     "language_model.final_layernorm.weight",
     {kTransformers, kFuyu, "self.vision_embed_tokens = nn.Linear("}},
    {"layoutlmv3.cls_token", {-1, -1, 1}, "", {kTransformers, kLayout, "self.cls_token ="}},
    {"layoutlmv3.pos_embed", {-1, -197, 1}, "", {kTransformers, kLayout, "self.pos_embed ="}},
    {"layoutlmv3.patch_embed.proj.weight",
     {1, -3, -16, -16},
     "",
     {kTransformers, kLayout, "self.patch_embed = LayoutLMv3PatchEmbeddings("}},
    {"layoutlmv3.patch_embed.proj.bias",
     {1},
     "",
     {kTransformers, kLayout, "self.patch_embed = LayoutLMv3PatchEmbeddings("}},
    {"layoutlmv3.LayerNorm.weight", {1}, "", {kTransformers, kLayout, "self.LayerNorm ="}},
    {"layoutlmv3.LayerNorm.bias", {1}, "", {kTransformers, kLayout, "self.LayerNorm ="}},
    {"layoutlmv3.norm.weight", {1}, "", {kTransformers, kLayout, "self.norm = nn.LayerNorm("}},
    {"layoutlmv3.norm.bias", {1}, "", {kTransformers, kLayout, "self.norm = nn.LayerNorm("}},
};

constexpr SeenIn kNomicPositions = {kTransformers, "models/nomic_bert/configuration_nomic_bert.py",
                                    "max_position_embeddings: int = 2048"};
constexpr UnreadIntegersRow kUnreadIntegers[] = {
    {"nomic_bert.embeddings.position_ids", {1, 2048}, kNomicPositions},
    {"nomic_bert.embeddings.token_type_ids", {1, 2048}, kNomicPositions},
    {"layoutlmv3.visual_bbox", {197, 4}, {kTransformers, kLayout, "self.visual_bbox = nn.Buffer("}},
    {"summary_idxs",
     {2},
     {kTransformers, "models/radio/configuration_radio.py", "self.summary_idxs = [0, 1]"}},
};

constexpr NormedVectors kSpectralNorm = {
    "_u", "_v", "original", {kTorch, "nn/utils/parametrizations.py", "class _SpectralNorm("}};

constexpr UnreadMask kUnreadMasks[] = {
    {"bias",
     0,
     "wpe.weight",
     {kTransformers, "models/gpt_bigcode/modeling_gpt_bigcode.py", "self.bias = nn.Buffer("}},
    // ClvpSelfAttention's, of its decoder's layers.
    {"attn.bias",
     3,
     "position_embeds_layer.weight",
     {kTransformers, "models/clvp/modeling_clvp.py", "self.bias = nn.Buffer(bias"}},
};

constexpr NameFact kTiedBiases[] = {
    {"decoder",
     {kTransformers, "models/roberta/modeling_roberta.py",
      "\"lm_head.decoder.bias\": \"lm_head.bias\""}},
};

constexpr NameFact kIndexedOnce[] = {
    {"attention_biases",
     {kTimm, "models/levit.py",
      "self.attention_bias_cache[device_key] = self.attention_biases[:, "
      "self.attention_bias_idxs]"}},
};

// Under @compile_compatible_method_lru_cache.
constexpr CachedFunction kCachedFunctions[] = {
    {"get_patches_center_coordinates",
     32,
     {kTransformers, "models/dinov3_vit/modeling_dinov3_vit.py",
      "@compile_compatible_method_lru_cache(maxsize=32)\ndef get_patches_center_coordinates("},
     true},
    {"_cached_build_2d_sinusoidal_position_embedding",
     32,
     {kTransformers, "models/rt_detr/modeling_rt_detr.py",
      "@compile_compatible_method_lru_cache(maxsize=32)\n"
      "    def _cached_build_2d_sinusoidal_position_embedding("}},
    {"_cached_generate_anchors",
     32,
     {kTransformers, "models/rt_detr/modeling_rt_detr.py",
      "@compile_compatible_method_lru_cache(maxsize=32)\n    def _cached_generate_anchors("}},
    {"build_sine_position_embedding",
     1,
     {kTransformers, "models/sam2/modeling_sam2.py",
      "@compile_compatible_method_lru_cache(maxsize=1)\n    def build_sine_position_embedding("}},
};

constexpr NameFact kClones[] = {
    {"original_",
     {kTransformers, "models/llama/modeling_llama.py", "self.original_inv_freq = nn.Buffer("}},
};

constexpr NameFact kRotaryEmbeddings[] = {
    {"rotary_emb",
     {kTransformers, "models/llama/modeling_llama.py", "self.rotary_emb = LlamaRotaryEmbedding("}},
};

// DiaMultiChannelEmbedding's.
constexpr NameFact kOffsetTables[] = {
    {"embeddings.embed",
     {kTransformers, "models/dia/modeling_dia.py", "self.offsets = nn.Buffer(offsets"}},
};

constexpr NameFact kEmbeddings[] = {
    {"embeddings",
     {kTransformers, "models/bert/modeling_bert.py", "self.embeddings = BertEmbeddings("}},
};

}  // namespace

bool HasOwnHead(std::string_view path) {
  return std::ranges::any_of(kOwnHeads,
                             [&](const NameFact& row) { return path.ends_with(row.name); });
}

bool ReadsByOffsets(std::string_view table) {
  return std::ranges::any_of(kOffsetTables,
                             [&](const NameFact& row) { return EndsWithName(table, row.name); });
}

bool IsFloatBuffer(std::string_view name) {
  return std::ranges::find(kFloatBuffers, name, &NameFact::name) != std::end(kFloatBuffers);
}

bool MultipliesTransposed(std::string_view path) {
  return std::ranges::any_of(kTransposing, [&](const NameFact& row) {
    return MatchesGlob(path, std::string("*.") + std::string(row.name));
  });
}

bool IsIndexedOnce(std::string_view parameter) {
  return std::ranges::any_of(kIndexedOnce,
                             [&](const NameFact& row) { return parameter.ends_with(row.name); });
}

const CachedFunction* CachedFunctionOf(std::string_view function) {
  const auto* row = std::ranges::find(kCachedFunctions, function, &CachedFunction::name);
  return row == std::end(kCachedFunctions) ? nullptr : row;
}

bool MakesInFp32(std::string_view line) {
  return std::ranges::any_of(kCachedFunctions, [&](const CachedFunction& function) {
    return function.in_fp32 && line.find(function.name) != std::string_view::npos;
  });
}

std::span<const UntrainedParameter> UntrainedParameters() { return kUntrainedParameters; }
std::span<const UntrackedChild> UntrackedChildren() { return kUntrackedChildren; }
std::span<const PositionBuffer> PositionBuffers() { return kPositionBuffers; }
std::span<const UnreadTensorRow> UnreadTensorRows() { return kUnreadTensors; }
std::span<const UnreadIntegersRow> UnreadIntegers() { return kUnreadIntegers; }
const NormedVectors& VectorsOfSpectralNorm() { return kSpectralNorm; }
std::span<const UnreadMask> UnreadMasks() { return kUnreadMasks; }
std::string_view ChildWithTiedBias() { return kTiedBiases[0].name; }
bool IsRotaryEmbedding(std::string_view module) { return module == kRotaryEmbeddings[0].name; }
std::string_view NameOfEmbeddings() { return kEmbeddings[0].name; }
std::string_view CloneOfBuffer() { return kClones[0].name; }

}  // namespace onnxfit
