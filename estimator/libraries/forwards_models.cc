// What transformers' models of sounds, images and several inputs bind to names: more rows of
// forwards.cc.
#include "estimator/libraries/libraries.h"
#include "estimator/libraries/rows.h"

namespace onnxfit {
namespace {

constexpr SeenIn kTimeSeries = {
    kTransformers, "models/time_series_transformer/modeling_time_series_transformer.py",
    "transformer_inputs, loc, scale, static_feat = self.create_network_inputs("};
constexpr SeenIn kFlavaStates = {kTransformers, "models/flava/modeling_flava.py",
                                 "image_states = image_output[0], image_output[2]"};
constexpr SeenIn kVideoLayer = {kTransformers, "models/videoprism/modeling_videoprism.py",
                                "hidden_states, _ = self.attention("};
constexpr SeenIn kSelectiveScan = {kTransformers, "models/mamba/modeling_mamba.py",
                                   "scan_result = mamba_selective_scan("};
constexpr SeenIn kZoeDepth = {kTransformers, "models/zoedepth/modeling_zoedepth.py",
                              "prev_bin_embedding = bin_embedding.clone()"};
constexpr SeenIn kDecision = {kTransformers,
                              "models/decision_transformer/modeling_decision_transformer.py",
                              "state_embeddings = state_embeddings + time_embeddings"};
constexpr SeenIn kOwl = {kTransformers, "models/owlv2/modeling_owlv2.py",
                         "(pred_logits, class_embeds) = self.class_predictor("};

constexpr KnownNameRow kRowsOfModels[] = {
    // ClvpDecoderLayer, ClvpDecoder.
    {{"input_layernorm", "attn/q_proj", "post_attention_layernorm", "mlp"},
     "attn/softmax",
     "_",
     {},
     false,
     {kTransformers, "models/clvp/modeling_clvp.py", "hidden_states, _ = self.attn("}},
    {{"input_embeds_layer", "position_embeds_layer", "layers.0"},
     "input_embeds_layer>constant",
     "position_ids",
     {},
     false,
     {kTransformers, "models/clvp/modeling_clvp.py", "position_ids = position_ids.unsqueeze(0)"}},
    // Pix2StructVisionLayer.
    {{"attention", "pre_mlp_layer_norm", "pre_attention_layer_norm"},
     "attention",
     "attention_output",
     {},
     false,
     {kTransformers, "models/pix2struct/modeling_pix2struct.py",
      "hidden_states = attention_output + residual"}},
    // FastSpeech2ConformerHifiGan, SpeechT5HifiGan.
    {{"conv_pre", "upsampler.0", "conv_post"},
     "div",
     "spectrogram",
     {},
     false,
     {kTransformers, "models/fastspeech2_conformer/modeling_fastspeech2_conformer.py",
      "spectrogram = (spectrogram - self.mean) / self.scale"}},
    // VideoPrismLayer, VideoPrismVisionModel, VideoPrismVideoModel.
    {{"layernorm_before", "attention/q_proj", "layernorm_after", "mlp"},
     "attention/softmax",
     "_",
     {},
     false,
     kVideoLayer},
    // FlavaModel, whose towers are asked for all states.
    {{"image_model", "text_model", "text_to_mm_projection"},
     "text_to_mm_projection",
     "text_mm_projection",
     {},
     false,
     kFlavaStates},
    // MambaMixer and FalconMambaMixer, whose mamba_selective_scan lists what its turns make.
    {{"in_proj", "x_proj", "out_proj", "!dt_proj"},
     "softplus",
     "dt",
     {"<out_proj"},
     false,
     kSelectiveScan},
    {{"in_proj", "x_proj", "out_proj", "!dt_proj"},
     "softplus>mul>exp>mul",
     "discrete_B",
     {"<out_proj"},
     false,
     kSelectiveScan},
    {{"in_proj", "x_proj", "out_proj", "!dt_proj"},
     "matmul",
     "scan_outputs",
     {"<out_proj"},
     false,
     kSelectiveScan},
    {{"in_proj", "x_proj", "out_proj", "!dt_proj"}, "neg", "A", {}, false, kSelectiveScan},
    {{"in_proj", "x_proj", "out_proj", "!dt_proj"},
     "slice>silu",
     "hidden_states_B_C",
     {},
     false,
     kSelectiveScan},
    // ZoeDepthMetricDepthEstimationHead.
    {{"projectors.0", "attractors.0", "conditional_log_binomial"},
     "attractors.*",
     "bin",
     {"attractors.*"},
     false,
     kZoeDepth},
    {{"projectors.0", "attractors.0", "conditional_log_binomial"},
     "cat",
     "last",
     {},
     false,
     kZoeDepth},
    {{"projectors.0", "attractors.0", "conditional_log_binomial"},
     "upsample_bilinear2d",
     "bin_embedding",
     {},
     false,
     kZoeDepth},
    // DecisionTransformerModel, DecisionTransformerGPT2Block.
    {{"embed_state", "embed_return", "embed_timestep", "embed_ln"},
     "add",
     "state_embeddings",
     {},
     false,
     kDecision},
    {{"ln_1", "attn/c_attn", "ln_2", "mlp/act"},
     "attn/softmax",
     "_",
     {},
     false,
     {kTransformers, "models/gpt2/modeling_gpt2.py", "attn_output, _ = self.attn("}},
    {{"ln_1", "attn/c_attn", "ln_2", "mlp/act"},
     "attn",
     "attn_output",
     {},
     false,
     {kTransformers, "models/gpt2/modeling_gpt2.py", "attn_output, _ = self.attn("}},
    // XmodOutput, whose lang_adapter is given what the norm normalizes.
    {{"dense", "LayerNorm", ">index_put"},
     "<LayerNorm",
     "hidden_states",
     {},
     false,
     {kTransformers, "models/xmod/modeling_xmod.py",
      "hidden_states = self.lang_adapter(lang_ids, hidden_states)"}},
    // LwDetrModel, whose decoder is given the chosen boxes detached.
    {{"backbone", "enc_output.0", "enc_out_bbox_embed.0", "decoder"},
     "gather",
     "topk_coords_logits_undetach",
     {},
     true,
     {kTransformers, "models/lw_detr/modeling_lw_detr.py",
      "enc_outputs_coord_logits = topk_coords_logits_undetach"}},
    {{"backbone", "enc_output.0", "enc_out_bbox_embed.0", "decoder"},
     "enc_output_norm.*",
     "object_query_undetach",
     {},
     true,
     {kTransformers, "models/lw_detr/modeling_lw_detr.py",
      "group_object_query_undetach = torch.gather("}},
    // MultiScaleDeformableAttention of all deformable DETRs.
    {{">grid_sampler", ">cat", ">sum"},
     "grid_sampler",
     "sampling_value_list",
     {},
     false,
     {kTransformers, "models/deformable_detr/modeling_deformable_detr.py",
      "sampling_value_list.append(sampling_value_l_)"}},
    // VJEPA2Model, which returns states of all places beside them.
    {{"@vjepa2"},
     "clone",
     "masked_hidden_state",
     {},
     true,
     {kTransformers, "models/vjepa2/modeling_vjepa2.py",
      "masked_hidden_state=apply_masks(sequence_output, context_mask)"}},
    // OwlViTForObjectDetection and Owlv2ForObjectDetection, which return what they have named.
    {{"class_head", "layer_norm", "box_head"}, "layer_norm", "feature_map", {}, true, kOwl},
    {{"class_head", "layer_norm", "box_head"}, "class_head/div", "class_embeds", {}, true, kOwl},
    {{"class_head", "objectness_head", "box_head"},
     "objectness_head",
     "objectness_logits",
     {},
     true,
     kOwl},
    // TimeSeriesTransformerModel, whose method makes them.
    {{"scaler", "encoder", "decoder"}, "scaler", "loc, scale", {}, true, kTimeSeries},
    {{"scaler", "encoder", "decoder"}, "scaler>log>cat", "static_feat", {}, true, kTimeSeries},
};

}  // namespace

std::span<const KnownNameRow> NameRowsOfModels() { return kRowsOfModels; }

}  // namespace onnxfit
