"""Families of transformers 5.17.0 that read tokens, numbers or actions in one row and need more
than their ids, or options that fit a small configuration."""

from family import LastHiddenState, Logits, Seq2SeqLogits, floats, several, tokens
from transformers_rows import LAYERS, LLAMA, TEXT, VOCABULARY, XLM_ROBERTA, Row, families_of

SEQ2SEQ = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 64, "encoder_ffn_dim": 128,
           "decoder_ffn_dim": 128, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0,
           "context_length": 48, "prediction_length": 24, "num_time_features": 2,
           "use_cache": False}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 256}
MIXTURE = {**LLAMA, **EXPERTS, "head_dim": 64, "n_routed_experts": 4, "n_group": 1,
           "topk_group": 1, "pad_token_id": 1}
SECTIONS = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [8, 12, 12]}


class Actions(Logits):
    """A decision transformer's next actions."""
    def forward(self, states, actions, rewards, returns_to_go, timesteps, attention_mask):
        return self.model(states=states, actions=actions, rewards=rewards,
                          returns_to_go=returns_to_go, timesteps=timesteps,
                          attention_mask=attention_mask).action_preds


class Boxed(Logits):
    """Words with the places that they have on a page."""
    def forward(self, bbox, input_ids):
        return self.model(input_ids, bbox=bbox).logits


class Masked(Logits):
    def forward(self, input_ids, attention_mask):
        return self.model(input_ids, attention_mask=attention_mask).logits


class Forecast(Logits):
    def forward(self, past_values):
        return self.model(past_values).prediction_outputs


class Timed(Logits):
    """The hidden state over the steps to come, of values and of what is known of their times."""
    def forward(self, past_values, past_time_features, past_observed_mask, future_values,
                future_time_features):
        return self.model(past_values=past_values, past_time_features=past_time_features,
                          past_observed_mask=past_observed_mask, future_values=future_values,
                          future_time_features=future_time_features).last_hidden_state


def series(past):
    return several({"past_values": (past,), "past_time_features": (past, 2),
                    "past_observed_mask": (past,), "future_values": (24,),
                    "future_time_features": (24, 2)})


ROWS = {
    "prophetnet": Row("ProphetNetForConditionalGeneration", {
        "vocab_size": VOCABULARY, "hidden_size": 256, "encoder_ffn_dim": 1024,
        "decoder_ffn_dim": 1024, "num_encoder_layers": LAYERS, "num_decoder_layers": LAYERS,
        "num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4, "use_cache": False},
        Seq2SeqLogits, tokens(96, 64)),
    "decision_transformer": Row("DecisionTransformerModel", {
        "n_head": 4, "bos_token_id": 0, "eos_token_id": 0, "use_cache": False}, Actions,
        several({"states": (20, 17), "actions": (20, 4), "rewards": (20, 1),
                 "returns_to_go": (20, 1)}, timesteps=(20,), attention_mask=(20,)), "mse"),
    "reformer": Row("ReformerModelWithLMHead", {
        "is_decoder": True, "attn_layers": ["local", "lsh"], "axial_pos_shape": [16, 16],
        "vocab_size": VOCABULARY, "num_attention_heads": 4, "num_buckets": 8,
        "max_position_embeddings": 256, "use_cache": False}, Logits, tokens(256)),
    "xmod": Row("XmodForMaskedLM", {**TEXT, "languages": ["en_XX"], "default_language": "en_XX"},
                Logits, tokens(96)),
    "mellum": Row("MellumForCausalLM", {
        **LLAMA, **EXPERTS, "head_dim": 64}, Logits, tokens(96)),
    "hy_v4": Row("HYV4ForCausalLM", {
        **LLAMA, **EXPERTS, "n_routed_experts": 4, "q_lora_rank": 128, "kv_lora_rank": 64,
        "qk_nope_head_dim": 32, "qk_rope_head_dim": 32, "head_dim": 32, "v_head_dim": 64,
        "pad_token_id": 1}, Logits, tokens(96)),
    "kimi_linear": Row("KimiLinearForCausalLM", {
        **LLAMA, **EXPERTS, "num_local_experts": 4, "kv_lora_rank": 64, "qk_nope_head_dim": 32,
        "qk_rope_head_dim": 32, "v_head_dim": 64, "pad_token_id": 1,
        "layer_types": ["linear_attention", "full_attention"]},
        Logits, tokens(96)),
    "qwen3_5_moe_text": Row("Qwen3_5MoeForCausalLM", {
        **LLAMA, **EXPERTS, "head_dim": 64, "num_key_value_heads": 2,
        "shared_expert_intermediate_size": 256, "linear_num_key_heads": 4,
        "linear_num_value_heads": 4, "linear_key_head_dim": 64, "linear_value_head_dim": 64,
        "layer_types": ["linear_attention", "full_attention"]},
        Logits, tokens(96)),
    "perceiver": Row("PerceiverForMaskedLM", {
        "d_latents": 256, "d_model": 256, "num_latents": 64, "num_self_attends_per_block": LAYERS},
        Masked, several(input_ids=(512,), attention_mask=(512,))),
    "bros": Row("BrosForTokenClassification", {**TEXT, "num_labels": 16}, Boxed,
                several({"bbox": (96, 8)}, input_ids=(96,))),
    "encoder-decoder": Row("EncoderDecoderModel", {
        "encoder": XLM_ROBERTA,
        "decoder": {**XLM_ROBERTA, "is_decoder": True, "add_cross_attention": True,
                    "use_cache": False}}, Seq2SeqLogits, tokens(96, 64)),
    "patchtsmixer": Row("PatchTSMixerForPrediction", {
        "context_length": 512, "prediction_length": 96, "num_input_channels": 7, "d_model": 32,
        "patch_length": 16, "patch_stride": 16, "loss": "mse", "gated_attn": True},
        Forecast, floats("past_values", 512, 7), "mse"),
    "time_series_transformer": Row("TimeSeriesTransformerModel", SEQ2SEQ, Timed, series(55),
                                   "mse"),
    "helium": Row("HeliumForCausalLM", {**LLAMA, "head_dim": 64}, Logits, tokens(96)),
    "stablelm": Row("StableLmForCausalLM", LLAMA, Logits, tokens(96)),
    "nemotron": Row("NemotronForCausalLM", LLAMA, Logits, tokens(96)),
    "olmoe": Row("OlmoeForCausalLM", {**LLAMA, **EXPERTS, "pad_token_id": 1}, Logits, tokens(96)),
    "qwen3_moe": Row("Qwen3MoeForCausalLM", {**LLAMA, **EXPERTS, "head_dim": 64}, Logits,
                     tokens(96)),
    "deepseek_v2": Row("DeepseekV2ForCausalLM", {
        **LLAMA, **EXPERTS, "n_routed_experts": 4, "q_lora_rank": 128, "kv_lora_rank": 64,
        "qk_nope_head_dim": 32, "qk_rope_head_dim": 32, "v_head_dim": 64, "n_group": 1,
        "topk_group": 1}, Logits, tokens(96)),
    "hunyuan_v1_dense": Row("HunYuanDenseV1ForCausalLM", {**LLAMA, "head_dim": 64}, Logits,
                            tokens(96)),
    "ministral": Row("MinistralForCausalLM", {**LLAMA, "head_dim": 64}, Logits, tokens(96)),
    "zamba2": Row("Zamba2ForCausalLM", {
        **LLAMA, "num_hidden_layers": 4, "mamba_d_state": 16, "mamba_headdim": 32,
        "n_mamba_heads": 16, "chunk_size": 32, "adapter_rank": 32,
        "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"]}, Logits, tokens(96)),
    "nemotron_h": Row("NemotronHForCausalLM", {
        **LLAMA, "hybrid_override_pattern": "M-*", "mamba_num_heads": 8, "mamba_head_dim": 32,
        "ssm_state_size": 16, "n_groups": 2, "chunk_size": 32, "head_dim": 64}, Logits,
        tokens(96)),
    "axk1": Row("AXK1ForCausalLM", {
        **MIXTURE, "head_dim": 32, "q_lora_rank": 128, "kv_lora_rank": 64,
        "qk_nope_head_dim": 32, "qk_rope_head_dim": 32, "v_head_dim": 64}, Logits, tokens(96)),
    "gemma3n_text": Row("Gemma3nForCausalLM", {
        **TEXT, "num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 64,
        "vocab_size_per_layer_input": VOCABULARY, "hidden_size_per_layer_input": 64,
        "num_kv_shared_layers": 2, "laurel_rank": 32, "use_cache": False, "pad_token_id": 0,
        "intermediate_size": [1024] * 4, "activation_sparsity_pattern": [0.95, 0.95, 0.0, 0.0],
        "layer_types": ["sliding_attention", "full_attention"] * 2}, Logits, tokens(96)),
    "inkling_text": Row("InklingForCausalLM", {
        **TEXT, "num_key_value_heads": 2, "head_dim": 64, "swa_num_attention_heads": 4,
        "swa_num_key_value_heads": 4, "swa_head_dim": 64, "moe_intermediate_size": 256,
        "n_routed_experts": 4, "num_experts_per_tok": 2, "use_cache": False}, Logits,
        tokens(96)),
    "clvp_decoder": Row("ClvpForCausalLM", {
        "vocab_size": VOCABULARY, "hidden_size": 256, "num_hidden_layers": LAYERS,
        "num_attention_heads": 4, "num_mel_attn_blocks": 1, "bos_token_id": 0,
        "eos_token_id": 1, "use_cache": False}, Logits, tokens(96)),
    "sam3_lite_text_text_model": Row("Sam3LiteTextTextModel", {**TEXT, "projection_dim": 256},
                                     LastHiddenState, tokens(77), "mse"),
    "glm4v_moe_text": Row("Glm4vMoeTextModel", {
        **MIXTURE, "rope_parameters": {**SECTIONS, "partial_rotary_factor": 0.5,
                                       "mrope_section": [4, 6, 6]}}, LastHiddenState,
        tokens(96), "mse"),
    "glm4v_text": Row("Glm4vTextModel", {
        **LLAMA, "pad_token_id": 1, "rope_parameters": SECTIONS}, LastHiddenState, tokens(96),
        "mse"),
    "qwen2_vl_text": Row("Qwen2VLTextModel", {**LLAMA, "rope_parameters": SECTIONS},
                         LastHiddenState, tokens(96), "mse"),
    "siglip2_text_model": Row("Siglip2TextModel", TEXT, LastHiddenState, tokens(64), "mse"),
    "afmoe": Row("AfmoeForCausalLM", MIXTURE, Logits, tokens(96)),
    "ernie4_5_moe": Row("Ernie4_5_MoeForCausalLM", MIXTURE, Logits, tokens(96)),
    "exaone_moe": Row("ExaoneMoeForCausalLM", MIXTURE, Logits, tokens(96)),
    "flex_olmo": Row("FlexOlmoForCausalLM", MIXTURE, Logits, tokens(96)),
    "glm4_moe": Row("Glm4MoeForCausalLM", MIXTURE, Logits, tokens(96)),
    "hy_v3": Row("HYV3ForCausalLM", MIXTURE, Logits, tokens(96)),
    "solar_open": Row("SolarOpenForCausalLM", MIXTURE, Logits, tokens(96)),
    "hunyuan_v1_moe": Row("HunYuanMoEV1ForCausalLM", MIXTURE, Logits, tokens(96)),
}


def families(is_wanted=lambda name: True):
    return families_of(ROWS, is_wanted)
