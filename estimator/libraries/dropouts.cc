#include <algorithm>

#include "estimator/base/module_names.h"
#include "estimator/libraries/libraries.h"
#include "estimator/libraries/rows.h"

namespace onnxfit {
namespace {

// Of transformers' classes, those of models that read words and have no rotary embedding, or have
// no attention: LikelyDropsOut tells the others by what they read.
constexpr DropoutDefault kDropoutDefaults[] = {
    {"timm.", true, {kTimm, "models/vision_transformer.py", "proj_drop_rate: float = 0."}},
    {"diffusers.", true, {kDiffusers, "models/attention.py", "dropout=0.0"}},
    {"transformers.models.albert.",
     true,
     {kTransformers, "models/albert/configuration_albert.py",
      "hidden_dropout_prob: int | float = 0.0"}},
    {"transformers.models.bit.",
     true,
     {kTransformers, "models/bit/configuration_bit.py", "drop_path_rate: float | int = 0.0"}},
    {"transformers.models.bloom.",
     true,
     {kTransformers, "models/bloom/configuration_bloom.py", "hidden_dropout: float | int = 0.0"}},
    {"transformers.models.codegen.",
     true,
     {kTransformers, "models/codegen/configuration_codegen.py", "resid_pdrop: float | int = 0.0"}},
    {"transformers.models.convnext.",
     true,
     {kTransformers, "models/convnext/configuration_convnext.py",
      "drop_path_rate: float | int = 0.0"}},
    {"transformers.models.convnextv2.",
     true,
     {kTransformers, "models/convnextv2/configuration_convnextv2.py",
      "drop_path_rate: float | int = 0.0"}},
    {"transformers.models.cpmant.",
     true,
     {kTransformers, "models/cpmant/configuration_cpmant.py", "dropout_p: float | int = 0.0"}},
    {"transformers.models.gpt_neo.",
     true,
     {kTransformers, "models/gpt_neo/configuration_gpt_neo.py",
      "resid_dropout: float | int = 0.0"}},
    {"transformers.models.gpt_neox.",
     true,
     {kTransformers, "models/gpt_neox/configuration_gpt_neox.py",
      "hidden_dropout: float | int = 0.0"}},
    {"transformers.models.gptj.",
     true,
     {kTransformers, "models/gptj/configuration_gptj.py", "resid_pdrop: float | int = 0.0"}},
    {"transformers.models.mobilebert.",
     false,
     {kTransformers, "models/mobilebert/configuration_mobilebert.py",
      "hidden_dropout_prob: float | int = 0.0"}},
    {"transformers.models.mpt.",
     true,
     {kTransformers, "models/mpt/configuration_mpt.py", "resid_pdrop: float | int = 0.0"}},
    {"transformers.models.poolformer.",
     true,
     {kTransformers, "models/poolformer/configuration_poolformer.py",
      "drop_path_rate: float | int = 0.0"}},
    {"transformers.models.rembert.",
     true,
     {kTransformers, "models/rembert/configuration_rembert.py",
      "hidden_dropout_prob: float | int = 0.0"}},
    {"transformers.models.swiftformer.",
     true,
     {kTransformers, "models/swiftformer/configuration_swiftformer.py",
      "drop_mlp_rate: float | int = 0.0"}},
};

constexpr auto kBeforeLayer = DropoutBeside::Where::kBeforeLayer;
constexpr auto kBehindNorm = DropoutBeside::Where::kBehindNorm;
constexpr auto kInsideBranch = DropoutBeside::Where::kInsideBranch;

constexpr DropoutBeside kDropoutsBeside[] = {
    {"linear2",
     "",
     kBeforeLayer,
     {kTorch, "nn/modules/transformer.py",
      "self.linear2(self.dropout(self.activation(self.linear1(x))))"}},
    {"wo",
     "DenseReluDense",
     kBeforeLayer,
     {kTransformers, "models/t5/modeling_t5.py", "hidden_states = self.wo(hidden_states)"}},
    // RobertaClassificationHead drops out twice.
    {"dense",
     "classifier",
     kBeforeLayer,
     {kTransformers, "models/roberta/modeling_roberta.py", "class RobertaClassificationHead("}},
    // T5Stack's.
    {"final_layer_norm",
     "",
     kBehindNorm,
     {kTransformers, "models/t5/modeling_t5.py",
      "hidden_states = self.final_layer_norm(hidden_states)\n        hidden_states = "
      "self.dropout(hidden_states)"}},
    // Also nanoGPT's.
    {"c_proj",
     "",
     kInsideBranch,
     {kTransformers, "models/gpt2/modeling_gpt2.py",
      "attn_output = self.c_proj(attn_output)\n        attn_output = "
      "self.resid_dropout(attn_output)"}},
};

constexpr UndroppedBlock kUndroppedBlocks[] = {
    {"c_fc",
     "c_proj",
     {kTransformers, "models/gpt2/modeling_gpt2.py",
      "hidden_states = self.act(hidden_states)\n        hidden_states = "
      "self.c_proj(hidden_states)"}},
    {"mlp.fc_in",
     "mlp.fc_out",
     {kTransformers, "models/gptj/modeling_gptj.py",
      "hidden_states = self.act(hidden_states)\n        hidden_states = "
      "self.fc_out(hidden_states)"}},
    {"dense_h_to_4h",
     "dense_4h_to_h",
     {kTransformers, "models/gpt_neox/modeling_gpt_neox.py",
      "hidden_states = self.act(hidden_states)\n        hidden_states = "
      "self.dense_4h_to_h(hidden_states)"}},
    {"ffn.lin1",
     "ffn.lin2",
     {kTransformers, "models/distilbert/modeling_distilbert.py",
      "x = self.activation(x)\n        x = self.lin2(x)"}},
    {"ffn",
     "ffn_output",
     {kTransformers, "models/albert/modeling_albert.py",
      "ffn_output = self.activation(ffn_output)\n        ffn_output = "
      "self.ffn_output(ffn_output)"}},
};

// Names in fairseq's layers, which transformers' BART and OPT have, too.
enum class FairseqPart : uint8_t { kFirstBias, kSecondLayer, kNorm, kAttention, kProjection };
struct FairseqName {
  FairseqPart part;
  std::string_view name;
  SeenIn seen;
};

constexpr std::string_view kBart = "models/bart/modeling_bart.py";
constexpr FairseqName kFairseqNames[] = {
    {FairseqPart::kFirstBias, "fc1.bias", {kTransformers, kBart, "self.fc1 = nn.Linear("}},
    {FairseqPart::kSecondLayer,
     "fc2",
     {kTransformers, "models/bart/configuration_bart.py",
      "activation_dropout: float | int | None = 0.0"}},
    {FairseqPart::kNorm, "final_layer_norm", {kTransformers, kBart, "self.final_layer_norm ="}},
    {FairseqPart::kAttention,
     "self_attn",
     {kTransformers, kBart, "self.self_attn = BartAttention("}},
    {FairseqPart::kAttention,
     "encoder_attn",
     {kTransformers, kBart, "self.encoder_attn = BartAttention("}},
    {FairseqPart::kProjection, "out_proj", {kTransformers, kBart, "self.out_proj = nn.Linear("}},
};

bool IsNameOf(FairseqPart part, std::string_view name) {
  return std::ranges::any_of(
      kFairseqNames, [&](const FairseqName& row) { return row.part == part && row.name == name; });
}

std::string NameBelow(std::string_view layer, FairseqPart part) {
  const auto* const row = std::ranges::find(kFairseqNames, part, &FairseqName::part);
  return std::string(layer) + "." + std::string(row->name);
}

constexpr NameFact kEndWithDropout[] = {
    {"embeddings",
     {kTransformers, "models/bert/modeling_bert.py", "embeddings = self.dropout(embeddings)"}},
};

// OPTDecoder, which stands without an encoder, reads its words as they are.
constexpr NameFact kWithoutWordDropout[] = {
    {"decoder", {kTransformers, "models/opt/modeling_opt.py", "class OPTDecoder("}, "encoder"},
};

constexpr StochasticDepthBlock kStochasticDepthBlocks[] = {
    {"torchvision.models.convnext.CNBlock",
     "result += input",
     0,
     {kTorchvision, "models/convnext.py", "result += input"}},
    {"torchvision.models.efficientnet.MBConv",
     "result += input",
     0,
     {kTorchvision, "models/efficientnet.py", "class MBConv("}},
    {"torchvision.models.efficientnet.FusedMBConv",
     "result += input",
     0,
     {kTorchvision, "models/efficientnet.py", "class FusedMBConv("}},
    {"torchvision.models.swin_transformer.SwinTransformerBlock",
     "x = x + self.stochastic_depth(",
     1,
     {kTorchvision, "models/swin_transformer.py",
      "x = x + self.stochastic_depth(self.mlp(self.norm2(x)))"}},
    {"torchvision.models.swin_transformer.SwinTransformerBlockV2",
     "x = x + self.stochastic_depth(",
     1,
     {kTorchvision, "models/swin_transformer.py",
      "x = x + self.stochastic_depth(self.norm2(self.mlp(x)))"}},
};

}  // namespace

bool NeverDropsOut(const std::vector<std::string>& classes, bool weighs) {
  const auto innermost =
      std::find_if(classes.rbegin(), classes.rend(),
                   [](const std::string& name) { return !name.starts_with("torch."); });
  if (innermost == classes.rend()) return false;
  return std::ranges::any_of(kDropoutDefaults, [&](const DropoutDefault& row) {
    return innermost->starts_with(row.classes) && (row.weights_too || !weighs);
  });
}

bool HasDropout(DropoutBeside::Where where, std::string_view path) {
  const std::string_view caller = ChildOf(ParentOf(path));
  if (where == kBehindNorm && IsNumbered(caller)) return false;
  return std::ranges::any_of(kDropoutsBeside, [&](const DropoutBeside& row) {
    return row.where == where && row.module == ChildOf(path) &&
           (row.caller.empty() || row.caller == caller);
  });
}

bool IsUndroppedBlock(std::string_view first, std::string_view second) {
  return std::ranges::any_of(kUndroppedBlocks, [&](const UndroppedBlock& row) {
    return EndsWithName(first, row.first) && EndsWithName(second, row.second);
  });
}

bool IsFairseqsSecondLayer(std::string_view path) {
  return IsNameOf(FairseqPart::kSecondLayer, ChildOf(path));
}

std::string FairseqsFirstBias(std::string_view layer) {
  return NameBelow(layer, FairseqPart::kFirstBias);
}

std::string FairseqsNorm(std::string_view layer) {
  return NameBelow(layer, FairseqPart::kNorm) + ".";
}

bool IsFairseqsProjection(std::string_view path, std::string_view caller) {
  return IsNameOf(FairseqPart::kProjection, ChildOf(path)) &&
         IsNameOf(FairseqPart::kAttention, ChildOf(caller));
}

bool EndsWithDropout(std::string_view name) {
  return std::ranges::find(kEndWithDropout, name, &NameFact::name) != std::end(kEndWithDropout);
}

std::string_view MissesWordDropoutWithout(std::string_view name) {
  const auto* const row = std::ranges::find(kWithoutWordDropout, name, &NameFact::name);
  return row == std::end(kWithoutWordDropout) ? std::string_view() : row->other;
}

std::span<const StochasticDepthBlock> StochasticDepthBlocks() { return kStochasticDepthBlocks; }

}  // namespace onnxfit
