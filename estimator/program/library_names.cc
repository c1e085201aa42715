#include <algorithm>
#include <iterator>

#include "estimator/program/libraries.h"
#include "estimator/program/library_rows.h"

namespace onnxfit {
namespace {

constexpr SeenIn kBert = {kTransformers, "models/bert/modeling_bert.py",
                          "hidden_states = self.dense(hidden_states)"};
constexpr SeenIn kRobertaIds = {kTransformers, "models/roberta/modeling_roberta.py",
                                "incremental_indices = "};
constexpr SeenIn kAlbert = {kTransformers, "models/albert/modeling_albert.py",
                            "ffn_output = self.ffn_output(ffn_output)"};
constexpr SeenIn kT5Layers = {kTransformers, "models/t5/modeling_t5.py",
                              "normed_hidden_states = self.layer_norm(hidden_states)"};
constexpr SeenIn kT5Gated = {kTransformers, "models/t5/modeling_t5.py",
                             "hidden_linear = self.wi_1(hidden_states)"};
constexpr SeenIn kEncoderDecoder = {kTransformers, "models/t5/modeling_t5.py",
                                    "decoder_outputs = self.decoder("};

constexpr SeenIn kNormFree = {kTimm, "models/nfnet.py", "out = self.conv2(self.act2(out))"};
constexpr SeenIn kBit = {kTransformers, "models/bit/modeling_bit.py",
                         "hidden_states_preact = self.norm1(hidden_states)"};
constexpr SeenIn kCsp = {kTimm, "models/cspnet.py",
                         "xs, xb = x.split(self.expand_chs // 2, dim=1)"};
constexpr SeenIn kRes2Net = {kTimm, "models/res2net.py", "spx = torch.split(out, self.width, 1)"};
constexpr SeenIn kCvt = {kTransformers, "models/cvt/modeling_cvt.py", "attention_probs = "};
constexpr SeenIn kStar = {kTimm, "models/starnet.py", "x = self.dwconv2(self.g(x))"};
constexpr SeenIn kDinov2 = {kTransformers, "models/dinov2/modeling_dinov2.py",
                            "hidden_states_norm = self.norm1(hidden_states)"};

constexpr KnownNameRow kKnownNameRows[] = {
    // BertSelfOutput, BertOutput (also of ELECTRA, RoBERTa).
    {{"dense", "LayerNorm"}, "dense", "hidden_states", {"dropout", "LayerNorm"}, false, kBert},
    {{"dense", "dropout", "LayerNorm"}, "dropout", "hidden_states", {"LayerNorm"}, false, kBert},
    // BertEmbeddings, also copied by others: the types of tokens, of a buffer.
    {{"token_type_embeddings"},
     "gather",
     "buffered_token_type_ids",
     {},
     false,
     {kTransformers, "models/bert/modeling_bert.py", "buffered_token_type_ids = torch.gather("}},
    // RobertaEmbeddings: mask and incremental_indices of its positions.
    {{"word_embeddings", "position_embeddings", "token_type_embeddings"},
     "mul",
     "indices",
     {"expand"},
     false,
     kRobertaIds},
    {{"word_embeddings", "position_embeddings", "token_type_embeddings"},
     "to",
     "mask",
     {"expand"},
     false,
     kRobertaIds},
    // AlbertLayer, whose ff_chunk returns what ffn_output made.
    {{"attention", "ffn_output", "full_layer_layer_norm"},
     "attention",
     "attention_output",
     {},
     false,
     kAlbert},
    {{"attention", "ffn_output", "full_layer_layer_norm"},
     "ffn_output",
     "ffn_output",
     {},
     false,
     kAlbert},
    // BertModel, ViTModel, and those that are built like them.
    {{"embeddings", "!embeddings_project"},
     "embeddings",
     "embedding_output",
     {},
     false,
     {kTransformers, "models/bert/modeling_bert.py", "embedding_output = self.embeddings("}},
    {{"embeddings", "encoder"},
     "encoder",
     "encoder_outputs",
     {},
     true,
     {kTransformers, "models/bert/modeling_bert.py", "encoder_outputs = self.encoder("}},
    {{"embeddings", "layernorm"},
     "layernorm",
     "sequence_output",
     {},
     true,
     {kTransformers, "models/vit/modeling_vit.py", "sequence_output = self.layernorm("}},
    // T5LayerSelfAttention, T5LayerCrossAttention, T5LayerFF, T5DenseGatedActDense.
    {{"SelfAttention", "layer_norm"}, "layer_norm", "normed_hidden_states", {}, false, kT5Layers},
    {{"SelfAttention", "layer_norm"}, "SelfAttention", "attention_output", {}, false, kT5Layers},
    {{"EncDecAttention", "layer_norm"}, "layer_norm", "normed_hidden_states", {}, false, kT5Layers},
    {{"EncDecAttention", "layer_norm"},
     "EncDecAttention",
     "attention_output",
     {},
     false,
     kT5Layers},
    {{"DenseReluDense", "layer_norm"}, "DenseReluDense", "forwarded_states", {}, false, kT5Layers},
    {{"wi_0", "wi_1", "wo"}, "act", "hidden_gelu", {}, false, kT5Gated},
    {{"wi_0", "wi_1", "wo"}, "wi_1", "hidden_linear", {}, false, kT5Gated},
    // timm's SEModule and SqueezeExcite: "return x * self.gate(x_se)".
    {{"fc1", "fc2", "gate"},
     "fc2",
     "x_se",
     {},
     false,
     {kTimm, "layers/squeeze_excite.py", "return x * self.gate(x_se)"}},
    {{"conv_reduce", "conv_expand", "gate"},
     "conv_expand",
     "x_se",
     {},
     false,
     {kTimm, "models/_efficientnet_blocks.py", "return x * self.gate(x_se)"}},
    // A block's shortcut: "identity", in torchvision.
    {{"conv1", "downsample"},
     "downsample",
     "shortcut",
     {},
     false,
     {kTimm, "models/res2net.py", "shortcut = self.downsample(x)"}},
    // NormFreeBlock: "out = self.conv2(self.act2(out))".
    {{"act3", "!conv4", "!bn1"}, "conv1", "out", {"conv2"}, false, kNormFree},
    {{"act3", "!conv4", "!bn1"}, "conv2", "out", {"conv3", "conv2b"}, false, kNormFree},
    {{"act3", "!conv4", "!bn1", "!attn_last"}, "conv3", "out", {"add"}, false, kNormFree},
    {{"act3", "attn_last", "!bn1"}, "conv3", "out", {"mul.Scalar"}, false, kNormFree},
    // BitPreActivationBottleneckLayer.
    {{"norm1", "norm3", "conv3", "!act3"}, "conv1", "hidden_states", {"conv2"}, false, kBit},
    {{"norm1", "norm3", "conv3", "!act3"}, "conv2", "hidden_states", {"conv3"}, false, kBit},
    {{"norm1", "norm3", "conv3", "!act3"}, "norm1", "hidden_states_preact", {}, false, kBit},
    // CrossStage of timm's CspNet.
    {{"conv_exp", "blocks", "conv_transition"}, "conv_exp", "x", {}, false, kCsp},
    {{"conv_exp", "blocks", "conv_transition"}, "split", "xs, xb", {}, false, kCsp},
    {{"conv_exp", "blocks", "conv_transition"}, "blocks", "xb", {"conv_transition_b"}, false, kCsp},
    {{"conv_exp", "blocks", "conv_transition"}, "conv_transition_b", "xb", {}, false, kCsp},
    // GatedConvBlock of MambaOut: "x = self.fc2(…)" of parts of x.
    {{"fc1", "conv", "fc2"},
     "fc1",
     "x",
     {"fc2"},
     false,
     {kTimm, "models/mambaout.py", "g, i, c = torch.split(x, self.split_indices, dim=-1)"}},
    {{"fc1", "conv", "fc2"},
     "split",
     "g, i, c",
     {},
     false,
     {kTimm, "models/mambaout.py", "g, i, c = torch.split(x, self.split_indices, dim=-1)"}},
    // Bottle2neck of Res2Net.
    {{"conv1", "conv3", "!conv2"}, "relu", "out", {"cat"}, false, kRes2Net},
    {{"conv1", "conv3", "!conv2"}, "split", "spx", {}, false, kRes2Net},
    // SelecSlsBlock.
    {{"conv4", "conv5", "conv6"},
     "conv5",
     "d3",
     {},
     false,
     {kTimm, "models/selecsls.py", "d3 = self.conv5(self.conv4(d2))"}},
    // CvtSelfAttention.
    {{"projection_query", "projection_key", "projection_value"},
     "mul.Scalar",
     "attention_score",
     {},
     false,
     kCvt},
    {{"projection_query", "projection_key", "projection_value"},
     "softmax",
     "attention_probs",
     {},
     false,
     kCvt},
    // SplitAttn: "(x * x_attn…).sum(dim=1)" of x by radixes.
    {{"fc1", "fc2", "rsoftmax"},
     "view",
     "x",
     {},
     false,
     {kTimm, "layers/split_attn.py", "x = x.reshape((B, self.radix, RC // self.radix, H, W))"}},
    // StarNet's Block.
    {{"f1", "f2", "dwconv2"}, "mul", "x", {"dwconv2"}, false, kStar},
    {{"f1", "f2", "dwconv2"}, "dwconv", "x", {"mul"}, false, kStar},
    // DonutSwinLayer: "layer_output = hidden_states + self.output(layer_output)".
    {{"layernorm_before", "intermediate", "output"},
     "intermediate",
     "layer_output",
     {"add"},
     false,
     {kTransformers, "models/donut/modeling_donut_swin.py",
      "layer_output = hidden_states + self.output(layer_output)"}},
    // Dinov2Layer.
    {{"norm1", "layer_scale1", "attention"}, "norm1", "hidden_states_norm", {}, false, kDinov2},
    {{"norm1", "layer_scale1", "attention"},
     "layer_scale1",
     "self_attention_output",
     {},
     false,
     kDinov2},
    // T5ForConditionalGeneration, BartModel.
    {{"encoder", "decoder"}, "encoder", "encoder_outputs", {}, true, kEncoderDecoder},
    {{"encoder", "decoder"}, "decoder", "decoder_outputs", {}, true, kEncoderDecoder},
};

// SelectAdaptivePool2d, and vgg.py's ConvMlp, in "x = self.forward_head(x)".
constexpr NameFact kHeadChildren[] = {
    {"global_pool", {kTimm, "models/resnet.py", "x = self.forward_head(x)"}},
    {"in_conv", {kTimm, "models/lowformer.py", "x = self.forward_head(x)"}},
    {"pre_logits", {kTimm, "models/vgg.py", "x = self.forward_head(x)"}},
};

constexpr SeenIn kPositionIds = {kTransformers, "models/roberta/modeling_roberta.py",
                                 "def create_position_ids_from_input_ids("};
constexpr SeenIn kDisentangled = {kTransformers, "models/deberta_v2/modeling_deberta_v2.py",
                                  "def disentangled_attention_bias("};
constexpr SeenIn kComputeBias = {kTransformers, "models/t5/modeling_t5.py", "def compute_bias("};
constexpr SeenIn kMultiHead = {kTorch, "nn/functional.py", "def multi_head_attention_forward("};

constexpr HelperLocal kHelperLocals[] = {
    // The positions without padding's, the mask.
    {"create_position_ids_from_input_ids", "mul", true, false, "", kPositionIds},
    {"create_position_ids_from_input_ids", "cumsum", false, true, "", kPositionIds},
    // pos_key_layer, c2p_pos, c2p_att, and the same of p2c.
    {"disentangled_attention_bias", "repeat", true, false, "", kDisentangled},
    {"disentangled_attention_bias", "hardtanh", true, false, "", kDisentangled},
    {"disentangled_attention_bias", "clamp", true, false, "", kDisentangled},
    {"disentangled_attention_bias", "gather", true, false, "", kDisentangled},
    // relative_position = memory_position - context_position; is_small, relative_position and
    // relative_position_if_large in _relative_position_bucket.
    {"compute_bias", "sub", true, true, "", kComputeBias},
    {"compute_bias", "where", false, true, "embedding", kComputeBias},
    // The mask of create_position_bias_mask.
    {"attention_interface",
     "where",
     true,
     false,
     "",
     {kTransformers, "integrations/sdpa_attention.py", "def create_position_bias_mask("}},
    // q, k and v, and where weights are asked for, q_scaled.
    {"multi_head_attention_forward", "scaled_dot_product_attention", false, true, "", kMultiHead},
    {"multi_head_attention_forward", "baddbmm", false, true, "", kMultiHead},
    {"multi_head_attention_forward", "bmm", false, true, "", kMultiHead},
};

constexpr SeenIn kGroupedExperts = {kTransformers, "integrations/moe.py",
                                    "def grouped_mm_experts_forward("};
constexpr SeenIn kShiftedWindows = {kTimm, "models/swin_transformer_v2_cr.py",
                                    "def _shifted_window_attn(self, x):"};
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
     "scaled = mul.Scalar\n"
     "glu, -scaled = mul\n"
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
     "attn_weights = to\n"
     "attn_output = matmul\n"
     "return attn_output, attn_weights",
     {kTransformers, "models/gpt_neox_japanese/modeling_gpt_neox_japanese.py",
      "attn_scores = torch.zeros("}},
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
     "pos_encoding = repeat\n",
     {kTimm, "models/xcit.py", "pos_encoding = self.pos_embed(B, Hp, Wp)"}},
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
     "hidden_states = pad\n"
     "A = pad\n"
     "B = pad\n"
     "C = pad\n"
     "A_cumsum = cumsum\n"
     "L = exp\n"
     "G = sum\n"
     "M = sum\n"
     "Y_diag = sum\n"
     "decay_states = exp\n"
     "B_decay = mul\n"
     "states = sum\n"
     "states = cat\n"
     "decay_chunk = exp\n"
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
    // MegatronBertLayer.
    {"apply_chunking_to_forward(",
     "ln_output = self.ln\n"
     "intermediate_output = self.intermediate\n"
     "layer_output = self.output\n",
     {kTransformers, "models/megatron_bert/modeling_megatron_bert.py",
      "ln_output = self.ln(attention_output)"}},
    // NaFlexVit.
    {"self.forward_features(",
     "embeds = self.embeds\n",
     {kTimm, "models/naflexvit.py", "x = embeds['patches']"}},
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
    // AutoencoderKL's, and its kin's.
    {"posterior = self.encode(x).latent_dist",
     "mean, logvar = split\n"
     "logvar = clamp\n"
     "std = exp\n"
     "var = exp\n"
     "return mean+logvar+std+var",
     {kDiffusers, "models/autoencoders/vae.py", "class DiagonalGaussianDistribution(object):"}},
};

// DynamicLayer.update.
constexpr NameFact kReplacing[] = {
    {"past_key_values.update(",
     {kTransformers, "models/llama/modeling_llama.py", "past_key_values.update("}},
    {"cache.update(", {kTransformers, "cache_utils.py", "def update("}},
};

// Others return them if they are asked to, "output_attentions".
constexpr NameFact kReturningWeights[] = {
    {"self_outputs = self.self(",
     {kTransformers, "models/megatron_bert/modeling_megatron_bert.py",
      "return context_layer, attention_probs"}},
};

// Else "attn_weights_reshaped = None" is returned.
constexpr NameFact kKeepingWeights[] = {
    {"torch.bmm(attn_probs",
     {kTransformers, "models/trocr/modeling_trocr.py",
      "attn_output = torch.bmm(attn_probs, value_states)"}},
};

// "mask_kwargs = {..., "inputs_embeds": hidden_states, ...}".
constexpr NameFact kPassingEmbeddings[] = {
    {"(**mask_kwargs)",
     {kTransformers, "models/modernbert_decoder/modeling_modernbert_decoder.py",
      "create_causal_mask(**mask_kwargs)"}},
};

constexpr NameFact kEagerAttentionCalls[] = {
    {"attention_interface(",
     {kTransformers, "models/bert/modeling_bert.py", "= attention_interface("}},
};

constexpr CollectedLine kCollectedLines[] = {
    // Of FeatureDictNet, by the layers that it is asked for: mostly all stages.
    {"return list(self._collect(x).values())",
     "layer",
     {kTimm, "models/_features.py", "return list(self._collect(x).values())"}},
    // DETR's masks of feature maps, and its positions, and those of its kin.
    {"size=feature_map.shape[-2:]).to(torch.bool)[0]",
     "",
     {kTransformers, "models/conditional_detr/modeling_conditional_detr.py",
      "out.append((feature_map, mask))"}},
    {"pos.append(self.position_embedding(feature_map, mask)",
     "",
     {kTransformers, "models/table_transformer/modeling_table_transformer.py",
      "pos.append(self.position_embedding(feature_map, mask)"}},
    // DPT's fusion stage and its copies.
    {"fused_hidden_state = layer(",
     "",
     {kTransformers, "models/dpt/modeling_dpt.py", "fused_hidden_states.append("}},
    // Which DebertaV2Model asks for its hidden states.
    {"output_states, attn_weights = layer_module(",
     "",
     {kTransformers, "models/deberta_v2/modeling_deberta_v2.py", "output_hidden_states=True"}},
};

constexpr NameFact kPassingOn[] = {
    {"size=feature_map.shape[-2:]).to(torch.bool)[0]",
     {kTransformers, "models/conditional_detr/modeling_conditional_detr.py",
      "out.append((feature_map, mask))"}},
    {"pos.append(self.position_embedding(feature_map, mask)",
     {kTransformers, "models/table_transformer/modeling_table_transformer.py", "return out, pos"}},
};

bool MentionsAny(std::span<const NameFact> rows, std::string_view line) {
  return std::ranges::any_of(
      rows, [&](const NameFact& row) { return line.find(row.name) != std::string_view::npos; });
}

}  // namespace

std::span<const KnownNameRow> KnownNameRows() { return kKnownNameRows; }

bool BeginsHead(std::string_view child) {
  return std::ranges::find(kHeadChildren, child, &NameFact::name) != std::end(kHeadChildren);
}

std::span<const HelperLocal> HelperLocals() { return kHelperLocals; }

std::span<const HelperFrame> HelperFrames() { return kHelperFrames; }

std::span<const CollectedLine> CollectedLines() { return kCollectedLines; }

bool PassesListOn(std::string_view line) { return MentionsAny(kPassingOn, line); }

bool ReplacesWhatItHolds(std::string_view line) { return MentionsAny(kReplacing, line); }

bool KeepsWeightsUnlessAsked(std::string_view line) { return MentionsAny(kKeepingWeights, line); }

bool PassesEmbeddings(std::string_view line) { return MentionsAny(kPassingEmbeddings, line); }

std::string_view CallThatReturnsWeights() { return kReturningWeights[0].name; }

std::string_view CallOfEagerAttention() { return kEagerAttentionCalls[0].name; }

}  // namespace onnxfit
