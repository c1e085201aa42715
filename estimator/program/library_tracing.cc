#include <algorithm>

#include "estimator/program/libraries.h"
#include "estimator/program/library_rows.h"

namespace onnxfit {
namespace {

// A statement of a library's forward: parts of its file's path and of its text.
struct TracedStatement {
  std::string_view file;
  std::string_view text;
  SeenIn seen;
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
    // One of them, by a name of its own.
    {"transformers/",
     " mask_function(",
     {kTransformers, "models/ministral3/modeling_ministral3.py",
      "mask_function = create_causal_mask"}},
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

constexpr TracedStatement kWeightCasts[] = {
    // T5LayerNorm and its copies: "if self.weight.dtype in [torch.float16, torch.bfloat16]:
    // hidden_states = hidden_states.to(self.weight.dtype)" before it.
    {"transformers/",
     "return self.weight * hidden_states",
     {kTransformers, "models/t5/modeling_t5.py",
      "if self.weight.dtype in [torch.float16, torch.bfloat16]:"}},
};

// Rotary embeddings: "with maybe_autocast(device_type=…, enabled=False)".  The statements of its
// body, in Llama's and its copies.
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
    // LiteMLA.
    {"timm/models/efficientvit_mit.py",
     "out = self._attn(q, k, v)",
     {kTimm, "models/efficientvit_mit.py", "with torch.autocast(device_type=v.device.type"}},
};

bool IsFrom(std::string_view file, const TracedStatement& row) {
  return file.find(row.file) != std::string_view::npos;
}

}  // namespace

bool BuildsMask(std::string_view file, std::string_view line) {
  const auto is = [&](const TracedStatement& row) {
    return IsFrom(file, row) && line.find(row.text) != std::string_view::npos;
  };
  return std::ranges::any_of(kMaskBuilders, is) && std::ranges::none_of(kMasksAlwaysBuilt, is);
}

bool CastsToWeight(std::string_view file, std::string_view line) {
  return std::ranges::any_of(kWeightCasts, [&](const TracedStatement& row) {
    return IsFrom(file, row) && line.ends_with(row.text);
  });
}

bool RunsOutsideAutocast(std::string_view file, std::string_view line) {
  return std::ranges::any_of(kOutsideAutocast, [&](const TracedStatement& row) {
    return IsFrom(file, row) && line.starts_with(row.text);
  });
}

}  // namespace onnxfit
