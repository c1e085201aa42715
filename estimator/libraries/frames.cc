// What functions of libraries bind to names, by their text.
#include "estimator/libraries/libraries.h"
#include "estimator/libraries/rows.h"

namespace onnxfit {
namespace {

constexpr SeenIn kGroupedExperts = {kTransformers, "integrations/moe.py",
                                    "def grouped_mm_experts_forward("};
constexpr SeenIn kRotatedHalves = {kTransformers, "models/roformer/modeling_roformer.py",
                                   "def apply_rotary_position_embeddings("};
constexpr HelperFrame kHelperFrames[] = {
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
    {"self.apply_rotary_position_embeddings(",
     "sin_pos = cat\n"
     "cos_pos = cat\n"
     "rotate_half_query_layer = cat\n"
     "query_layer = add\n"
     "rotate_half_key_layer = cat\n"
     "key_layer = add\n",
     kRotatedHalves},
    // XLNetRelativeAttention.
    {"self.rel_attn_core(",
     "ac = bmm\n"
     "bd = bmm\n"
     "bd = index_select\n"
     "attn_score = mul.Scalar\n"
     "attn_prob = softmax\n"
     "attn_vec = bmm\n",
     {kTransformers, "models/xlnet/modeling_xlnet.py", "def rel_attn_core("}},
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
    // VQModel: the quantizer's indices, "_", its loss, and what it made.
    {"self.decode(h)",
     "_ = argmin\n"
     "commit_loss = add\n"
     "quant = self.quantize\n"
     "quant2 = self.post_quant_conv\n"
     "dec = self.decoder\n"
     "return dec+commit_loss",
     {kDiffusers, "models/autoencoders/vq_model.py", "quant, commit_loss, _ = self.quantize(h)"}},
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
};

}  // namespace

std::span<const HelperFrame> HelperFrames() { return kHelperFrames; }

}  // namespace onnxfit
