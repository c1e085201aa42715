#include "estimator/pt2/libraries.h"

#include <algorithm>
#include <span>
#include <string_view>

namespace onnxfit::pt2 {
namespace {

// A statement of a library's forward: parts of its file's path and of its text.
struct StatementRow {
  std::string_view file;
  std::string_view text;
};

constexpr StatementRow kMaskBuilders[] = {
    // transformers 5.17, masking_utils.py: _ignore_causal_mask_sdpa and
    // _ignore_bidirectional_mask_sdpa skip masks, but not while tracing.
    {"transformers/", "create_causal_mask("},
    {"transformers/", "create_bidirectional_mask("},
    // The same through a method of BertModel and its kin.
    {"transformers/", "_create_attention_masks("},
};

constexpr StatementRow kWeightCasts[] = {
    // transformers 5.17, T5LayerNorm and its copies: "if self.weight.dtype in [torch.float16,
    // torch.bfloat16]: hidden_states = hidden_states.to(self.weight.dtype)" before it.
    {"transformers/", "return self.weight * hidden_states"},
};

constexpr StatementRow kOutsideAutocast[] = {
    // transformers 5.17, rotary embeddings: "with maybe_autocast(device_type=…, enabled=False)",
    // which is none on the meta device.  The statements of its body, in Llama's and its copies.
    {"transformers/", "freqs = (inv_freq_expanded"},
    {"transformers/", "freqs = position_ids_expanded * self.inv_freq"},
    {"transformers/", "emb = torch.cat((freqs, freqs), dim=-1)"},
    {"transformers/", "cos = emb.cos() * "},
    {"transformers/", "sin = emb.sin() * "},
    {"transformers/", "cos = freqs.cos() * "},
    {"transformers/", "sin = freqs.sin() * "},
};

bool IsStatement(const SourceLine& line, const StatementRow& row) {
  return line.file.find(row.file) != std::string_view::npos &&
         line.text.find(row.text) != std::string_view::npos;
}

}  // namespace

bool BuildsLibraryMask(const Call& call) {
  return std::ranges::any_of(kMaskBuilders, [&](const StatementRow& row) {
    return std::ranges::any_of(call.lines,
                               [&](const SourceLine& line) { return IsStatement(line, row); });
  });
}

bool CastsToWeightFirst(const Call& call) {
  if (call.lines.empty()) return false;
  const SourceLine& line = call.lines.back();
  return std::ranges::any_of(kWeightCasts, [&](const StatementRow& row) {
    return IsStatement(line, row) && line.text.ends_with(row.text);
  });
}

bool LeavesAutocast(const Call& call) {
  if (call.lines.empty()) return false;
  const SourceLine& line = call.lines.back();
  return std::ranges::any_of(kOutsideAutocast, [&](const StatementRow& row) {
    return IsStatement(line, row) && line.text.starts_with(row.text);
  });
}

}  // namespace onnxfit::pt2
