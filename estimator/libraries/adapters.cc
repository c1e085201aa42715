#include <algorithm>
#include <map>

#include "estimator/libraries/libraries.h"
#include "estimator/libraries/rows.h"

namespace onnxfit {
namespace {

// TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING.
constexpr std::string_view kTargets = "utils/constants.py";

constexpr AdapterTargets kAdapterTargets[] = {
    {"t5", {"q", "v"}, {kPeft, kTargets, "\"t5\": [\"q\", \"v\"]"}},
    {"mt5", {"q", "v"}, {kPeft, kTargets, "\"mt5\": [\"q\", \"v\"]"}},
    {"bart", {"q_proj", "v_proj"}, {kPeft, kTargets, "\"bart\": [\"q_proj\", \"v_proj\"]"}},
    {"gpt2", {"c_attn"}, {kPeft, kTargets, "\"gpt2\": [\"c_attn\"]"}},
    {"bloom", {"query_key_value"}, {kPeft, kTargets, "\"bloom\": [\"query_key_value\"]"}},
    {"blip-2",
     {"q", "v", "q_proj", "v_proj"},
     {kPeft, kTargets, "\"blip-2\": [\"q\", \"v\", \"q_proj\", \"v_proj\"]"}},
    {"opt", {"q_proj", "v_proj"}, {kPeft, kTargets, "\"opt\": [\"q_proj\", \"v_proj\"]"}},
    {"gptj", {"q_proj", "v_proj"}, {kPeft, kTargets, "\"gptj\": [\"q_proj\", \"v_proj\"]"}},
    {"gpt_neox", {"query_key_value"}, {kPeft, kTargets, "\"gpt_neox\": [\"query_key_value\"]"}},
    {"bert", {"query", "value"}, {kPeft, kTargets, "\"bert\": [\"query\", \"value\"]"}},
    {"roberta", {"query", "value"}, {kPeft, kTargets, "\"roberta\": [\"query\", \"value\"]"}},
    {"xlm-roberta",
     {"query", "value"},
     {kPeft, kTargets, "\"xlm-roberta\": [\"query\", \"value\"]"}},
    {"electra", {"query", "value"}, {kPeft, kTargets, "\"electra\": [\"query\", \"value\"]"}},
    {"deberta-v2",
     {"query_proj", "value_proj"},
     {kPeft, kTargets, "\"deberta-v2\": [\"query_proj\", \"value_proj\"]"}},
    {"llama", {"q_proj", "v_proj"}, {kPeft, kTargets, "\"llama\": [\"q_proj\", \"v_proj\"]"}},
    {"llama4", {"q_proj", "v_proj"}, {kPeft, kTargets, "\"llama4\": [\"q_proj\", \"v_proj\"]"}},
    {"chatglm", {"query_key_value"}, {kPeft, kTargets, "\"chatglm\": [\"query_key_value\"]"}},
    {"gpt_bigcode", {"c_attn"}, {kPeft, kTargets, "\"gpt_bigcode\": [\"c_attn\"]"}},
    {"mpt", {"Wqkv"}, {kPeft, kTargets, "\"mpt\": [\"Wqkv\"]"}},
    {"RefinedWebModel",
     {"query_key_value"},
     {kPeft, kTargets, "\"RefinedWebModel\": [\"query_key_value\"]"}},
    {"RefinedWeb", {"query_key_value"}, {kPeft, kTargets, "\"RefinedWeb\": [\"query_key_value\"]"}},
    {"falcon", {"query_key_value"}, {kPeft, kTargets, "\"falcon\": [\"query_key_value\"]"}},
    {"codegen", {"qkv_proj"}, {kPeft, kTargets, "\"codegen\": [\"qkv_proj\"]"}},
    {"stablelm", {"q_proj", "v_proj"}, {kPeft, kTargets, "\"stablelm\": [\"q_proj\", \"v_proj\"]"}},
    {"phi",
     {"q_proj", "v_proj", "fc1", "fc2"},
     {kPeft, kTargets, "\"phi\": [\"q_proj\", \"v_proj\", \"fc1\", \"fc2\"]"}},
    {"gemma", {"q_proj", "v_proj"}, {kPeft, kTargets, "\"gemma\": [\"q_proj\", \"v_proj\"]"}},
    {"gemma2", {"q_proj", "v_proj"}, {kPeft, kTargets, "\"gemma2\": [\"q_proj\", \"v_proj\"]"}},
    {"gemma4",
     {"*language_model.*.q_proj", "*language_model.*.v_proj"},
     {kPeft, kTargets, "\"gemma4\": r\".*language_model"}},
    {"qwen3", {"q_proj", "v_proj"}, {kPeft, kTargets, "\"qwen3\": [\"q_proj\", \"v_proj\"]"}},
    {"nemotron_h",
     {"q_proj", "k_proj", "v_proj", "o_proj"},
     {kPeft, kTargets, "\"nemotron_h\": [\"q_proj\", \"k_proj\", \"v_proj\", \"o_proj\"]"}},
    {"rwkv",
     {"key", "value", "receptance", "output"},
     {kPeft, kTargets, "\"rwkv\": [\"key\", \"value\", \"receptance\", \"output\"]"}},
};

// _keep_in_fp32_modules.
constexpr KeptLayer kKeptLayers[] = {
    {"t5", "wo", {kTransformers, "models/t5/modeling_t5.py", "_keep_in_fp32_modules = [\"wo\"]"}},
    {"mt5",
     "wo",
     {kTransformers, "models/mt5/modeling_mt5.py", "_keep_in_fp32_modules = [\"wo\"]"}},
    {"umt5",
     "wo",
     {kTransformers, "models/umt5/modeling_umt5.py", "_keep_in_fp32_modules = [\"wo\"]"}},
    {"glm_moe_dsa",
     "indexer.weights_proj",
     {kTransformers, "models/glm_moe_dsa/modeling_glm_moe_dsa.py",
      "_keep_in_fp32_modules = [\"indexer.weights_proj\"]"}},
    {"deepseek_v32",
     "indexer.weights_proj",
     {kTransformers, "models/deepseek_v32/modeling_deepseek_v32.py",
      "_keep_in_fp32_modules = [\"indexer.weights_proj\"]"}},
};

// Modules of transformers are called as types are, with "_" where those have "-".
std::string AsModule(std::string_view model_type) {
  std::string module(model_type);
  std::ranges::replace(module, '-', '_');
  return module;
}

std::vector<std::string> NamesOf(const AdapterTargets& row) {
  std::vector<std::string> names;
  for (const std::string_view name : row.names) {
    if (!name.empty()) names.emplace_back(name);
  }
  return names;
}

// The names of most types, of those that `layers` all have; the first where several are as common.
std::vector<std::string> CommonestTargets(const std::set<std::string_view>& layers) {
  std::map<std::vector<std::string>, int> counts;
  for (const AdapterTargets& row : kAdapterTargets) ++counts[NamesOf(row)];
  std::vector<std::string> commonest;
  int most = 0;
  for (const auto& [names, count] : counts) {
    const bool has_all =
        std::ranges::all_of(names, [&](const std::string& name) { return layers.contains(name); });
    if (!has_all || count <= most) continue;
    commonest = names;
    most = count;
  }
  return commonest;
}

}  // namespace

std::vector<std::string> AdapterTargetsOf(std::string_view model_type,
                                          const std::set<std::string_view>& layers) {
  for (const AdapterTargets& row : kAdapterTargets) {
    if (AsModule(row.model_type) == AsModule(model_type)) return NamesOf(row);
  }
  return CommonestTargets(layers);
}

bool IsKeptIn32Bits(std::string_view model_type, std::string_view path) {
  return std::ranges::any_of(kKeptLayers, [&](const KeptLayer& row) {
    return row.model_type == model_type && EndsWithName(path, row.name);
  });
}

}  // namespace onnxfit
