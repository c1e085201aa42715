#include <algorithm>

#include "estimator/program/libraries.h"
#include "estimator/program/library_rows.h"

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
    {"gpt_neo", {"q_proj", "v_proj"}, {kPeft, kTargets, "\"gpt_neo\": [\"q_proj\", \"v_proj\"]"}},
    {"bert", {"query", "value"}, {kPeft, kTargets, "\"bert\": [\"query\", \"value\"]"}},
    {"roberta", {"query", "value"}, {kPeft, kTargets, "\"roberta\": [\"query\", \"value\"]"}},
    {"xlm-roberta",
     {"query", "value"},
     {kPeft, kTargets, "\"xlm-roberta\": [\"query\", \"value\"]"}},
    {"electra", {"query", "value"}, {kPeft, kTargets, "\"electra\": [\"query\", \"value\"]"}},
    {"deberta-v2",
     {"query_proj", "value_proj"},
     {kPeft, kTargets, "\"deberta-v2\": [\"query_proj\", \"value_proj\"]"}},
    {"deberta", {"in_proj"}, {kPeft, kTargets, "\"deberta\": [\"in_proj\"]"}},
    {"layoutlm", {"query", "value"}, {kPeft, kTargets, "\"layoutlm\": [\"query\", \"value\"]"}},
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
    {"btlm", {"c_proj", "c_attn"}, {kPeft, kTargets, "\"btlm\": [\"c_proj\", \"c_attn\"]"}},
    {"codegen", {"qkv_proj"}, {kPeft, kTargets, "\"codegen\": [\"qkv_proj\"]"}},
    {"mistral", {"q_proj", "v_proj"}, {kPeft, kTargets, "\"mistral\": [\"q_proj\", \"v_proj\"]"}},
    {"mixtral", {"q_proj", "v_proj"}, {kPeft, kTargets, "\"mixtral\": [\"q_proj\", \"v_proj\"]"}},
    {"stablelm", {"q_proj", "v_proj"}, {kPeft, kTargets, "\"stablelm\": [\"q_proj\", \"v_proj\"]"}},
    {"phi",
     {"q_proj", "v_proj", "fc1", "fc2"},
     {kPeft, kTargets, "\"phi\": [\"q_proj\", \"v_proj\", \"fc1\", \"fc2\"]"}},
    {"gemma", {"q_proj", "v_proj"}, {kPeft, kTargets, "\"gemma\": [\"q_proj\", \"v_proj\"]"}},
    {"gemma2", {"q_proj", "v_proj"}, {kPeft, kTargets, "\"gemma2\": [\"q_proj\", \"v_proj\"]"}},
    {"gemma3_text",
     {"q_proj", "v_proj"},
     {kPeft, kTargets, "\"gemma3_text\": [\"q_proj\", \"v_proj\"]"}},
    {"gemma4",
     {"*language_model.*.q_proj", "*language_model.*.v_proj"},
     {kPeft, kTargets, "\"gemma4\": r\".*language_model"}},
    {"qwen2", {"q_proj", "v_proj"}, {kPeft, kTargets, "\"qwen2\": [\"q_proj\", \"v_proj\"]"}},
    {"qwen3", {"q_proj", "v_proj"}, {kPeft, kTargets, "\"qwen3\": [\"q_proj\", \"v_proj\"]"}},
    {"nemotron_h",
     {"q_proj", "k_proj", "v_proj", "o_proj"},
     {kPeft, kTargets, "\"nemotron_h\": [\"q_proj\", \"k_proj\", \"v_proj\", \"o_proj\"]"}},
    {"rwkv",
     {"key", "value", "receptance", "output"},
     {kPeft, kTargets, "\"rwkv\": [\"key\", \"value\", \"receptance\", \"output\"]"}},
    {"rwkv7",
     {"r_proj", "k_proj", "v_proj", "o_proj", "key", "value"},
     {kPeft, kTargets,
      "\"rwkv7\": [\"r_proj\", \"k_proj\", \"v_proj\", \"o_proj\", \"key\", \"value\"]"}},
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

}  // namespace

std::vector<std::string> AdapterTargetsOf(std::string_view model_type) {
  std::vector<std::string> names;
  for (const AdapterTargets& row : kAdapterTargets) {
    if (AsModule(row.model_type) != AsModule(model_type)) continue;
    for (const std::string_view name : row.names) {
      if (!name.empty()) names.emplace_back(name);
    }
  }
  return names;
}

bool IsKeptIn32Bits(std::string_view model_type, std::string_view path) {
  return std::ranges::any_of(kKeptLayers, [&](const KeptLayer& row) {
    return row.model_type == model_type && EndsWithName(path, row.name);
  });
}

}  // namespace onnxfit
