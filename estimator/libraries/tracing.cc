#include <algorithm>
#include <span>
#include <string>

#include "estimator/base/text.h"
#include "estimator/libraries/libraries.h"
#include "estimator/libraries/rows.h"

namespace onnxfit {
namespace {

// A statement of a library's forward: parts of its file's path and of its text; where other
// classes have the same, how that of its module ends.
struct TracedStatement {
  std::string_view file;
  std::string_view text;
  SeenIn seen;
  std::string_view type = {};
};

constexpr std::string_view kMasking = "masking_utils.py";
constexpr TracedStatement kMaskBuilders[] = {
    // _ignore_causal_mask_sdpa and _ignore_bidirectional_mask_sdpa skip masks, but not while
    // tracing.
    {"transformers/", "create_causal_mask(", {kTransformers, kMasking, "def create_causal_mask("}},
    {"transformers/",
     "create_bidirectional_mask(",
     {kTransformers, kMasking, "def create_bidirectional_mask("}},
    {"transformers/",
     "create_sliding_window_causal_mask(",
     {kTransformers, kMasking, "def create_sliding_window_causal_mask("}},
    {"transformers/",
     "create_bidirectional_sliding_window_mask(",
     {kTransformers, kMasking, "def create_bidirectional_sliding_window_mask("}},
    {"transformers/",
     "create_chunked_causal_mask(",
     {kTransformers, kMasking, "def create_chunked_causal_mask("}},
    // Several of them, by the types of the layers.
    {"transformers/",
     "create_masks_for_generate(",
     {kTransformers, kMasking, "def create_masks_for_generate("}},
    // One of them, by a name of its own.
    {"transformers/",
     " mask_function(",
     {kTransformers, "models/ministral3/modeling_ministral3.py",
      "mask_function = create_causal_mask"}},
    // One of them, from a dict by the type of the layers.
    {"transformers/",
     " mask_creation_functions[",
     {kTransformers, "models/mellum/modeling_mellum.py",
      "causal_mask_mapping[layer_type] = mask_creation_functions[layer_type]()"}},
    // All of them, as such a dict.
    {"transformers/",
     "causal_mask_mapping = {",
     {kTransformers, "models/zaya/modeling_zaya.py", "causal_mask_mapping = {"}},
    // The same through a method of BertModel and its kin.
    {"transformers/",
     "_create_attention_masks(",
     {kTransformers, "models/bert/modeling_bert.py", "def _create_attention_masks("}},
};

// Which skip no mask.
constexpr TracedStatement kMasksAlwaysBuilt[] = {
    {"models/falcon/modeling_falcon.py",
     "create_causal_mask(",
     {kTransformers, "models/falcon/modeling_falcon.py", "allow_is_causal_skip=False"}},
};

constexpr TracedStatement kTriangularSolves[] = {
    // torch_chunk_gated_delta_rule of Qwen3.5 and its copies: "if not is_torchdynamo_exporting()".
    {"transformers/",
     "chunk_gated_delta_rule(",
     {kTransformers, "models/qwen3_5/modeling_qwen3_5.py",
      "new_values = torch.linalg.solve_triangular(ut_system, v_beta"}},
};

// Attention that is not causal by itself, so that it is none where a causal mask is left out, in a
// decoder too.
constexpr TracedStatement kNeverCausal[] = {
    {"models/umt5/modeling_umt5.py",
     "attention_interface(",
     {kTransformers, "models/umt5/modeling_umt5.py", "is_causal: bool = False"}},
};

constexpr TracedStatement kWeightCasts[] = {
    // T5LayerNorm and its copies: "if self.weight.dtype in [torch.float16, torch.bfloat16]:
    // hidden_states = hidden_states.to(self.weight.dtype)" before it.
    {"transformers/",
     "return self.weight * hidden_states",
     {kTransformers, "models/t5/modeling_t5.py",
      "if self.weight.dtype in [torch.float16, torch.bfloat16]:"}},
    {"diffusers/models/normalization.py",
     "hidden_states = hidden_states * self.weight",
     {kDiffusers, "models/normalization.py",
      "if self.weight.dtype in [torch.float16, torch.bfloat16]:"},
     "normalization.RMSNorm"},
};

// T5's feed-forward blocks and their copies: under autocast the weight is in fp32.
constexpr TracedStatement kArgumentCasts[] = {
    {"transformers/",
     "hidden_states = self.wo(hidden_states)",
     {kTransformers, "models/t5/modeling_t5.py",
      "hidden_states = hidden_states.to(self.wo.weight.dtype)"}},
    {"models/seamless_m4t",
     "hidden_states = self.fc2(hidden_states)",
     {kTransformers, "models/seamless_m4t_v2/modeling_seamless_m4t_v2.py",
      "hidden_states = hidden_states.to(self.fc2.weight.dtype)"}},
    {"models/nllb_moe/",
     "hidden_states = self.fc2(hidden_states)",
     {kTransformers, "models/nllb_moe/modeling_nllb_moe.py",
      "hidden_states = hidden_states.to(self.fc2.weight.dtype)"}},
};

constexpr NameFact kLayersOfCasts[] = {
    {"DenseReluDense.wo",
     {kTransformers, "models/t5/modeling_t5.py",
      "hidden_states = hidden_states.to(self.wo.weight.dtype)"}},
};

// Which pass what a statement before them has made contiguous: no call where it was so already,
// which depends on how the convolutions of the exporting device lie.
struct ContiguousArgument {
  TracedStatement statement;
  std::string_view name;
  bool only_trained = false;
};
constexpr ContiguousArgument kContiguousArguments[] = {
    {{"diffusers/models/resnet.py",
      "input_tensor = self.conv_shortcut(input_tensor)",
      {kDiffusers, "models/resnet.py", "input_tensor = input_tensor.contiguous()"}},
     "input_tensor",
     true},
    {{"timm/models/twins.py",
      "x = self.proj(x).flatten(2).transpose(1, 2)",
      {kTimm, "models/twins.py", "x = x.reshape(B, *size, -1).permute(0, 3, 1, 2).contiguous()"}},
     "x"},
};

// Rotary embeddings: "with maybe_autocast(device_type=…, enabled=False)".  The statements of its
// body, in Llama's and its copies.
constexpr std::string_view kYoso = "models/yoso/modeling_yoso.py";
constexpr std::string_view kLlama = "models/llama/modeling_llama.py";
constexpr TracedStatement kOutsideAutocast[] = {
    {"transformers/", "freqs = (inv_freq_expanded", {kTransformers, kLlama, "(inv_freq_expanded"}},
    {"transformers/", "freqs = position_ids_expanded * self.inv_freq", {}},
    {"transformers/",
     "emb = torch.cat((freqs, freqs), dim=-1)",
     {kTransformers, kLlama, "emb = torch.cat((freqs, freqs), dim=-1)"}},
    {"transformers/", "cos = emb.cos() * ", {kTransformers, kLlama, "cos = emb.cos() * "}},
    {"transformers/", "sin = emb.sin() * ", {kTransformers, kLlama, "sin = emb.sin() * "}},
    {"transformers/", "cos = freqs.cos() * ", {}},
    {"transformers/", "sin = freqs.sin() * ", {}},
    {"transformers/",
     "freqs = position_ids_expanded @ inv_freq_expanded",
     {kTransformers, "models/pixtral/modeling_pixtral.py",
      "freqs = position_ids_expanded @ inv_freq_expanded"}},
    // Routers and hyper-connections, likewise.
    {"transformers/models/ernie4_5_moe",
     "router_logits = F.linear(hidden_states.float(), self.weight.float())",
     {kTransformers, "models/ernie4_5_moe/modeling_ernie4_5_moe.py",
      "router_logits = F.linear(hidden_states.float(), self.weight.float())"}},
    {"transformers/",
     "mixes = F.linear(flat, self.",
     {kTransformers, "models/hy_v4/modeling_hy_v4.py", "mixes = F.linear(flat, self."}},
    {"transformers/",
     "attn_weights = torch.baddbmm(attn_weights, q.float(), k.float()",
     {kTransformers, "models/gpt2/modeling_gpt2.py",
      "attn_weights = torch.baddbmm(attn_weights, q.float(), k.float()"}},
    // "with torch.autocast(device_type=v.device.type, enabled=False)", but not on the meta device.
    {"timm/models/efficientvit_mit.py",
     "out = self._attn(q, k, v)",
     {kTimm, "models/efficientvit_mit.py", "v.device.type != 'meta'"}},
};

// "args = _cast_if_autocast_enabled(x, self.weight + 1.0, self.bias)" before such a body.
constexpr TracedStatement kCastToAutocast[] = {
    {"transformers/models/nemotron/",
     "return F.layer_norm(*args)",
     {kTransformers, "models/nemotron/modeling_nemotron.py", "return F.layer_norm(*args)"}},
};

// timm.layers.set_fast_norm(): without it none of these leaves autocast.
constexpr NameFact kFastNorms[] = {
    {"timm.layers.norm.", {kTimm, "layers/norm.py", "x = fast_layer_norm("}},
    {"timm.layers.norm_act.", {kTimm, "layers/norm_act.py", "x = fast_group_norm("}},
};

// "self.pe = self.extend_pe(hidden_states, self.pe)" before it.
constexpr TracedStatement kKeptCasts[] = {
    {"transformers/models/",
     "relative_position_embeddings = self.pe[:, start_idx:end_idx]",
     {kTransformers, "models/wav2vec2_conformer/modeling_wav2vec2_conformer.py",
      "pe = pe.to(dtype=x.dtype, device=x.device)"}},
};

// Positions of one axis to another by torch.arange, which is told no device.
constexpr TracedStatement kHostIndices[] = {
    {"transformers/",
     "self.get_decomposed_rel_pos(",
     {kTransformers, "models/sam/modeling_sam.py",
      "q_coords = torch.arange(q_size)[:, None] * max(k_size / q_size, 1.0)"}},
    {"transformers/",
     "add_decomposed_relative_positions(",
     {kTransformers, "models/vitdet/modeling_vitdet.py",
      "q_coords = torch.arange(q_size)[:, None] * max(k_size / q_size, 1.0)"}},
};

constexpr NameFact kRotaryInFloat[] = {
    {"OlmoRotaryEmbedding",
     {kTransformers, "models/olmo/modeling_olmo.py", "        return cos, sin"}},
    {"FlexOlmoRotaryEmbedding",
     {kTransformers, "models/flex_olmo/modeling_flex_olmo.py", "        return cos, sin"}},
    {"Ernie4_5RotaryEmbedding",
     {kTransformers, "models/ernie4_5/modeling_ernie4_5.py", "        return cos, sin"}},
    {"Ernie4_5_MoeRotaryEmbedding",
     {kTransformers, "models/ernie4_5_moe/modeling_ernie4_5_moe.py", "        return cos, sin"}},
};

// Of use_gqa_in_sdpa.
struct GroupedHeads {
  int64_t most;
  SeenIn seen;
};
constexpr GroupedHeads kGroupedHeads[] = {
    {256,
     {kTransformers, "integrations/sdpa_attention.py", "key.shape[-1] == value.shape[-1] <= 256"}},
};

// Statements that call a torch.autograd.Function, and the operator that has its backward.
struct TracedFunction {
  TracedStatement statement;
  std::string_view op;
};
constexpr TracedFunction kFunctions[] = {
    {{"transformers/models/bloom/modeling_bloom.py",
      "return bloom_gelu_forward(input)",
      {kTransformers, "models/bloom/modeling_bloom.py", "class GeLUFunction("}},
     "bloom_gelu"},
    {{"transformers/models/yoso/modeling_yoso.py",
      "expectation = (1 - torch.acos(torch.matmul(query, key.transpose(-1, -2))) / math.pi) ** "
      "hash_code_len",
      {kTransformers, kYoso, "class YosoCumulation(torch.autograd.Function)"}},
     "yoso_cumulation"},
    {{"transformers/models/yoso/modeling_yoso.py",
      "expectation = expectation * query_mask[:, :, None] * key_mask[:, None, :]",
      {kTransformers, kYoso, "expectation = expectation * query_mask[:, :, None] * key_mask"}},
     "yoso_cumulation"},
    {{"transformers/models/yoso/modeling_yoso.py",
      "cumulation_value = torch.matmul(expectation, value)",
      {kTransformers, kYoso, "cumulation_value = torch.matmul(expectation, value)"}},
     "yoso_cumulation"},
    {{"peft/tuners/loha/layer.py",
      "diff_weight = ((w1a @ w1b) * (w2a @ w2b)) * scale",
      {kPeft, "tuners/loha/layer.py", "class HadaWeight(torch.autograd.Function)"}},
     "hada_weight"},
};

// Modules that call such a Function alone, by their names.
struct FunctionModule {
  std::string_view name;
  std::string_view op;
  SeenIn seen;
};
constexpr FunctionModule kFunctionModules[] = {
    {"gelu_impl",
     "bloom_gelu",
     {kTransformers, "models/bloom/modeling_bloom.py", "self.gelu_impl = BloomGelu()"}},
};

// FalconAttention.
constexpr NameFact kMaskedAlways[] = {
    {"h.*.self_attention",
     {kTransformers, "models/falcon/modeling_falcon.py", "allow_is_causal_skip=False,"}},
};

bool IsFrom(std::string_view file, const TracedStatement& row) {
  return file.find(row.file) != std::string_view::npos;
}

// Whether `line` has the text of one of `rows`.
bool HasAny(std::string_view file, std::string_view line, std::span<const TracedStatement> rows) {
  return std::ranges::any_of(rows, [&](const TracedStatement& row) {
    return IsFrom(file, row) && line.find(row.text) != std::string_view::npos;
  });
}

bool BeginsAny(std::string_view file, std::string_view line,
               std::span<const TracedStatement> rows) {
  return std::ranges::any_of(rows, [&](const TracedStatement& row) {
    return IsFrom(file, row) && line.starts_with(row.text);
  });
}

}  // namespace

bool BuildsMask(std::string_view file, std::string_view line) {
  return HasAny(file, line, kMaskBuilders) && !HasAny(file, line, kMasksAlwaysBuilt);
}

bool MakesMaskAlways(std::string_view attention) {
  return std::ranges::any_of(kMaskedAlways, [&](const NameFact& row) {
    return MatchesGlob(attention, std::string("*.") + std::string(row.name));
  });
}

bool SolvesTriangular(std::string_view file, std::string_view line) {
  return HasAny(file, line, kTriangularSolves);
}

bool IsNeverCausal(std::string_view file, std::string_view line) {
  return HasAny(file, line, kNeverCausal);
}

bool CastsToWeight(std::string_view file, std::string_view line, std::string_view type) {
  return std::ranges::any_of(kWeightCasts, [&](const TracedStatement& row) {
    return IsFrom(file, row) && line.ends_with(row.text) && type.ends_with(row.type);
  });
}

bool CastsArgument(std::string_view file, std::string_view line) {
  return std::ranges::any_of(kArgumentCasts, [&](const TracedStatement& row) {
    return IsFrom(file, row) && line == row.text;
  });
}

bool CastsArgument(std::string_view layer) {
  return std::ranges::any_of(kLayersOfCasts,
                             [&](const NameFact& row) { return EndsWithName(layer, row.name); });
}

std::string_view ContiguousArgumentOf(std::string_view file, std::string_view line, bool trains) {
  for (const ContiguousArgument& row : kContiguousArguments) {
    const bool runs = trains || !row.only_trained;
    if (runs && IsFrom(file, row.statement) && line == row.statement.text) return row.name;
  }
  return "";
}

std::string_view FunctionOf(std::string_view file, std::string_view line) {
  const auto* found = std::ranges::find_if(kFunctions, [&](const TracedFunction& row) {
    return IsFrom(file, row.statement) && line == row.statement.text;
  });
  return found == std::end(kFunctions) ? std::string_view() : found->op;
}

std::string_view FunctionOfModule(std::string_view name) {
  const auto* found = std::ranges::find(kFunctionModules, name, &FunctionModule::name);
  return found == std::end(kFunctionModules) ? std::string_view() : found->op;
}

bool PassesGroupedHeads(int64_t key_width, int64_t value_width) {
  return key_width == value_width && value_width <= kGroupedHeads[0].most;
}

bool RunsOutsideAutocast(std::string_view file, std::string_view line) {
  return BeginsAny(file, line, kOutsideAutocast);
}

bool IndexesFromHost(std::string_view file, std::string_view line) {
  return HasAny(file, line, kHostIndices);
}

bool ReadsKeptCast(std::string_view file, std::string_view line) {
  return HasAny(file, line, kKeptCasts);
}

bool KeepsRotaryInFloat(std::string_view type) {
  return std::ranges::any_of(kRotaryInFloat,
                             [&](const NameFact& row) { return EndsWithName(type, row.name); });
}

bool CastsToAutocast(std::string_view file, std::string_view line) {
  return BeginsAny(file, line, kCastToAutocast);
}

bool CastsNormToAutocast(std::string_view type) {
  return std::ranges::any_of(kFastNorms,
                             [&](const NameFact& row) { return type.starts_with(row.name); });
}

}  // namespace onnxfit
