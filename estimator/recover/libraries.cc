#include "estimator/recover/libraries.h"

#include <algorithm>
#include <string_view>

namespace onnxfit {
namespace {

// Where dropouts have a p of 0 by default.
struct DropoutDefault {
  std::string_view library;  // how its classes begin
  bool weights_too = true;   // those of attention's weights
};

// timm 1.0.31: drop_rate, proj_drop and attn_drop of its models.  diffusers 0.42.1: `dropout` of
// its models.  transformers 5.17: defaults of configuration_*.py, of models that read words and
// have no rotary embedding, or have no attention, which LikelyDropsOut does not tell by what they
// read.
constexpr DropoutDefault kDropoutDefaults[] = {
    {"timm."},
    {"diffusers."},
    {"transformers.models.albert."},
    {"transformers.models.bit."},
    {"transformers.models.bloom."},
    {"transformers.models.codegen."},
    {"transformers.models.convnext."},
    {"transformers.models.convnextv2."},
    {"transformers.models.cpmant."},
    {"transformers.models.gpt_neo."},
    {"transformers.models.gpt_neox."},
    {"transformers.models.gptj."},
    {"transformers.models.mobilebert.", false},
    {"transformers.models.mpt."},
    {"transformers.models.poolformer."},
    {"transformers.models.rembert."},
    {"transformers.models.swiftformer."},
};

}  // namespace

// By the innermost class that is not torch's own: a library's module, or one that somebody put
// beside it.
bool NeverDropsOut(const std::vector<std::string>& classes, bool weighs) {
  const auto innermost =
      std::find_if(classes.rbegin(), classes.rend(),
                   [](const std::string& name) { return !name.starts_with("torch."); });
  if (innermost == classes.rend()) return false;
  return std::ranges::any_of(kDropoutDefaults, [&](const DropoutDefault& row) {
    return innermost->starts_with(row.library) && (row.weights_too || !weighs);
  });
}

}  // namespace onnxfit
