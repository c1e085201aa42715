// What functions of libraries bind to names, by their text.
#include "estimator/libraries/libraries.h"
#include "estimator/libraries/rows.h"

namespace onnxfit {
namespace {

constexpr SeenIn kGroupedExperts = {kTransformers, "integrations/moe.py",
                                    "def grouped_mm_experts_forward("};
constexpr SeenIn kShiftedWindows = {kTimm, "models/swin_transformer_v2_cr.py",
                                    "def _shifted_window_attn(self, x):"};
constexpr SeenIn kRotatedHalves = {kTransformers, "models/roformer/modeling_roformer.py",
                                   "def apply_rotary_position_embeddings("};
constexpr HelperFrame kHelperFrames[] = {
    // With biases, and with the limits of GPT-OSS's _apply_gate.
    {"experts_forward(",
     "expert_ids_g, perm = sort\n"
     "selected_hidden_states_g = index\n"
     "sample_weights_g = index\n"
     "histc_input = to\n"
     "tokens_per_expert = histc\n"
     "offsets = cumsum\n"
     "sentinel_mask = ge\n"
     "selected_biases = index\n"
     "proj_out = _grouped_mm\n"
     "proj_out = masked_fill\n"
     "gate = clamp_max\n"
     "up = clamp\n"
     "glu = mul\n"
     "proj_out, -gate, -up, -glu = mul\n"
     "selected_biases = index\n"
     "proj_out = _grouped_mm\n"
     "proj_out = masked_fill\n"
     "weighted_out = mul\n"
     "weighted_out = index\n",
     kGroupedExperts},
    {"experts_forward(",
     "expert_ids_g, perm = sort\n"
     "selected_hidden_states_g = index\n"
     "sample_weights_g = index\n"
     "histc_input = to\n"
     "tokens_per_expert = histc\n"
     "offsets = cumsum\n"
     "sentinel_mask = ge\n"
     "proj_out = _grouped_mm\n"
     "proj_out = masked_fill\n"
     "proj_out = mul\n"
     "proj_out = _grouped_mm\n"
     "proj_out = masked_fill\n"
     "weighted_out = mul\n"
     "weighted_out = index\n",
     kGroupedExperts},
    {"mamba_selective_scan(",
     "dt = add\n"
     "dt = softplus\n"
     "discrete_A = exp\n"
     "discrete_B = mul\n"
     "deltaB_u = mul\n"
     "ssm_state = constant\n"
     "  ssm_state = add\n"
     "  scan_output=scan_outputs[] = matmul\n"
     "scan_output = cat\n"
     "scan_output = add\n"
     "scan_output = mul\n",
     {kTransformers, "models/mamba/modeling_mamba.py", "def mamba_selective_scan("}},
    {"compute_global_attention_representations(",
     "global_and_local_k = cat\n"
     "global_and_local_v = cat\n"
     "extended_mask = pad\n"
     "attn_weights = bmm\n"
     "attn_weights = add\n"
     "attn_probs = softmax\n"
     "attn_output = bmm\n"
     "return attn_output, attn_probs",
     {kTransformers, "models/pegasus_x/modeling_pegasus_x.py",
      "def compute_global_attention_representations("}},
    {"compute_local_attention_representations(",
     "extended_mask = pad\n"
     "blocked_local2global = bmm\n"
     "blocked_local2local = bmm\n"
     "attn_weights = cat\n"
     "attn_weights = add\n"
     "attn_probs = softmax\n"
     "local2global_attn_output = bmm\n"
     "local2local_attn_output = bmm\n"
     "attn_output = add\n"
     "return attn_output, attn_probs",
     {kTransformers, "models/pegasus_x/modeling_pegasus_x.py",
      "def compute_local_attention_representations("}},
    {"self._attn(query, key, value, attention_mask)",
     "attn_scores = bernoulli\n"
     "attention_scores = baddbmm\n"
     "attention_scores = add\n"
     "attn_weights = softmax\n"
     "attn_weights = self.attention_dropout?\n"
     "attn_weights = to\n"
     "attn_output = matmul\n"
     "return attn_output, attn_weights",
     {kTransformers, "models/gpt_neox_japanese/modeling_gpt_neox_japanese.py",
      "attn_scores = torch.zeros("}},
    // GPTJAttention.
    {"self._attn(query, key, value, attention_mask)",
     "query = to\n"
     "key = to\n"
     "attn_weights = matmul\n"
     "attn_weights = mul.Scalar\n"
     "attn_weights = add\n"
     "attn_weights = softmax\n"
     "attn_weights = to\n"
     "attn_weights = self.attn_dropout?\n"
     "attn_output = matmul\n"
     "return attn_output, attn_weights",
     {kTransformers, "models/gptj/modeling_gptj.py",
      "attn_weights = attn_weights / self.scale_attn"}},
    // Attention of OpenAIGPT's.
    {"self._attn(query, key, value, attention_mask, output_attentions)",
     "w = matmul\n"
     "w = mul.Scalar?\n"
     "w = add\n"
     "w = add?\n"
     "w = softmax\n"
     "w = self.attn_dropout?\n"
     "outputs[] = matmul\n",
     {kTransformers, "models/openai/modeling_openai.py", "w = w * b + -1e4 * (1 - b)"}},
    // GptOssAttention, whose softmax has a column of sinks.
    {"attention_interface(",
     "key_states = expand\n"
     "key_states = view\n"
     "value_states = expand\n"
     "value_states = view\n"
     "attn_weights = matmul\n"
     "attn_weights = mul.Scalar\n"
     "attn_weights = add\n"
     "combined_logits = cat\n"
     "combined_logits = sub\n"
     "probs = softmax\n"
     "scores = slice\n"
     "attn_weights = to\n"
     "attn_output = matmul\n"
     "attn_output = contiguous\n"
     "return attn_output, attn_weights",
     {kTransformers, "models/gpt_oss/modeling_gpt_oss.py", "scores = probs[..., :-1]"}},
    // RoFormerSelfAttention, with values that are rotated and without.
    {"self.apply_rotary_position_embeddings(",
     "sin_pos = cat\n"
     "cos_pos = cat\n"
     "rotate_half_query_layer = cat\n"
     "query_layer = add\n"
     "rotate_half_key_layer = cat\n"
     "key_layer = add\n"
     "rotate_half_value_layer = cat\n"
     "value_layer = add\n",
     kRotatedHalves},
    {"self.apply_rotary_position_embeddings(",
     "sin_pos = cat\n"
     "cos_pos = cat\n"
     "rotate_half_query_layer = cat\n"
     "query_layer = add\n"
     "rotate_half_key_layer = cat\n"
     "key_layer = add\n",
     kRotatedHalves},
    // CohereAttention and Cohere2Attention, in fp32.
    {"apply_rotary_pos_emb(",
     "q = to\n"
     "k = to\n"
     "q_embed = add\n"
     "k_embed = add\n",
     {kTransformers, "models/cohere/modeling_cohere.py", "k = k.float()"},
     "models/cohere"},
    // ModernBertAttention and ModernBertDecoderAttention, in fp32.
    {"apply_rotary_pos_emb(",
     "q_embed = add\n"
     "k_embed = add\n",
     {kTransformers, "models/modernbert_decoder/modeling_modernbert_decoder.py",
      "k_embed = (k.float() * cos) + (rotate_half(k.float()) * sin)"},
     "models/modernbert"},
    // DINOv3ViTAttention and its copies, of patches alone.
    {"apply_rotary_pos_emb(",
     "q_patches = add\n"
     "k_patches = add\n"
     "q = cat\n"
     "k = cat\n",
     {kTransformers, "models/dinov3_vit/modeling_dinov3_vit.py",
      "q_patches = (q_patches * cos) + (rotate_half(q_patches) * sin)"},
     "dinov3"},
    {"get_patches_center_coordinates(",
     "coords_h = constant\n"
     "coords_w = constant\n"
     "coords_h = mul.Scalar\n"
     "coords_w = mul.Scalar\n"
     "coords = cat\n"
     "coords = add.Scalar\n",
     {kTransformers, "models/dinov3_vit/modeling_dinov3_vit.py", "coords = 2.0 * coords - 1.0"}},
    // XLNetRelativeAttention.
    {"self.rel_attn_core(",
     "ac = bmm\n"
     "bd = bmm\n"
     "bd = index_select\n"
     "attn_score = mul.Scalar\n"
     "attn_prob = softmax\n"
     "attn_vec = bmm\n",
     {kTransformers, "models/xlnet/modeling_xlnet.py", "def rel_attn_core("}},
    // LiteMLA.
    {"self._attn(q, k, v)",
     "q = to\n"
     "k = to\n"
     "v = to\n"
     "kv = matmul\n"
     "out = matmul\n"
     "out = div\n",
     {kTimm, "models/efficientvit_mit.py", "def _attn(self, q, k, v):"}},
    // SwinTransformerV2CrBlock, with a shift and without.
    {"self._shifted_window_attn(x)",
     "-x = roll\n"
     "x = pad\n"
     "x_windows = contiguous\n"
     "-attn = softmax\n"
     "attn_windows = linear\n"
     "x = contiguous\n"
     "-x, -x_windows, -attn_windows = roll\n",
     kShiftedWindows},
    {"self._shifted_window_attn(x)",
     "x = pad\n"
     "x_windows = contiguous\n"
     "-attn = softmax\n"
     "attn_windows = linear\n"
     "-x, -x_windows, -attn_windows = contiguous\n",
     kShiftedWindows},
    // Xcit, of its PositionalEncodingFourier.
    {"self.forward_features(",
     "-pos_x = cos\n"
     "-pos_y = cos\n"
     "pos_encoding = repeat\n"
     "  x = self.blocks.*\n"
     "y = cat\n"
     "y = self.cls_attn_blocks.0\n"
     "x, -y = self.cls_attn_blocks.1\n"
     "x = self.norm\n",
     {kTimm, "models/xcit.py", "pos_encoding = self.pos_embed(B, Hp, Wp)"}},
    // CoaT without blocks in parallel.
    {"self.forward_features(",
     "x1 = self.patch_embed1\n"
     "x1 = cat\n"
     "  x1 = self.serial_blocks1.*\n"
     "x1_nocls = contiguous\n"
     "x2 = self.patch_embed2\n"
     "x2 = cat\n"
     "  x2 = self.serial_blocks2.*\n"
     "x2_nocls = contiguous\n"
     "x3 = self.patch_embed3\n"
     "x3 = cat\n"
     "  x3 = self.serial_blocks3.*\n"
     "x3_nocls = contiguous\n"
     "x4 = self.patch_embed4\n"
     "x4 = cat\n"
     "  x4 = self.serial_blocks4.*\n"
     "x4_nocls = contiguous?\n"
     "x4 = self.norm4\n",
     {kTimm, "models/coat.py", "x1_nocls = remove_cls(x1)"}},
    // SanaMultiscaleAttnProcessor2_0, and apply_linear_attention; the value is a part of the
    // states.
    {"self.processor(self, hidden_states)",
     "query = linear\n"
     "key = linear\n"
     "value = linear\n"
     "hidden_states=multi_scale_qkv[] = cat\n"
     "  proj_in = convolution\n"
     "  multi_scale_qkv[], -proj_in = convolution\n"
     "hidden_states = cat\n"
     "hidden_states=value = to\n"
     "query = relu\n"
     "key = relu\n"
     "padded = pad\n"
     "scores = matmul\n"
     "scaled = matmul\n"
     "scaled = to\n"
     "hidden_states, -padded, -scores, -scaled = div\n"
     "hidden_states = to\n"
     "hidden_states = linear\n",
     {kDiffusers, "models/attention_processor.py", "class SanaMultiscaleAttnProcessor2_0:"}},
    // AttnProcessor2_0.
    {"self.processor(",
     "hidden_states=encoder_hidden_states = group_norm\n"
     "query = linear\n"
     "key = linear\n"
     "value = linear\n"
     "hidden_states = scaled_dot_product_attention\n"
     "hidden_states = to\n"
     "hidden_states = linear\n"
     "hidden_states = add\n",
     {kDiffusers, "models/attention_processor.py", "class AttnProcessor2_0:"}},
    // Qwen3.5's gated delta rule by chunks, with l2norm of queries and keys, and its kin's.
    {"chunk_gated_delta_rule(",
     "query = cast\n"
     "key = cast\n"
     "value = cast\n"
     "beta = cast\n"
     "decay = cast\n"
     "inv_norm = rsqrt\n"
     "query, -inv_norm = mul\n"
     "inv_norm = rsqrt\n"
     "key, -inv_norm = mul\n"
     "query = mul.Scalar\n"
     "padded_query = pad\n"
     "padded_key = pad\n"
     "padded_value, -query, -key, -value = pad\n"
     "padded_beta = pad\n"
     "padded_decay, -beta, -decay = pad\n"
     "v_beta = mul\n"
     "k_beta = mul\n"
     "strictly_upper_mask = triu\n"
     "cum_decay = cumsum\n"
     "pairwise_decay = sub\n"
     "pairwise_decay = masked_fill\n"
     "pairwise_decay = exp\n"
     "ut_system = mul\n"
     "intra_chunk_attn = mul\n"
     "decayed_k_beta = mul\n"
     "new_values = linalg_solve_triangular\n"
     "k_cumdecay = linalg_solve_triangular\n"
     "last_recurrent_state = constant\n"
     "core_attn_out = bernoulli\n"
     "padded_query = mul\n"
     "padded_key = mul\n"
     "chunk_decay = exp\n"
     "  v_new = sub\n"
     "  inter_chunk_attn = matmul\n"
     "  scaled = mul\n"
     "  last_recurrent_state, -scaled = add\n"
     "core_attn_out, -last_recurrent_state = view\n",
     {kTransformers, "models/qwen3_5/modeling_qwen3_5.py", "def torch_chunk_gated_delta_rule("}},
    // Mamba2's scan by chunks, in Bamba and its kin.
    {"mamba2_chunk_scan(",
     "dt = add\n"
     "dt = softplus\n"
     "dt = clamp\n"
     "B = repeat_interleave\n"
     "C = repeat_interleave\n"
     "D_residual = mul\n"
     "hidden_states = mul\n"
     "A = mul\n"
     "padded_hidden_states = pad\n"
     "padded_A = pad\n"
     "padded_B = pad\n"
     "padded_C, -hidden_states, -A, -B, -C = pad\n"
     "A_cumsum = cumsum\n"
     "mask = tril\n"
     "input_tensor = masked_fill\n"
     "tensor_segsum = cumsum\n"
     "mask = tril\n"
     "tensor_segsum, -mask, -input_tensor = masked_fill\n"
     "L, -tensor_segsum = exp\n"
     "G = sum\n"
     "M = sum\n"
     "Y_diag = sum\n"
     "decay_states = exp\n"
     "B_decay = mul\n"
     "states = sum\n"
     "previous_states = bernoulli\n"
     "states = cat\n"
     "mask = tril\n"
     "input_tensor = masked_fill\n"
     "tensor_segsum = cumsum\n"
     "mask = tril\n"
     "tensor_segsum, -mask, -input_tensor = masked_fill\n"
     "decay_chunk, -tensor_segsum = exp\n"
     "new_states=states = sum\n"
     "state_decay_out = exp\n"
     "C_times_states = mul\n"
     "Y_off = mul\n"
     "output = add\n"
     "output = add\n",
     {kTransformers, "models/bamba/modeling_bamba.py", "def mamba2_chunk_scan("}},
    // SAM's grid of positions.
    {"self.get_image_wide_positional_embeddings(",
     "grid = bernoulli\n"
     "y_embed = add.Scalar\n"
     "x_embed = add.Scalar\n"
     "y_embed = mul.Scalar\n"
     "x_embed = mul.Scalar\n"
     "positional_embedding = self.shared_image_embedding\n",
     {kTransformers, "models/sam/modeling_sam.py",
      "def get_image_wide_positional_embeddings(self):"}},
    {"self._embed_points(",
     "points = add.Scalar\n"
     "padding_point = bernoulli\n"
     "padding_label = neg\n"
     "points = cat\n"
     "labels = cat\n"
     "point_embedding = self.shared_embedding\n"
     "point_embedding = where\n"
     "point_embedding = where\n"
     "point_embedding = where\n"
     "point_embedding = where\n",
     {kTransformers, "models/sam/modeling_sam.py", "def _embed_points(self,"}},
    // Gemma 4's inputs of each layer, and Gemma 3n's.
    {"self.project_per_layer_inputs(",
     "per_layer_projection = mul.Scalar\n"
     "per_layer_projection = self.per_layer_projection_norm\n",
     {kTransformers, "models/gemma4/modeling_gemma4.py", "def project_per_layer_inputs("}},
    // CLIP's and its kin's, "embeds / _get_vector_norm(embeds)".
    {"_get_vector_norm(",
     "square_tensor = pow.Tensor_Scalar\n"
     "sum_tensor = sum\n"
     "normed_tensor, -square_tensor, -sum_tensor = pow.Tensor_Scalar\n",
     {kTransformers, "models/clip/modeling_clip.py", "square_tensor = torch.pow(tensor, 2)"}},
    // VQModel: the quantizer's indices, "_", its loss, and what it made.
    {"self.decode(h)",
     "_ = argmin\n"
     "commit_loss = add\n"
     "quant = self.quantize\n"
     "quant2 = self.post_quant_conv\n"
     "dec = self.decoder\n"
     "return dec+commit_loss",
     {kDiffusers, "models/autoencoders/vq_model.py", "quant, commit_loss, _ = self.quantize(h)"}},
    // Levit: "x, x_dist = self.head(x), self.head_dist(x)".
    {"self.forward_head(",
     "x = mean\n"
     "result = self.head\n"
     "x_dist, -x = self.head_dist\n",
     {kTimm, "models/levit.py", "return (x + x_dist) / 2"}},
    // VOLO, whose forward_features passes x on to forward_tokens and forward_cls.
    {"self.forward_features(",
     "x = self.patch_embed\n"
     "x = self.network.4\n"
     "x = self.post_network.1\n"
     "x = self.norm\n",
     {kTimm, "models/volo.py", "x = self.forward_tokens(x)"}},
    // Wav2Vec2BertSelfAttention.
    {"_apply_relative_key_position_encoding(",
     "position_ids_l = view\n"
     "position_ids_r = view\n"
     "distance = sub\n"
     "distance = clamp\n"
     "positional_embedding = self.distance_embedding\n"
     "positional_embedding = cast\n",
     {kTransformers, "models/wav2vec2_bert/modeling_wav2vec2_bert.py",
      "def _apply_relative_key_position_encoding("}},
    // MegatronBertLayer.
    {"apply_chunking_to_forward(",
     "ln_output = self.ln\n"
     "intermediate_output = self.intermediate\n"
     "layer_output = self.output\n",
     {kTransformers, "models/megatron_bert/modeling_megatron_bert.py",
      "ln_output = self.ln(attention_output)"}},
    // LayoutLMv3SelfAttention.
    {"self.cogview_attention(",
     "scaled_attention_scores = mul.Scalar\n"
     "max_value = amax\n"
     "new_attention_scores = mul.Scalar\n",
     {kTransformers, "models/layoutlmv3/modeling_layoutlmv3.py", "def cogview_attention("}},
    // MultiScaleAttention's distances, and the products with them.
    {"cal_rel_pos_type(",
     "dist_h = sub\n"
     "dist_w = sub\n"
     "rel_h = index\n"
     "rel_w = index\n"
     "rel_h = bmm\n"
     "rel_w = bmm\n",
     {kTimm, "models/mvitv2.py", "def cal_rel_pos_type("}},
    // EfficientViM.
    {"self.forward_features(",
     "features[] = self.norm.0\n"
     "features[] = self.norm.1\n"
     "features[] = self.norm.2\n"
     "return features[]",
     {kTimm, "models/efficientvim.py", "features.append(norm("}},
    {"self.forward_head(",
     "x[] = mean\n"
     "x[] = mean\n"
     "x[] = mean\n"
     "x[] = mean\n"
     "weights = softmax\n"
     "logits[] = mul\n"
     "logits[] = mul\n"
     "logits[] = mul\n"
     "logits[] = mul\n",
     {kTimm, "models/efficientvim.py", "logits = [weights[i] * head(x[i])"}},
    // NaFlexVit.
    {"self.forward_features(",
     "embeds = self.embeds\n",
     {kTimm, "models/naflexvit.py", "x = embeds['patches']"}},
    // Sam2SinePositionEmbedding.
    {"build_sine_position_embedding(",
     "y_embed = mul.Scalar\n"
     "x_embed = mul.Scalar\n"
     "dim_t = pow.Scalar\n"
     "pos_x = div\n"
     "pos_y = div\n"
     "pos_x = cat\n"
     "pos_y = cat\n"
     "pos = cat\n",
     {kTransformers, "models/sam2/modeling_sam2.py", "def build_sine_position_embedding("}},
    // UnivNetLvcResidualBlock.
    {"self.location_variable_convolution(",
     "hidden_states = pad\n"
     "output_hidden_states = bmm\n"
     "output_hidden_states = add\n",
     {kTransformers, "models/univnet/modeling_univnet.py", "def location_variable_convolution("}},
    // ViTMAEEmbeddings.
    {"self.random_masking(",
     "noise = constant\n"
     "ids_shuffle = argsort\n"
     "ids_restore = argsort\n"
     "sequence_unmasked = gather\n"
     "mask = constant\n"
     "mask = gather\n"
     "return sequence_unmasked, mask, ids_restore",
     {kTransformers, "models/vit_mae/modeling_vit_mae.py", "def random_masking("}},
    // XIELUActivation.
    {"self._xielu_python(",
     "alpha_p = softplus\n"
     "alpha_n = add\n",
     {kTransformers, "activations.py", "def _xielu_python("}},
    // DenseLayer.
    {"self.bottleneck_fn(",
     "concated_features = cat\n"
     "bottleneck_output = convolution\n",
     {kTimm, "models/densenet.py", "def bottleneck_fn("}},
    {"self.loss_function(",
     "logits = cast\n"
     "shift_logits = contiguous\n"
     "shift_labels = contiguous\n",
     {"transformers 4.48.1", "loss/loss_utils.py",
      "shift_logits = logits[..., :-1, :].contiguous()"}},
    {"self.loss_function(",
     "labels = pad\n",
     {kTransformers, "loss/loss_utils.py", "def ForCausalLMLoss("}},
    {"self.invert_attention_mask(",
     "encoder_extended_attention_mask = cast\n"
     "encoder_extended_attention_mask = mul.Scalar\n",
     {"transformers 4.51.3", "modeling_utils.py", "def invert_attention_mask("}},
    // _make_causal_mask and _expand_mask of AttentionMaskConverter.
    {"_prepare_4d_causal_attention_mask_for_sdpa(",
     "causal_4d_mask = bernoulli\n"
     "causal_4d_mask = cast\n"
     "expanded_mask = cast\n"
     "inverted_mask = neg\n"
     "expanded_attn_mask, -expanded_mask, -inverted_mask = masked_fill\n"
     "expanded_attn_mask, -causal_4d_mask = masked_fill\n",
     {kTransformers, "modeling_attn_mask_utils.py",
      "def _prepare_4d_causal_attention_mask_for_sdpa("}},
    // Of the masks that were made before transformers 4.53, in all models.
    {"self._update_causal_mask(",
     "padding_mask = add\n"
     "padding_mask = eq\n"
     "-padding_mask = masked_fill\n",
     {"transformers 4.51.3", "models/opt/modeling_opt.py",
      "def _prepare_4d_causal_attention_mask_with_cache_position("}},
    // AutoencoderKL's, and its kin's.
    {"posterior = self.encode(x).latent_dist",
     "mean, logvar = split\n"
     "logvar = clamp\n"
     "std = exp\n"
     "var = exp\n"
     "return mean+logvar+std+var",
     {kDiffusers, "models/autoencoders/vae.py", "class DiagonalGaussianDistribution(object):"}},
};

}  // namespace

std::span<const HelperFrame> HelperFrames() { return kHelperFrames; }

}  // namespace onnxfit
