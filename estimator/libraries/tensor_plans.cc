// Which linear layers plans of tensor parallelism share, and how: base_model_tp_plan of
// transformers' configurations; of models without one, the layers of attention and feed-forward
// blocks that play the same parts.
#include <algorithm>
#include <iterator>

#include "estimator/libraries/libraries.h"
#include "estimator/libraries/rows.h"

namespace onnxfit {
namespace {

constexpr auto kOfColumns = ParallelStyle::kColumns;
constexpr auto kOfRows = ParallelStyle::kRows;

constexpr std::string_view kLlamaPlan = "models/llama/configuration_llama.py";
constexpr std::string_view kPhiPlan = "models/phi/configuration_phi.py";
constexpr std::string_view kNeoxPlan = "models/gpt_neox/configuration_gpt_neox.py";
constexpr std::string_view kBertLayers = "models/bert/modeling_bert.py";
constexpr std::string_view kDistilBertLayers = "models/distilbert/modeling_distilbert.py";
constexpr std::string_view kT5Blocks = "models/t5/modeling_t5.py";

constexpr ParallelLayer kParallelLayers[] = {
    {"q_proj",
     kOfColumns,
     {kTransformers, kLlamaPlan, "\"layers.*.self_attn.q_proj\": \"colwise\""}},
    {"k_proj",
     kOfColumns,
     {kTransformers, kLlamaPlan, "\"layers.*.self_attn.k_proj\": \"colwise\""}},
    {"v_proj",
     kOfColumns,
     {kTransformers, kLlamaPlan, "\"layers.*.self_attn.v_proj\": \"colwise\""}},
    {"o_proj", kOfRows, {kTransformers, kLlamaPlan, "\"layers.*.self_attn.o_proj\": \"rowwise\""}},
    {"gate_proj",
     kOfColumns,
     {kTransformers, kLlamaPlan, "\"layers.*.mlp.gate_proj\": \"colwise\""}},
    {"up_proj", kOfColumns, {kTransformers, kLlamaPlan, "\"layers.*.mlp.up_proj\": \"colwise\""}},
    {"down_proj", kOfRows, {kTransformers, kLlamaPlan, "\"layers.*.mlp.down_proj\": \"rowwise\""}},
    {"self_attn.dense",
     kOfRows,
     {kTransformers, kPhiPlan, "\"layers.*.self_attn.dense\": \"rowwise\""}},
    {"fc1", kOfColumns, {kTransformers, kPhiPlan, "\"layers.*.mlp.fc1\": \"colwise\""}},
    {"fc2", kOfRows, {kTransformers, kPhiPlan, "\"layers.*.mlp.fc2\": \"rowwise\""}},
    {"dense_h_to_4h",
     kOfColumns,
     {kTransformers, kNeoxPlan, "\"layers.*.mlp.dense_h_to_4h\": \"colwise\""}},
    {"dense_4h_to_h",
     kOfRows,
     {kTransformers, kNeoxPlan, "\"layers.*.mlp.dense_4h_to_h\": \"rowwise\""}},
    {"lm_head",
     ParallelStyle::kGathered,
     {kTransformers, "models/llama/modeling_llama.py", "\"lm_head\": \"colwise_gather_output\""}},
    // Without a plan of transformers'.
    {"out_proj",
     kOfRows,
     {kTransformers, "models/clip/modeling_clip.py",
      "self.out_proj = nn.Linear(self.embed_dim, self.embed_dim)"}},
    {"query", kOfColumns, {kTransformers, kBertLayers, "self.query = nn.Linear("}},
    {"key", kOfColumns, {kTransformers, kBertLayers, "self.key = nn.Linear("}},
    {"value", kOfColumns, {kTransformers, kBertLayers, "self.value = nn.Linear("}},
    {"intermediate.dense",
     kOfColumns,
     {kTransformers, kBertLayers,
      "self.dense = nn.Linear(config.hidden_size, config.intermediate_size)"}},
    {"output.dense",
     kOfRows,
     {kTransformers, kBertLayers,
      "self.dense = nn.Linear(config.intermediate_size, config.hidden_size)"}},
    {"q_lin", kOfColumns, {kTransformers, kDistilBertLayers, "self.q_lin = nn.Linear("}},
    {"k_lin", kOfColumns, {kTransformers, kDistilBertLayers, "self.k_lin = nn.Linear("}},
    {"v_lin", kOfColumns, {kTransformers, kDistilBertLayers, "self.v_lin = nn.Linear("}},
    {"out_lin", kOfRows, {kTransformers, kDistilBertLayers, "self.out_lin = nn.Linear("}},
    {"lin1", kOfColumns, {kTransformers, kDistilBertLayers, "self.lin1 = nn.Linear("}},
    {"lin2", kOfRows, {kTransformers, kDistilBertLayers, "self.lin2 = nn.Linear("}},
    {"wi", kOfColumns, {kTransformers, kT5Blocks, "self.wi = nn.Linear("}},
    {"wi_0", kOfColumns, {kTransformers, kT5Blocks, "self.wi_0 = nn.Linear("}},
    {"wi_1", kOfColumns, {kTransformers, kT5Blocks, "self.wi_1 = nn.Linear("}},
    {"wo", kOfRows, {kTransformers, kT5Blocks, "self.wo = nn.Linear("}},
};

}  // namespace

ParallelStyle ParallelStyleOf(std::string_view path) {
  const auto* const row = std::ranges::find_if(
      kParallelLayers, [&](const ParallelLayer& layer) { return EndsWithName(path, layer.name); });
  return row == std::end(kParallelLayers) ? ParallelStyle::kNone : row->style;
}

}  // namespace onnxfit
