// Modules that have others' tensors: whose forwards ask for the type of one, or that are taken for
// a whole.
#include <algorithm>
#include <optional>
#include <string_view>

#include "estimator/libraries/libraries.h"
#include "estimator/libraries/rows.h"

namespace onnxfit {
namespace {

constexpr std::string_view kPatchWeight = "embeddings.patch_embeddings.projection.weight";

constexpr OutsideReader kOutsideReaders[] = {
    {"DenseReluDense",
     "wo.weight",
     {kTransformers, "models/t5/modeling_t5.py",
      "and hidden_states.dtype != self.wo.weight.dtype"}},
    {"vit",
     kPatchWeight,
     {kTransformers, "models/vit/modeling_vit.py",
      "expected_dtype = self.embeddings.patch_embeddings.projection.weight.dtype"}},
    {"deit",
     kPatchWeight,
     {kTransformers, "models/deit/modeling_deit.py",
      "expected_dtype = self.embeddings.patch_embeddings.projection.weight.dtype"}},
};

// DEFAULT_LEAF_MODULE_CLASSES of deepspeed/runtime/zero/leaf_module_config.py (0.19.8), by lines of
// their forwards.
struct LeafForward {
  std::string_view file;  // part of its path
  std::string_view line;
  SeenIn seen;
};

constexpr std::string_view kMixtralLine = "top_k_index = self.gate(hidden_states)";
constexpr std::string_view kQwenLine = "self.gate(hidden_states_reshaped)";

constexpr LeafForward kLeafForwards[] = {
    {"models/mixtral/",
     kMixtralLine,
     {kTransformers, "models/mixtral/modeling_mixtral.py", kMixtralLine}},
    {"models/qwen2_moe/",
     kQwenLine,
     {kTransformers, "models/qwen2_moe/modeling_qwen2_moe.py", kQwenLine}},
    {"models/qwen3_moe/",
     kQwenLine,
     {kTransformers, "models/qwen3_moe/modeling_qwen3_moe.py", kQwenLine}},
};

}  // namespace

bool IsLeafForward(std::string_view file, std::string_view line) {
  return std::ranges::any_of(kLeafForwards, [&](const LeafForward& row) {
    return file.find(row.file) != file.npos && line.find(row.line) != line.npos;
  });
}

std::optional<std::string_view> OutsideReaderOf(std::string_view tensor) {
  for (const OutsideReader& row : kOutsideReaders) {
    if (!EndsWithName(tensor, row.tensor) || tensor.size() == row.tensor.size()) continue;
    const std::string_view path = tensor.substr(0, tensor.size() - row.tensor.size() - 1);
    if (EndsWithName(path, row.reader)) return path;
  }
  return std::nullopt;
}

}  // namespace onnxfit
